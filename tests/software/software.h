/* SPDX-License-Identifier: MIT
 *
 * The software device: host memory in the place of a GPU's, and plain loops over the canonical distance in the place of
 * kernels, for every metric and type. It lets tests run the host code of devices on any machine and under sanitizers.
 *
 * The files here define the operations of a device (gpu/device/device.h) for programs that have their objects: tests,
 * and adjoin_software, which is the program adjoin otherwise. These find one device, or ADJOIN_SOFTWARE_DEVICES=1 to 8.
 *
 * Where a GPU may or may not forgive a mistake of the host, this device never does:
 *
 * - A copy through a pinned buffer is made as late as it can be: when somebody waits for it, or looks a second time
 *   whether it has ended. Until then what is copied to holds nonsense.
 * - Memory holds nonsense when it is taken, and its limit is kept.
 * - A thread that launches kernels or takes memory must have made the device current (adji_gpu_lock, adji_gpu_use).
 * - The device's own order of points is the last row first, and rows in any order do not come in that of their ids.
 * - A kNN join through a grid misses one query in ADJI_SOFTWARE_MISSED, where the host sees to those.
 *
 * Speed does not matter: every query is compared with every candidate.
 */
#ifndef ADJOIN_TEST_SOFTWARE_SOFTWARE_H
#define ADJOIN_TEST_SOFTWARE_SOFTWARE_H

#include "gpu/device/derive.h"
#include "gpu/device/staging.h"
#include "gpu/device/survey.h"
#include "gpu/knn/knn.h"
#include "gpu/range/range_list.h"
#include "gpu/select/select.h"

enum { ADJI_SOFTWARE_MISSED = 7 };

/* ---- The device: software_device.c -------------------------------------------------------------------- */

/* Before an operation that can fail: fails where a test asked for it. Of one that launches kernels or takes memory, the
 * device must be current. */
adj_status adji_software_turn(adji_gpu *gpu, const char *operation);
adj_status adji_software_launch(adji_gpu *gpu, const char *operation);

/* Kernels are at work: those who look whether the device is busy see it so for a while. */
void adji_software_at_work(adji_gpu *gpu);
/* What the last count compared. */
void adji_software_compared(adji_gpu *gpu, uint64_t candidates);

/* Memory of the device. what names it in the message of a failure. */
typedef struct adji_software_block {
  void *at;
  uint64_t bytes;
} adji_software_block;
adj_status adji_software_get(adji_gpu *gpu, uint64_t bytes, const char *what, adji_software_block *out);
void adji_software_free(adji_gpu *gpu, adji_software_block *block);

/* ---- Copies: software_staging.c ----------------------------------------------------------------------- */

enum { ADJI_SOFTWARE_COPIES = 8 };

/* Copies that were asked for and not made, of a buffer or of its second half. */
typedef struct adji_software_pending {
  struct {
    void *to;
    const void *from;
    uint64_t bytes;
  } copies[ADJI_SOFTWARE_COPIES];
  uint32_t count;
  bool looked; /* somebody has looked whether they have ended */
} adji_software_pending;

typedef struct adji_software_staging {
  pthread_mutex_t lock; /* of what is pending */
  struct adji_software_buffer {
    char *at;
    adji_software_pending pending[2];
  } * buffers;
  uint32_t count;
} adji_software_staging;

adji_software_staging *adji_software_staging_of(adji_gpu *gpu);
void adji_software_staging_close(adji_software_staging *staging);
/* Begins a copy from memory of the device to a place in a buffer. */
adj_status adji_software_fetch(adji_gpu *gpu, uint32_t buffer, uint64_t to, const void *from, uint64_t bytes);
/* Makes all copies that are pending. */
void adji_software_copy_all(adji_gpu *gpu);

/* ---- Kernels: software_find.c ------------------------------------------------------------------------- */

/* Two sets on the device, and what belongs to a row. */
typedef struct adji_software_sets {
  adji_join join;
  adji_measure measure;
  adji_gpu_rows left, right;
  adji_software_block left_points, right_points;
  const adji_gpu_rows *lent; /* set before they are opened: the right points, which are on the device; or NULL */
} adji_software_sets;

