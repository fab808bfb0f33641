/* SPDX-License-Identifier: MIT
 *
 * Splitting points along a dimension: the inner loops of building a tree (tree.c), one table per instruction set.
 */
#ifndef ADJI_TREE_SPLIT_H
#define ADJI_TREE_SPLIT_H

#include "data/dataset.h"

/* Points by dimension: coordinate j of point i is entry j * stride + i. */
typedef struct adji_columns {
  void *coords;
  uint64_t stride;
  uint32_t *ids;
} adji_columns;

/* Sets entry i of `to` to entry `at` of `from`, both of a type of this size. */
static inline void adji_copy_value(void *to, uint64_t i, const void *from, uint64_t at, size_t size) {
  if (size == 8)
    ((double *)to)[i] = ((const double *)from)[at];
  else
    ((float *)to)[i] = ((const float *)from)[at];
}

/* Moves the points [begin, end). Points whose coordinate along the axis is smaller than value go to the left columns,
 * from position left_at on, and so do the first `equal` points whose coordinate equals it. The others go to the right
 * columns, from right_at on. Both keep their order. */
typedef struct adji_split_job {
  adji_columns from, left, right;
  uint32_t dim, axis;
  uint64_t begin, end, left_at, right_at;
  double value;
  uint64_t equal;
} adji_split_job;

/* Values are passed as double, which holds those of both types. */
typedef struct adji_split_kernels {
  void (*range)(const void *x, uint64_t count, double *low, double *high); /* count >= 1 */
  /* Counts the values below `value`, and those not above it. */
  void (*count)(const void *x, uint64_t count, double value, uint64_t *below, uint64_t *not_above);
  /* Copies the values within [low, high] to `to`, which has room for 16 more entries than all values, and adds the
   * number of values below low to *below. Returns the number of values copied. */
  uint64_t (*collect)(const void *x, uint64_t count, double low, double high, void *to, uint64_t *below);
  void (*split)(const adji_split_job *job);
  /* The dimension with the widest spread, and its range, both in a sample of the points. */
  uint32_t (*widest)(const adji_columns *from, uint32_t dim, uint64_t count, double *low, double *high);
  /* Selects the value of rank `rank`, 0 <= rank < count, among at most ADJI_FEW values. NULL: counting is as fast. */
  double (*pick)(const void *x, uint32_t count, uint32_t rank);
} adji_split_kernels;

enum { ADJI_FEW = 128 };

/* Points in the sample of widest(): all, or 16 stretches of 16, so that few cache lines are read. */
enum { ADJI_STRETCH = 16, ADJI_STRETCHES = 16 };
static inline uint64_t adji_stretch_step(uint64_t count) {
  return count > (uint64_t)ADJI_STRETCH * ADJI_STRETCHES ? count / ADJI_STRETCHES : ADJI_STRETCH;
}

/* The table for a type and an instruction set of adj_isa_name(). */
const adji_split_kernels *adji_split_kernels_for(const char *isa, adj_type type);

#if defined(__x86_64__)
extern const adji_split_kernels adji_split_avx2_f32, adji_split_avx2_f64;
extern const adji_split_kernels adji_split_avx512_f32, adji_split_avx512_f64;
#endif

/* The values along the axis of a split. */
typedef struct adji_split_values {
  const adji_split_kernels *kernels;
  adj_type type;
  const void *x;
  uint64_t count;   /* > 0 */
  double low, high; /* range of a sample; low > high: not known */
} adji_split_values;

/* Finds a value that splits them: at most `rank` values are below it, and at least `rank` are not above it, 0 <= rank
 * <= count. scratch has room for count + 512 values. Expected time: O(count). */
typedef struct adji_split_point {
  double value;
  uint64_t below; /* values below it */
} adji_split_point;

adji_split_point adji_find_split(const adji_split_values *v, uint64_t rank, void *scratch);

/* The two halves of adji_find_split(), for threads that share the work. First: finds two values, from a sample, that
 * almost surely enclose the wanted one. Returns false if a sample is not worth it. scratch has room for ADJI_BRACKET
 * values. */
enum { ADJI_BRACKET = 1024 };
bool adji_bracket(const adji_split_values *v, uint64_t rank, void *scratch, double *low, double *high);

/* Second: finds the value from those within the bracket, which collect() has put into scratch. */
typedef struct adji_bracketed {
  uint64_t below, taken;
} adji_bracketed;
adji_split_point adji_find_split_between(const adji_split_values *v, uint64_t rank, adji_bracketed in, void *scratch);

#endif
