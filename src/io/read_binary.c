/* SPDX-License-Identifier: MIT
 *
 * Binary files with little more than the values, row by row:
 *
 *   .fbin, .u8bin, .i8bin  count and dimension, two little-endian uint32, then the values; used by the billion-scale
 *                          benchmarks
 *   .fvecs, .bvecs         each row is its dimension, a little-endian int32, and then that many floats or bytes; used
 *                          by the nearest-neighbour benchmarks
 *   raw                    values in this machine's byte order. Their shape comes from the caller: "f32:3" (rows of
 *                          three floats) or "f64:1000x16" (a thousand rows of sixteen doubles)
 */
#include <string.h>

#include "io/read.h"
#include "io/read_table.h"

adj_status adji_read_bin(adji_source *source, const adj_open_options *options, int stored, adji_dataset_parts *parts) {
  if (source->size < 8)
    return adji_fail(ADJ_E_FORMAT, "the file has %llu bytes, and count and dimension alone take 8",
                     (unsigned long long)source->size);
  adji_table table = {.stored = (adji_stored)stored, .offset = 8};
  size_t bytes;
  const unsigned char *head = adji_source_head(source, &bytes);
  table.count = adji_little_u32(head);
  table.dim = adji_little_u32(head + 4);
  if (!table.dim)
    return adji_fail(ADJ_E_FORMAT, "the header promises %llu rows of dimension 0", (unsigned long long)table.count);
  adj_status status = adji_check_length(source, 8, table.count, table.dim * adji_stored_size(table.stored));
  return status ? status : adji_read_table(source, options, &table, parts);
}

/* ---- fvecs and bvecs -------------------------------------------------------------------------------------- */

enum { CHUNK_ROWS = 1 << 15 };

typedef struct dimension_check {
  const unsigned char *bytes; /* of the first row to check */
  uint64_t first, count, chunks, stride;
  uint32_t dim;
} dimension_check;

static adj_status check_dimensions(void *user, uint64_t chunk, uint32_t lane) {
  (void)lane;
  const dimension_check *check = user;
  uint64_t begin, end;
  adji_slice(check->count, check->chunks, chunk, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    uint32_t dim = adji_little_u32(check->bytes + i * check->stride);
    if (dim != check->dim)
      return adji_fail(ADJ_E_FORMAT, "row %llu: its dimension is %d, that of row 1 is %u",
                       (unsigned long long)(check->first + i) + 1, (int32_t)dim, check->dim);
  }
  return ADJ_OK;
}

/* Loads the rows, unless they are in memory, and checks that each has the dimension of the first row of the file. */
static adj_status load_rows(adji_source *source, adji_row_range rows, const adji_table *table) {
  bool pending = adji_source_pending(source);
  uint64_t stride = table->row_stride, at = rows.first * stride;
  adj_status status = adji_source_load_part(source, at, rows.count * stride);
  if (status) return status;
  dimension_check check = {.bytes = source->bytes + (pending ? 0 : at), .stride = stride, .dim = table->dim};
  check.first = rows.first;
  check.count = rows.count;
  check.chunks = check.count / CHUNK_ROWS + 1;
  return adji_loop(source->ctx, check.chunks, check_dimensions, &check);
}

adj_status adji_read_vecs(adji_source *source, const adj_open_options *options, int stored, adji_dataset_parts *parts) {
  size_t bytes;
  const unsigned char *head = adji_source_head(source, &bytes);
  if (source->size < 4) return adji_fail(ADJ_E_FORMAT, "row 1: the file ends within its dimension");
  uint32_t dim = adji_little_u32(head);
  if (dim < 1 || dim > INT32_MAX)
    return adji_fail(ADJ_E_FORMAT, "row 1: its dimension is %d, which is not positive", (int32_t)dim);
  uint64_t size = source->size, stride = 4 + dim * adji_stored_size((adji_stored)stored);
  uint64_t count = size / stride;
  adji_row_range rows = adji_rows_of_part(options, count);
  adji_table table = {.stored = (adji_stored)stored, .count = rows.count, .dim = dim, .row_stride = stride};
  table.first_row = rows.first;
  table.all_rows = count;
  table.offset = 4 + (adji_source_pending(source) ? 0 : rows.first * stride); /* within the bytes that will be loaded */
  adj_status status = load_rows(source, rows, &table);
  if (status) return status;
  if (size % stride)
    return adji_fail(ADJ_E_FORMAT, "row %llu: %llu of its %llu bytes are missing at the end of the file",
                     (unsigned long long)count + 1, (unsigned long long)(stride - size % stride),
                     (unsigned long long)stride);
  return adji_read_table(source, options, &table, parts);
}

/* ---- raw ---------------------------------------------------------------------------------------------------- */

static adj_status bad_shape(const char *shape) {
  return adji_fail(ADJ_E_ARGUMENT,
                   "shape: \"%.60s\" is not TYPE:DIM or TYPE:COUNTxDIM with a type of f16, f32, f64, i8, u8, i16, u16, "
                   "i32, u32, i64 or u64",
                   shape);
}

/* Sets table->count only if the shape has a count. */
static adj_status parse_shape(const char *shape, adji_table *table, bool *counted) {
  const char *colon = strchr(shape, ':');
  if (!colon) return bad_shape(shape);
  int stored = 0;
  for (; stored < ADJI_STORED_TYPES; stored++) {
    const char *name = adji_stored_name((adji_stored)stored);
    if (strlen(name) == (size_t)(colon - shape) && !strncmp(shape, name, strlen(name))) break;
  }
  if (stored == ADJI_STORED_TYPES) return bad_shape(shape);
  table->stored = (adji_stored)stored;
  const char *at = colon + 1, *end = at + strlen(at);
  uint64_t dim;
  if (!adji_take_count(&at, end, &dim)) return bad_shape(shape);
  *counted = *at == 'x';
  if (*counted) {
    table->count = dim;
    at++;
    if (!adji_take_count(&at, end, &dim)) return bad_shape(shape);
  }
  if (*at || dim < 1 || dim > UINT32_MAX) return bad_shape(shape);
  table->dim = (uint32_t)dim;
  return ADJ_OK;
}

adj_status adji_read_raw(adji_source *source, const adj_open_options *options, int variant, adji_dataset_parts *parts) {
  (void)variant;
  if (!options->shape)
    return adji_fail(ADJ_E_ARGUMENT, "shape: raw files need one, such as \"f32:3\" for rows of three floats");
  adji_table table = {0};
  bool counted = false;
  adj_status status = parse_shape(options->shape, &table, &counted);
  if (status) return status;
  uint64_t row_bytes = table.dim * adji_stored_size(table.stored);
  uint64_t rows = source->size / row_bytes;
  if (!counted) table.count = rows;
  if (rows != table.count || source->size % row_bytes)
    return adji_fail(ADJ_E_FORMAT, "the file has %llu bytes, which is not %s%.60s: a row takes %llu bytes",
                     (unsigned long long)source->size, counted ? "" : "a multiple of ", options->shape,
                     (unsigned long long)row_bytes);
  return adji_read_table(source, options, &table, parts);
}
