/* SPDX-License-Identifier: MIT
 *
 * Every CUDA call fails in turn: the n-th call of a join, for n from 0 until the join succeeds. The error must name the
 * device and the call, and all memory must be given back. Afterwards a join on the GPU in the same context must give
 * the result of the CPU: every offset, id and bit of the distances. The same is tested with a device that is lost at
 * the n-th call, so that all later calls fail too, and with a device without memory at the n-th request. If cores take
 * part, there must be a result in any case. Also: two contexts in two threads, and limits of device memory.
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <adjoin_cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/device/device.h"

enum { NO_GPU = 77 };

static void need(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "gpu_faults: %s: %s\n", what, adj_last_error());
  exit(1);
}

typedef struct problem {
  adj_ctx *ctx;
  adj_dataset *set;
  double radius;
  uint32_t k; /* 0: all within the radius */
  adj_order order;
  const char *tuning, *algorithm; /* for the GPU only */
  bool distances;
} problem;

static adj_dataset *points(adj_ctx *ctx, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = dim;
  adj_dataset *set = NULL;
  need(!adj_dataset_generate(ctx, &options, &set), "generate");
  return set;
}

static adj_status join(const problem *p, adj_backend backend, adj_result **out) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  if (p->k) {
    spec.kind = ADJ_KNN;
    spec.k = p->k;
  } else {
    spec.radius = p->radius;
  }
  if (p->distances) spec.flags |= ADJ_WITH_DISTANCE;
  spec.backend = backend;
  spec.order = p->order;
  if (backend == ADJ_BACKEND_GPU) {
    spec.algorithm = p->algorithm;
    spec.tuning = p->tuning;
  }
  if (backend == ADJ_BACKEND_HYBRID) spec.tuning = "share=rates"; /* both workers get some queries */
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(p->ctx, &spec, p->set, NULL, &plan);
  if (!status) status = adj_collect(plan, out, NULL, NULL);
  adj_plan_destroy(plan);
  return status;
}

static bool same_bytes(const void *a, const void *b, uint64_t bytes) {
  return !bytes || (!a && !b) || (a && b && !memcmp(a, b, bytes));
}

/* Whole results: every offset, id and bit of a distance. */
static bool same(const adj_result *a, const adj_result *b) {
  uint64_t rows = adj_result_rows(a), entries = adj_result_offsets(a)[rows];
  size_t size = adj_result_type(a) == ADJ_F64 ? sizeof(double) : sizeof(float);
  return rows == adj_result_rows(b) && adj_result_pairs(a) == adj_result_pairs(b) &&
         adj_result_type(a) == adj_result_type(b) &&
         same_bytes(adj_result_offsets(a), adj_result_offsets(b), (rows + 1) * sizeof(uint64_t)) &&
         same_bytes(adj_result_ids(a), adj_result_ids(b), entries * sizeof(uint32_t)) &&
         same_bytes(adj_result_distances(a), adj_result_distances(b), entries * size);
}

/* Runs the join again, with nothing failing. */
static void check_join(const problem *p, const adj_result *expected, const char *what) {
  adj_result *result = NULL;
  need(!join(p, ADJ_BACKEND_GPU, &result) && same(result, expected), what);
  adj_result_destroy(result);
}

/* Fails the n-th call, for all n. Returns the number of calls. With recover, the join is repeated after every failure.
 * Without, failures follow one another, so that they also hit what a context does only once. */
static int64_t try_all(const problem *p, adji_gpu *gpu, const adj_result *expected, bool recover) {
  uint64_t device_bytes = adji_gpu_used(gpu), host_bytes = adj_ctx_memory_used(p->ctx);
  for (int64_t n = 0;; n++) {
    adj_result *result = NULL;
    adji_gpu_fail_at(gpu, n);
    adj_status status = join(p, ADJ_BACKEND_GPU, &result);
    int64_t calls = adji_gpu_fail_at(gpu, -1);
    if (status == ADJ_OK) {
      need(same(result, expected), "the result after a failure that could be done without");
      adj_result_destroy(result);
      if (calls <= n) return n;
      continue;
    }
    need(status == ADJ_E_DEVICE && strstr(adj_last_error(), "device 0: "), "a failure names device and call");
    need(!result, "no result after a failure");
    need(adji_gpu_used(gpu) == device_bytes, "device memory is given back");
    need(adj_ctx_memory_used(p->ctx) == host_bytes, "host memory is given back");
    need(n < 100000, "an end to the failures");
    if (recover) check_join(p, expected, "the join on the GPU after a failure");
  }
}

