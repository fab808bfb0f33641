/* SPDX-License-Identifier: MIT
 *
 * kNN and range joins that cores and a GPU share must give the result of the cores alone: in every dimension that has
 * GPU kernels, with short and long rows, batches of all sizes, one set and two. Also: the device opened twice; every
 * CUDA call failing in turn, after which the cores finish the join; limits of device memory.
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <adjoin.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/device.h"

enum { NO_GPU = 77 };

static void need(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "gpu_hybrid: %s: %s\n", what, adj_last_error());
  exit(1);
}

static atomic_int warnings;

/* Warnings that rounding decides do not count: they are about the points. */
static void count_warnings(void *user, adj_log_level level, const char *line) {
  (void)user;
  if (level == ADJ_LOG_WARN && strncmp(line, "type:", 5) != 0) atomic_fetch_add(&warnings, 1);
}

/* devices: how often device 0 is opened. */
static adj_ctx *context(int32_t devices, uint64_t limit) {
  static const int32_t same_device[] = {0, 0, 0};
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.devices = same_device;
  options.device_count = devices;
  options.device_memory_limit = limit;
  options.log = count_warnings;
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(&options, &ctx), "a context");
  return ctx;
}

static adj_dataset *points(adj_ctx *ctx, const char *name, uint64_t count, uint32_t dim, uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.count = count;
  options.dim = dim;
  options.seed = seed;
  adj_dataset *set = NULL;
  need(!adj_dataset_generate(ctx, &options, &set), "generate");
  return set;
}

typedef struct problem {
  adj_ctx *ctx;
  const adj_dataset *left, *right;
  uint32_t k;    /* 0: a range join */
  double radius; /* 0: none */
  const char *tuning;
  uint32_t flags;
  adj_order order; /* of a range join */
} problem;

/* What a run reports. */
typedef struct figures {
  adj_stats stats;
  adj_worker workers[9];
} figures;

/* figures may be NULL. */
static adj_status join(const problem *p, adj_backend backend, adj_result **out, figures *f) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = p->k ? ADJ_KNN : ADJ_RANGE;
  spec.k = p->k;
  if (!p->k) spec.order = p->order;
  if (p->radius > 0) spec.radius = p->radius;
  spec.backend = backend;
  spec.flags = ADJ_WITH_DISTANCE | p->flags;
  if (backend == ADJ_BACKEND_HYBRID) spec.tuning = p->tuning;
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(p->ctx, &spec, p->left, p->right, &plan);
  if (f) adj_stats_init(&f->stats, sizeof f->stats);
  if (!status) status = adj_collect(plan, out, NULL, f ? &f->stats : NULL);
  for (uint32_t w = 0; f && w < f->stats.worker_count && !status; w++) {
    adj_worker_init(&f->workers[w], sizeof f->workers[w]);
    status = adj_plan_worker(plan, w, &f->workers[w]);
  }
  adj_plan_destroy(plan);
  return status;
}

static bool same(const adj_result *a, const adj_result *b) {
  uint64_t rows = adj_result_rows(a), entries = adj_result_offsets(a)[rows];
  return adj_result_pairs(a) == adj_result_pairs(b) && rows == adj_result_rows(b) &&
         !memcmp(adj_result_offsets(a), adj_result_offsets(b), (rows + 1) * sizeof(uint64_t)) &&
         !memcmp(adj_result_ids(a), adj_result_ids(b), entries * sizeof(uint32_t)) &&
         !memcmp(adj_result_distances(a), adj_result_distances(b), entries * sizeof(float));
}

enum { TUNING_COUNT = 9 };
static const char *const TUNINGS[TUNING_COUNT] = {
    NULL,
    "share=rates",
    "share=rates,batch=16,device_rows=1000",
    "share=fixed",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.0001,test.per_query=off",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.0001,test.per_query=on",
    "share=fixed,paper.n_large=0.001,paper.n_cwin=0.9,paper.n_small=0.02,paper.n_cpu=0.01",
    "share=rates,batch=64",
    "share=fixed,paper.n_large=0.2",
};
static const char *const RANGE_TUNINGS[TUNING_COUNT] = {
    NULL,
    "share=rates,single=off",
    "share=rates,batch=16,device_batch=20000",
    "share=fixed,test.narrow=2",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.0001,paper.n_small=1",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.0001,device_batch=300000",
    "share=fixed,paper.n_large=0.001,paper.n_cwin=0.9,paper.n_small=0.02,paper.n_cpu=0.01,prefilter=tensor",
    "share=rates,single=on,test.mirrored=on,prefilter=off",
    "share=fixed,paper.n_large=0.2,batch=16,device_batch=100000,single=on,test.mirrored=on,prefilter=off",
};

