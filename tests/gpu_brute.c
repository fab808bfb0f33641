/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN joins of points on a device (adj_cuda_knn_join), compared with the CPU: every id and every bit of the
 * distances. All methods, many dimensions, rows that are packed, with gaps or column by column; little memory, and sets
 * in chunks. Also with environment variables that change the arithmetic of cuBLAS. Then range joins that compare all
 * pairs in tiles.
 *
 *   gpu_brute [TEXT]         only the cases whose names hold this text
 *   gpu_brute --with NAME    cuBLAS with this variable, which is set in the environment
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "on_device.h"

/* ---- Points ---------------------------------------------------------------------------------------------- */

/* Few different values per dimension give ties; the offset moves them far from the origin. */
static point_set make_points(adj_type type, uint64_t count, uint32_t dim, double offset, uint64_t seed) {
  point_set p = {type, dim, count, malloc((count * dim + 1) * type_size(type))};
  need(p.data, "memory");
  for (uint64_t i = 0; i < count * dim; i++) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double value = offset + (double)((seed >> 33) % 101) / 7;
    if (type == ADJ_F64)
      ((double *)p.data)[i] = value;
    else
      ((float *)p.data)[i] = (float)value;
  }
  return p;
}

/* ---- Joins ----------------------------------------------------------------------------------------------- */

typedef struct problem {
  const char *name;
  uint64_t left, right; /* right 0: a self-join */
  uint32_t dim, k;
  adj_metric metric;
  double p, radius, offset;
} problem;

static adj_join_spec spec_of(const problem *p) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = p->k;
  spec.metric = p->metric;
  spec.p = p->p;
  spec.radius = p->radius > 0 ? p->radius : INFINITY;
  spec.flags = ADJ_WITH_DISTANCE;
  return spec;
}

static adj_result *find_on_cpu(adj_ctx *ctx, const problem *p, const point_set *left, const point_set *right) {
  adj_join_spec spec = spec_of(p);
  spec.backend = ADJ_BACKEND_CPU;
  adj_dataset *queries = to_set(ctx, left), *others = right ? to_set(ctx, right) : NULL;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  need(!adj_plan_create(ctx, &spec, queries, others, &plan) && !adj_collect(plan, &result, NULL, NULL), "the CPU");
  adj_plan_destroy(plan);
  adj_dataset_destroy(queries);
  adj_dataset_destroy(others);
  return result;
}

static bool same(const adj_cuda_result *gpu, const adj_result *cpu, adj_type type) {
  uint64_t rows = adj_result_rows(cpu), entries = adj_result_offsets(cpu)[rows];
  if (adj_cuda_result_rows(gpu) != rows || adj_cuda_result_pairs(gpu) != adj_result_pairs(cpu)) return false;
  size_t ids = entries * sizeof(uint32_t), distances = entries * type_size(type);
  char *got = malloc(ids + distances + 1);
  need_cuda(cudaMemcpy(got, adj_cuda_result_ids(gpu), ids, cudaMemcpyDeviceToHost));
  need_cuda(cudaMemcpy(got + ids, adj_cuda_result_distances(gpu), distances, cudaMemcpyDeviceToHost));
  bool equal = !memcmp(got, adj_result_ids(cpu), ids) && !memcmp(got + ids, adj_result_distances(cpu), distances);
  free(got);
  return equal;
}

static const char *const TUNINGS[] = {NULL,
                                      "prefilter=tensor",
                                      "test.skip=on",
                                      "prefilter=gemm",
                                      "prefilter=gemm,device_chunk=700",
                                      "prefilter=off",
                                      "prefilter=off,paper.distance=naive",
                                      "prefilter=off,paper.distance=tiled",
                                      "prefilter=off,paper.distance=register",
                                      "prefilter=off,paper.distance=fused",
                                      "prefilter=off,paper.distance=fused,device_chunk=700",
                                      "prefilter=off,paper.select=block-bits",
                                      "prefilter=off,paper.select=block-bits,paper.reads=1,paper.prefetch=off",
                                      "prefilter=off,paper.select=block-bits,paper.reads=8,paper.partitions=5",
                                      "prefilter=off,paper.select=block-bitonic",
                                      "prefilter=off,paper.select=block-radix",
                                      "prefilter=off,paper.select=block-sample",
                                      "prefilter=off,paper.select=stream-sort,paper.sort_streams=3",
                                      "prefilter=gemm,paper.select=block-bits",
                                      "prefilter=off,device_chunk=700",
                                      "device_chunk=333"};

