/* SPDX-License-Identifier: MIT
 *
 * The sums of listed rows (adji_rows_task) for one instruction set and type; kernels_type.h includes it. Lanes run over
 * the rows, and each lane sums its own dimensions in order, so the bits are those of the other kernels.
 */

/* Coordinate j of LANES rows. */
static inline VEC TYPED(load_one)(const T *const *row, uint32_t j) {
  T lane[LANES];
  for (uint32_t i = 0; i < LANES; i++)
    lane[i] = row[i][j];
  return V_LOAD(lane);
}

#ifndef LOAD_FOUR
#define LOAD_FOUR(row, j, c)          \
  for (uint32_t i_ = 0; i_ < 4; i_++) \
  (c)[i_] = TYPED(load_one)(row, (j) + i_)
#endif

/* The sums of LANES rows. Every 16 dimensions it checks whether any row can still belong; a sum never decreases
 * (docs/exactness.md). */
static inline VEC TYPED(sums_of)(const T *const *row, const T *query, uint32_t dim, VEC limit) {
  VEC s = V_ZERO();
  uint32_t j = 0;
  for (; j + 4 <= dim; j += 4) {
    VEC c[4];
    LOAD_FOUR(row, j, c);
    for (uint32_t i = 0; i < 4; i++) {
      VEC t = V_SUB(V_SET1(query[j + i]), c[i]);
      s = V_FMA(t, t, s);
    }
    if (j % 16 == 12 && !V_LE(s, limit)) return s;
  }
  for (; j < dim; j++) {
    VEC t = V_SUB(V_SET1(query[j]), TYPED(load_one)(row, j));
    s = V_FMA(t, t, s);
  }
  return s;
}

/* Prefetches the beginning of a row. Listed rows are scattered, so the hardware cannot predict them. It can predict the
 * rest of a long row, which follows in order. */
static inline void TYPED(fetch)(const T *row, uint32_t dim) {
  for (uint32_t j = 0; j < dim && j < 512 / sizeof(T); j += 64 / sizeof(T))
    __builtin_prefetch(row + j);
}

static void TYPED(sums_of_list)(const adji_rows_task *task, void *sums) {
  const T *rows = task->rows, *query = task->query;
  VEC limit = V_SET1((T)task->limit);
  for (uint32_t first = 0; first < task->count; first += LANES) {
    uint32_t many = task->count - first < LANES ? task->count - first : LANES;
    const T *row[LANES];
    T lane[LANES];
    for (uint32_t i = 0; i < LANES; i++) /* a shorter group repeats its last row */
      row[i] = rows + task->list[first + (i < many ? i : many - 1)] * task->stride;
    for (uint32_t i = 0; i < LANES && first + LANES + i < task->count; i++)
      TYPED(fetch)(rows + task->list[first + LANES + i] * task->stride, task->dim);
    V_STORE(lane, TYPED(sums_of)(row, query, task->dim, limit));
    memcpy((T *)sums + first, lane, many * sizeof(T));
  }
}