/* Rows of a stream, compared with a result. */
typedef struct streamed {
  const adj_result *answer;
  uint64_t next;
} streamed;

static adj_status compare_rows(void *user, const adj_rows *rows) {
  streamed *s = user;
  const uint64_t *offsets = adj_result_offsets(s->answer) + rows->first_row;
  uint64_t pairs = rows->offsets[rows->row_count];
  need(rows->first_row == s->next && pairs == offsets[rows->row_count] - offsets[0], "the rows of a stream");
  need(!memcmp(rows->ids, adj_result_ids(s->answer) + offsets[0], pairs * sizeof(uint32_t)), "the ids of a stream");
  s->next += rows->row_count;
  return ADJ_OK;
}

/* A range join, counted, and streamed through a small buffer. */
static void check_others(const problem *p, const adj_result *cpu) {
  char tuning[160];
  snprintf(tuning, sizeof tuning, "%s%sbuffer=1000000", p->tuning ? p->tuning : "", p->tuning ? "," : "");
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = p->radius;
  spec.order = p->order;
  spec.backend = ADJ_BACKEND_HYBRID;
  spec.flags = ADJ_WITH_DISTANCE | p->flags;
  spec.tuning = tuning;
  adj_plan *plan = NULL;
  uint64_t total = 0, rows = adj_result_rows(cpu);
  uint32_t *degrees = malloc((rows + 1) * sizeof *degrees);
  need(degrees && !adj_plan_create(p->ctx, &spec, p->left, p->right, &plan), "a plan for both");
  need(!adj_count(plan, NULL, &total, NULL, NULL) && total == adj_result_pairs(cpu), "the total");
  need(!adj_count(plan, degrees, &total, NULL, NULL) && total == adj_result_pairs(cpu), "the total of the counts");
  for (uint64_t i = 0; i < rows; i++)
    need(degrees[i] == adj_result_offsets(cpu)[i + 1] - adj_result_offsets(cpu)[i], "the counts");
  streamed s = {cpu, 0};
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &s;
  sink.write = compare_rows;
  need(!adj_stream(plan, &sink, NULL, NULL) && s.next == rows, "the stream");
  adj_plan_destroy(plan);
  free(degrees);
}

/* Tries all tunings. Adds to *shared the queries that devices did. */
static void check_same(const problem *p, const char *what, uint64_t *shared) {
  adj_result *cpu = NULL, *gpu = NULL;
  need(!join(p, ADJ_BACKEND_CPU, &cpu, NULL), "the join on the CPU");
  need(!join(p, ADJ_BACKEND_GPU, &gpu, NULL) && same(gpu, cpu), "the join on the GPU");
  adj_result_destroy(gpu);
  gpu = NULL;
  need(!join(p, ADJ_BACKEND_AUTO, &gpu, NULL) && same(gpu, cpu), "the join by itself");
  for (int t = 0; t < TUNING_COUNT; t++) {
    problem mine = *p;
    mine.tuning = p->k ? TUNINGS[t] : RANGE_TUNINGS[t];
    adj_result *hybrid = NULL;
    figures f;
    adj_status status = join(&mine, ADJ_BACKEND_HYBRID, &hybrid, &f);
    if (t && status == ADJ_E_UNSUPPORTED) continue; /* some kernels are only for some dimensions */
    need(!status, "the join on both");
    if (!same(hybrid, cpu)) {
      fprintf(stderr, "gpu_hybrid: %s, %s: another result\n", what, mine.tuning ? mine.tuning : "no tuning");
      exit(1);
    }
    uint64_t done = 0;
    for (uint32_t w = 0; w < f.stats.worker_count; w++)
      done += f.workers[w].queries;
    for (uint32_t w = 1; w < f.stats.worker_count; w++)
      *shared += f.workers[w].queries;
    uint64_t all = adj_dataset_count(p->left); /* rows that are counted first take two passes */
    need(!f.stats.worker_count || done == all || (!p->k && done == 2 * all), "every query is done once a pass");
    need(t == 0 || f.stats.worker_count >= 2, "both take part");
    need(f.stats.worker_count < 2 || !f.workers[1].queries || f.stats.kernel_s > 0, "kernels take time");
    adj_result_destroy(hybrid);
    if (!p->k) check_others(&mine, cpu);
  }
  adj_result_destroy(gpu);
  adj_result_destroy(cpu);
}