/* Whether this machine lacks the method, as cuBLAS may be missing. Prints this once. */
static bool is_missing(adj_status status) {
  static bool printed = false;
  if (status != ADJ_E_UNSUPPORTED) return false;
  if (!printed) printf("left out: %s\n", adj_last_error());
  printed = true;
  return true;
}

/* Little memory makes small matrices. 0: no limit. */
static const uint64_t LIMITS[] = {0, (uint64_t)12 << 20};

static void check_layout(const problem *p, adj_type type, layout how) {
  point_set left = make_points(type, p->left, p->dim, p->offset, 1),
            right = make_points(type, p->right, p->dim, p->offset, 2);
  void *memory[2] = {NULL, NULL};
  adj_cuda_points queries = to_device(&left, how, &memory[0]), others = to_device(&right, how, &memory[1]);
  for (size_t l = 0; l < sizeof LIMITS / sizeof *LIMITS; l++) {
    adj_ctx_options options;
    adj_ctx_options_init(&options, sizeof options);
    options.device_memory_limit = LIMITS[l];
    adj_ctx *ctx = NULL;
    need(!adj_ctx_create(&options, &ctx), "a context");
    adj_result *cpu = find_on_cpu(ctx, p, &left, p->right ? &right : NULL);
    for (size_t t = 0; t < sizeof TUNINGS / sizeof *TUNINGS; t++) {
      adj_join_spec spec = spec_of(p);
      spec.algorithm = "brute";
      spec.tuning = TUNINGS[t];
      adj_cuda_result *gpu = NULL;
      adj_status status = adj_cuda_knn_join(ctx, &spec, &queries, p->right ? &others : NULL, NULL, &gpu);
      bool crowded = LIMITS[l] && status == ADJ_E_DEVICE_MEMORY;
      if (is_missing(status)) continue;
      need(!status || crowded, p->name);
      if (!status && !same(gpu, cpu, type)) {
        fprintf(stderr, "gpu_brute: %s, %s, %s, tuning %s, limit %llu: other rows than the CPU's\n", p->name,
                type == ADJ_F64 ? "f64" : "f32", LAYOUT_NAMES[how], TUNINGS[t] ? TUNINGS[t] : "none",
                (unsigned long long)LIMITS[l]);
        exit(1);
      }
      if (!status) adj_cuda_result_destroy(gpu, NULL);
    }
    adj_result_destroy(cpu);
    adj_ctx_destroy(ctx);
  }
  need_cuda(cudaFree(memory[0]));
  need_cuda(cudaFree(memory[1]));
  free(left.data);
  free(right.data);
}

static const problem PROBLEMS[] = {
    {"one query", 1, 9000, 17, 40, ADJ_L2, 0, 0, 0},
    {"16 queries", 16, 9000, 40, 7, ADJ_L2, 0, 0, 0},
    {"17 queries", 17, 9000, 8, 33, ADJ_L2, 0, 0, 0},
    {"97 queries", 97, 4100, 33, 100, ADJ_L2, 0, 0, 0},
    {"many queries", 1500, 5000, 16, 32, ADJ_L2, 0, 0, 0},
    {"with itself", 2500, 0, 12, 8, ADJ_L2, 0, 0, 0},
    {"with itself, all others", 700, 0, 9, 699, ADJ_L2, 0, 0, 0},
    {"k 2000", 300, 3000, 31, 2000, ADJ_L2, 0, 0, 0},
    {"k 2049", 300, 3000, 31, 2049, ADJ_L2, 0, 0, 0},
    {"at 1e6", 300, 3000, 64, 10, ADJ_L2, 0, 0, 1e6},
    {"within a radius", 400, 3000, 7, 60, ADJ_L2, 0, 9, 0},
    {"few dimensions", 400, 3000, 2, 16, ADJ_L2, 0, 0, 0},
    {"1500 dimensions", 200, 400, 1500, 16, ADJ_L2, 0, 0, 0},
    {"L1", 400, 3000, 20, 16, ADJ_L1, 0, 0, 0},
    {"Linf", 400, 3000, 20, 16, ADJ_LINF, 0, 0, 0},
    {"Lp", 200, 1000, 20, 16, ADJ_LP, 2.5, 0, 0},
    {"inner product", 400, 3000, 20, 16, ADJ_DOT, 0, 0, 0},
    {"cosine", 400, 3000, 20, 16, ADJ_COSINE, 0, 0, 0},
    {"great circle", 400, 3000, 2, 16, ADJ_HAVERSINE, 0, 0, 0},
};

