/* SPDX-License-Identifier: MIT
 *
 * The setups of adjoin selftest: see selftest_setups.h.
 */
#include "selftest_setups.h"

#include <stdio.h>
#include <string.h>

typedef struct named_setup {
  const char *algorithm, *tuning;
} named_setup;

static const char *const CORES_RANGE[] = {NULL, "grid", "ego", "kdtree", "brute"};
/* The queues of HybridKNN-Join at the end. */
static const named_setup CORES_NEAREST[] = {{NULL, NULL},
                                            {"kdtree", NULL},
                                            {"brute", NULL},
                                            {"kdtree", "paper.queue=off,batch=16"},
                                            {"kdtree", "paper.queue=points"},
                                            {"kdtree", "paper.queue=cells"},
                                            {"kdtree", "paper.queue=cells,batch=7"}};

/* Range joins on a GPU alone: results in one batch and in many; pairs kept by the count, or found again; too little
 * room for them; counts in slices; sets in chunks; every kernel; all pairs in tiles; the prefilter of tensor cores. */
static const char *const DEVICE_TUNINGS[] = {NULL,
                                             "device_batch=4000,test.streams=2,single=off",
                                             "device_batch=40000,single=on",
                                             "single=on,test.device_pairs=40",
                                             "device_chunk=250",
                                             "test.mirrored=on",
                                             "test.narrow=2",
                                             "test.narrow=3,single=on",
                                             "test.tile_hits=on",
                                             "test.tile_hits=on,test.narrow=2,test.device_blocks=3",
                                             "test.tile_hits=on,test.device_pairs=40",
                                             "test.query_hits=on",
                                             "test.query_hits=on,test.device_blocks=3",
                                             "test.device_blocks=3",
                                             "test.slices=3,single=off",
                                             "test.slices=5,single=on",
                                             "test.slices=3,test.tile_hits=on",
                                             "test.slices=4,test.query_hits=on",
                                             "test.slices=3,prefilter=tensor",
                                             "test.device_blocks=1,test.mirrored=off,single=on",
                                             "test.mirrored=on,single=on,test.device_pairs=40",
                                             "paper.access=lid-unicomp,device_chunk=400",
                                             "paper.access=full,paper.reorder=on,paper.shortc=on,indexed=10",
                                             "paper.access=full,paper.reorder=on,paper.shortc=on,paper.indexed=memory",
                                             "test.all_pairs=on",
                                             "test.all_pairs=on,device_batch=4000,single=off",
                                             "test.all_pairs=on,test.mirrored=off,test.device_blocks=3",
                                             "test.all_pairs=on,test.slices=3,test.device_pairs=40",
                                             "test.all_pairs=on,test.mirrored=off,device_batch=40000,test.slices=4",
                                             "test.all_pairs=on,device_chunk=250",
                                             "test.all_pairs=off",
                                             "prefilter=tensor",
                                             "prefilter=tensor,device_batch=4000,single=off",
                                             "prefilter=tensor,indexed=3,single=on,test.device_pairs=40"};
enum { POINT_TUNINGS = 4 }; /* setups of the papers' kernels in every case */

/* kNN joins on a GPU alone. Trees: a warp for one query and for 32, where none, some or all queries exceed their
 * budget; all rows at once, or some; sets in chunks. Brute force: every prefilter, and every kernel for distances and
 * for selection; all of the right set at once, or some. Grid: as planned; with one thread a query and with a warp; with
 * cells far too narrow, so that most queries fail once or many times, and far too wide. Trees and grids refuse some
 * joins, and selections some k. */
