/* SPDX-License-Identifier: MIT
 *
 * Files of nothing but values, row by row, in this machine's byte order. Their shape comes from the
 * caller: "f32:3" (rows of three floats) or "f64:1000x16" (a thousand rows of sixteen doubles).
 */
#include <string.h>

#include "io/read.h"
#include "io/read_table.h"

static adj_status bad_shape(const char *shape) {
  return adji_fail(ADJ_E_ARGUMENT,
                   "shape: \"%.60s\" is not TYPE:DIM or TYPE:COUNTxDIM with a type of f16, f32, f64, i8, u8, i16, u16, "
                   "i32, u32, i64 or u64",
                   shape);
}

static bool take_number(const char **at, uint64_t *value) {
  const char *begin = *at;
  *value = 0;
  for (; **at >= '0' && **at <= '9'; ++*at)
    if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
      return false;
  return *at > begin;
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
  const char *at = colon + 1;
  uint64_t dim;
  if (!take_number(&at, &dim)) return bad_shape(shape);
  *counted = *at == 'x';
  if (*counted) {
    table->count = dim;
    at++;
    if (!take_number(&at, &dim)) return bad_shape(shape);
  }
  if (*at || dim < 1 || dim > UINT32_MAX) return bad_shape(shape);
  table->dim = (uint32_t)dim;
  return ADJ_OK;
}

adj_status adji_read_raw(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
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
  return adji_read_table(source, options->type, &table, parts);
}