/* ---- Points in tree order -------------------------------------------------------------------------------- */

/* Sets whose tiles are skipped. far: where the last point is moved. */
typedef struct ordered_case {
  const char *generator;
  uint64_t left, right; /* right 0: a self-join */
  uint32_t dim, k;
  double radius, far;
} ordered_case;

static const ordered_case ORDERED[] = {
    {"unif", 30011, 0, 7, 8, 0, 0},
    {"unif", 20000, 30000, 10, 1, 0, 0},
    {"unif", 5001, 30001, 16, 500, 0, 0},
    {"clusters", 40007, 0, 16, 8, 0, 0},
    {"clusters", 9000, 40000, 24, 32, 0, 0},
    {"clusters", 30000, 0, 10, 64, 0.02, 0},
    {"codes", 40000, 0, 8, 10, 0, 0},
    {"repeats", 30000, 0, 9, 7, 0, 0},
    {"flat", 30003, 0, 32, 16, 0, 0},
    {"flat", 3000, 30003, 12, 2000, 0, 0},
    {"unif", 20000, 0, 8, 8, 0, 1e6},
    {"clusters", 20000, 0, 12, 8, 0, 1e30},
    {"duplicates", 20000, 0, 8, 20, 0, 0},
    {"lattice", 20000, 0, 7, 12, 0, 0},
    {"scales", 20000, 0, 8, 8, 0, 0},
    {"normal", 700, 257, 20, 256, 0, 0},
    {"unif", 200, 0, 7, 3, 0, 0},
    {"expo", 33000, 0, 16, 8, 0, -1e5},
};

static point_set generate(adj_ctx *ctx, const ordered_case *c, adj_type type, uint64_t count, uint64_t seed) {
  point_set p = {type, c->dim, count, malloc((count * c->dim + 1) * type_size(type))};
  need(p.data, "memory");
  if (!count) return p;
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = c->generator;
  options.type = type;
  options.count = count;
  options.dim = c->dim;
  options.seed = seed;
  adj_dataset *set = NULL;
  need(!adj_dataset_generate(ctx, &options, &set), "points");
  for (uint64_t i = 0; i < count; i++)
    need(!adj_dataset_row(set, i, (char *)p.data + i * c->dim * type_size(type)), "a row");
  adj_dataset_destroy(set);
  for (uint32_t j = 0; j < c->dim && c->far != 0; j++)
    if (type == ADJ_F64)
      ((double *)p.data)[(count - 1) * c->dim + j] = c->far;
    else
      ((float *)p.data)[(count - 1) * c->dim + j] = (float)c->far;
  return p;
}

static const char *const ORDERED_TUNINGS[] = {"test.skip=on", "test.skip=off"};

static void check_ordered(adj_ctx *ctx, const ordered_case *c, adj_type type) {
  point_set left = generate(ctx, c, type, c->left, 1), right = generate(ctx, c, type, c->right, 2);
  problem p = {c->generator, c->left, c->right, c->dim, c->k, ADJ_L2, 0, c->radius, 0};
  void *memory[2] = {NULL, NULL};
  adj_cuda_points queries = to_device(&left, PACKED, &memory[0]), others = to_device(&right, PACKED, &memory[1]);
  adj_result *cpu = find_on_cpu(ctx, &p, &left, c->right ? &right : NULL);
  for (size_t t = 0; t < sizeof ORDERED_TUNINGS / sizeof *ORDERED_TUNINGS; t++) {
    adj_join_spec spec = spec_of(&p);
    spec.algorithm = "brute";
    spec.tuning = ORDERED_TUNINGS[t];
    adj_cuda_result *gpu = NULL;
    need(!adj_cuda_knn_join(ctx, &spec, &queries, c->right ? &others : NULL, NULL, &gpu), p.name);
    if (!same(gpu, cpu, type)) {
      fprintf(stderr, "gpu_brute: %s, %u-D, k %u, %s, tuning %s: other rows than the CPU's\n", p.name, p.dim, p.k,
              type == ADJ_F64 ? "f64" : "f32", ORDERED_TUNINGS[t]);
      exit(1);
    }
    adj_cuda_result_destroy(gpu, NULL);
  }
  adj_result_destroy(cpu);
  need_cuda(cudaFree(memory[0]));
  need_cuda(cudaFree(memory[1]));
  free(left.data);
  free(right.data);
}

