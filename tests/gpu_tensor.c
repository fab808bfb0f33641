/* SPDX-License-Identifier: MIT
 *
 * The tensor cores of this machine's device. They must pass the check that prefilters need, and must add up bit by bit
 * as the tests' model does with the properties that the check measured. Joins on a device that fails the check must be
 * exact, without prefilters.
 *
 *   gpu_tensor
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <stdbool.h>

#include "gpu/device/device.h"
#include "on_device.h"
#include "tensor_model.h"

enum { CASES = 2000, DIM = 32, POINTS = 20000, NEIGHBOURS = 10 };

/* ---- The model ----------------------------------------------------------------------------------------- */

static uint16_t random_half(int low, int many) {
  double size = (1 + floor(random_unit() * 1024) / 1024) * ldexp(1, low + (int)(random_unit() * many));
  return adji_half_bits(random_unit() < 0.5 ? -size : size);
}

/* Operands whose spread changes from case to case, with zeros between them. */
static void fill(adji_tensor_case *t, int number) {
  int many = 1 + number % 20;
  for (int r = 0; r < ADJI_TENSOR_ROWS_A; r++)
    for (int k = 0; k < ADJI_TENSOR_DEPTH; k++)
      t->a[r][k] = random_unit() < 0.1 ? 0 : random_half(-10, many);
  for (int c = 0; c < ADJI_TENSOR_COLUMNS_B; c++)
    for (int k = 0; k < ADJI_TENSOR_DEPTH; k++)
      t->b[c][k] = random_unit() < 0.1 ? 0 : random_half(-10, many);
  for (int r = 0; r < ADJI_TENSOR_ROWS_A; r++)
    for (int c = 0; c < ADJI_TENSOR_COLUMNS_B; c++)
      t->c[r][c] = number % 3 ? (float)(adji_half_value(random_half(-10, many)) * (1 + random_unit())) : 0;
  t->steps = 1;
}

static uint64_t count_differences(const adji_tensor_case *t, const adji_tensor_answer *answer, tensor_unit unit) {
  uint64_t different = 0;
  for (int r = 0; r < ADJI_TENSOR_ROWS_A; r++)
    for (int c = 0; c < ADJI_TENSOR_COLUMNS_B; c++) {
      double x[ADJI_TENSOR_DEPTH], y[ADJI_TENSOR_DEPTH];
      for (int k = 0; k < ADJI_TENSOR_DEPTH; k++) {
        x[k] = adji_half_value(t->a[r][k]);
        y[k] = adji_half_value(t->b[c][k]);
      }
      different += tensor_product(unit, (double)t->c[r][c], x, y, ADJI_TENSOR_DEPTH) != (double)answer->d[r][c];
    }
  return different;
}

static bool compare_with_model(const adji_tensor_facts *facts) {
  adji_tensor_case *cases = calloc(CASES, sizeof *cases);
  adji_tensor_answer *answers = calloc(CASES, sizeof *answers);
  uint32_t nans[ADJI_COMPUTED_NANS];
  need(cases && answers, "memory");
  for (int i = 0; i < CASES; i++)
    fill(&cases[i], i);
  need(!adji_tensor_run(cases, CASES, answers, nans), "adji_tensor_run");
  uint64_t all = (uint64_t)CASES * ADJI_TENSOR_ROWS_A * ADJI_TENSOR_COLUMNS_B, measured = 0;
  for (int bits = (int)facts->bits - 1; bits <= (int)facts->bits + 1; bits++)
    for (int by_factors = 0; by_factors < 2; by_factors++) {
      uint64_t different = 0;
      for (int i = 0; i < CASES; i++)
        different += count_differences(&cases[i], &answers[i], (tensor_unit){facts->together, bits, by_factors});
      printf("model: %u at a time, 2^-%d, by %s: %llu of %llu sums differ\n", facts->together, bits,
             by_factors ? "factors" : "products", (unsigned long long)different, (unsigned long long)all);
      if (bits == (int)facts->bits && by_factors) measured = different;
    }
  free(cases);
  free(answers);
  return !measured;
}

