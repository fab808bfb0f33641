/* SPDX-License-Identifier: MIT
 *
 * Counts of f64 through sums in f32, for AVX-512: see count_narrow.h. As in kernels_body.h, up to two vectors hold
 * queries in their lanes, and candidates come one after the other.
 */
#if defined(__x86_64__)
#include "distance/count_narrow.h"

#include <immintrin.h>
#include <math.h>

#define ADJI_INLINE static inline __attribute__((always_inline))

/* LEAST: fewer queries than this are faster in f64. Candidates are copied in blocks, and a block is checked again if a
 * pair is unsure. */
enum { LANES = 16, VECTORS = 2, MOST = VECTORS * LANES, LEAST = 9, BLOCK = 32 };

typedef struct group {
  const adji_task *task;
  const uint32_t *positions;
  uint32_t many, wide; /* number of queries, and of their vectors */
  __m512d origin[ADJI_FEW_DIMS];
  __m512 x[VECTORS][ADJI_FEW_DIMS];
  __m512 sure, limit;       /* a pair belongs up to `sure`, and does not belong beyond `limit` */
  __mmask16 lanes[VECTORS]; /* lanes with queries */
  __m512i total[VECTORS];
  uint32_t unsure;      /* number of unsure pairs */
  uint32_t wrong[MOST]; /* per query: candidates that were counted but do not belong */
} group;

/* A block of candidates from `begin` on, as copies in f32. */
typedef struct block {
  _Alignas(64) float copies[ADJI_FEW_DIMS * BLOCK];
  uint64_t begin;
  uint32_t count;
  uint32_t among;    /* number of candidates up to the last query */
  uint8_t *mirrored; /* may be NULL */
} block;

ADJI_INLINE __mmask16 first_lanes(uint32_t many) {
  return many >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << many) - 1);
}

/* Converts eight coordinates, relative to the origin. */
ADJI_INLINE __m256 narrow(const double *x, __m512d origin) {
  return _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(x), origin));
}

ADJI_INLINE __m512 narrow_16(const double *x, __m512d origin) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(narrow(x, origin)), narrow(x + 8, origin), 1);
}

/* Copies the queries, and returns the largest coordinate. Lanes without a query are at the origin. */
ADJI_INLINE float load_queries(group *g, uint32_t many, const uint32_t wide, const uint32_t dim) {
  const adji_view *left = g->task->left;
  bool contiguous = g->positions[many - 1] - g->positions[0] == many - 1;
  __m512 largest = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++) {
    const double *x = (const double *)left->coords + j * left->stride;
    double copies[MOST];
    for (uint32_t k = 0; k < many && !contiguous; k++)
      copies[k] = x[g->positions[k]];
    for (uint32_t k = many; k < MOST && !contiguous; k++)
      copies[k] = 0;
    g->origin[j] = _mm512_set1_pd(x[g->positions[0]]);
    for (uint32_t v = 0; v < VECTORS && v < wide; v++) {
      const double *from = (contiguous ? x + g->positions[0] : copies) + (size_t)v * LANES;
      g->x[v][j] = _mm512_maskz_mov_ps(g->lanes[v], narrow_16(from, g->origin[j]));
      largest = _mm512_max_ps(largest, _mm512_abs_ps(g->x[v][j]));
    }
  }
  return _mm512_reduce_max_ps(largest);
}

/* Sets the limits of the proof. Returns whether its conditions hold and the limits are of use. */
ADJI_INLINE bool set_limits(group *g, float largest, const uint32_t dim) {
  static const double OUT = 1 + 0x1p-22, IN = 1 - 0x1p-22; /* more than a rounding to f32 */
  double limit = g->task->limit, factor = 1 + 0x1p-23 * (dim + 4);
  if (!(limit >= 0x1p-80 && limit <= 0x1p80 && largest <= 0x1p40F)) return false;
  double radius = sqrt(limit), error = 0x1p-23 * (1 + 0x1p-10) * sqrt(dim) * (double)largest;
  double outer = factor * radius + error, inner = radius / factor - error;
  if (inner < radius / 2) return false;
  g->limit = _mm512_set1_ps((float)(factor * outer * outer * OUT));
  g->sure = _mm512_set1_ps((float)(inner * inner / factor * IN));
  return true;
}

