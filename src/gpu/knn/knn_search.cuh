/* SPDX-License-Identifier: MIT
 *
 * What the kNN kernels share: their job, loads of points and boxes, and the bounds of boxes.
 *
 * A box is skipped only if its sum is larger than a bound. For x in the box the canonical difference to a query is at
 * least the difference to the nearest face, since rounding is monotone, and so is every step of the sum. Equal sums are
 * ordered by id: a box at exactly the bound is visited only if it has a smaller id than the last entry of the list.
 * Without that, each of many equal points would be compared with all of them, and a query so far away that all its
 * distances round to the same value would be compared with all points.
 */
#ifndef ADJI_GPU_KNN_KNN_SEARCH_CUH
#define ADJI_GPU_KNN_KNN_SEARCH_CUH

#include "gpu/knn/knn_job.cuh"
#include "gpu/shared/steps.cuh"

namespace {

constexpr uint32_t KNN_LANES = 0xffffffffu;

/* adji_knn_job with types. */
template <class T>
struct knn_job : adji_gpu_knn_task {
  const T *left_coords, *right_coords; /* in tree order, points packed */
  const uint32_t *left_ids, *right_ids;
  uint64_t right_count;
  adji_gpu_level levels[ADJI_GPU_LEVELS]; /* of the right tree */
  uint32_t level_count;
  bool same_sets; /* a query is in the leaf of its own position */
  uint64_t first_query;
  T limit;
  const T *bounds;
  adji_gpu_measure<T> measure;
  T *sums;
};

/* The largest sum that a row's neighbours may have. */
template <class T>
__device__ __forceinline__ T bound_of(const knn_job<T> &job, uint32_t row) {
  return job.bounds ? __ldg(job.bounds + row) : job.limit;
}

/* The parameters of an instance. DIM 0: a run-time dimension of at most six. */
template <class TYPE, int STEP_, int DIM_>
struct knn_instance {
  typedef TYPE T;
  static constexpr int STEP = STEP_, DIM = DIM_, ROOM = DIM_ ? DIM_ : ADJI_TREE_DIMS;
};

/* ---- Points ---------------------------------------------------------------------------------- */

/* Loads a point and its id, in as few loads as possible. */
template <class W, class T>
__device__ __forceinline__ uint32_t load_record(const knn_job<T> &job, const T *coords, const uint32_t *ids,
                                                uint64_t position, T (&x)[W::ROOM]) {
  if constexpr (W::DIM == 0) {
    uint32_t width = adji_gpu_width(job.dim);
#pragma unroll
    for (uint32_t j = 0; j < W::ROOM; j++)
      x[j] = j < job.dim ? __ldg(coords + position * width + j) : T(0);
    return __ldg(ids + position);
  } else {
    constexpr uint32_t WIDTH = adji_gpu_width(W::DIM);
    T record[WIDTH];
    adji_gpu_load<WIDTH>(coords + position * WIDTH, record);
#pragma unroll
    for (int j = 0; j < W::DIM; j++)
      x[j] = record[j];
    return adji_gpu_width_has_id(W::DIM) ? adji_gpu_id(record[WIDTH - 1]) : __ldg(ids + position);
  }
}

template <class W, class T>
__device__ __forceinline__ T sum_of(const knn_job<T> &job, const T (&x)[W::ROOM], const T (&c)[W::ROOM]) {
  T s = 0;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) /* after the last dimension both are 0 and add nothing */
    s = adji_gpu_step<W::STEP>(s, x[j], c[j], job.measure, j);
  return s;
}

/* A point and its id in shared memory, laid out for one wide load or a few. */
template <class T, int DIM>
struct alignas(16) pooled_point {
  static constexpr int ID = DIM < 4 ? 3 : 7; /* index of the id */
  T x[ID + 1];
};

/* ---- Boxes ----------------------------------------------------------------------------------- */

template <class W>
struct box {
  typename W::T low[W::ROOM], high[W::ROOM];
};

template <class W, class T>
__device__ __forceinline__ box<W> load_box(const knn_job<T> &job, const adji_gpu_level &level, uint32_t i) {
  box<W> b;
  const T *from = static_cast<const T *>(level.bounds);
  if constexpr (W::DIM == 0) {
    from += static_cast<uint64_t>(i) * adji_box_width<T>(job.dim);
#pragma unroll
    for (uint32_t j = 0; j < W::ROOM; j++) {
      b.low[j] = j < job.dim ? __ldg(from + j) : T(0);
      b.high[j] = j < job.dim ? __ldg(from + job.dim + j) : T(0);
    }
  } else {
    constexpr uint32_t WIDTH = adji_box_width<T>(W::DIM);
    T values[WIDTH];
    adji_gpu_load<WIDTH>(from + static_cast<uint64_t>(i) * WIDTH, values);
#pragma unroll
    for (int j = 0; j < W::DIM; j++) {
      b.low[j] = values[j];
      b.high[j] = values[W::DIM + j];
    }
  }
  return b;
}