static void check_all_ordered(const char *text) {
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  for (size_t i = 0; i < sizeof ORDERED / sizeof *ORDERED; i++) {
    const ordered_case *c = &ORDERED[i];
    if (text && !strstr("in tree order", text) && !strstr(c->generator, text)) continue;
    check_ordered(ctx, c, ADJ_F32);
    check_ordered(ctx, c, ADJ_F64);
    printf("in tree order: %s, %u-D, k %u: the CPU's rows\n", c->generator, c->dim, c->k);
    fflush(stdout);
  }
  adj_ctx_destroy(ctx);
}

/* ---- Range joins ----------------------------------------------------------------------------------------- */

typedef struct range_problem {
  const char *name;
  uint64_t left, right; /* right 0: a self-join */
  uint32_t dim;
  adj_metric metric;
  double p, radius, box;
  uint32_t flags;
} range_problem;

/* Numbers of points around the edges of tiles, which are 128 wide in f32 and 64 in f64. Few, many or all pairs are
 * within the radius. */
static const range_problem RANGES[] = {
    {"one pair", 1, 1, 7, ADJ_L2, 0, 100, 0, 0},
    {"a tile", 128, 0, 7, ADJ_L2, 0, 11, 0, 0},
    {"a tile and one", 129, 0, 8, ADJ_L2, 0, 13, 0, 0},
    {"less than a tile", 63, 65, 16, ADJ_L2, 0, 20, 0, 0},
    {"17 dimensions", 1500, 0, 17, ADJ_L2, 0, 19, 0, 0},
    {"with self", 900, 0, 12, ADJ_L2, 0, 15, 0, ADJ_WITH_SELF},
    {"one way", 1111, 0, 33, ADJ_L2, 0, 31, 0, ADJ_ONE_WAY},
    {"everything", 700, 0, 9, ADJ_L2, 0, 1000, 0, 0},
    {"nothing", 700, 0, 9, ADJ_L2, 0, 0.001, 0, 0},
    {"two sets", 1300, 777, 31, ADJ_L2, 0, 30, 0, 0},
    {"few queries", 5, 3000, 40, ADJ_L2, 0, 35, 0, 0},
    {"1,001 dimensions", 300, 0, 1001, ADJ_L2, 0, 186, 0, 0},
    {"L1", 800, 0, 20, ADJ_L1, 0, 80, 0, 0},
    {"Linf", 800, 500, 20, ADJ_LINF, 0, 11.5, 0, 0},
    {"Lp", 400, 0, 20, ADJ_LP, 2.5, 16, 0, 0},
    {"Lp 3, two sets", 300, 200, 18, ADJ_LP, 3, 13, 0, 0},
    {"inner product", 800, 0, 20, ADJ_DOT, 0, 1150, 0, 0},
    {"inner product, one way", 600, 0, 20, ADJ_DOT, 0, 1100, 0, ADJ_ONE_WAY},
    {"inner product, with self", 600, 0, 9, ADJ_DOT, 0, 600, 0, ADJ_WITH_SELF},
    {"cosine", 800, 300, 20, ADJ_COSINE, 0, 0.2, 0, 0},
    {"box", 500, 0, 18, ADJ_L2, 0, 15, 14.5, 0},
    {"box, L1", 500, 0, 18, ADJ_L1, 0, 55, 14.5, 0},
    {"box, Linf", 500, 300, 18, ADJ_LINF, 0, 6.7, 14.5, 0},
    {"box, Lp", 300, 0, 18, ADJ_LP, 2.5, 11, 14.5, 0},
};

