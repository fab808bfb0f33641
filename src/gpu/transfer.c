/* SPDX-License-Identifier: MIT
 *
 * Points to a device and arrays back, through the lanes' pinned buffers.
 */
#ifdef ADJI_HAVE_CUDA

#include <string.h>

#include "gpu/staging.h"

typedef struct transfer {
  adji_gpu *gpu;
  const adj_dataset *set;
  char *device;
  char *host;
  uint64_t rows, bytes;                    /* a piece */
  uint64_t total;                          /* bytes   */
  ADJI_ATOMIC(uint64_t) wait_ns, place_ns; /* of all lanes */
} transfer;

static adj_status wait_for(transfer *t, uint32_t lane) {
  uint64_t begin = adji_now_ns();
  adj_status status = adji_staging_wait(t->gpu, lane);
  atomic_fetch_add(&t->wait_ns, adji_now_ns() - begin);
  return status;
}

/* ---- Up ---------------------------------------------------------------------------------------------- */

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
  if (each < t.rows && each * row >= 64 << 10) t.rows = each;
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
  return each < ADJI_STAGE_BYTES && each >= 64 << 10 ? each : ADJI_STAGE_BYTES;
}

adj_status adji_upload_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, void *to_device, adji_device_work *work) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  transfer t = {.gpu = gpu, .device = to_device, .host = (char *)from, .total = bytes};
  t.bytes = piece_bytes(ctx, bytes);
  adj_status status = adji_staging_open(gpu, ctx->threads);
  if (!status) status = adji_loop(ctx, (bytes + t.bytes - 1) / t.bytes, send_bytes, &t);
  work->up_s += (double)atomic_load(&t.wait_ns) * 1e-9;
  work->bytes_up += bytes;
  return status;
}

/* ---- Down -------------------------------------------------------------------------------------------- */

static adj_status receive_piece(void *user, uint64_t task, uint32_t lane) {
  transfer *t = user;
  uint64_t first = task * t->bytes, bytes = t->total - first < t->bytes ? t->total - first : t->bytes;
  adj_status status = adji_staging_receive(t->gpu, lane, t->device + first, bytes);
  if (!status) status = wait_for(t, lane);
  uint64_t begin = adji_now_ns();
  if (!status) memcpy(t->host + first, adji_staging_at(t->gpu, lane), bytes);
  atomic_fetch_add(&t->place_ns, adji_now_ns() - begin);
  return status;
}

adj_status adji_download(adji_gpu *gpu, const void *from_device, uint64_t bytes, void *to, adji_device_work *work) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  transfer t = {.gpu = gpu, .device = (char *)from_device, .host = to, .total = bytes};
  t.bytes = piece_bytes(ctx, bytes);
  adj_status status = adji_staging_open(gpu, ctx->threads);
  if (!status) status = adji_loop(ctx, (bytes + t.bytes - 1) / t.bytes, receive_piece, &t);
  work->down_s += (double)atomic_load(&t.wait_ns) * 1e-9;
  work->place_s += (double)atomic_load(&t.place_ns) * 1e-9;
  work->bytes_down += bytes;
  return status;
}

#endif
