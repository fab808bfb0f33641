/* SPDX-License-Identifier: MIT
 *
 * The software device: host memory instead of GPU memory, and plain loops over the canonical distance instead of
 * kernels, for every metric and type. It lets tests run the host code of devices on any machine and under sanitizers.
 *
 * The files here define the operations of a device (gpu/device/device.h). Programs that are linked with their objects
 * find one software device, or as many as ADJOIN_SOFTWARE_DEVICES says, 1 to 8. These programs are tests, and
 * adjoin_software, which is the program adjoin with software devices.
 *
 * A GPU may forgive a mistake of the host. This device never does:
 *
 * - A copy through a pinned buffer is made as late as possible: when the host waits for it, or when the host tests for
 *   the second time whether it has ended. Until then the destination has garbage.
 * - Memory has garbage when it is allocated, and the memory limit is strict.
 * - A thread that launches kernels or allocates memory must have made the device current (adji_gpu_lock, adji_gpu_use).
 * - The device's own order of points is the last row first, and rows in any order are not in order of id.
 * - A kNN join through a grid misses one query in ADJI_SOFTWARE_MISSED, if the host handles missed queries.
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

/* Called before an operation that can fail: fails if a test asked for that. adji_software_launch is for operations that
 * launch kernels or allocate memory, and checks that the device is current. */
adj_status adji_software_turn(adji_gpu *gpu, const char *operation);
adj_status adji_software_launch(adji_gpu *gpu, const char *operation);

/* Marks the device as busy for the next few calls that ask. */
void adji_software_at_work(adji_gpu *gpu);
/* Reports how many candidates the last count compared. */
void adji_software_compared(adji_gpu *gpu, uint64_t candidates);

/* Memory of the device. `what` names it in the message of a failure. */
typedef struct adji_software_block {
  void *at;
  uint64_t bytes;
} adji_software_block;
adj_status adji_software_get(adji_gpu *gpu, uint64_t bytes, const char *what, adji_software_block *out);
void adji_software_free(adji_gpu *gpu, adji_software_block *block);

/* ---- Copies: software_staging.c ----------------------------------------------------------------------- */

enum { ADJI_SOFTWARE_COPIES = 8 };

/* Copies that are asked for but not made yet, of a buffer or of its second half. */
typedef struct adji_software_pending {
  struct {
    void *to;
    const void *from;
    uint64_t bytes;
  } copies[ADJI_SOFTWARE_COPIES];
  uint32_t count;
  bool looked; /* the host has tested once whether they have ended */
} adji_software_pending;

typedef struct adji_software_staging {
  pthread_mutex_t lock; /* protects the pending copies */
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
/* Makes all pending copies. */
void adji_software_copy_all(adji_gpu *gpu);

/* ---- Kernels: software_find.c ------------------------------------------------------------------------- */

/* Two sets on the device, and what decides which pairs belong. */
typedef struct adji_software_sets {
  adji_join join;
  adji_measure measure;
  adji_gpu_rows left, right;
  adji_software_block left_points, right_points;
  const adji_gpu_rows *lent; /* set before opening: right points that are on the device already; or NULL */
} adji_software_sets;

/* given: as in the options of a join; NULL: copies the points of the join's sets. */
adj_status adji_software_sets_open(adji_gpu *gpu, const adji_join *join, const adji_measure *measure,
                                   const adji_gpu_rows *given_left, const adji_gpu_rows *given_right,
                                   adji_software_sets *out, adji_device_stats *work);
/* Copies points on the device to other memory, packed. */
void adji_software_copy_rows(const adji_gpu_rows *from, void *to);
/* Fails if a left coordinate is not finite; the message names the first one. */
adj_status adji_software_check_left(const adji_software_sets *sets);
/* The work of making a right set, reported to the first join that asks. */
adji_device_stats adji_software_right_work(adji_gpu_right *right);
/* Replaces the left set by another one, which is not the right set. */
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

/* Allocates room for a row. Returns NULL, with the message set, if memory runs out. */
adji_software_entry *adji_software_make_row(const adji_software_sets *sets);
/* Finds all neighbours of a row, in ascending order of id. Returns their number. */
uint64_t adji_software_find(const adji_software_sets *sets, uint64_t row, adji_software_entry *to);
/* Finds the k nearest neighbours of a row, the nearest first. */
uint64_t adji_software_nearest(const adji_software_sets *sets, uint64_t row, adji_software_entry *to);
/* Sorts a row as asked for. ADJ_ORDER_ANY: reverses the order in which it was found. */
void adji_software_sort(adji_software_entry *entries, uint64_t count, adj_order order);
/* Writes entries to arrays of ids and sums (may be NULL), from place `at` on. */
void adji_software_put(adj_type type, const adji_software_entry *entries, uint64_t count, uint64_t at, uint32_t *ids,
                       void *sums);

/* ---- Range joins: software_range.c, software_lists.c, software_batches.c ------------------------------ */

/* Entries that a count keeps for fills: pairs of row and id, and their sums. */
typedef struct adji_software_kept {
  enum { ADJI_SOFTWARE_NONE, ADJI_SOFTWARE_ENTRIES, ADJI_SOFTWARE_WHOLE } form; /* whole: for a fill of all rows only */
  bool both;                                                                    /* each belongs to two rows          */
  adji_software_block pairs, sums;
  uint64_t room, count; /* count may be larger than room: then some were not kept */
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
  uint64_t added; /* the last kept entries, which the host added */
  adji_tally found;
  adji_gpu_counted counted;
  uint64_t broken; /* rows whose length was not the counted one */
  struct {
    adji_software_block ids, sums;
  } slots[ADJI_SOFTWARE_SLOTS];
  uint32_t slot_count;
  uint64_t slot_pairs;
  adji_device_stats work;
} adji_software_range;

/* Adds an entry to those that a count keeps. */
void adji_software_keep(adji_software_range *range, uint32_t row, const adji_software_entry *entry);
/* Adds the time since begin_ns to the seconds of kernels of a join. */
void adji_software_worked(adji_device_stats *work, uint64_t begin_ns);

/* ---- Tensor cores: software_tensor.c ------------------------------------------------------------------- */

/* The tensor unit that the probe of a device finds: see tensor_model.h. flushes: it takes subnormal halves as 0. */
typedef struct adji_software_tensor {
  uint32_t group;
  int bits;
  bool by_factors, flushes;
  uint32_t nan; /* the bits of a computed NaN */
} adji_software_tensor;

extern adji_software_tensor adji_software_tensor_now;

#endif
