/* SPDX-License-Identifier: MIT
 *
 * The right set of a join on a device, in a form that joins can search: plain points, a tree, or the order of a grid.
 * It is made once and serves any number of joins. A kept index lends it to the workers of these joins
 * (plan/index_device.c).
 */
#ifndef ADJI_GPU_INDEX_RIGHT_H
#define ADJI_GPU_INDEX_RIGHT_H

#include "gpu/device/device.h"
#include "index/grid.h"
#include "queue/join.h"
#include "queue/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu_right adji_gpu_right;

typedef enum adji_right_form {
  ADJI_RIGHT_POINTS, /* packed by rows: for brute force, and as the source of other forms */
  ADJI_RIGHT_TREE,   /* for kNN joins, and for range joins with few queries or one limit per query */
  ADJI_RIGHT_GRID    /* for range joins with limits up to a given one */
} adji_right_form;

typedef struct adji_gpu_right_options {
  adji_right_form form;
  bool shared;            /* used by several joins: none of them may change its order */
  const adj_dataset *set; /* the bounds, and the points unless `rows` has them */
  /* Points that are already on the device; form POINTS uses them in place. NULL: the points of `set` are copied
   * there. */
  const adji_gpu_rows *rows;
  bool cut;              /* form TREE: cut within runs of the curve (tree_cut.cu) */
  const adji_grid *grid; /* form GRID; it need not outlive the call */
  double limit;          /* form GRID: the largest sum that it is for */
  bool squares;          /* limit is a sum of squares */
} adji_gpu_right_options;

/* Up to this many queries are searched in the order they come in: sorting them along a curve would take longer than it
 * saves. */
enum { ADJI_PACKED_QUERIES = 1 << 17 };

/* Copies the points to the device, unless they are there, and builds the form. */
ADJI_OP adj_status adji_gpu_right_open(adji_gpu *gpu, const adji_gpu_right_options *options, adji_gpu_right **out);
ADJI_OP void adji_gpu_right_close(adji_gpu_right *right);
/* Form POINTS: the points. */
ADJI_OP const adji_gpu_rows *adji_gpu_right_rows(const adji_gpu_right *right);

/* Lends right sets on the devices of a context: one it already has, or one it makes now. The lender sets the options
 * set, rows and shared itself. These functions must not be called by a thread that has locked a device. */
typedef struct adji_gpu_lender {
  void *owner;
  adj_status (*lend)(void *owner, uint32_t device, const adji_gpu_right_options *options, adji_lent *out);
  /* Bytes of a device that the lender holds. */
  uint64_t (*held)(void *owner, uint32_t device);
  /* Frees some of these bytes that no join uses. False: there are none. */
  bool (*drop)(void *owner, uint32_t device);
} adji_gpu_lender;

#ifdef __cplusplus
}
#endif
#endif