/* Failures that follow one another, without distances; then with distances if the tuning allows them, and with a join
 * after each failure. */
static void check_problem(problem *p, adji_gpu *gpu) {
  int64_t calls[2];
  for (int pass = 0; pass < 2; pass++) {
    p->distances = pass == 1 && !(p->tuning && strstr(p->tuning, "_hits"));
    adj_result *cpu = NULL;
    need(!join(p, ADJ_BACKEND_CPU, &cpu), "the join on the CPU");
    calls[pass] = try_all(p, gpu, cpu, pass == 1);
    check_join(p, cpu, "the join on the GPU after failures");
    adj_result_destroy(cpu);
  }
  printf("%u-D, %s: each of %lld calls failed once, and each of %lld with a join after it\n", adj_dataset_dim(p->set),
         p->tuning      ? p->tuning
         : p->algorithm ? p->algorithm
                        : "no tuning",
         (long long)calls[0], (long long)calls[1]);
  adj_dataset_destroy(p->set);
}

static void check_faults(adj_ctx *ctx, adji_gpu *gpu, uint32_t dim, double radius, uint32_t k, adj_order order,
                         const char *tuning) {
  const char *algorithm = k && tuning && strstr(tuning, "prefilter=") ? "brute" : NULL;
  problem p = {ctx, points(ctx, 3000, dim), radius, k, order, tuning, algorithm, false};
  check_problem(&p, gpu);
}

static void check_grid_faults(adj_ctx *ctx, adji_gpu *gpu, uint32_t dim, uint32_t k) {
  problem p = {ctx, points(ctx, 3000, dim), 0, k, ADJ_ORDER_DISTANCE, NULL, "grid", false};
  check_problem(&p, gpu);
}

/* The device is lost at call n, or has no memory at request n, for all n. If cores take part, the join must give the
 * result of the CPU in any case; a device alone may also fail. Returns the number of calls or requests. */
static int64_t try_permanent_fault(const problem *p, adji_gpu *gpu, const adj_result *expected, adj_backend backend,
                                   adji_gpu_fault fault) {
  uint64_t device_bytes = adji_gpu_used(gpu), host_bytes = adj_ctx_memory_used(p->ctx);
  adj_status wanted = fault == ADJI_FAULT_LOST ? ADJ_E_DEVICE : ADJ_E_DEVICE_MEMORY;
  for (int64_t n = 0;; n++) {
    adj_result *result = NULL;
    adji_gpu_fail_as(gpu, n, fault);
    adj_status status = join(p, backend, &result);
    bool hit = adji_gpu_fail_at(gpu, -1) > n;
    need(status == ADJ_OK || (backend == ADJ_BACKEND_GPU && status == wanted), "a failure for good");
    need(status || same(result, expected), "the result beside a device that failed for good");
    adj_result_destroy(result);
    need(adji_gpu_used(gpu) == device_bytes, "device memory is given back");
    need(adj_ctx_memory_used(p->ctx) == host_bytes, "host memory is given back");
    need(n < 100000, "an end to the failures");
    check_join(p, expected, "the join on the GPU once it is back");
    if (!hit) return n;
  }
}

static void check_permanent_faults(adj_ctx *ctx, adji_gpu *gpu, uint32_t dim, double radius, uint32_t k,
                                   const char *algorithm) {
  problem p = {ctx, points(ctx, 3000, dim), radius, k, ADJ_ORDER_ID, NULL, algorithm, true};
  adj_result *cpu = NULL;
  need(!join(&p, ADJ_BACKEND_CPU, &cpu), "the join on the CPU");
  for (int backend = ADJ_BACKEND_GPU; backend <= (algorithm ? ADJ_BACKEND_GPU : ADJ_BACKEND_HYBRID); backend++) {
    int64_t calls = try_permanent_fault(&p, gpu, cpu, (adj_backend)backend, ADJI_FAULT_LOST);
    int64_t requests = try_permanent_fault(&p, gpu, cpu, (adj_backend)backend, ADJI_FAULT_MEMORY);
    printf("%u-D, %s, %s: lost at each of %lld calls, without memory at each of %lld requests\n", dim,
           k ? "kNN" : "range", backend == ADJ_BACKEND_GPU ? "alone" : "beside cores", (long long)calls,
           (long long)requests);
  }
  adj_result_destroy(cpu);
  adj_dataset_destroy(p.set);
}