static void check_joins(int32_t devices) {
  static const struct {
    const char *name;
    uint64_t count;
    uint32_t dim, k;
    double radius;
  } cases[] = {{"unif", 50000, 3, 8, 0},     {"expo", 50000, 2, 5, 0},    {"unif", 20000, 6, 16, 0},
               {"expo", 20000, 4, 40, 0},    {"unif", 30000, 1, 32, 0},   {"unif", 3000, 3, 1100, 0},
               {"unif", 20000, 2, 8, 0.01},  {"unif", 1, 3, 4, 0},        {"unif", 33, 5, 40, 0},
               {"expo", 300000, 3, 8, 0.01}, {"unif", 50000, 2, 0, 0.02}, {"expo", 100000, 3, 0, 0.002},
               {"unif", 20000, 6, 0, 0.25},  {"expo", 20000, 4, 0, 0.02}, {"unif", 30000, 1, 0, 0.001},
               {"unif", 2000, 3, 0, 0.9},    {"unif", 1, 3, 0, 0.5},      {"unif", 33, 5, 0, 0.5},
               {"unif", 5000, 16, 0, 0.9},   {"unif", 10000, 3, 0, 1e-6}};
  adj_ctx *ctx = context(devices, 0);
  uint64_t shared = 0;
  atomic_store(&warnings, 0);
  for (size_t c = 0; c<sizeof cases / sizeof *cases; c += devices> 1 ? 3 : 1) {
    adj_dataset *set = points(ctx, cases[c].name, cases[c].count, cases[c].dim, 1);
    adj_dataset *other = points(ctx, "unif", cases[c].count / 3 + 1, cases[c].dim, 2);
    problem p = {
        ctx, set, set, cases[c].k, cases[c].radius, NULL, 0, (adj_order)(c % 2 ? ADJ_ORDER_DISTANCE : ADJ_ORDER_ID)};
    check_same(&p, cases[c].name, &shared);
    p.flags = cases[c].k ? 0 : c % 2 ? ADJ_ONE_WAY : ADJ_WITH_SELF;
    if (p.flags) check_same(&p, cases[c].name, &shared);
    p.flags = 0;
    p.left = other;
    check_same(&p, "two sets", &shared);
    adj_dataset_destroy(set);
    adj_dataset_destroy(other);
  }
  need(shared > 0 && !atomic_load(&warnings), "devices did some of it, without warnings");
  printf("%d device%s: the same results; devices did %llu queries\n", devices, devices > 1 ? "s" : "",
         (unsigned long long)shared);
  adj_ctx_destroy(ctx);
}

