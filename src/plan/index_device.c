/* SPDX-License-Identifier: MIT
 *
 * What an index has on devices: its points, a tree of them, and grids (gpu/index/right.h). The first question that
 * needs one of these makes it; later ones borrow it. The tree stays as long as the index. Grids, and copies of points,
 * stay while there is memory on the device: the least recently used is dropped first.
 *
 * Locks. Making a structure takes index->building and then the device; lending one takes index->lock. A thread that
 * holds index->lock takes no device, so parts are unlinked first and freed afterwards.
 */
#include <stdlib.h>

#include "gpu/device/device.h"
#include "plan/index.h"

struct adji_device_part {
  adji_gpu_right *right;
  adji_right_form form;
  adji_gpu *gpu;
  double limit;   /* of a grid: the largest limit that it serves */
  adji_grid grid; /* the host's grid, only what gives its width; its axes have no breaks */
  uint64_t bytes;
  uint32_t users;
  uint64_t used_at; /* by the clock of the index */
  struct adji_device_part *next;
};

/* CUT_DIMS: from this number of dimensions on it pays to cut the runs of a tree that many questions search
 * (choose_knn.c). */
enum { MOST_DEVICE_GRIDS = 8, CUT_DIMS = 3 };

/* ---- Freeing ------------------------------------------------------------------------------------------- */

static void free_part(adji_device_part *part) {
  if (!part) return;
  adji_gpu_lock(part->gpu);
  adji_gpu_right_close(part->right);
  adji_gpu_unlock(part->gpu);
  free(part);
}

static void unlink_part(adji_index_device *device, adji_device_part *part) {
  adji_device_part **at = &device->parts;
  while (*at != part)
    at = &(*at)->next;
  *at = part->next;
}

/* Takes out the least recently used part that is not in use; NULL: there is none. The caller holds index->lock. */
static adji_device_part *take_oldest(adji_index_device *device, bool grids_only) {
  adji_device_part *oldest = NULL;
  for (adji_device_part *part = device->parts; part; part = part->next) {
    bool may_go = !part->users && (part->form == ADJI_RIGHT_GRID || (!grids_only && part->form == ADJI_RIGHT_POINTS));
    if (may_go && (!oldest || part->used_at < oldest->used_at)) oldest = part;
  }
  if (oldest) unlink_part(device, oldest);
  return oldest;
}

bool adji_index_drop(adj_index *index, uint32_t device) {
  pthread_mutex_lock(&index->lock);
  adji_device_part *part = take_oldest(&index->devices[device], false);
  pthread_mutex_unlock(&index->lock);
  free_part(part);
  return part;
}

void adji_index_clear_devices(adj_index *index) {
  for (uint32_t i = 0; i < ADJI_MOST_GPUS; i++)
    while (index->devices[i].parts) {
      adji_device_part *part = index->devices[i].parts;
      index->devices[i].parts = part->next;
      free_part(part);
    }
}

void adji_index_forget_origin(adj_ctx *ctx, adji_index_origin *origin) {
  if (!origin) return;
  if (origin->derived.gpu) {
    adji_gpu *gpu = origin->derived.gpu;
    adji_gpu_lock(gpu);
    adji_gpu_points_free(&origin->derived);
    adji_gpu_unlock(gpu);
  }
  adji_free(&ctx->memory, origin->bounds);
  adji_free(&ctx->memory, origin->rows);
  free(origin);
}

/* ---- Lending ------------------------------------------------------------------------------------------- */

static adji_device_part *part_of(adj_index *index, const void *right) {
  for (uint32_t i = 0; i < ADJI_MOST_GPUS; i++)
    for (adji_device_part *part = index->devices[i].parts; part; part = part->next)
      if (part->right == right) return part;
  return NULL;
}

static void return_part(void *owner, const void *what) {
  adj_index *index = owner;
  pthread_mutex_lock(&index->lock);
  part_of(index, what)->users--;
  pthread_mutex_unlock(&index->lock);
}

static bool part_serves(const adj_index *index, const adji_device_part *part, const adji_gpu_right_options *wanted) {
  if (part->form != wanted->form) return false;
  if (part->form != ADJI_RIGHT_GRID) return true;
  if (!part->grid.axis_count != !wanted->grid->axis_count) return false; /* brute force was asked for */
  return adji_grid_serves(index, &part->grid, part->limit, wanted->limit);
}

static void lend_part(adj_index *index, adji_device_part *part, adji_lent *out) {
  part->users++;
  part->used_at = ++index->clock;
  *out = (adji_lent){part->right, index, return_part};
}

/* Lends a part that serves; of several grids, the finest. */
static bool find_part(adj_index *index, uint32_t number, const adji_gpu_right_options *wanted, adji_lent *out) {
  adji_device_part *best = NULL;
  pthread_mutex_lock(&index->lock);
  for (adji_device_part *part = index->devices[number].parts; part; part = part->next)
    if (part_serves(index, part, wanted) && (!best || part->limit < best->limit)) best = part;
  if (best) lend_part(index, best, out);
  pthread_mutex_unlock(&index->lock);
  return best;
}

/* ---- Making -------------------------------------------------------------------------------------------- */