/* cuBLAS need not be on every machine. */
static void check_gemm_faults(adj_ctx *ctx, adji_gpu *gpu) {
  adj_ctx *other = NULL; /* a context apart, so that the handle of ctx is made while calls fail */
  need(!adj_ctx_create(NULL, &other), "a context");
  problem p = {other, points(other, 10, 3), 0, 2, ADJ_ORDER_DISTANCE, "prefilter=gemm", "brute", false};
  adj_result *result = NULL;
  adj_status status = join(&p, ADJ_BACKEND_GPU, &result);
  adj_result_destroy(result);
  adj_dataset_destroy(p.set);
  adj_ctx_destroy(other);
  if (status == ADJ_E_UNSUPPORTED) {
    printf("left out: %s\n", adj_last_error());
    return;
  }
  check_faults(ctx, gpu, 20, 0, 16, ADJ_ORDER_DISTANCE, "prefilter=gemm");
}

static void *join_in_thread(void *number) {
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  problem p = {ctx, points(ctx, 20000, 2 + (uint32_t)(size_t)number), 0.05, 0, ADJ_ORDER_ID, NULL, NULL, true};
  adj_result *cpu = NULL;
  need(!join(&p, ADJ_BACKEND_CPU, &cpu), "the join on the CPU");
  for (int i = 0; i < 20; i++) {
    adj_result *gpu = NULL;
    need(!join(&p, ADJ_BACKEND_GPU, &gpu) && same(gpu, cpu), "the join in a thread");
    adj_result_destroy(gpu);
  }
  adj_result_destroy(cpu);
  adj_dataset_destroy(p.set);
  adj_ctx_destroy(ctx);
  return NULL;
}

static void check_threads(void) {
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++)
    need(!pthread_create(&threads[i], NULL, join_in_thread, (void *)i), "a thread");
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  printf("two contexts in two threads: the same results\n");
}

/* A join within a limit of device memory gives the result of the CPU, or an error that says that it does not fit.
 * Returns the status without distances. Distances take more memory, so with them either outcome is fine. */
static adj_status join_within_limit(problem *p, const char *what) {
  adj_status statuses[2];
  for (int pass = 0; pass < 2; pass++) {
    p->distances = pass == 0;
    adj_result *cpu = NULL, *gpu = NULL;
    need(!join(p, ADJ_BACKEND_CPU, &cpu), "the join on the CPU");
    statuses[pass] = join(p, ADJ_BACKEND_GPU, &gpu);
    need(statuses[pass] == ADJ_OK ? same(gpu, cpu) : statuses[pass] == ADJ_E_DEVICE_MEMORY, what);
    adj_result_destroy(gpu);
    adj_result_destroy(cpu);
  }
  return statuses[1];
}

/* The points and their tree must fit, but not their neighbours; with brute force not even the points. */
static void check_nearest_limit(adj_ctx *ctx, const char *algorithm) {
  problem p = {ctx, points(ctx, 4000, 3), 0, 100, ADJ_ORDER_DISTANCE, NULL, algorithm, false};
  adj_status status = join_within_limit(&p, "the nearest within a limit");
  printf("  100 nearest%s: %s\n", algorithm ? ", brute force" : "", status ? adj_last_error() : "found");
  adj_dataset_destroy(p.set);
}

static adj_ctx *limited_context(uint64_t limit) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.device_memory_limit = limit;
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(&options, &ctx), "a context");
  return ctx;
}

/* A limit below what any join needs gives an error that says so. A limit that leaves room only for chunks or small
 * batches gives no error. */