static const char *const RANGE_TUNINGS[] = {"test.all_pairs=on",
                                            "test.all_pairs=on,single=off",
                                            "test.all_pairs=on,test.mirrored=off",
                                            "test.all_pairs=on,test.mirrored=off,single=off,device_batch=4000",
                                            "test.all_pairs=on,test.slices=3,device_batch=40000",
                                            "test.all_pairs=on,test.device_blocks=2",
                                            "test.all_pairs=on,test.device_pairs=40",
                                            "test.all_pairs=on,device_chunk=250"};

static adj_result *collect_range(adj_ctx *ctx, const adj_join_spec *spec, adj_dataset *left, adj_dataset *right) {
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  need(!adj_plan_create(ctx, spec, left, right, &plan) && !adj_collect(plan, &result, NULL, NULL),
       spec->tuning ? spec->tuning : "the CPU");
  adj_plan_destroy(plan);
  return result;
}

static bool same_rows(const adj_result *a, const adj_result *b, adj_type type) {
  uint64_t rows = adj_result_rows(a);
  if (adj_result_rows(b) != rows || memcmp(adj_result_offsets(a), adj_result_offsets(b), (rows + 1) * 8)) return false;
  uint64_t entries = adj_result_offsets(a)[rows];
  return !memcmp(adj_result_ids(a), adj_result_ids(b), entries * 4) &&
         !memcmp(adj_result_distances(a), adj_result_distances(b), entries * type_size(type));
}

static bool same_counts(adj_ctx *ctx, const adj_join_spec *spec, adj_dataset *left, adj_dataset *right,
                        const adj_result *cpu) {
  uint64_t rows = adj_result_rows(cpu), wrong = 0;
  uint32_t *degrees = malloc((rows + 1) * sizeof *degrees);
  adj_plan *plan = NULL;
  need(degrees && !adj_plan_create(ctx, spec, left, right, &plan) && !adj_count(plan, degrees, NULL, NULL, NULL),
       spec->tuning);
  for (uint64_t i = 0; i < rows; i++)
    wrong += degrees[i] != adj_result_offsets(cpu)[i + 1] - adj_result_offsets(cpu)[i];
  adj_plan_destroy(plan);
  free(degrees);
  return !wrong;
}

static void check_range(adj_ctx *ctx, const range_problem *p, adj_type type, adj_order order) {
  point_set points[2] = {make_points(type, p->left, p->dim, 0, 1), make_points(type, p->right, p->dim, 0, 2)};
  adj_dataset *left = to_set(ctx, &points[0]), *right = p->right ? to_set(ctx, &points[1]) : NULL;
  double box = p->box;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_RANGE;
  spec.metric = p->metric;
  spec.p = p->p;
  spec.radius = p->radius;
  spec.order = order;
  spec.flags = ADJ_WITH_DISTANCE | p->flags;
  spec.box = box > 0 ? &box : NULL;
  spec.box_count = box > 0;
  spec.backend = ADJ_BACKEND_CPU;
  adj_result *cpu = collect_range(ctx, &spec, left, right);
  spec.backend = ADJ_BACKEND_GPU;
  for (size_t t = 0; t < sizeof RANGE_TUNINGS / sizeof *RANGE_TUNINGS; t++) {
    spec.tuning = RANGE_TUNINGS[t];
    adj_result *gpu = collect_range(ctx, &spec, left, right);
    if (!same_rows(cpu, gpu, type) || !same_counts(ctx, &spec, left, right, cpu)) {
      fprintf(stderr, "gpu_brute: range, %s, %s, tuning %s: other rows or counts than the CPU's\n", p->name,
              type == ADJ_F64 ? "f64" : "f32", spec.tuning);
      exit(1);
    }
    adj_result_destroy(gpu);
  }
  adj_result_destroy(cpu);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  free(points[0].data);
  free(points[1].data);
}

static void check_ranges(const char *text) {
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  for (size_t i = 0; i < sizeof RANGES / sizeof *RANGES; i++) {
    if (text && !strstr("range", text) && !strstr(RANGES[i].name, text)) continue;
    check_range(ctx, &RANGES[i], ADJ_F32, ADJ_ORDER_ID);
    check_range(ctx, &RANGES[i], ADJ_F64, ADJ_ORDER_DISTANCE);
    printf("range, %s: the CPU's rows\n", RANGES[i].name);
    fflush(stdout);
  }
  adj_ctx_destroy(ctx);
}