__device__ __forceinline__ float larger(float a, float b) { /* of a number and a NaN, the number */
  return fmaxf(a, b);
}
__device__ __forceinline__ double larger(double a, double b) {
  return fmax(a, b);
}

/* The sum s plus the term of a non-negative difference. */
template <class W, class T>
__device__ __forceinline__ T add_gap(const knn_job<T> &job, T s, T gap, uint32_t j) {
  return W::STEP == ADJI_STEP_L2 ? adji_gpu_add_square(s, gap) : adji_gpu_step<W::STEP>(s, gap, T(0), job.measure, j);
}

/* A lower bound of the canonical sum between points of [low, high] and points of the box. */
template <class W, class T>
__device__ __forceinline__ T near_sum(const knn_job<T> &job, const box<W> &b, const T (&low)[W::ROOM],
                                      const T (&high)[W::ROOM]) {
  T s = 0;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) {
    T gap = larger(larger(adji_minus(b.low[j], high[j]), adji_minus(low[j], b.high[j])), T(0));
    s = add_gap<W>(job, s, gap, j);
  }
  return s;
}

/* An upper bound of the canonical sum between x and points of the box. */
template <class W, class T>
__device__ __forceinline__ T far_sum(const knn_job<T> &job, const box<W> &b, const T (&x)[W::ROOM]) {
  T s = 0;
#pragma unroll
  for (int j = 0; j < W::ROOM; j++) {
    T gap = larger(adji_minus(x[j], b.low[j]), adji_minus(b.high[j], x[j]));
    s = add_gap<W>(job, s, gap, j);
  }
  return s;
}

/* The lanes with the smallest sum among those whose bit is set in mask. Sums are not negative. */
__device__ __forceinline__ uint32_t lanes_of_least(uint32_t mask, float s, uint32_t lane) {
  uint32_t own_bits = mask >> lane & 1 ? __float_as_uint(s) : UINT32_MAX;
  uint32_t least = __reduce_min_sync(KNN_LANES, own_bits);
  return __ballot_sync(KNN_LANES, (mask >> lane & 1) && own_bits == least);
}
__device__ __forceinline__ uint32_t lanes_of_least(uint32_t mask, double s, uint32_t lane) {
  return lanes_of_least(mask, __double2float_rd(s), lane); /* rounded, which only affects the order of visits */
}

__device__ __forceinline__ float warp_max(float x) { /* for values that are not negative, or -1 */
  return __int_as_float(__reduce_max_sync(KNN_LANES, __float_as_int(x)));
}
__device__ __forceinline__ double warp_max(double x) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    x = larger(x, __shfl_xor_sync(KNN_LANES, x, step));
  return x;
}

/* The largest value of all lanes, for any numbers. */
template <class T>
__device__ __forceinline__ T warp_largest(T x) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    x = larger(x, __shfl_xor_sync(KNN_LANES, x, step));
  return x;
}

/* The first leaf of the group nearest to x, level by level. */
template <class W, class T>
__device__ __forceinline__ uint32_t find_group(const knn_job<T> &job, const T (&x)[W::ROOM], uint32_t lane) {
  uint32_t base = 0;
  for (uint32_t level = job.level_count; level > 1;) {
    level--;
    uint32_t i = base + lane;
    bool there = i < job.levels[level].count;
    T s = there ? near_sum<W>(job, load_box<W>(job, job.levels[level], i), x, x) : T(0);
    base = (base + __ffs(lanes_of_least(__ballot_sync(KNN_LANES, there), s, lane)) - 1) * ADJI_GPU_FAN;
  }
  return base;
}

/* The position of a search in the tree: a group of boxes of a level, from base on. Those in mask are still to be
 * visited. */
template <class T>
struct path {
  uint32_t level, base, mask;
  T s; /* lower bound of the sum to box base + lane */
};

/* Whether box i of a level, with s as a lower bound of its sums, may have a point that enters a list. query has the
 * bound of the list, and last_id, up to which ids may enter at exactly that bound. */