static void check_limits(void) {
  for (uint64_t limit = (uint64_t)1 << 14; limit <= (uint64_t)1 << 28; limit *= 4) {
    adj_ctx *ctx = limited_context(limit);
    problem p = {ctx, points(ctx, 20000, 3), 0.1, 0, ADJ_ORDER_ID, NULL, NULL, false};
    adj_status status = join_within_limit(&p, "the join within a limit");
    need(limit < (uint64_t)1 << 20 || status == ADJ_OK, "1 MiB is enough, if not for all points at once");
    printf("device memory limit %llu KiB: %s\n", (unsigned long long)limit >> 10, status ? adj_last_error() : "joined");
    check_nearest_limit(ctx, NULL);
    check_nearest_limit(ctx, "brute");
    adj_dataset_destroy(p.set);
    adj_ctx_destroy(ctx);
  }
}

/* Rows of more than 8,192 entries take as much memory again to be sorted: batches are made smaller until there is room
 * for that, too. */
static void check_long_rows(void) {
  adj_ctx *ctx = limited_context((uint64_t)4 << 20);
  problem p = {ctx, points(ctx, 8300, 2), 2, 0, ADJ_ORDER_ID, NULL, NULL, false};
  need(!join_within_limit(&p, "long rows within a limit"), "4 MiB is enough for long rows");
  printf("rows of 8,299 neighbours within 4 MiB: joined\n");
  adj_dataset_destroy(p.set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0); /* shows progress line by line */
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  adj_ctx *ctx = NULL;
  adji_gpu *gpu = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  need(!adji_gpu_of(ctx, &gpu), "the device");
  check_faults(ctx, gpu, 2, 0.02, 0, ADJ_ORDER_ID, NULL);
  check_faults(ctx, gpu, 2, 0.05, 0, ADJ_ORDER_ID, "test.query_hits=on");
  check_faults(ctx, gpu, 3, 0.1, 0, ADJ_ORDER_DISTANCE, "device_batch=40000");
  check_faults(ctx, gpu, 6, 0.3, 0, ADJ_ORDER_ID, "device_batch=40000,test.streams=2");
  check_faults(ctx, gpu, 3, 0.1, 0, ADJ_ORDER_DISTANCE, "device_chunk=1600");
  check_faults(ctx, gpu, 2, 0.02, 0, ADJ_ORDER_ID,
               "paper.access=lid-unicomp,paper.order=workqueue,paper.point_threads=4");
  check_faults(ctx, gpu, 3, 0.1, 0, ADJ_ORDER_DISTANCE,
               "paper.access=full,paper.order=sortbywl,paper.sortidu=on,indexed=2,device_batch=40000");
  check_faults(ctx, gpu, 16, 0.9, 0, ADJ_ORDER_ID, "prefilter=tensor");
  check_faults(ctx, gpu, 3, 0, 8, ADJ_ORDER_DISTANCE, "test.per_query=off,test.budget=60");
  check_faults(ctx, gpu, 6, 0, 40, ADJ_ORDER_DISTANCE, "device_rows=900");
  check_grid_faults(ctx, gpu, 2, 8);
  check_grid_faults(ctx, gpu, 6, 40);
  check_faults(ctx, gpu, 3, 0, 8, ADJ_ORDER_DISTANCE, "prefilter=off");
  check_faults(ctx, gpu, 9, 0, 40, ADJ_ORDER_DISTANCE, "prefilter=off,device_chunk=1100,device_rows=1600");
  check_faults(ctx, gpu, 20, 0, 2500, ADJ_ORDER_DISTANCE, "prefilter=off,paper.select=radix");
  check_faults(ctx, gpu, 20, 0, 16, ADJ_ORDER_DISTANCE, "prefilter=tensor");
  check_gemm_faults(ctx, gpu);
  check_permanent_faults(ctx, gpu, 2, 0.02, 0, NULL);
  check_permanent_faults(ctx, gpu, 3, 0, 8, NULL);
  check_permanent_faults(ctx, gpu, 16, 0, 16, "brute");
  adj_ctx_destroy(ctx);
  check_threads();
  check_limits();
  check_long_rows();
  return 0;
}
