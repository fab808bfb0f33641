/* SPDX-License-Identifier: MIT
 *
 * Splitting points along a dimension: the plain loops, and the search for the value to split at.
 */
#include "index/tree_split.h"

#include <math.h>
#include <string.h>

/* ---- Plain loops ----------------------------------------------------------------------------- */

#define SPLIT(T)                                                                                                  \
  static void range_##T(const void *values, uint64_t count, double *low, double *high) {                          \
    const T *x = values;                                                                                          \
    T least = x[0], most = x[0];                                                                                  \
    for (uint64_t i = 1; i < count; i++) {                                                                        \
      least = x[i] < least ? x[i] : least;                                                                        \
      most = x[i] > most ? x[i] : most;                                                                           \
    }                                                                                                             \
    *low = (double)least;                                                                                         \
    *high = (double)most;                                                                                         \
  }                                                                                                               \
                                                                                                                  \
  static uint32_t widest_##T(const adji_columns *from, uint32_t dim, uint64_t count, double *low, double *high) { \
    uint64_t step = adji_stretch_step(count);                                                                     \
    uint32_t best = 0;                                                                                            \
    T most = -1;                                                                                                  \
    for (uint32_t j = 0; j < dim; j++) {                                                                          \
      const T *x = (const T *)from->coords + j * from->stride;                                                    \
      T least = x[0], largest = x[0];                                                                             \
      for (uint64_t i = 0; i + ADJI_STRETCH <= count; i += step) {                                                \
        for (uint32_t lane = 0; lane < ADJI_STRETCH; lane++) {                                                    \
          least = x[i + lane] < least ? x[i + lane] : least;                                                      \
          largest = x[i + lane] > largest ? x[i + lane] : largest;                                                \
        }                                                                                                         \
      }                                                                                                           \
      if (!(largest - least > most)) continue;                                                                    \
      most = largest - least;                                                                                     \
      best = j;                                                                                                   \
      *low = (double)least;                                                                                       \
      *high = (double)largest;                                                                                    \
    }                                                                                                             \
    return best;                                                                                                  \
  }                                                                                                               \
                                                                                                                  \
  static void count_##T(const void *values, uint64_t count, double value, uint64_t *below, uint64_t *not_above) { \
    const T *x = values, v = (T)value;                                                                            \
    uint64_t less = 0, same = 0;                                                                                  \
    for (uint64_t i = 0; i < count; i++) {                                                                        \
      less += x[i] < v;                                                                                           \
      same += x[i] == v;                                                                                          \
    }                                                                                                             \
    *below = less;                                                                                                \
    *not_above = less + same;                                                                                     \
  }                                                                                                               \
                                                                                                                  \
  static uint64_t collect_##T(const void *values, uint64_t count, double low, double high, void *to,              \
                              uint64_t *below) {                                                                  \
    const T *x = values, a = (T)low, b = (T)high;                                                                 \
    T *out = to;                                                                                                  \
    uint64_t taken = 0, less = 0;                                                                                 \
    for (uint64_t i = 0; i < count; i++) {                                                                        \
      out[taken] = x[i];                                                                                          \
      less += x[i] < a;                                                                                           \
      taken += x[i] >= a && x[i] <= b;                                                                            \
    }                                                                                                             \
    *below += less;                                                                                               \
    return taken;                                                                                                 \
  }                                                                                                               \
                                                                                                                  \
  static void split_##T(const adji_split_job *job) {                                                              \
    const T *from = job->from.coords, *x = from + job->axis * job->from.stride, v = (T)job->value;                \
    uint64_t at[2] = {job->left_at, job->right_at}, equal = job->equal;                                           \
    for (uint64_t i = job->begin; i < job->end; i++) {                                                            \
      bool same = x[i] == v && equal, goes_right = !(x[i] < v || same);                                           \
      const adji_columns *to = goes_right ? &job->right : &job->left;                                             \
      uint64_t place = at[goes_right]++;                                                                          \
      equal -= same;                                                                                              \
      to->ids[place] = job->from.ids[i];                                                                          \
      for (uint32_t j = 0; j < job->dim; j++)                                                                     \
        ((T *)to->coords)[j * to->stride + place] = from[j * job->from.stride + i];                               \
    }                                                                                                             \
  }                                                                                                               \
                                                                                                                  \
  static const adji_split_kernels plain_##T = {range_##T, count_##T, collect_##T, split_##T, widest_##T, NULL};
SPLIT(float)
SPLIT(double)

const adji_split_kernels *adji_split_kernels_for(const char *isa, adj_type type) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return type == ADJ_F64 ? &adji_split_avx512_f64 : &adji_split_avx512_f32;
  if (!strcmp(isa, "avx2")) return type == ADJ_F64 ? &adji_split_avx2_f64 : &adji_split_avx2_f32;
#else
  (void)isa;
#endif
  return type == ADJ_F64 ? &plain_double : &plain_float;
}

/* ---- The value to split at ------------------------------------------------------------------- */

enum { GUESSES = 10, MEANS = 30 };

/* The bits of a float as an integer that orders as the floats do: the bits of negative floats are inverted. between()
 * takes the middle of a < b by this number. */
static uint64_t ordinal(adj_type type, double x) {
  if (type == ADJ_F64) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
  }
  float value = (float)x;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
}

