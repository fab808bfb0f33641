/* SPDX-License-Identifier: MIT
 *
 * Splitting points along a dimension: the inner loops of building a tree, per instruction set.
 */
#ifndef ADJI_TREE_SPLIT_H
#define ADJI_TREE_SPLIT_H

#include "core/context.h"

/* Points by dimension: coordinate j of point i is entry j * stride + i. */
typedef struct adji_columns {
  void *coords;
  uint64_t stride;
  uint32_t *ids;
} adji_columns;

/* Moves the points [begin, end): those with a smaller coordinate than value along the axis, and the first `equal`
 * of those that have it, to the left columns, from place left_at on, the others to the right ones, from
 * right_at on; both in the order they had. */
typedef struct adji_split_job {
  adji_columns from, left, right;
  uint32_t dim, axis;
  uint64_t begin, end, left_at, right_at;
  double value;
  uint64_t equal;
} adji_split_job;

/* Values are given as double, which holds those of both types. */
typedef struct adji_split_kernels {
  void (*range)(const void *x, uint64_t count, double *low, double *high); /* count >= 1 */
  /* How many are below value, and how many are not above it. */
  void (*count)(const void *x, uint64_t count, double value, uint64_t *below, uint64_t *not_above);
  /* Copies the values within [low, high] to `to`, which has room for 16 more than all, and adds the number of
   * those below low to *below. Returns how many were copied. */
  uint64_t (*collect)(const void *x, uint64_t count, double low, double high, void *to, uint64_t *below);
  void (*split)(const adji_split_job *job);
  /* The one of rank `rank`, 0 <= rank < count, of at most ADJI_FEW values; NULL: there is nothing quicker than
   * counting. */
  double (*pick)(const void *x, uint32_t count, uint32_t rank);
} adji_split_kernels;

enum { ADJI_FEW = 128 };

/* For a type and an instruction set that core/cpu.h calls usable. */
const adji_split_kernels *adji_split_kernels_for(const char *isa, adj_type type);

#if defined(__x86_64__)
extern const adji_split_kernels adji_split_avx512_f32, adji_split_avx512_f64;
#endif

/* A value that parts count > 0 numbers such that at most `rank` are below it and at least `rank` are not
 * above it, 0 <= rank <= count. scratch has room for count + 512 values. Expected time: O(count). */
typedef struct adji_parting {
  double value;
  uint64_t below; /* numbers below value */
} adji_parting;

adji_parting adji_part(const adji_split_kernels *kernels, adj_type type, const void *x, uint64_t count, uint64_t rank,
                       void *scratch);

/* Its parts, for threads that share the work: two values that have the one wanted between them almost surely, by a
 * sample (false: not worth it), with room for ADJI_BRACKET values in scratch ... */
enum { ADJI_BRACKET = 1024 };
bool adji_bracket(const adji_split_kernels *kernels, adj_type type, const void *x, uint64_t count, uint64_t rank,
                  void *scratch, double *low, double *high);

/* ... and the answer, from those that are between them, which collect() has put into scratch. */
typedef struct adji_bracketed {
  uint64_t below, taken;
} adji_bracketed;
adji_parting adji_part_between(const adji_split_kernels *kernels, adj_type type, const void *x, uint64_t count,
                               uint64_t rank, adji_bracketed in, void *scratch);

#endif
