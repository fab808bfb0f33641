/* SPDX-License-Identifier: MIT
 *
 * The sums of knn_places.h, for CPUs with and without FMA. Points are computed one after the other: their coordinates
 * are in different leaves, and loading them one by one is no slower than gathering them.
 */
#include <math.h>

#include "distance/knn_places.h"

static inline __attribute__((always_inline)) bool sums_of_dim(const adji_places_task *task, uint32_t *ids, double *sums,
                                                              const uint32_t dim, const uint32_t leaf) {
  uint32_t bits = (uint32_t)__builtin_ctz(leaf);
  double before = -1;
  bool ascend = true;
  for (uint32_t i = 0; i < task->count; i++) {
    uint32_t place = task->places[i];
    const double *at = task->coords + ((uint64_t)(place >> bits) * dim << bits) + (place & (leaf - 1));
    double s = 0;
    for (uint32_t j = 0; j < dim; j++) {
      double t = task->query[(uint64_t)j << bits] - at[(uint64_t)j << bits];
      s = fma(t, t, s);
    }
    ids[i] = task->ids[place];
    sums[i] = s;
    ascend &= s > before;
    before = s;
  }
  return ascend;
}

static bool sums_of_places(const adji_places_task *task, uint32_t *ids, double *sums) {
  if (task->leaf != ADJI_LEAF) return sums_of_dim(task, ids, sums, task->dim, task->leaf);
  switch (task->dim) {
    case 2:
      return sums_of_dim(task, ids, sums, 2, ADJI_LEAF);
    case 3:
      return sums_of_dim(task, ids, sums, 3, ADJI_LEAF);
    case 6:
      return sums_of_dim(task, ids, sums, 6, ADJI_LEAF);
    default:
      return sums_of_dim(task, ids, sums, task->dim, ADJI_LEAF);
  }
}