static const named_setup NEAREST_SETUPS[] = {
    {NULL, NULL},
    {"kdtree", "test.per_query=off,test.cut=on"},
    {"kdtree", "test.per_query=off,test.budget=40,device_rows=300,test.cut=off"},
    {NULL, "device_rows=77"},
    {"kdtree", "test.per_query=off,test.device_blocks=2"},
    {"kdtree", "device_chunk=120"},
    {"kdtree", "device_chunk=400,test.per_query=off,device_rows=300,test.pick=off"},
    {"brute", "prefilter=tensor"},
    {"brute", "test.skip=on"},
    {"brute", "test.skip=on,device_rows=300"},
    {"brute", "prefilter=gemm"},
    {"brute", "prefilter=off"},
    {"brute", "prefilter=off,paper.distance=naive,paper.select=sort"},
    {"brute", "prefilter=off,paper.distance=tiled,paper.select=radix,device_rows=77"},
    {"brute", "prefilter=off,paper.distance=register,paper.select=bits,device_chunk=130"},
    {"brute", "prefilter=off,paper.select=short,device_chunk=1000"},
    {"brute", "prefilter=off,paper.select=bound"},
    {"brute", "prefilter=off,paper.select=bitonic"},
    {"brute", "prefilter=off,paper.select=sample,device_chunk=1000"},
    {"brute", "prefilter=off,paper.distance=fused"},
    {"brute", "prefilter=off,paper.distance=fused,device_chunk=130,device_rows=77"},
    {"brute", "prefilter=off,paper.select=block-bits,paper.reads=1,paper.prefetch=off"},
    {"brute", "prefilter=off,paper.select=block-bits,paper.reads=8,paper.partitions=3"},
    {"brute", "prefilter=off,paper.distance=register,paper.select=block-bitonic,device_rows=3"},
    {"brute", "prefilter=off,paper.select=block-radix,device_chunk=130"},
    {"brute", "prefilter=off,paper.select=block-sample"},
    {"brute", "prefilter=off,paper.select=stream-sort,paper.sort_streams=2"},
    {"brute", "prefilter=gemm,paper.select=block-bits"},
    {"brute", "device_chunk=90,device_rows=40"},
    {"grid", NULL},
    {"grid", "paper.point_threads=1,device_rows=300"},
    {"grid", "paper.point_threads=32,paper.epsilon=0.3,paper.failures=0.001,paper.tail=0.001"},
    {"grid", "paper.point_threads=2,paper.epsilon=3,paper.bins=50,paper.sample=20,test.per_query=off"},
    {"grid", "paper.point_threads=4,paper.epsilon=0.01"},
    {"grid", "paper.epsilon=0.5,paper.tail=0"}};

/* Several GPUs without cores: shared by rates and in sets of queries, in one list and in many, with every kind of
 * kernel; sets in chunks. */
static const char *const SEVERAL_TUNINGS[] = {NULL,
                                              "share=rates",
                                              "share=rates,device_batch=4000",
                                              "share=entities",
                                              "share=entities,paper.query_sets=12,device_batch=40000",
                                              "share=rates,test.narrow=2",
                                              "share=rates,prefilter=tensor",
                                              "share=rates,test.all_pairs=on",
                                              "share=entities,test.all_pairs=on,test.device_blocks=3",
                                              "share=rates,paper.access=full,paper.point_threads=4",
                                              "share=entities,paper.query_sets=5,paper.access=full,paper.shortc=on",
                                              "device_chunk=250",
                                              "device_chunk=120,test.all_pairs=on",
                                              "device_chunk=400,paper.access=lid-unicomp"};
static const named_setup SEVERAL_NEAREST[] = {{NULL, NULL},
                                              {NULL, "share=rates"},
                                              {NULL, "share=entities,device_rows=77"},
                                              {"kdtree", "share=entities,paper.query_sets=12"},
                                              {"kdtree", "share=rates,test.per_query=off,test.cut=on"},
                                              {"kdtree", "share=rates,test.per_query=off,test.budget=40"},
                                              {"brute", "share=rates"},
                                              {"brute", "share=entities,paper.query_sets=7,prefilter=off"},
                                              {"brute", "share=rates,prefilter=tensor"},
                                              {"brute", "share=rates,test.skip=on"},
                                              {"brute", "share=rates,prefilter=gemm,device_rows=300"},
                                              {"kdtree", "device_chunk=120"},
                                              {"kdtree", "device_chunk=400,device_rows=300,test.pick=off"}};

/* kNN joins on cores and a GPU: as planned; shared by rates and by fixed sizes; with the smallest batches; with nearly
 * all queries on the GPU, or some; all rows at once, or few; and through a grid, where some, most or no queries return
 * to the cores. */