template <class T, class Q>
__device__ __forceinline__ bool is_near(const knn_job<T> &job, const Q &query, uint32_t level, uint32_t i, T s) {
  return s < query.bound || (s == query.bound && __ldg(job.levels[level].least + i) < query.last_id);
}

/* Opens a group of boxes. Q: the type of the search, with a bound and a function group_sum(), which is that lower
 * bound. */
template <class T, class Q>
__device__ __forceinline__ path<T> open_path(const knn_job<T> &job, const Q &query, uint32_t level, uint32_t base,
                                             uint32_t lane) {
  path<T> p = {level, base, 0, group_sum(job, query, level, base, lane)};
  p.mask = __ballot_sync(KNN_LANES, is_near(job, query, level, base + lane, p.s));
  return p;
}

/* Drops boxes of a path that a better bound excludes. */
template <class T, class Q>
__device__ __forceinline__ void narrow_path(const knn_job<T> &job, const Q &query, path<T> *p, uint32_t lane) {
  bool near = p->mask >> lane & 1 && is_near(job, query, p->level, p->base + lane, p->s);
  p->mask = __ballot_sync(KNN_LANES, near);
}

/* Takes the nearest box of a path. If Q has ORDERS_TIES, of boxes at the same sum the one with the least id: for a
 * query whose sums to all points are equal, such as one so far away that they overflow, the first boxes then have its
 * whole row. */
template <class T, class Q>
__device__ __forceinline__ uint32_t take_next(const knn_job<T> &job, const Q &, path<T> *p, uint32_t lane) {
  uint32_t nearest = lanes_of_least(p->mask, p->s, lane);
  if (Q::ORDERS_TIES && nearest & (nearest - 1)) {
    bool mine = nearest >> lane & 1;
    uint32_t id = mine ? __ldg(job.levels[p->level].least + p->base + lane) : UINT32_MAX;
    uint32_t least = __reduce_min_sync(KNN_LANES, id);
    nearest = __ballot_sync(KNN_LANES, mine && id == least);
  }
  uint32_t next = __ffs(nearest) - 1;
  p->mask &= ~(1u << next);
  return next;
}

/* Goes up to the next level where boxes remain, and takes the nearest of these; UINT32_MAX: none remains. at: the
 * warp's shared memory, where go_down() stores the remaining boxes of each level. */
template <class T, class S, class Q>
__device__ __forceinline__ uint32_t next_of_path(const knn_job<T> &job, const S *at, const Q &query, path<T> *p,
                                                 uint32_t lane) {
  while (!p->mask) {
    uint32_t level = p->level + 1;
    if (level >= job.level_count) return UINT32_MAX;
    uint32_t remaining = at->masks[level];
    *p = open_path(job, query, level, at->bases[level], lane);
    p->mask &= remaining;
    __syncwarp();
  }
  return p->base + take_next(job, query, p, lane);
}

/* Goes down to the boxes inside box `box`. */
template <class T, class S, class Q>
__device__ __forceinline__ void go_down(const knn_job<T> &job, S *at, const Q &query, path<T> *p, uint32_t box,
                                        uint32_t lane) {
  if (lane == 0) {
    at->masks[p->level] = p->mask;
    at->bases[p->level] = p->base;
  }
  __syncwarp();
  *p = open_path(job, query, p->level - 1, box * ADJI_GPU_FAN, lane);
}

template <class T>
__device__ __forceinline__ bool comes_before(T s, uint32_t id, T other, uint32_t other_id) {
  return s < other || (s == other && id < other_id);
}

/* Where the entries of a row begin. */
template <class T>
__device__ __forceinline__ uint64_t entries_of(const knn_job<T> &job, uint32_t row) {
  return ((job.places ? job.places[row] : row) - job.first_row) * job.row_length;
}

template <class T>
knn_job<T> with_types(const adji_knn_job *job) {
  knn_job<T> typed = {*job};
  typed.left_coords = static_cast<const T *>(job->left->points.coords);
  typed.right_coords = static_cast<const T *>(job->right->points.coords);
  typed.left_ids = job->left->points.ids;
  typed.right_ids = job->right->points.ids;
  typed.right_count = job->right->points.count;
  for (uint32_t l = 0; l < job->right->level_count; l++)
    typed.levels[l] = job->right->levels[l];
  typed.level_count = job->right->level_count;
  typed.same_sets = job->left == job->right;
  typed.limit = static_cast<T>(job->limit);
  typed.bounds = static_cast<const T *>(job->bounds);
  typed.measure.power = job->measure->power;
  typed.sums = static_cast<T *>(job->sums);
  return typed;
}

}  // namespace

#endif
