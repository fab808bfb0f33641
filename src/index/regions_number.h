/* SPDX-License-Identifier: MIT
 *
 * The region of each point (cuts.h): the inner loop of regions.c, one function per type and instruction set.
 */
#ifndef ADJI_REGIONS_NUMBER_H
#define ADJI_REGIONS_NUMBER_H

#include "index/cuts.h"

/* The tree of cuts, filled up to `depth` levels. Node i has the children 2 i and 2 i + 1, the root is node 1, and node
 * 2^depth + i has region number i of `regions`. Where there is no cut, `at` is NaN, and points go to child 2 i.
 * Dimensions and regions have as many bits as the type. There are ADJI_NUMBER_SPARE more entries, so that whole vectors
 * can be loaded. */
typedef struct adji_numbering {
  void *at, *near, *dims, *regions;
  double *reaches; /* per node of the cuts: the longest reach of the regions below it */
  adj_type type;
  uint32_t dim, depth;
} adji_numbering;
enum { ADJI_NUMBER_SPARE = 16 };

/* reaches: as for adji_regions_make(). */
adj_status adji_numbering_make(adj_ctx *ctx, const adji_cuts *cuts, adj_type type, const double *reaches,
                               adji_numbering *out);
void adji_numbering_clear(adj_ctx *ctx, adji_numbering *numbering);

/* Consecutive points. numbers[i] receives the region of point i, and `near` lists the points that may be within reach
 * of another region. Both have room for count entries. */
typedef struct adji_number_job {
  const adji_numbering *numbering;
  const char *points;
  uint64_t row_stride, column_stride, count; /* count: up to 2^15 */
  uint16_t *numbers, *near;
} adji_number_job;

/* Returns the number of points in `near`. */
typedef uint64_t (*adji_number_fn)(const adji_number_job *job);
adji_number_fn adji_number_for(const char *isa, const adj_dataset *set);

/* The cells of up to ADJI_REACHED_REGIONS regions with their reaches, by dimension. So few cells are compared with a
 * point all at once. Unused entries are infinite. */
enum { ADJI_REACHED_REGIONS = 64, ADJI_REACHED_DIMS = 8 };
typedef struct adji_reach_boxes {
  uint32_t dim, count;
  double reaches[ADJI_REACHED_REGIONS];
  double *low, *high; /* ADJI_REACHED_REGIONS entries per dimension */
} adji_reach_boxes;
adj_status adji_reach_boxes_make(adj_ctx *ctx, const adji_cuts *cuts, const double *reaches, adji_reach_boxes *out);
void adji_reach_boxes_clear(adj_ctx *ctx, adji_reach_boxes *boxes);

/* The regions that a point is within reach of in every dimension, a bit for each. Its own region may be among them. */
typedef uint64_t (*adji_reached_fn)(const adji_reach_boxes *boxes, const double *point);
adji_reached_fn adji_reached_for(const char *isa);

#if defined(__x86_64__)
uint64_t adji_reached_avx512(const adji_reach_boxes *boxes, const double *point);
/* In up to ADJI_NUMBER_DIMS dimensions, with rows of up to ADJI_NUMBER_STRIDE bytes. */
enum { ADJI_NUMBER_DIMS = 6, ADJI_NUMBER_STRIDE = 1 << 26 };
uint64_t adji_number_avx512_f32(const adji_number_job *job);
uint64_t adji_number_avx512_f64(const adji_number_job *job);
#endif

#endif