ADJI_INLINE void sums_with(const group *g, const float *candidate, const uint32_t wide, const uint32_t dim, __m512 *s) {
  for (uint32_t v = 0; v < VECTORS && v < wide; v++)
    s[v] = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++) {
    __m512 c = _mm512_set1_ps(candidate[(size_t)j * BLOCK]);
    for (uint32_t v = 0; v < VECTORS && v < wide; v++) {
      __m512 t = _mm512_sub_ps(g->x[v][j], c);
      s[v] = _mm512_fmadd_ps(t, t, s[v]);
    }
  }
}

/* The lanes whose query is compared with candidate i: if `forward`, those before it. */
ADJI_INLINE void lanes_for(const group *g, const block *b, uint32_t i, __mmask16 *lanes) {
  uint32_t before = 0;
  lanes[0] = g->lanes[0];
  lanes[1] = g->lanes[1];
  if (i >= b->among) return;
  while (before < g->many && g->positions[before] < b->begin + i)
    before++;
  lanes[0] = first_lanes(before);
  lanes[1] = first_lanes(before > LANES ? before - LANES : 0);
}

/* Subtracts the pairs that were counted and do not belong. */
static __attribute__((noinline)) void subtract_wrong(group *g, const block *b) {
  const adji_task *task = g->task;
  const adji_view *left = task->left, *right = task->right;
  for (uint32_t i = 0; i < b->count; i++) {
    __mmask16 lanes[VECTORS];
    __m512 s[VECTORS];
    lanes_for(g, b, i, lanes);
    sums_with(g, b->copies + i, g->wide, right->dim, s);
    for (uint32_t v = 0; v < VECTORS && v < g->wide; v++) {
      uint32_t unsure = _mm512_mask_cmp_ps_mask(_mm512_mask_cmp_ps_mask(lanes[v], s[v], g->limit, _CMP_LE_OQ), s[v],
                                                g->sure, _CMP_GT_OQ);
      for (; unsure; unsure &= unsure - 1, g->unsure++) {
        uint32_t k = v * LANES + (uint32_t)__builtin_ctz(unsure);
        double sum = adji_sum_f64(task->measure, (const double *)left->coords + g->positions[k], left->stride,
                                  (const double *)right->coords + b->begin + i, right->stride, right->dim);
        if (sum <= task->limit) continue;
        g->wrong[k]++;
        if (b->mirrored) b->mirrored[i]--;
      }
    }
  }
}

ADJI_INLINE void copy_block(const group *g, const uint32_t dim, block *b) {
  const adji_view *right = g->task->right;
  for (uint32_t j = 0; j < dim; j++) {
    const double *x = (const double *)right->coords + j * right->stride + b->begin;
    for (uint32_t i = 0; i < b->count; i += 8)
      _mm256_store_ps(b->copies + (size_t)j * BLOCK + i, narrow(x + i, g->origin[j]));
  }
}

typedef struct counters {
  __m512i total[VECTORS];
  __m512i nearest; /* the smallest difference of a sum to the limit, by their bits */
} counters;

/* Counts the pairs within the limit. Sums are not negative, so they order as their bits do. lanes: queries to count
 * for; NULL: all lanes, and the counts of lanes without a query are not used. */
ADJI_INLINE void count_candidate(const group *g, const float *candidate, const __mmask16 *lanes, const uint32_t wide,
                                 const uint32_t dim, counters *c, uint8_t *mirrored) {
  __m512 s[VECTORS];
  sums_with(g, candidate, wide, dim, s);
  uint32_t belong = 0;
  for (uint32_t v = 0; v < VECTORS && v < wide; v++) {
    __mmask16 within = lanes ? _mm512_mask_cmp_ps_mask(lanes[v], s[v], g->limit, _CMP_LE_OQ)
                             : _mm512_cmp_ps_mask(s[v], g->limit, _CMP_LE_OQ);
    c->total[v] = _mm512_mask_add_epi32(c->total[v], within, c->total[v], _mm512_set1_epi32(1));
    __m512i below = _mm512_sub_epi32(_mm512_castps_si512(g->limit), _mm512_castps_si512(s[v]));
    c->nearest = _mm512_min_epu32(c->nearest, below);
    belong = belong << LANES | within;
  }
  if (mirrored) *mirrored += (uint8_t)__builtin_popcount(belong);
}

