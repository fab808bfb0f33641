/* SPDX-License-Identifier: MIT
 *
 * The systems of the papers that adjoin comes from. A system is a configuration: where it runs, which algorithm it is,
 * and the settings with which that algorithm does what the paper describes. Settings of the caller come on top.
 */
#include "plan/systems.h"

#include <stdio.h>
#include <string.h>

struct adji_system {
  adj_system about;
  adji_algorithm algorithm;
  uint32_t metrics; /* a bit for each */
  /* It indexes the first dimensions, up to so many; 0: as planned. A setting of its own, since it depends on the
   * points. */
  uint32_t indexed;
};

#define ON(backend) ADJI_BIT(ADJ_BACKEND_##backend)
#define BY(metric) ADJI_BIT(ADJ_##metric)
#define LBJOIN_PAPER \
  "Gallet and Gowanlock, Load Imbalance Mitigation Optimizations for GPU-Accelerated Similarity Joins"
#define GPU_JOIN_PAPER "Gowanlock and Karsin, GPU Accelerated Similarity Self-Join for Multi-Dimensional Data"
#define HEGJOIN_PAPER "Gallet and Gowanlock, HEGJoin: Heterogeneous CPU-GPU Epsilon Grids"
#define SUPER_EGO_PAPER "Kalashnikov, Super-EGO: Fast Multi-Dimensional Similarity Join"

static const adji_system systems[] = {
    {.about = {.name = "lbjoin",
               .kind = ADJ_RANGE,
               .paper = LBJOIN_PAPER,
               .sections = "III",
               .summary = "range join on a GPU: 8 threads a point, each pair of cells once, heaviest points first",
               .backends = ON(GPU),
               .tuning = "paper.access=lid-unicomp,paper.order=workqueue,paper.point_threads=8",
               .differences = "the index is built on the GPU; pairs are counted, then found again in batches"},
     .algorithm = ADJI_ALGORITHM_GRID,
     .metrics = BY(L2) | BY(L1) | BY(LINF),
     .indexed = 6},
    {.about = {.name = "super-ego",
               .kind = ADJ_RANGE,
               .paper = SUPER_EGO_PAPER,
               .sections = "HEGJoin 3.2",
               .summary =
                   "range join on cores: EGO-sort by qsort, recursion over pairs of sequences that threads share",
               .backends = ON(CPU),
               .tuning = "paper.dual=on,paper.reorder=on,paper.sort=qsort,paper.threads=producer,paper.leaf=32",
               .differences = "any type, not only f32; cells allow for rounding; pairs are counted, then written"},
     .algorithm = ADJI_ALGORITHM_EGO,
     .metrics = BY(L2) | BY(L1) | BY(LINF)},
    {.about = {.name = "sego-new",
               .kind = ADJ_RANGE,
               .paper = HEGJOIN_PAPER,
               .sections = "4.4",
               .summary = "range join on cores: parallel EGO-sort, queries by workload in batches of 1,024, EGO-Join",
               .backends = ON(CPU),
               .tuning =
                   "paper.dual=on,paper.reorder=on,paper.sort=parallel,paper.threads=queue,paper.leaf=32,batch=1024",
               .differences =
                   "any type, not only f64; a radix sort instead of Boost's sample_sort; workload from cells "
                   "of up to six dimensions; pairs are counted, then written"},
     .algorithm = ADJI_ALGORITHM_EGO,
     .metrics = BY(L2) | BY(L1) | BY(LINF)},
    {.about = {.name = "gpu-join",
               .kind = ADJ_RANGE,
               .paper = GPU_JOIN_PAPER,
               .sections = "4",
               .summary = "range join on a GPU in many dimensions: six are indexed, by variance; sums are cut short",
               .backends = ON(GPU),
               .tuning = "paper.access=full,paper.reorder=on,paper.sortidu=on,paper.shortc=on",
               .differences = "the index is built on the GPU; pairs are counted, then found again in batches; sums in "
                              "another order of the dimensions only drop candidates"},
     .algorithm = ADJI_ALGORITHM_GRID,
     .metrics = BY(L2) | BY(L1) | BY(LINF),
     .indexed = 6},
    {.about = {.name = "hegjoin",
               .kind = ADJ_RANGE,
               .paper = HEGJOIN_PAPER,
               .sections = "4",
               .summary = "range join on cores and a GPU: one queue by candidates, heaviest points to the GPU",
               .backends = ON(HYBRID),
               .tuning = "share=results,paper.access=full,paper.order=workqueue,paper.point_threads=1,"
                         "paper.batch_size=50000000,batch=1024",
               .differences = "pairs are counted, then written; batches of the GPU follow each other on one stream"},
     .algorithm = ADJI_ALGORITHM_GRID,
     .metrics = BY(L2) | BY(L1) | BY(LINF),
     .indexed = 8},
};
enum { SYSTEMS = sizeof systems / sizeof *systems };