static const named_setup HYBRID_SETUPS[] = {
    {NULL, NULL},
    {NULL, "share=rates,batch=16"},
    {NULL, "share=fixed,batch=16,device_rows=77"},
    {NULL, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,test.per_query=off,test.budget=40"},
    {"grid", "share=fixed,paper.n_large=1,paper.n_cwin=0.001,batch=16"},
    {"grid", "share=fixed,paper.n_large=0.9,paper.n_cwin=0.1,paper.epsilon=0.5,batch=16,device_rows=77"},
    {"grid", "share=rates,paper.epsilon=3"},
    {"grid", "share=fixed,paper.n_large=0.6,paper.n_cwin=0,paper.failures=0.01,paper.queue=cells"},
    {"grid", "share=rates,paper.failures=0.01,paper.tail=0,batch=16,device_rows=77"},
    {"kdtree", "share=rates,paper.queue=cells,batch=16"}};

/* The same for range joins: SEGO-New on the cores; lists of many queries and of few pairs; the prefilter of tensor
 * cores; single evaluation. */
static const char *const HYBRID_RANGE_TUNINGS[] = {
    NULL,
    "share=rates,batch=16,paper.dual=on",
    "share=fixed,paper.n_large=0.5,batch=16,device_batch=4000,paper.dual=on,paper.leaf=5",
    "share=rates,batch=16",
    "share=fixed,batch=16,device_batch=4000",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.001,paper.n_small=1",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.001,test.narrow=2,device_batch=40000",
    "share=rates,prefilter=tensor",
    "share=rates,batch=16,test.all_pairs=on",
    "share=fixed,paper.n_large=0.5,batch=16,device_batch=4000,test.all_pairs=on,test.mirrored=off",
    "share=rates,batch=16,paper.access=full,paper.point_threads=4",
    "share=results,batch=16,paper.access=full,paper.order=sortbywl,paper.streams=1,device_batch=4000",
    "share=results,batch=64,paper.access=full,paper.batch_size=300,paper.sample_part=0.1,paper.shortc=on",
    "share=rates,batch=16,single=on,test.mirrored=on,prefilter=off",
    "share=fixed,paper.n_large=0.5,batch=16,single=on,test.mirrored=on,prefilter=off"};

/* Kept indexes on a GPU, and a radius for each left point. Cores with a GPU use the first setup only. */
static const test_setup KEPT_SETUPS[] = {{.kept = true},
                                         {.kept = true, .algorithm = "kdtree"},
                                         {.kept = true, .algorithm = "brute"},
                                         {.kept = true, .radii = true},
                                         {.algorithm = "kdtree"},
                                         {.algorithm = "kdtree", .tuning = "device_batch=4000,test.streams=2"},
                                         {.algorithm = "kdtree", .tuning = "test.device_pairs=40"},
                                         {.radii = true}};
enum { KEPT_NEAREST = 5, KEPT_HYBRID = 1 }; /* the first setups; the others are for range joins */

static int kept_count(adj_backend backend, bool nearest) {
  enum { ALL = sizeof KEPT_SETUPS / sizeof *KEPT_SETUPS };
  if (backend == ADJ_BACKEND_HYBRID) return KEPT_HYBRID;
  return backend != ADJ_BACKEND_GPU ? 0 : nearest ? KEPT_NEAREST : ALL;
}

/* The papers' systems that a backend supports. Counts those before number `wanted`; *name receives its name. */
static int system_count(adj_backend backend, bool nearest, int wanted, const char **name) {
  adj_system system;
  adj_system_init(&system, sizeof system);
  int count = 0;
  for (uint32_t i = 0; !adj_system_describe(i, &system); i++) {
    if ((system.kind == ADJ_KNN) != nearest || !(system.backends >> backend & 1)) continue;
    if (count == wanted) *name = system.name;
    count++;
  }
  return count;
}

/* The kernels of the papers (docs/tuning.md): combination number n of access, order and threads, of which there are 54,
 * with alternating switches, in small and large batches on one and several streams. */
static const char *point_tuning(uint32_t n, char *text, size_t capacity) {
  static const char *const accesses[] = {"full", "unicomp", "lid-unicomp"};
  static const char *const orders[] = {"none", "sortbywl", "workqueue"};
  static const char *const reorders[] = {"", ",paper.reorder=on", ",paper.reorder=off,indexed=2"};
  uint32_t threads = n / 9 % 6, round = n / POINT_TUNINGS;
  snprintf(text, capacity, "paper.access=%s,paper.order=%s,paper.point_threads=%u%s%s%s%s", accesses[n % 3],
           orders[n / 3 % 3], 1u << threads, round % 2 ? ",paper.shortc=on" : "",
           round / 2 % 2 ? ",paper.sortidu=on" : "", reorders[round / 4 % 3],
           n % 2   ? ""
           : n % 3 ? ",paper.batch_size=500,paper.sample_part=0.05"
                   : ",device_batch=40000,paper.streams=1");
  return text;
}

/* ---- Choosing a setup --------------------------------------------------------------------------------- */

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* Several GPUs have their own list of setups. */
static bool is_several(adj_backend backend, bool several) {
  return several && backend == ADJ_BACKEND_GPU;
}

static int plain_count(adj_backend backend, bool nearest) {
  switch (backend) {
    case ADJ_BACKEND_HYBRID:
      return nearest ? COUNT(HYBRID_SETUPS) : COUNT(HYBRID_RANGE_TUNINGS);
    case ADJ_BACKEND_GPU:
      return nearest ? COUNT(NEAREST_SETUPS) : COUNT(DEVICE_TUNINGS) + POINT_TUNINGS;
    case ADJ_BACKEND_CPU:
      return nearest ? COUNT(CORES_NEAREST) : COUNT(CORES_RANGE);
    default:
      return 1;
  }
}

int setup_count(adj_backend backend, bool nearest, bool several) {
  if (is_several(backend, several)) return nearest ? COUNT(SEVERAL_NEAREST) : COUNT(SEVERAL_TUNINGS);
  return plain_count(backend, nearest) + kept_count(backend, nearest) + system_count(backend, nearest, -1, NULL);
}

void setup_choose(adj_backend backend, bool nearest, bool several, int a, uint32_t number, test_setup *out) {
  *out = (test_setup){0};
  if (is_several(backend, several)) {
    out->algorithm = nearest ? SEVERAL_NEAREST[a].algorithm : NULL;
    out->tuning = nearest ? SEVERAL_NEAREST[a].tuning : SEVERAL_TUNINGS[a];
    return;
  }
  int kept = a - plain_count(backend, nearest), system = kept - kept_count(backend, nearest);
  if (system >= 0) {
    system_count(backend, nearest, system, &out->system);
    return;
  }
  if (kept >= 0) {
    *out = KEPT_SETUPS[kept];
    return;
  }
  if (backend == ADJ_BACKEND_CPU) {
    out->algorithm = nearest ? CORES_NEAREST[a].algorithm : CORES_RANGE[a];
    out->tuning = nearest ? CORES_NEAREST[a].tuning : NULL;
  } else if (backend == ADJ_BACKEND_HYBRID || backend == ADJ_BACKEND_GPU) {
    const named_setup *named = backend == ADJ_BACKEND_GPU ? NEAREST_SETUPS : HYBRID_SETUPS;
    const char *const *tunings = backend == ADJ_BACKEND_GPU ? DEVICE_TUNINGS : HYBRID_RANGE_TUNINGS;
    int papers = a - COUNT(DEVICE_TUNINGS);
    if (nearest) {
      out->algorithm = named[a].algorithm;
      out->tuning = named[a].tuning;
    } else if (backend == ADJ_BACKEND_HYBRID || papers < 0) {
      out->tuning = tunings[a];
    } else {
      out->tuning = point_tuning(number * POINT_TUNINGS + (uint32_t)papers, out->text, sizeof out->text);
    }
  }
}

bool setup_is_left_out(adj_backend backend, bool nearest, bool several, int a, uint32_t number) {
  enum { ALWAYS = 6, NEAREST_TURNS = 2, RANGE_TURNS = 3 };
  if (is_several(backend, several)) return false;
  if (backend != ADJ_BACKEND_GPU || a < ALWAYS) return false;
  /* Not by the number itself, as the papers' kernels also depend on it. */
  return nearest ? (number + (uint32_t)a) % NEAREST_TURNS : (number / RANGE_TURNS + (uint32_t)a) % RANGE_TURNS;
}

void setup_name(const test_setup *setup, char *message, size_t capacity) {
  size_t used = strlen(message);
  if (setup->kept || setup->radii)
    used += (size_t)snprintf(message + used, capacity - used, " (%s%s)", setup->kept ? "kept" : "",
                             setup->radii ? " radii" : "");
  if (setup->system && used < capacity) snprintf(message + used, capacity - used, " (%s)", setup->system);
  if ((!setup->algorithm && !setup->tuning) || used >= capacity) return;
  snprintf(message + used, capacity - used, " (%s%s%s)", setup->algorithm ? setup->algorithm : "",
           setup->algorithm && setup->tuning ? ", " : "", setup->tuning ? setup->tuning : "");
}
