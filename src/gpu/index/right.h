/* SPDX-License-Identifier: MIT
 *
 * The right set of a join on a device, in a form that joins search: as it is, as a tree, or in the order of a grid. It
 * is made once and serves any number of joins. An index that is kept lends it to their workers (plan/index_device.c).
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
  ADJI_RIGHT_POINTS, /* packed by rows: for brute force, and to make other forms from */
  ADJI_RIGHT_TREE,   /* for kNN joins, and for range joins with few queries or a limit for each */
  ADJI_RIGHT_GRID    /* for range joins with limits up to one */
} adji_right_form;

typedef struct adji_gpu_right_options {
  adji_right_form form;
  bool shared;            /* among joins: none of them may change its order */
  const adj_dataset *set; /* its bounds, and its points unless rows has them */
  /* Points that are on the device already; the form POINTS uses them in place. NULL: they are copied there. */
  const adji_gpu_rows *rows;
  bool cut;              /* tree: cut within runs of the curve (tree_cut.cu) */
  const adji_grid *grid; /* grid: it need not outlive the call */
  double limit;          /* grid: the largest sum that it is for */
  bool squares;          /* which is a sum of squares */
} adji_gpu_right_options;

/* Up to so many queries are searched in the order they come in: sorting them along a curve takes longer than it
 * saves. */
enum { ADJI_PACKED_QUERIES = 1 << 17 };

/* Copies the points to the device, unless they are there, and builds what the form needs. */
ADJI_OP adj_status adji_gpu_right_open(adji_gpu *gpu, const adji_gpu_right_options *options, adji_gpu_right **out);
ADJI_OP void adji_gpu_right_close(adji_gpu_right *right);
/* Form POINTS: where they are. */
ADJI_OP const adji_gpu_rows *adji_gpu_right_rows(const adji_gpu_right *right);

/* Lends right sets on the devices of a context: what it has already, or makes now. Of the options, set, rows and shared
 * are the lender's. Nobody calls these while holding a device. */
typedef struct adji_gpu_lender {
  void *owner;
  adj_status (*lend)(void *owner, uint32_t device, const adji_gpu_right_options *options, adji_lent *out);
  /* Bytes of a device that are its own. */
  uint64_t (*held)(void *owner, uint32_t device);
  /* Drops some of them that nobody uses, to make room. False: there are none. */
  bool (*drop)(void *owner, uint32_t device);
} adji_gpu_lender;

#ifdef __cplusplus
}
#endif
#endif