/* ---- By number and by name ------------------------------------------------------------------------------- */

ADJI_DEFINE_INIT(adj_system, 0)

adj_status adj_system_describe(uint32_t i, adj_system *out) {
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: may not be NULL");
  if (i >= SYSTEMS) return adji_fail(ADJ_E_ARGUMENT, "i: system %u, but there are %d", i, SYSTEMS);
  adj_system about = systems[i].about;
  about.algorithm = adji_algorithm_name(systems[i].algorithm);
  return adji_give_struct(out, &about, sizeof about, "adj_system");
}

adj_status adji_system_find(const char *name, const adji_system **out) {
  char names[256] = "";
  size_t used = 0;
  *out = NULL;
  if (!name) return ADJ_OK;
  for (int i = 0; i < SYSTEMS; i++) {
    if (!strcmp(name, systems[i].about.name)) {
      *out = &systems[i];
      return ADJ_OK;
    }
    if (used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", systems[i].about.name);
  }
  return adji_fail(ADJ_E_ARGUMENT, "system: \"%s\" is not one of %s", name, names);
}

/* ---- What it is for -------------------------------------------------------------------------------------- */

static adj_status fit_backend(const adj_system *about, adj_join_spec *spec) {
  char names[64];
  if (!spec->backend)
    for (int b = ADJ_BACKEND_REFERENCE; b > ADJ_BACKEND_AUTO; b--)
      if (about->backends & ADJI_BIT(b)) spec->backend = (adj_backend)b;
  if (about->backends & ADJI_BIT(spec->backend)) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" is for the backend %s, not %s", about->name,
                   adji_backends_text(about->backends, " or ", names, sizeof names), adji_backend_name(spec->backend));
}

adj_status adji_system_fit(const adji_system *system, adj_join_spec *spec, adji_algorithm *algorithm) {
  if (!system) return ADJ_OK;
  const adj_system *about = &system->about;
  if (about->kind != spec->kind)
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" is for %s joins", about->name,
                     about->kind == ADJ_KNN ? "kNN" : "range");
  if (!(system->metrics & ADJI_BIT(spec->metric)))
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" does not have this metric", about->name);
  if (*algorithm && *algorithm != system->algorithm)
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" has the algorithm %s, not %s", about->name,
                     adji_algorithm_name(system->algorithm), adji_algorithm_name(*algorithm));
  *algorithm = system->algorithm;
  return fit_backend(about, spec);
}

/* ---- Its settings ---------------------------------------------------------------------------------------- */

adj_status adji_system_tuning(const adji_system *system, uint32_t dim, const char *text, adji_tuning *out) {
  char own[256];
  if (!system) return adji_tuning_parse(text, out);
  const char *tuning = system->about.tuning ? system->about.tuning : "";
  uint32_t indexed = system->indexed < dim ? system->indexed : dim;
  if (text && strstr(text, "paper.indexed=")) indexed = 0; /* which chooses it */
  if (indexed)
    snprintf(own, sizeof own, "%s%sindexed=%u", tuning, *tuning ? "," : "", indexed);
  else
    snprintf(own, sizeof own, "%s", tuning);
  return adji_tuning_parse_over(own, text, out);
}