static adj_status open_right(const adji_gpu_right_options *options, adji_device_part *part) {
  adji_gpu_lock(part->gpu);
  uint64_t before = adji_gpu_used(part->gpu);
  adj_status status = adji_gpu_right_open(part->gpu, options, &part->right);
  if (!status) part->bytes = adji_gpu_used(part->gpu) - before;
  adji_gpu_unlock(part->gpu);
  return status;
}

/* Takes the points from the device if they are there already, instead of copying them again. */
static adj_status open_from_points(adj_index *index, uint32_t number, const adji_gpu_right_options *options,
                                   adji_device_part *part) {
  adji_gpu_right_options request = *options, points = {.form = ADJI_RIGHT_POINTS};
  adji_lent existing = {0};
  if (!request.rows && find_part(index, number, &points, &existing)) request.rows = adji_gpu_right_rows(existing.what);
  adj_status status = open_right(&request, part);
  adji_give_back(&existing);
  return status;
}

static uint64_t available_on(adji_gpu *gpu) {
  adji_gpu_lock(gpu);
  uint64_t bytes = adji_gpu_available(gpu);
  adji_gpu_unlock(gpu);
  return bytes;
}

/* Drops grids until the part fits. A part that did not fit is not tried again before there is more room: points
 * would be copied to the device for nothing. */
static adj_status make_part(adj_index *index, uint32_t number, const adji_gpu_right_options *options,
                            adji_device_part *part) {
  uint64_t *refused = &index->devices[number].refused[options->form];
  if (*refused && available_on(part->gpu) <= *refused)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "device %u: the points of the index do not fit", number);
  bool alone = adji_work_alone(false); /* making it is not small work, even for a small question */
  adj_status status = open_from_points(index, number, options, part);
  while (status == ADJ_E_DEVICE_MEMORY && adji_index_drop(index, number))
    status = open_from_points(index, number, options, part);
  adji_work_alone(alone);
  *refused = status == ADJ_E_DEVICE_MEMORY ? available_on(part->gpu) : 0;
  return status;
}

static void note_grid(adji_device_part *part, const adji_gpu_right_options *options) {
  if (options->form != ADJI_RIGHT_GRID) return;
  part->limit = options->limit;
  part->grid.axis_count = options->grid->axis_count;
}

/* Half of a device's memory is for results: grids beyond the other half are dropped. */
static void keep_half(adj_index *index, uint32_t number) {
  adji_gpu *gpu;
  if (adji_gpu_at(index->ctx, number, &gpu)) return;
  while (adji_index_device_bytes(index, number) > available_on(gpu) && adji_index_drop(index, number))
    ;
}

/* Adds the part to the index, unless another question has added one that serves. */
static void add_part(adj_index *index, uint32_t number, const adji_gpu_right_options *options, adji_device_part *part,
                     adji_lent *out) {
  adji_index_device *device = &index->devices[number];
  adji_device_part *gone = NULL, *existing = NULL;
  uint32_t grids = 0;
  pthread_mutex_lock(&index->lock);
  for (adji_device_part *other = device->parts; other; other = other->next) {
    grids += other->form == ADJI_RIGHT_GRID;
    if (part_serves(index, other, options)) existing = other;
  }
  if (existing) {
    gone = part;
  } else {
    if (part->form == ADJI_RIGHT_GRID && grids >= MOST_DEVICE_GRIDS) gone = take_oldest(device, true);
    part->next = device->parts;
    device->parts = existing = part;
  }
  lend_part(index, existing, out);
  pthread_mutex_unlock(&index->lock);
  free_part(gone);
  keep_half(index, number);
}

static adj_status make(adj_index *index, uint32_t number, const adji_gpu_right_options *options, adji_lent *out) {
  adji_device_part *part = calloc(1, sizeof *part);
  if (!part) return adji_fail(ADJ_E_MEMORY, "no memory for an index");
  part->form = options->form;
  note_grid(part, options);
  adj_status status = adji_gpu_at(index->ctx, number, &part->gpu);
  if (!status) status = make_part(index, number, options, part);
  if (status)
    free(part);
  else
    add_part(index, number, options, part, out);
  return status;
}

adj_status adji_index_lend(adj_index *index, uint32_t device, const adji_gpu_right_options *options, adji_lent *out,
                           bool *built) {
  adji_gpu_right_options request = *options;
  adj_status status = ADJ_OK;
  request.set = index->points;
  request.rows = index->rows.data ? &index->rows : NULL;
  request.shared = true;
  request.cut = index->points->dim >= CUT_DIMS;
  *built = false;
  if (find_part(index, device, &request, out)) return ADJ_OK;
  bool waited = adji_index_begin_building(index);
  *built = !find_part(index, device, &request, out);
  if (*built) status = make(index, device, &request, out);
  adji_index_end_building(index, waited);
  return status;
}

uint64_t adji_index_device_bytes(adj_index *index, uint32_t device) {
  uint64_t bytes = 0;
  pthread_mutex_lock(&index->lock);
  for (const adji_device_part *part = index->devices[device].parts; part; part = part->next)
    bytes += part->bytes;
  pthread_mutex_unlock(&index->lock);
  return bytes;
}