/* ---- The environment ------------------------------------------------------------------------------------- */

extern char **environ;

/* Variables that cuBLAS reads when it starts. Each is tested in a process of its own. */
static const char *const VARIABLES[][2] = {{"CUBLAS_EMULATE_SINGLE_PRECISION", "1"},
                                           {"CUBLAS_EMULATE_DOUBLE_PRECISION", "1"},
                                           {"CUBLAS_EMULATION_STRATEGY", "eager"},
                                           {"CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT", "8"},
                                           {"NVIDIA_TF32_OVERRIDE", "1"},
                                           {"CUBLAS_EMULATE_SINGLE_PRECISION", "0"},
                                           {"CUBLAS_EMULATE_DOUBLE_PRECISION", "0"},
                                           {"NVIDIA_TF32_OVERRIDE", "0"}};

/* A join with the tuning must be refused, with the name in the message, or give the rows of the CPU. */
static void check_variable(adj_ctx *ctx, adj_type type, const char *tuning, const char *refused) {
  const problem p = {"a variable", 300, 3000, 40, 16, ADJ_L2, 0, 0, 0};
  point_set left = make_points(type, p.left, p.dim, 0, 1), right = make_points(type, p.right, p.dim, 0, 2);
  void *memory[2] = {NULL, NULL};
  adj_cuda_points queries = to_device(&left, PACKED, &memory[0]), others = to_device(&right, PACKED, &memory[1]);
  adj_join_spec spec = spec_of(&p);
  spec.algorithm = "brute";
  spec.tuning = tuning;
  adj_cuda_result *gpu = NULL;
  adj_status status = adj_cuda_knn_join(ctx, &spec, &queries, &others, NULL, &gpu);
  if (refused) {
    need(status == ADJ_E_UNSUPPORTED && strstr(adj_last_error(), refused), refused);
  } else if (!is_missing(status)) {
    need(!status, p.name);
    adj_result *cpu = find_on_cpu(ctx, &p, &left, &right);
    need(same(gpu, cpu, type), "other rows than the CPU's");
    adj_result_destroy(cpu);
    adj_cuda_result_destroy(gpu, NULL);
  }
  need_cuda(cudaFree(memory[0]));
  need_cuda(cudaFree(memory[1]));
  free(left.data);
  free(right.data);
}

static int check_environment(const char *name) {
  const char *value = getenv(name);
  need(value, "a variable that is set");
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  for (int type = ADJ_F32; type <= ADJ_F64; type++) {
    check_variable(ctx, (adj_type)type, NULL, NULL);
    check_variable(ctx, (adj_type)type, "prefilter=gemm", strcmp(value, "0") ? name : NULL);
  }
  adj_ctx_destroy(ctx);
  printf("%s=%s: as it should be\n", name, value);
  return 0;
}

static void check_environments(char *program) {
  for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
    char with[] = "--with", name[64];
    snprintf(name, sizeof name, "%s", VARIABLES[i][0]);
    char *const arguments[] = {program, with, name, NULL};
    pid_t child;
    int outcome = 1;
    need(!setenv(name, VARIABLES[i][1], 1), "a variable");
    need(!posix_spawn(&child, program, NULL, NULL, arguments, environ), "a process");
    need(waitpid(child, &outcome, 0) == child && !outcome, name);
    unsetenv(name);
  }
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "--with")) return check_environment(argv[2]);
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  for (size_t i = 0; i < sizeof PROBLEMS / sizeof *PROBLEMS; i++) {
    if (argc > 1 && !strstr(PROBLEMS[i].name, argv[1])) continue;
    for (layout how = PACKED; how < LAYOUTS; how++) {
      check_layout(&PROBLEMS[i], ADJ_F32, how);
      check_layout(&PROBLEMS[i], ADJ_F64, how);
    }
    printf("%s: the CPU's rows\n", PROBLEMS[i].name);
    fflush(stdout);
  }
  check_all_ordered(argc > 1 ? argv[1] : NULL);
  check_ranges(argc > 1 ? argv[1] : NULL);
  if (argc == 1) check_environments(argv[0]);
  return 0;
}