/* Fails the n-th CUDA call, for all n. The join must succeed with a warning. */
static void check_faults(int32_t devices, uint32_t k, const char *tuning) {
  adj_ctx *ctx = context(devices, 0);
  adj_dataset *set = points(ctx, "unif", 4000, strstr(tuning, "single=on") ? 4 : 3, 1);
  problem p = {ctx, set, set, k, k ? 0 : 0.1, tuning, 0, ADJ_ORDER_ID};
  adj_result *cpu = NULL;
  adji_gpu *gpu = NULL;
  need(!adji_gpu_at(ctx, (uint32_t)devices - 1, &gpu), "the device");
  need(!join(&p, ADJ_BACKEND_CPU, &cpu, NULL), "the join on the CPU");
  uint64_t device_bytes = adji_gpu_used(gpu), host_bytes = adj_ctx_memory_used(ctx);
  int64_t n = 0, calls = 1;
  for (; n <= calls; n++) { /* in the last run nothing fails */
    adj_result *result = NULL;
    atomic_store(&warnings, 0);
    adji_gpu_fail_at(gpu, n);
    need(!join(&p, ADJ_BACKEND_HYBRID, &result, NULL), "the join after a failure");
    calls = adji_gpu_fail_at(gpu, -1);
    need(same(result, cpu), "the result after a failure");
    need(n >= calls || atomic_load(&warnings) > 0, "a warning");
    adj_result_destroy(result);
    need(adji_gpu_used(gpu) == device_bytes, "device memory is given back");
    need(adj_ctx_memory_used(ctx) == host_bytes, "host memory is given back");
    need(n < 100000, "an end to the failures");
  }
  printf("%s, %d device%s, %s: each of %lld calls failed once\n", k ? "kNN" : "range", devices, devices > 1 ? "s" : "",
         tuning, (long long)n);
  adj_result_destroy(cpu);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Single evaluation on a device without room for the pairs it finds: the cores find them again. */
static const char ONCE[] = "share=rates,single=on,test.mirrored=on";

static void check_no_room(void) {
  adj_ctx *ctx = context(1, 0);
  adj_dataset *set = points(ctx, "unif", 20000, 5, 1);
  problem p = {ctx, set, set, 0, 0.2, "share=rates,single=on,test.mirrored=on,test.device_pairs=100", 0, ADJ_ORDER_ID};
  adj_result *cpu = NULL, *hybrid = NULL;
  figures f;
  atomic_store(&warnings, 0);
  need(!join(&p, ADJ_BACKEND_CPU, &cpu, NULL), "the join on the CPU");
  need(!join(&p, ADJ_BACKEND_HYBRID, &hybrid, &f) && same(hybrid, cpu), "the join without room");
  need(atomic_load(&warnings) == 1 && f.stats.worker_count == 2 && !f.workers[1].queries && f.workers[1].failed,
       "what the device did is done again");
  p.tuning = ONCE;
  adj_result_destroy(hybrid);
  hybrid = NULL;
  need(!join(&p, ADJ_BACKEND_HYBRID, &hybrid, &f) && same(hybrid, cpu), "the join with room");
  need(atomic_load(&warnings) == 1 && f.workers[1].queries && !f.workers[1].failed, "the device did some of it");
  adj_result_destroy(cpu);
  adj_result_destroy(hybrid);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Every limit of device memory gives a result. */
static void check_limits(uint32_t k, uint32_t dim) {
  for (uint64_t limit = (uint64_t)1 << 14; limit <= (uint64_t)1 << 26; limit *= 4) {
    adj_ctx *ctx = context(1, limit);
    adj_dataset *set = points(ctx, "unif", 100000, dim, 1);
    problem p = {ctx, set, set, k, k ? 0 : 0.01 * dim, dim > 3 ? ONCE : "share=rates", 0, ADJ_ORDER_ID};
    adj_result *cpu = NULL, *hybrid = NULL;
    figures f;
    need(!join(&p, ADJ_BACKEND_CPU, &cpu, NULL), "the join on the CPU");
    need(!join(&p, ADJ_BACKEND_HYBRID, &hybrid, &f) && same(hybrid, cpu), "the join within a limit");
    printf("%s in %u-D, device memory limit %llu KiB: the device did %llu queries\n", k ? "kNN" : "range", dim,
           (unsigned long long)limit >> 10, (unsigned long long)(f.stats.worker_count ? f.workers[1].queries : 0));
    adj_result_destroy(cpu);
    adj_result_destroy(hybrid);
    adj_dataset_destroy(set);
    adj_ctx_destroy(ctx);
  }
}

/* ADJ_BACKEND_AUTO uses the cores for what a device cannot join, here points larger than its buffers. It does so even
 * if the device is open and therefore the first choice. */
static void check_too_large(void) {
  adj_ctx *ctx = context(1, 0);
  adj_dataset *small = points(ctx, "unif", 1000, 3, 1), *large = points(ctx, "unif", 8, 1100000, 1);
  problem opens = {ctx, small, small, 8, 0, NULL, 0, ADJ_ORDER_ID};
  adj_result *cpu = NULL, *by_itself = NULL;
  need(!join(&opens, ADJ_BACKEND_GPU, &cpu, NULL), "the join that opens the device");
  for (uint32_t k = 0; k < 4; k += 3) {
    problem p = {ctx, large, large, k, k ? 0 : 428.3, NULL, 0, ADJ_ORDER_ID};
    adj_result_destroy(cpu);
    adj_result_destroy(by_itself);
    cpu = by_itself = NULL;
    need(k || join(&p, ADJ_BACKEND_GPU, &by_itself, NULL) == ADJ_E_UNSUPPORTED, "points too large for a device");
    need(!join(&p, ADJ_BACKEND_CPU, &cpu, NULL), "the join on the CPU");
    need(!join(&p, ADJ_BACKEND_AUTO, &by_itself, NULL) && same(by_itself, cpu), "the join without the device");
  }
  adj_result_destroy(cpu);
  adj_result_destroy(by_itself);
  adj_dataset_destroy(small);
  adj_dataset_destroy(large);
  adj_ctx_destroy(ctx);
}

int main(void) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  check_joins(1);
  check_joins(2);
  check_faults(1, 8, "share=rates,batch=64");
  check_faults(1, 8, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,device_rows=1500");
  check_faults(2, 8, "share=rates,batch=64");
  check_faults(1, 0, "share=rates,batch=64");
  check_faults(1, 0, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,device_batch=100000");
  check_faults(2, 0, "share=rates,batch=64");
  check_faults(1, 0, "share=rates,batch=64,single=on,test.mirrored=on");
  check_faults(2, 0, "share=fixed,paper.n_large=0.5,paper.n_cwin=0.001,batch=64,single=on,test.mirrored=on");
  check_no_room();
  check_too_large();
  check_limits(16, 3);
  check_limits(0, 3);
  check_limits(0, 4);
  return 0;
}
