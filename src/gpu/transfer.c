/* SPDX-License-Identifier: MIT
 *
 * Points to a device and arrays back, through the lanes' pinned buffers.
 */
#ifdef ADJI_HAVE_CUDA

#include <string.h>

#include "gpu/staging.h"

enum { LEAST_PIECE = 64 << 10 }; /* bytes */

/* ---- Up ---------------------------------------------------------------------------------------------- */

typedef struct transfer {
  adji_gpu *gpu;
  const adj_dataset *set;
  char *device;
  const char *host;
  uint64_t rows, bytes;          /* a piece */
  uint64_t total;                /* bytes   */
  ADJI_ATOMIC(uint64_t) wait_ns; /* of all lanes */
} transfer;

static adj_status wait_for(transfer *t, uint32_t lane) {
  uint64_t begin = adji_now_ns();
  adj_status status = adji_staging_wait(t->gpu, lane);
  atomic_fetch_add(&t->wait_ns, adji_now_ns() - begin);
  return status;
}

/* Copies rows with any strides into packed ones. */
static void pack_rows(const adj_dataset *set, uint64_t first, uint64_t count, char *to) {
  size_t size = adji_type_size(set->type), row = set->dim * size;
  if (set->column_stride == size && set->row_stride == row) {
    memcpy(to, set->data + first * set->row_stride, count * row);
    return;
  }
  for (uint64_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < set->dim; j++)
      memcpy(to + i * row + j * size, set->data + (first + i) * set->row_stride + j * set->column_stride, size);
}

static adj_status send_piece(void *user, uint64_t task, uint32_t lane) {
  transfer *t = user;
  uint64_t first = task * t->rows, row = t->set->dim * adji_type_size(t->set->type);
  uint64_t count = t->set->count - first < t->rows ? t->set->count - first : t->rows;
  pack_rows(t->set, first, count, adji_staging_at(t->gpu, lane));
  adj_status status = adji_staging_send(t->gpu, lane, t->device + first * row, count * row);
  return status ? status : wait_for(t, lane);
}

adj_status adji_upload(adji_gpu *gpu, const adj_dataset *set, void *to_device, adji_device_work *work) {
  adj_ctx *ctx = set->ctx;
  uint64_t row = set->dim * adji_type_size(set->type), begin = adji_now_ns();
  transfer t = {.gpu = gpu, .set = set, .device = to_device, .rows = ADJI_STAGE_BYTES / row};
  if (!t.rows)
    return adji_fail(ADJ_E_UNSUPPORTED, "points of %u dimensions are too large for the buffers of a GPU", set->dim);
  uint64_t each = set->count / (2 * (uint64_t)ctx->threads) + 1; /* small sets are shared out too */
  if (each < t.rows && each * row >= LEAST_PIECE) t.rows = each;
  adj_status status = adji_staging_open(gpu, ctx->threads);
  if (!status) status = adji_loop(ctx, (set->count + t.rows - 1) / t.rows, send_piece, &t);
  adji_trace(ctx, "upload", 0, begin, set->count);
  work->up_s += (double)atomic_load(&t.wait_ns) * 1e-9;
  work->bytes_up += set->count * row;
  return status;
}

static adj_status send_bytes(void *user, uint64_t task, uint32_t lane) {
  transfer *t = user;
  uint64_t first = task * t->bytes, bytes = t->total - first < t->bytes ? t->total - first : t->bytes;
  memcpy(adji_staging_at(t->gpu, lane), t->host + first, bytes);
  adj_status status = adji_staging_send(t->gpu, lane, t->device + first, bytes);
  return status ? status : wait_for(t, lane);
}

/* Bytes of a piece: a buffer, or less where there would be too few pieces for all lanes. */
static uint64_t piece_bytes(const adj_ctx *ctx, uint64_t bytes) {
  uint64_t each = bytes / (2 * (uint64_t)ctx->threads) / 64 * 64 + 64;
  return each < ADJI_STAGE_BYTES && each >= LEAST_PIECE ? each : ADJI_STAGE_BYTES;
}

adj_status adji_upload_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, void *to_device, adji_device_work *work) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  transfer t = {.gpu = gpu, .device = to_device, .host = from, .total = bytes};
  t.bytes = piece_bytes(ctx, bytes);
  adj_status status = adji_staging_open(gpu, ctx->threads);
  if (!status) status = adji_loop(ctx, (bytes + t.bytes - 1) / t.bytes, send_bytes, &t);
  work->up_s += (double)atomic_load(&t.wait_ns) * 1e-9;
  work->bytes_up += bytes;
  return status;
}

