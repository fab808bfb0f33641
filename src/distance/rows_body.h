/* SPDX-License-Identifier: MIT
 *
 * Sums of listed rows for one instruction set and type. Before including this, define:
 *
 *   T, FN(name)           the type, and the name of a function of this instance
 *   VEC, LANES            a vector of T and its number of lanes
 *   V_ZERO() V_SUB(a, b) V_SET1(x) V_FMA(a, b, c) V_LOAD(p) V_STORE(p, v)
 *   V_ANY_LE(a, b)        whether a[i] <= b[i] in any lane
 *   LOAD_FOUR(row, j, c)  coordinates j .. j + 3 of LANES rows: c[i] holds coordinate j + i of each
 *
 * This file undefines all of them at the end.
 */

/* The sums of LANES rows. Every 16 dimensions it checks whether any row can still belong; a sum never decreases
 * (docs/exactness.md). */
static inline VEC FN(sums_of)(const T *const *row, const T *query, uint32_t dim, VEC limit) {
  VEC s = V_ZERO();
  uint32_t j = 0;
  for (; j + 4 <= dim; j += 4) {
    VEC c[4];
    LOAD_FOUR(row, j, c);
    for (uint32_t i = 0; i < 4; i++) {
      VEC t = V_SUB(V_SET1(query[j + i]), c[i]);
      s = V_FMA(t, t, s);
    }
    if (j % 16 == 12 && !V_ANY_LE(s, limit)) return s;
  }
  for (; j < dim; j++) {
    T lane[LANES];
    for (uint32_t i = 0; i < LANES; i++)
      lane[i] = row[i][j];
    VEC t = V_SUB(V_SET1(query[j]), V_LOAD(lane));
    s = V_FMA(t, t, s);
  }
  return s;
}

/* Prefetches the beginning of a row. Listed rows are scattered, so the hardware cannot predict them; the rest of a
 * long row follows in order, and it can. */
static inline void FN(fetch)(const T *row, uint32_t dim) {
  for (uint32_t j = 0; j < dim && j < 512 / sizeof(T); j += 64 / sizeof(T))
    __builtin_prefetch(row + j);
}

static void FN(sums)(const adji_rows_task *task, void *sums) {
  const T *rows = task->rows, *query = task->query;
  VEC limit = V_SET1((T)task->limit);
  for (uint32_t first = 0; first < task->count; first += LANES) {
    uint32_t many = task->count - first < LANES ? task->count - first : LANES;
    const T *row[LANES];
    T lane[LANES];
    for (uint32_t i = 0; i < LANES; i++) /* a shorter group repeats its last row */
      row[i] = rows + task->list[first + (i < many ? i : many - 1)] * task->stride;
    for (uint32_t i = 0; i < LANES && first + LANES + i < task->count; i++)
      FN(fetch)(rows + task->list[first + LANES + i] * task->stride, task->dim);
    V_STORE(lane, FN(sums_of)(row, query, task->dim, limit));
    memcpy((T *)sums + first, lane, many * sizeof(T));
  }
}

#undef T
#undef FN
#undef VEC
#undef LANES
#undef V_ZERO
#undef V_SUB
#undef V_SET1
#undef V_FMA
#undef V_LOAD
#undef V_STORE
#undef V_ANY_LE
#undef LOAD_FOUR
