/* SPDX-License-Identifier: MIT
 *
 * Bounding boxes of blocks: pairs that are dropped cannot belong, and pairs that are accepted must belong. Every block
 * has copies of one point, so bounds are the sums themselves. Limits are the sum of a pair, and the number before it.
 */
#include <math.h>

#include "check.h"
#include "data/dataset.h"
#include "index/boxes.h"
#include "index/build.h"

enum { BLOCKS = 16, POINTS = BLOCKS * ADJI_BLOCK, MOST_DIM = 70 };

static const uint32_t DIMS[] = {1, 2, 6, 7, 8, 9, 16, 17, 33, 70};

static uint64_t state = 1;

static double next(void) {
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (double)(state >> 11) * 0x1p-53;
}

/* The definition, in plain C. */
static double canonical(const adj_dataset *set, uint64_t a, uint64_t b) {
  double wide = 0;
  float sum = 0;
  for (uint32_t j = 0; j < set->dim; j++) {
    double x = adji_dataset_at(set, a, j), y = adji_dataset_at(set, b, j);
    wide = fma(x - y, x - y, wide);
    sum = fmaf((float)x - (float)y, (float)x - (float)y, sum);
  }
  return set->type == ADJ_F64 ? wide : (double)sum;
}

/* Checks each block as queries with each block as candidates. */
static void check_split(const adji_boxes *boxes, const adji_index *index, double limit) {
  adji_range near[2 * BLOCKS + 4], inside[2 * BLOCKS + 4];
  double box[2 * MOST_DIM];
  for (uint32_t q = 0; q < POINTS; q += ADJI_BLOCK) {
    uint8_t seen[POINTS] = {0};
    adji_split split = {.near = near, .inside = inside};
    adji_box_of(&index->view, boxes->type, &q, 1, box);
    adji_boxes_split(boxes, box, (adji_range){0, POINTS}, &split);
    for (uint32_t r = 0; r < split.near_count; r++)
      memset(seen + near[r].begin, 1, near[r].end - near[r].begin);
    for (uint32_t r = 0; r < split.inside_count; r++)
      memset(seen + inside[r].begin, 2, inside[r].end - inside[r].begin);
    for (uint32_t c = 0; c < POINTS; c++) {
      bool belongs = canonical(index->set, index->view.ids[q], index->view.ids[c]) <= limit;
      if (belongs ? !seen[c] : seen[c] == 2) fail_msg("%u dimensions, limit %.17g", index->view.dim, limit);
    }
  }
}

static void run(adj_type type, uint32_t dim, double scale, double offset) {
  static double wide[POINTS * MOST_DIM];
  static float narrow[POINTS * MOST_DIM];
  for (uint64_t i = 0; i < (uint64_t)POINTS * dim; i++) {
    wide[i] = i / dim % ADJI_BLOCK ? wide[i - dim] : offset + scale * next();
    narrow[i] = (float)wide[i];
  }
  adj_ctx *ctx = context_of(1, NULL);
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.dim = dim;
  points.count = POINTS;
  points.data = type == ADJ_F64 ? (const void *)wide : narrow;
  adj_dataset *set;
  must(adj_dataset_create(ctx, &points, &set));
  adji_measure measure = {.step = ADJI_STEP_L2};
  adji_grid none = {0};
  adji_index index;
  must(adji_index_build(ctx, &none, set, &(adji_order_options){.boxes = true}, &index));
  for (uint32_t a = 0; a < 3; a++)
    for (uint32_t b = 4; b < BLOCKS; b += 3) {
      double limit = canonical(set, (uint64_t)a * ADJI_BLOCK, (uint64_t)b * ADJI_BLOCK);
      double less = type == ADJ_F64 ? nextafter(limit, 0) : (double)nextafterf((float)limit, 0);
      adji_boxes boxes;
      must(adji_boxes_build(ctx, &index, &measure, limit, &boxes));
      check_split(&boxes, &index, limit);
      adji_boxes_limit(&boxes, less);
      check_split(&boxes, &index, less);
      adji_boxes_clear(&boxes);
    }
  adji_index_clear(&index);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Coordinates of many sizes: some sums are denormal, some are near the largest number. */
static void test_split(void **unused) {
  (void)unused;
  for (size_t d = 0; d < sizeof DIMS / sizeof *DIMS; d++) {
    run(ADJ_F32, DIMS[d], 1, 0);
    run(ADJ_F32, DIMS[d], 1, 1e4);
    run(ADJ_F32, DIMS[d], 1e-22, 0);
    run(ADJ_F32, DIMS[d], 5e18, 0);
    run(ADJ_F64, DIMS[d], 1, 0);
    run(ADJ_F64, DIMS[d], 1e-161, 0);
    run(ADJ_F64, DIMS[d], 5e153, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_split)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