/* given: as in the options of a join; NULL: copies the points of the join's sets. */
adj_status adji_software_sets_open(adji_gpu *gpu, const adji_join *join, const adji_measure *measure,
                                   const adji_gpu_rows *given_left, const adji_gpu_rows *given_right,
                                   adji_software_sets *out, adji_device_stats *work);
/* Points on the device, packed to other memory. */
void adji_software_copy_rows(const adji_gpu_rows *from, void *to);
/* Names the first left coordinate that is not finite. */
adj_status adji_software_check_left(const adji_software_sets *sets);
/* What making a right set took, for the first join that asks. */
adji_device_stats adji_software_right_work(adji_gpu_right *right);
/* Another left set, which is not the right one. */
adj_status adji_software_sets_ask(adji_gpu *gpu, const adj_dataset *left, adji_software_sets *sets,
                                  adji_device_stats *work);
void adji_software_sets_close(adji_gpu *gpu, adji_software_sets *sets);

double adji_software_value(const adji_gpu_rows *rows, uint64_t row, uint32_t j);
void adji_software_put_value(adj_type type, void *to, uint64_t at, double x);
double adji_software_sum(const adji_software_sets *sets, uint64_t row, uint64_t id);

typedef struct adji_software_entry {
  double sum;
  uint32_t id;
} adji_software_entry;

/* Room for a row; NULL: there is none, and the message is set. */
adji_software_entry *adji_software_make_row(const adji_software_sets *sets);
/* All neighbours of a row, in ascending order of their ids; returns how many. */
uint64_t adji_software_find(const adji_software_sets *sets, uint64_t row, adji_software_entry *to);
/* The k nearest of a row, the nearest first. */
uint64_t adji_software_nearest(const adji_software_sets *sets, uint64_t row, adji_software_entry *to);
/* The order that a row is to have; ADJ_ORDER_ANY: that in which it was found, backwards. */
void adji_software_sort(adji_software_entry *entries, uint64_t count, adj_order order);
/* Entries to arrays of ids and, unless that is NULL, sums, from entry `at` on. */
void adji_software_put(adj_type type, const adji_software_entry *entries, uint64_t count, uint64_t at, uint32_t *ids,
                       void *sums);

/* ---- Range joins: software_range.c, software_lists.c, software_batches.c ------------------------------ */

/* Entries that a count has kept for fills: pairs of row and id, and their sums. */
typedef struct adji_software_kept {
  enum { ADJI_SOFTWARE_NONE, ADJI_SOFTWARE_ENTRIES, ADJI_SOFTWARE_WHOLE } form; /* whole: for a fill of all rows only */
  bool both;                                                                    /* each is of two rows               */
  adji_software_block pairs, sums;
  uint64_t room, count; /* count may be larger: then some were not kept */
} adji_software_kept;

enum { ADJI_SOFTWARE_SLOTS = 8 };

typedef struct adji_software_range {
  adji_gpu *gpu;
  adji_software_sets sets;
  uint64_t rows; /* of the result */
  adji_software_block order, degrees, offsets;
  adji_software_block queue_rows, queue_counts; /* adji_gpu_range_make_queue */
  bool single, whole, mirrored, checks_left;
  adji_point_options points;
  uint64_t single_pairs;
  adji_software_kept kept;
  uint64_t added; /* to what was kept, by the host; the last ones */
  adji_tally found;
  adji_gpu_counted counted;
  uint64_t broken; /* rows that were not as long as counted */
  struct {
    adji_software_block ids, sums;
  } slots[ADJI_SOFTWARE_SLOTS];
  uint32_t slot_count;
  uint64_t slot_pairs;
  adji_device_stats work;
} adji_software_range;

/* Adds an entry to what a count keeps. */
void adji_software_keep(adji_software_range *range, uint32_t row, const adji_software_entry *entry);
/* The seconds of kernels since begin_ns, added to the work of a join. */
void adji_software_worked(adji_device_stats *work, uint64_t begin_ns);

/* ---- Tensor cores: software_tensor.c ------------------------------------------------------------------- */

/* The unit that the probe of a device finds: see tensor_model.h. flushes: subnormal halves are 0 to it. */
typedef struct adji_software_tensor {
  uint32_t group;
  int bits;
  bool by_factors, flushes;
  uint32_t nan; /* the bits of a computed NaN */
} adji_software_tensor;

extern adji_software_tensor adji_software_tensor_now;

#endif
