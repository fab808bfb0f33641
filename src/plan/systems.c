/* SPDX-License-Identifier: MIT
 *
 * The systems of the papers that adjoin comes from. A system is a configuration: where it runs, which algorithm it
 * uses, and the settings with which that algorithm does what the paper describes. Settings of the caller override
 * these.
 */
#include "plan/systems.h"

#include <stdio.h>
#include <string.h>

struct adji_system {
  adj_system about;
  adji_algorithm algorithm;
  uint32_t metrics; /* a bit for each */
  /* It indexes the first dimensions, up to this number; 0: as planned. Not part of the tuning, since it depends on the
   * points. */
  uint32_t indexed;
  uint32_t most_dim, most_k; /* 0: any */
  adj_backend usual;         /* the default backend; 0: the first it has */
  /* By backend: what differs from `algorithm` and `about`. */
  struct {
    adji_algorithm algorithm;
    const char *tuning;
  } on[ADJ_BACKEND_REFERENCE + 1];
};

#define ON(backend) ADJI_BIT(ADJ_BACKEND_##backend)
#define BY(metric) ADJI_BIT(ADJ_##metric)
#define THESIS "Hanak, k-nearest-neighbour search on GPUs (thesis)"
#define ANY_METRIC (BY(L2) | BY(L1) | BY(LINF) | BY(LP) | BY(COSINE) | BY(DOT))
/* Brute force on a GPU: distances to a matrix, then selection from its rows. */
#define THESIS_SYSTEM(its_name, its_sections, its_summary, its_tuning, its_differences) \
  .about = {.name = its_name,                                                           \
            .kind = ADJ_KNN,                                                            \
            .paper = THESIS,                                                            \
            .sections = its_sections,                                                   \
            .summary = its_summary,                                                     \
            .backends = ON(GPU),                                                        \
            .tuning = its_tuning,                                                       \
            .differences = its_differences},                                            \
  .algorithm = ADJI_ALGORITHM_BRUTE
#define LBJOIN_PAPER \
  "Gallet and Gowanlock, Load Imbalance Mitigation Optimizations for GPU-Accelerated Similarity Joins"
#define GPU_JOIN_PAPER "Gowanlock and Karsin, GPU Accelerated Similarity Self-Join for Multi-Dimensional Data"
#define HEGJOIN_PAPER "Gallet and Gowanlock, HEGJoin: Heterogeneous CPU-GPU Epsilon Grids"
#define SUPER_EGO_PAPER "Kalashnikov, Super-EGO: Fast Multi-Dimensional Similarity Join"
#define HYBRID_KNN_PAPER \
  "Gowanlock, Hybrid KNN-Join: Parallel Nearest Neighbor Searches Exploiting CPU and GPU Architectural Features"

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
                         "paper.batch_size=50000000,paper.dual=on,batch=1024",
               .differences = "pairs are counted, then written"},
     .algorithm = ADJI_ALGORITHM_GRID,
     .metrics = BY(L2) | BY(L1) | BY(LINF),
     .indexed = 8},
    {.about = {.name = "hybrid-knn",
               .kind = ADJ_KNN,
               .paper = HYBRID_KNN_PAPER,
               .sections = "4, 5.3",
               .summary = "kNN join shared by cores and a GPU: densest cells to the GPU; alone: GPU-only, CPU-only",
               .backends = ON(CPU) | ON(GPU) | ON(HYBRID),
               .tuning = "share=fixed,paper.queue=cells,paper.n_large=0.4,paper.n_cwin=0.4,paper.n_small=0.005,"
                         "paper.n_cpu=0.005,paper.point_threads=8,paper.sample=500,paper.mean_part=0.001,"
                         "paper.failures=0.25,paper.widen=0.5,paper.tail=0",
               .differences = "the GPU keeps the k nearest instead of all pairs within epsilon; cores share one "
                              "kd-tree; after 256 steps of epsilon a tree finds the rest"},
     .algorithm = ADJI_ALGORITHM_GRID,
     .metrics = BY(L2) | BY(L1) | BY(LINF),
     .most_dim = 6,
     .most_k = 1024,
     .usual = ADJ_BACKEND_HYBRID,
     .on = {[ADJ_BACKEND_CPU] = {ADJI_ALGORITHM_KDTREE, "paper.queue=cells"},
            [ADJ_BACKEND_GPU] = {ADJI_ALGORITHM_GRID,
                                 "paper.point_threads=8,paper.sample=500,paper.mean_part=0.001,paper.failures=0.25,"
                                 "paper.widen=0.5,paper.tail=0"}}},
    {THESIS_SYSTEM("knn-bits", "4.1, 5.4",
                   "kNN by brute force on a GPU: modified matrix product; buffered bitonic selection, a block a query",
                   "prefilter=off,paper.distance=register,paper.select=block-bits",
                   "ties go to the lower id, so entries are values with their columns"),
     .metrics = ANY_METRIC},
    {THESIS_SYSTEM("knn-bitonic", "3.5.1, 5.3",
                   "the same with partial bitonic sort: every segment of k distances is sorted and merged",
                   "prefilter=off,paper.distance=register,paper.select=block-bitonic", "as knn-bits"),
     .metrics = ANY_METRIC, .most_k = 2048},
    {THESIS_SYSTEM("knn-fused", "3.3.2, 4.2, 5.4.3",
                   "kNN by brute force on a GPU: distances and selection in one kernel, without a matrix",
                   "prefilter=off,paper.distance=fused", "as knn-bits; lists and buffers always have 64 entries"),
     .metrics = BY(L2) | BY(L1) | BY(LINF), .most_dim = 32, .most_k = 64},
    {THESIS_SYSTEM("knn-sample", "3.7.1, 4.3, 5.5",
                   "kNN by brute force on a GPU for large k: sample select in two stages, a block a query; radix sort",
                   "prefilter=off,paper.distance=register,paper.select=block-sample",
                   "as knn-bits; the sample is one of each of 1,024 parts, chosen by a hash"),
     .metrics = ANY_METRIC},
    {THESIS_SYSTEM("knn-radix", "3.7.2, 5.5.2", "the same with radix select: buckets by digits of 8 bits",
                   "prefilter=off,paper.distance=register,paper.select=block-radix", "as knn-bits"),
     .metrics = ANY_METRIC},
    {THESIS_SYSTEM("knn-sort", "5.5.1",
                   "kNN by brute force on a GPU: all distances of a query sorted by CUB, queries in 8 streams",
                   "prefilter=off,paper.distance=register,paper.select=stream-sort,paper.sort_streams=8", "none"),
     .metrics = ANY_METRIC},
    {THESIS_SYSTEM("knn-gemm", "3.3.1, 5.2",
                   "kNN by brute force on a GPU: products by cuBLAS and norms; buffered bitonic selection",
                   "prefilter=gemm,paper.select=block-bits",
                   "some more than k are listed, and their exact distances computed"),
     .metrics = BY(L2)},
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

