/* SPDX-License-Identifier: MIT
 *
 * The .fvecs and .bvecs files of the nearest-neighbour benchmarks: each row is its dimension, a
 * little-endian int32, and then that many floats or bytes. All rows must have the same dimension.
 */
#include "io/read.h"
#include "io/read_table.h"

enum { CHUNK_ROWS = 1 << 15 };

typedef struct dimension_check {
  const unsigned char *bytes;
  uint64_t count, chunks, stride;
  uint32_t dim;
} dimension_check;

static uint32_t little_u32(const unsigned char *b) {
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static adj_status check_dimensions(void *user, uint64_t chunk, uint32_t lane) {
  (void)lane;
  const dimension_check *check = user;
  uint64_t begin, end;
  adji_slice(check->count, check->chunks, chunk, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    uint32_t dim = little_u32(check->bytes + i * check->stride);
    if (dim != check->dim)
      return adji_fail(ADJ_E_FORMAT, "row %llu: its dimension is %d, that of row 1 is %u", (unsigned long long)i + 1,
                       (int32_t)dim, check->dim);
  }
  return ADJ_OK;
}

static adj_status read_vecs(adji_source *source, adj_type asked, adji_stored stored, adji_dataset_parts *parts) {
  if (source->size < 4) return adji_fail(ADJ_E_FORMAT, "row 1: the file ends within its dimension");
  uint32_t dim = little_u32(source->bytes);
  if (dim < 1 || dim > INT32_MAX)
    return adji_fail(ADJ_E_FORMAT, "row 1: its dimension is %d, which is not positive", (int32_t)dim);
  uint64_t stride = 4 + dim * adji_stored_size(stored);
  dimension_check check = {.bytes = source->bytes, .count = source->size / stride, .stride = stride, .dim = dim};
  check.chunks = check.count / CHUNK_ROWS + 1;
  adj_status status = adji_loop(source->ctx, check.chunks, check_dimensions, &check);
  if (status) return status;
  if (source->size % stride)
    return adji_fail(ADJ_E_FORMAT, "row %llu: %llu of its %llu bytes are missing at the end of the file",
                     (unsigned long long)check.count + 1, (unsigned long long)(stride - source->size % stride),
                     (unsigned long long)stride);
  bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  adji_table table = {.stored = stored, .swapped = big, .count = check.count, .dim = dim, .offset = 4};
  table.row_stride = stride;
  return adji_read_table(source, asked, &table, parts);
}

adj_status adji_read_fvecs(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_vecs(source, options->type, ADJI_F32, parts);
}

adj_status adji_read_bvecs(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_vecs(source, options->type, ADJI_U8, parts);
}