/* A sum is unsure if its difference to the limit is less than that of `sure`, both compared as unsigned bits. */
ADJI_INLINE void count_block(group *g, block *b, const uint32_t wide, const uint32_t dim, const bool both) {
  copy_block(g, dim, b);
  counters c = {{g->total[0], g->total[1]}, _mm512_set1_epi32(-1)};
  uint32_t i = 0;
  for (; i < b->among && i < b->count; i++) {
    __mmask16 lanes[VECTORS];
    lanes_for(g, b, i, lanes);
    count_candidate(g, b->copies + i, lanes, wide, dim, &c, both ? b->mirrored + i : NULL);
  }
  for (; i < b->count; i++)
    count_candidate(g, b->copies + i, both ? g->lanes : NULL, wide, dim, &c, both ? b->mirrored + i : NULL);
  g->total[0] = c.total[0];
  g->total[1] = c.total[1];
  __m512i unsure = _mm512_sub_epi32(_mm512_castps_si512(g->limit), _mm512_castps_si512(g->sure));
  if (_mm512_cmplt_epu32_mask(c.nearest, unsure)) subtract_wrong(g, b);
}

/* Counts for `many` queries, in `wide` vectors. Returns the number of unsure pairs, or -1 if the limits are of no
 * use. */
ADJI_INLINE int64_t count_queries(const adji_task *task, uint32_t first, uint32_t many, const uint32_t wide,
                                  const uint32_t dim, uint32_t *counts) {
  group g;
  g.task = task;
  g.positions = task->queries + first;
  g.many = many;
  g.wide = wide;
  g.unsure = 0;
  g.lanes[0] = first_lanes(many);
  g.lanes[1] = first_lanes(many > LANES ? many - LANES : 0);
  if (!set_limits(&g, load_queries(&g, many, wide, dim), dim)) return -1;
  g.total[0] = g.total[1] = _mm512_setzero_si512();
  memset(g.wrong, 0, sizeof g.wrong);
  block b;
  b.mirrored = task->mirrored;
  uint64_t last = g.positions[many - 1];
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t end = task->ranges[r].end;
    for (b.begin = task->ranges[r].begin; b.begin < end; b.begin += BLOCK) {
      b.count = end - b.begin < BLOCK ? (uint32_t)(end - b.begin) : BLOCK;
      b.among = task->forward && b.begin <= last ? (uint32_t)(last + 1 - b.begin) : 0;
      if (task->mirrored)
        count_block(&g, &b, wide, dim, true);
      else
        count_block(&g, &b, wide, dim, false);
      if (b.mirrored) b.mirrored += b.count;
    }
  }
  uint32_t found[MOST];
  memcpy(found, g.total, sizeof found);
  for (uint32_t k = 0; k < many; k++)
    counts[first + k] += found[k] - g.wrong[k];
  return g.unsure;
}

ADJI_INLINE int64_t count_some(const adji_task *task, uint32_t first, uint32_t many, const uint32_t dim,
                               uint32_t *counts) {
  return many > LANES ? count_queries(task, first, many, 2, dim, counts)
                      : count_queries(task, first, many, 1, dim, counts);
}

static int64_t count_by_dim(const adji_task *task, uint32_t first, uint32_t many, uint32_t *counts) {
  switch (task->right->dim) {
    case 3:
      return count_some(task, first, many, 3, counts);
    case 4:
      return count_some(task, first, many, 4, counts);
    case 5:
      return count_some(task, first, many, 5, counts);
    default:
      return count_some(task, first, many, ADJI_FEW_DIMS, counts);
  }
}

uint64_t adji_count_narrow_avx512(const adji_task *task, adji_count_fn wide, uint32_t *counts) {
  uint32_t first = 0;
  uint64_t unsure = 0;
  for (uint32_t many; (many = task->query_count - first) >= LEAST; first += many) {
    if (many > MOST) many = MOST;
    int64_t found = count_by_dim(task, first, many, counts);
    if (found < 0) break;
    unsure += (uint64_t)found;
  }
  if (first == task->query_count) return unsure;
  adji_task rest = *task;
  rest.queries += first;
  rest.query_count -= first;
  wide(&rest, counts + first);
  return unsure;
}
#endif