/* ---- Joins --------------------------------------------------------------------------------------------- */

static adj_result *join(adj_ctx *ctx, const adj_dataset *set, adj_join_kind kind, const char *tuning,
                        adj_status wanted) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = kind;
  spec.backend = ADJ_BACKEND_GPU;
  spec.tuning = tuning;
  spec.flags |= ADJ_WITH_DISTANCE;
  spec.radius = kind == ADJ_KNN ? INFINITY : 1.45;
  if (kind == ADJ_KNN) {
    spec.k = NEIGHBOURS;
    spec.order = ADJ_ORDER_DISTANCE;
    spec.algorithm = "brute";
  }
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  adj_status status = adj_plan_create(ctx, &spec, set, NULL, &plan);
  if (!status) status = adj_collect(plan, &result, NULL, NULL);
  adj_plan_destroy(plan);
  if (status != wanted) {
    fprintf(stderr, "%s: status %d, %s\n", tuning ? tuning : "default", (int)status, adj_last_error());
    exit(1);
  }
  return result;
}

static bool same(const adj_result *x, const adj_result *y, uint64_t rows) {
  const uint64_t *from = adj_result_offsets(x), *to = adj_result_offsets(y);
  return !memcmp(from, to, (rows + 1) * sizeof *from) &&
         !memcmp(adj_result_ids(x), adj_result_ids(y), from[rows] * sizeof(uint32_t)) &&
         !memcmp(adj_result_distances(x), adj_result_distances(y), from[rows] * sizeof(float));
}

/* The same joins with the prefilter, and on a device that counts as having failed the check. */
static void join_without(adj_ctx *ctx, adji_gpu *gpu) {
  float *points = malloc((size_t)POINTS * DIM * sizeof *points);
  need(points, "memory");
  for (size_t i = 0; i < (size_t)POINTS * DIM; i++)
    points[i] = (float)random_unit();
  adj_dataset *set = NULL;
  adj_points given;
  adj_points_init(&given, sizeof given);
  given.type = ADJ_F32;
  given.dim = DIM;
  given.count = POINTS;
  given.data = points;
  need(!adj_dataset_create(ctx, &given, &set), "points");
  bool *holds = &((adji_gpu_base *)gpu)->tensor.holds;
  for (int kind = 0; kind < 2; kind++) {
    adj_join_kind what = kind ? ADJ_KNN : ADJ_RANGE;
    adj_result *with = join(ctx, set, what, "prefilter=tensor", ADJ_OK);
    *holds = false;
    adj_result *without = join(ctx, set, what, NULL, ADJ_OK);
    join(ctx, set, what, "prefilter=tensor", ADJ_E_UNSUPPORTED);
    *holds = true;
    need(same(with, without, POINTS), "the same result");
    printf("%s: %llu pairs, the same without the prefilter\n", kind ? "kNN" : "range",
           (unsigned long long)adj_result_pairs(with));
    adj_result_destroy(with);
    adj_result_destroy(without);
  }
  adj_dataset_destroy(set);
  free(points);
}

int main(void) {
  adj_ctx *ctx = NULL;
  adji_gpu *gpu = NULL;
  need(!adj_ctx_create(NULL, &ctx), "adj_ctx_create");
  if (adji_gpu_of(ctx, &gpu)) {
    printf("skipped: %s\n", adj_last_error());
    return NO_GPU;
  }
  adji_gpu_lock(gpu);
  const adji_tensor_facts *facts = &((const adji_gpu_base *)gpu)->tensor;
  printf("%u products at a time, cut at 2^-%u, off by up to %.2f of %d\n", facts->together, facts->bits, facts->worst,
         ADJI_TENSOR_ERROR);
  need(facts->holds, "the check");
  bool as_modelled = compare_with_model(facts);
  adji_gpu_unlock(gpu);
  join_without(ctx, gpu);
  adj_ctx_destroy(ctx);
  return as_modelled ? 0 : 1;
}