/* ---- Down -------------------------------------------------------------------------------------------- */

/* Arrays in pieces, one of each in turn. */
typedef struct download {
  adji_gpu *gpu;
  const adji_array *arrays;
  uint32_t count;
  uint64_t entries, each; /* each: entries a piece   */
  uint64_t pieces, step;  /* step: see touch_piece   */
  ADJI_ATOMIC(uint64_t) wait_ns, place_ns;
} download;

typedef struct piece {
  const char *from;
  char *to;
  uint64_t bytes;
} piece;

static piece piece_of(const download *d, uint64_t number) {
  const adji_array *array = &d->arrays[number % d->count];
  uint64_t first = number / d->count * d->each;
  uint64_t many = d->entries - first < d->each ? d->entries - first : d->each;
  return (piece){(const char *)array->from + first * array->size, (char *)array->to + first * array->size,
                 many * array->size};
}

/* The longest entries of a piece fill a buffer, so that huge pages are a single lane's; or less of it, where there
 * would be too few pieces for all lanes. */
static download open_download(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries) {
  download d = {.gpu = gpu, .arrays = arrays, .count = count, .entries = entries};
  uint64_t longest = 1;
  for (uint32_t i = 0; i < count; i++)
    if (arrays[i].size > longest) longest = arrays[i].size;
  d.each = ADJI_STAGE_BYTES / longest;
  uint64_t share = entries * count / (2 * (uint64_t)adji_gpu_ctx(gpu)->threads) / 64 * 64 + 64;
  if (share < d.each && share * longest >= LEAST_PIECE) d.each = share;
  d.pieces = (entries + d.each - 1) / d.each * count;
  return d;
}

/* While a piece is on its way, its place is touched. */
static adj_status receive_piece(void *user, uint64_t number, uint32_t lane) {
  download *d = user;
  piece mine = piece_of(d, number);
  adj_status status = adji_staging_receive(d->gpu, lane, mine.from, mine.bytes);
  if (status) return status;
  uint64_t begin = adji_now_ns();
  adji_touch(mine.to, mine.bytes);
  uint64_t touched = adji_now_ns();
  status = adji_staging_wait(d->gpu, lane);
  uint64_t arrived = adji_now_ns();
  if (!status) memcpy(mine.to, adji_staging_at(d->gpu, lane), mine.bytes);
  atomic_fetch_add(&d->wait_ns, arrived - touched);
  atomic_fetch_add(&d->place_ns, touched - begin + adji_now_ns() - arrived);
  return status;
}

adj_status adji_download_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries,
                                adji_device_work *work) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  download d = open_download(gpu, arrays, count, entries);
  adj_status status = adji_staging_open(gpu, ctx->threads);
  if (!status) status = adji_loop(ctx, d.pieces, receive_piece, &d);
  work->down_s += (double)atomic_load(&d.wait_ns) * 1e-9;
  work->place_s += (double)atomic_load(&d.place_ns) * 1e-9;
  for (uint32_t i = 0; i < count; i++)
    work->bytes_down += entries * arrays[i].size;
  return status;
}

adj_status adji_download(adji_gpu *gpu, const void *from_device, uint64_t bytes, void *to, adji_device_work *work) {
  adji_array array = {from_device, to, 1};
  return adji_download_arrays(gpu, &array, 1, bytes, work);
}

/* In steps through all pieces, so that those that were touched lie evenly among the others whenever the device is done:
 * then lanes are never all at copies that have nothing to wait for, nor all waiting for copies. */
static adj_status touch_piece(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const download *d = user;
  piece mine = piece_of(d, task * d->step % d->pieces);
  if (adji_gpu_busy(d->gpu)) adji_touch(mine.to, mine.bytes);
  return ADJ_OK;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  return b ? common_divisor(b, a % b) : a;
}

adj_status adji_touch_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries) {
  download d = open_download(gpu, arrays, count, entries);
  d.step = d.pieces / 8 * 5 + 1;
  while (common_divisor(d.step, d.pieces) > 1)
    d.step++;
  return adji_loop(adji_gpu_ctx(gpu), d.pieces, touch_piece, &d);
}

#endif