static double from_ordinal(adj_type type, uint64_t number) {
  if (type == ADJ_F64) {
    uint64_t bits = number >> 63 ? number & ~(UINT64_C(1) << 63) : ~number;
    double x;
    memcpy(&x, &bits, 8);
    return x;
  }
  uint32_t low = (uint32_t)number, bits = low >> 31 ? low & ~(UINT32_C(1) << 31) : ~low;
  float x;
  memcpy(&x, &bits, 4);
  return (double)x;
}

static double between(adj_type type, double a, double b) {
  uint64_t from = ordinal(type, a), to = ordinal(type, b);
  return from_ordinal(type, from + (to - from) / 2);
}

/* The next value to try: the place of the rank if the values were spread evenly. If that does not converge, the mean;
 * after that, the middle of the representable values. Strictly between low and high, or equal to low. */
static double guess(adj_type type, int round, double low, double high, double share) {
  double x = round < GUESSES ? low + (high - low) * fmin(fmax(share, 0.02), 0.98) : low / 2 + high / 2;
  if (type == ADJ_F32) x = (double)(float)x;
  return round < MEANS && x > low && x < high ? x : between(type, low, high);
}

/* Finds the value by counting repeatedly. Invariant: the answer is in (low, high), since too few values are at most
 * low, and too many are below high. */
static adji_split_point split_by_counting(const adji_split_values *v, uint64_t rank) {
  const adji_split_kernels *kernels = v->kernels;
  const void *x = v->x;
  uint64_t count = v->count;
  double low, high;
  kernels->range(x, count, &low, &high);
  uint64_t below, not_above, up_to_low, below_high;
  kernels->count(x, count, low, &below, &up_to_low);
  if (up_to_low >= rank) return (adji_split_point){low, 0};
  kernels->count(x, count, high, &below_high, &not_above);
  if (below_high <= rank) return (adji_split_point){high, below_high};
  for (int round = 0;; round++) {
    double share = ((double)rank - (double)up_to_low) / ((double)below_high - (double)up_to_low);
    double middle = guess(v->type, round, low, high, share);
    kernels->count(x, count, middle, &below, &not_above);
    if (below <= rank && rank <= not_above) return (adji_split_point){middle, below};
    if (below > rank) {
      high = middle;
      below_high = below;
    } else {
      low = middle;
      up_to_low = not_above;
    }
  }
}

/* For few values. The count compares values, so -0 counts as 0. */
static adji_split_point split_few(const adji_split_values *v, uint64_t rank) {
  uint64_t below, not_above;
  double value = v->kernels->pick(v->x, (uint32_t)v->count, (uint32_t)(rank ? rank - 1 : 0));
  v->kernels->count(v->x, v->count, value, &below, &not_above);
  return (adji_split_point){value, below};
}

/* A bracket without a sample: an interval around the place of the rank if the values were spread evenly. Often it holds
 * the wanted value. */
static bool guess_bracket(const adji_split_values *v, uint64_t rank, double *low, double *high) {
  if (!v->kernels->pick) return false;
  double least = v->low, most = v->high, share = (double)rank / (double)v->count, slack = 0.8 / sqrt((double)v->count);
  if (least > most) v->kernels->range(v->x, v->count, &least, &most);
  *low = least + (most - least) * fmax(share - slack, 0);
  *high = least + (most - least) * fmin(share + slack, 1);
  if (v->type == ADJ_F32) {
    *low = (double)(float)*low;
    *high = (double)(float)*high;
  }
  return *low <= *high; /* false if the range overflows */
}

bool adji_bracket(const adji_split_values *v, uint64_t rank, void *scratch, double *low, double *high) {
  if (v->count <= (uint64_t)4 * ADJI_BRACKET) return false;
  uint64_t each = v->count / ADJI_BRACKET; /* one value from each stretch of this length, at a hashed place */
  for (uint64_t i = 0; i < ADJI_BRACKET; i++) {
    uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15), at = i * each + ((hash >> 32) * each >> 32);
    adji_copy_value(scratch, i, v->x, at, adji_type_size(v->type));
  }
  double at = (double)rank / (double)v->count * ADJI_BRACKET;
  double slack = 1.6 * sqrt(ADJI_BRACKET); /* more than three standard errors */
  uint64_t under = (uint64_t)fmax(at - slack, 0), over = (uint64_t)fmin(at + slack, ADJI_BRACKET);
  const adji_split_values sample = {v->kernels, v->type, scratch, ADJI_BRACKET, 1, 0};
  *low = split_by_counting(&sample, under).value;
  *high = split_by_counting(&sample, over).value;
  return true;
}

adji_split_point adji_find_split_between(const adji_split_values *v, uint64_t rank, adji_bracketed in, void *scratch) {
  if (rank < in.below || rank > in.below + in.taken || !in.taken || in.taken > v->count / 2)
    return split_by_counting(v, rank); /* the sample misled, or there are many equal values */
  const adji_split_values between = {v->kernels, v->type, scratch, in.taken, 1, 0};
  char *rest = (char *)scratch + (in.taken + 16) * adji_type_size(v->type);
  adji_split_point found = adji_find_split(&between, rank - in.below, rest);
  found.below += in.below;
  return found;
}

adji_split_point adji_find_split(const adji_split_values *v, uint64_t rank, void *scratch) {
  double low, high;
  if (v->kernels->pick && v->count <= ADJI_FEW) return split_few(v, rank);
  if (!adji_bracket(v, rank, scratch, &low, &high) && !guess_bracket(v, rank, &low, &high))
    return split_by_counting(v, rank);
  adji_bracketed in = {0};
  in.taken = v->kernels->collect(v->x, v->count, low, high, scratch, &in.below);
  return adji_find_split_between(v, rank, in, scratch);
}
