/* SPDX-License-Identifier: MIT
 *
 * Points to a device and arrays back, through the lanes' pinned buffers.
 */
#ifdef ADJI_HAVE_CUDA

#include <string.h>

#include "gpu/conveyor.h"
#include "gpu/staging.h"

enum { LEAST_PIECE = 64 << 10 }; /* bytes */

static adj_status convey(adji_gpu *gpu, adji_conveyor *conveyor, adji_conveyor_times *times) {
  conveyor->ctx = adji_gpu_ctx(gpu);
  conveyor->buffers = conveyor->ctx->threads;
  adj_status status = adji_staging_open(gpu, conveyor->buffers);
  if (!status) status = adji_convey(conveyor, times);
  if (status) adji_gpu_settle(gpu); /* copies under way still use buffers */
  return status;
}

/* ---- Up ---------------------------------------------------------------------------------------------- */

typedef struct upload {
  adji_gpu *gpu;
  const adj_dataset *set; /* NULL: bytes of the host, and a row is one */
  const char *host;
  char *device;
  uint64_t count, row, each; /* rows, bytes of one, rows a piece */
} upload;

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

static uint64_t rows_of(const upload *u, uint64_t number) {
  uint64_t first = number * u->each;
  return u->count - first < u->each ? u->count - first : u->each;
}

static void pack_piece(void *user, uint64_t number, uint32_t buffer) {
  upload *u = user;
  char *to = adji_staging_at(u->gpu, buffer);
  uint64_t first = number * u->each;
  if (u->set)
    pack_rows(u->set, first, rows_of(u, number), to);
  else
    memcpy(to, u->host + first, rows_of(u, number));
}

static adj_status send_piece(void *user, uint64_t number, uint32_t buffer) {
  upload *u = user;
  return adji_staging_send(u->gpu, buffer, u->device + number * u->each * u->row, rows_of(u, number) * u->row);
}

static adj_status was_sent(void *user, uint32_t buffer, bool *here) {
  return adji_staging_here(((upload *)user)->gpu, buffer, here);
}

static adj_status send_all(upload *u, adji_device_work *work) {
  uint64_t share = u->count / (2 * (uint64_t)adji_gpu_ctx(u->gpu)->threads) + 1; /* small sets are shared out too */
  u->each = ADJI_STAGE_BYTES / u->row;
  if (share < u->each && share * u->row >= LEAST_PIECE) u->each = share;
  adji_conveyor conveyor = {.user = u, .up = true, .copy = send_piece, .here = was_sent, .handle = pack_piece};
  conveyor.pieces = (u->count + u->each - 1) / u->each;
  adji_conveyor_times times = {0};
  adj_status status = convey(u->gpu, &conveyor, &times);
  work->up_s += (double)times.wait_ns * 1e-9;
  work->bytes_up += u->count * u->row;
  return status;
}

adj_status adji_upload(adji_gpu *gpu, const adj_dataset *set, void *to_device, adji_device_work *work) {
  uint64_t begin = adji_now_ns();
  upload u = {.gpu = gpu, .set = set, .device = to_device, .count = set->count};
  u.row = set->dim * adji_type_size(set->type);
  if (u.row > ADJI_STAGE_BYTES)
    return adji_fail(ADJ_E_UNSUPPORTED, "points of %u dimensions are too large for the buffers of a GPU", set->dim);
  adj_status status = send_all(&u, work);
  adji_trace(set->ctx, "upload", 0, begin, set->count);
  return status;
}

adj_status adji_upload_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, void *to_device, adji_device_work *work) {
  upload u = {.gpu = gpu, .host = from, .device = to_device, .count = bytes, .row = 1};
  return send_all(&u, work);
}

/* ---- Down -------------------------------------------------------------------------------------------- */

/* Arrays in pieces, one of each in turn. */
typedef struct download {
  adji_gpu *gpu;
  const adji_array *arrays;
  uint32_t count;
  uint64_t entries, each; /* each: entries a piece   */
  uint64_t pieces, step;  /* step: see touch_some    */
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

/* The shortest entries of a piece are a huge page, which then is a single lane's; or less, where there would be too few
 * pieces for all lanes. */
static download open_download(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries) {
  download d = {.gpu = gpu, .arrays = arrays, .count = count, .entries = entries};
  uint64_t shortest = arrays[0].size, longest = shortest;
  for (uint32_t i = 1; i < count; i++) {
    if (arrays[i].size < shortest) shortest = arrays[i].size;
    if (arrays[i].size > longest) longest = arrays[i].size;
  }
  d.each = ADJI_HUGE_PAGE / shortest;
  if (d.each * longest > ADJI_STAGE_BYTES) d.each = ADJI_STAGE_BYTES / longest;
  uint64_t share = entries * count / (2 * (uint64_t)adji_gpu_ctx(gpu)->threads) / 64 * 64 + 64;
  if (share < d.each && share * longest >= LEAST_PIECE) d.each = share;
  d.pieces = (entries + d.each - 1) / d.each * count;
  return d;
}

static adj_status receive_piece(void *user, uint64_t number, uint32_t buffer) {
  download *d = user;
  piece mine = piece_of(d, number);
  return adji_staging_receive(d->gpu, buffer, mine.from, mine.bytes);
}

static adj_status was_received(void *user, uint32_t buffer, bool *here) {
  return adji_staging_here(((download *)user)->gpu, buffer, here);
}

/* While it is on its way. */
static void touch_piece(void *user, uint64_t number) {
  piece mine = piece_of(user, number);
  adji_touch(mine.to, mine.bytes);
}

static void place_piece(void *user, uint64_t number, uint32_t buffer) {
  download *d = user;
  piece mine = piece_of(d, number);
  memcpy(mine.to, adji_staging_at(d->gpu, buffer), mine.bytes);
}

adj_status adji_download_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries,
                                adji_device_work *work) {
  download d = open_download(gpu, arrays, count, entries);
  adji_conveyor conveyor = {.user = &d, .pieces = d.pieces, .copy = receive_piece, .here = was_received};
  conveyor.prepare = touch_piece;
  conveyor.handle = place_piece;
  adji_conveyor_times times = {0};
  adj_status status = convey(gpu, &conveyor, &times);
  work->down_s += (double)times.wait_ns * 1e-9;
  work->place_s += (double)times.work_ns * 1e-9;
  for (uint32_t i = 0; i < count; i++)
    work->bytes_down += entries * arrays[i].size;
  return status;
}

adj_status adji_download(adji_gpu *gpu, const void *from_device, uint64_t bytes, void *to, adji_device_work *work) {
  adji_array array = {from_device, to, 1};
  return adji_download_arrays(gpu, &array, 1, bytes, work);
}

/* In steps through all pieces, so that those that were touched lie evenly among the others whenever the device is done:
 * then there is work for cores and for copies all the time. */
static adj_status touch_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  download *d = user;
  if (adji_gpu_busy(d->gpu)) touch_piece(d, task * d->step % d->pieces);
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
  return adji_loop(adji_gpu_ctx(gpu), d.pieces, touch_some, &d);
}

#endif