static adj_status fit_backend(const adji_system *system, adj_join_spec *spec) {
  const adj_system *about = &system->about;
  char names[64];
  if (!spec->backend) spec->backend = system->usual;
  if (!spec->backend)
    for (int b = ADJ_BACKEND_REFERENCE; b > ADJ_BACKEND_AUTO; b--)
      if (about->backends & ADJI_BIT(b)) spec->backend = (adj_backend)b;
  if (about->backends & ADJI_BIT(spec->backend)) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" is for the backend %s, not %s", about->name,
                   adji_backends_text(about->backends, " or ", names, sizeof names), adji_backend_name(spec->backend));
}

static adj_status fit_algorithm(const adji_system *system, adj_backend backend, adji_algorithm *algorithm) {
  adji_algorithm its = system->on[backend].algorithm ? system->on[backend].algorithm : system->algorithm;
  if (*algorithm && *algorithm != its)
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" has the algorithm %s, not %s", system->about.name,
                     adji_algorithm_name(its), adji_algorithm_name(*algorithm));
  *algorithm = its;
  return ADJ_OK;
}

adj_status adji_system_fit(const adji_system *system, uint32_t dim, adj_join_spec *spec, adji_algorithm *algorithm) {
  if (!system) return ADJ_OK;
  const adj_system *about = &system->about;
  if (about->kind != spec->kind)
    return adji_fail(ADJ_E_ARGUMENT, "system: \"%s\" is for %s joins", about->name,
                     about->kind == ADJ_KNN ? "kNN" : "range");
  if (!(system->metrics & ADJI_BIT(spec->metric)))
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" does not have this metric", about->name);
  if (system->most_dim && dim > system->most_dim)
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" is for up to %u dimensions, not %u", about->name,
                     system->most_dim, dim);
  if (system->most_k && spec->k > system->most_k)
    return adji_fail(ADJ_E_UNSUPPORTED, "system: \"%s\" is for k up to %u, not %u", about->name, system->most_k,
                     spec->k);
  adj_status status = fit_backend(system, spec);
  return status ? status : fit_algorithm(system, spec->backend, algorithm);
}

/* ---- Its settings ---------------------------------------------------------------------------------------- */

adj_status adji_system_tuning(const adji_system *system, uint32_t dim, const adj_join_spec *spec, adji_tuning *out) {
  char own[512];
  if (!system) return adji_tuning_parse(spec->tuning, out);
  const char *here = system->on[spec->backend].tuning, *tuning = here ? here : system->about.tuning;
  if (!tuning) tuning = "";
  uint32_t indexed = system->indexed < dim ? system->indexed : dim;
  if (spec->tuning && strstr(spec->tuning, "paper.indexed=")) indexed = 0; /* that setting chooses the number */
  if (indexed)
    snprintf(own, sizeof own, "%s%sindexed=%u", tuning, *tuning ? "," : "", indexed);
  else
    snprintf(own, sizeof own, "%s", tuning);
  return adji_tuning_parse_over(own, spec->tuning, out);
}
