/* SPDX-License-Identifier: MIT
 *
 * Tables of binary values: used in place, or converted in parallel.
 */
#include "io/read_table.h"

#include <string.h>

static const struct {
  const char *name;
  size_t size;
} stored_types[ADJI_STORED_TYPES] = {{"f16", 2}, {"f32", 4}, {"f64", 8}, {"i8", 1},  {"u8", 1}, {"i16", 2},
                                     {"u16", 2}, {"i32", 4}, {"u32", 4}, {"i64", 8}, {"u64", 8}};

const char *adji_stored_name(adji_stored stored) {
  return stored_types[stored].name;
}

size_t adji_stored_size(adji_stored stored) {
  return stored_types[stored].size;
}

static const char *type_name(adj_type type) {
  return type == ADJ_F64 ? "f64" : "f32";
}

adj_type adji_table_type(const adji_source *source, adji_stored stored, adj_type asked) {
  bool needs_f64 = stored == ADJI_F64 || stored >= ADJI_I32;
  adj_type type = asked ? asked : needs_f64 ? ADJ_F64 : ADJ_F32;
  bool same = stored == (type == ADJ_F64 ? ADJI_F64 : ADJI_F32);
  if (same) return type;
  const char *rounded = "";
  if (type == ADJ_F32 && needs_f64) rounded = ", values are rounded";
  if (type == ADJ_F64 && asked && stored >= ADJI_I64) rounded = ", values above 2^53 are rounded";
  adji_log(source->ctx, ADJ_LOG_INFO, "%s: %s converted to %s%s", source->name, adji_stored_name(stored),
           type_name(type), rounded);
  return type;
}

adj_status adji_check_length(const adji_source *source, uint64_t offset, uint64_t count, uint64_t row_bytes) {
  uint64_t present = source->size > offset ? source->size - offset : 0;
  uint64_t expected = adji_mul(count, row_bytes);
  unsigned long long rows = count, bytes = row_bytes;
  if (expected == UINT64_MAX && count && row_bytes)
    return adji_fail(ADJ_E_FORMAT, "the header promises %llu rows of %llu bytes, more than any file holds", rows,
                     bytes);
  if (present < expected)
    return adji_fail(ADJ_E_FORMAT, "the header promises %llu rows of %llu bytes, but %llu bytes are missing", rows,
                     bytes, (unsigned long long)(expected - present));
  if (present > expected)
    return adji_fail(ADJ_E_FORMAT, "the header promises %llu rows of %llu bytes, but %llu more bytes follow", rows,
                     bytes, (unsigned long long)(present - expected));
  return ADJ_OK;
}

/* Whether the values are f32 or f64 in this byte order, of the type asked for, and aligned. */
static bool usable_in_place(const adji_source *source, const adji_table *table, adj_type type) {
  size_t size = adji_stored_size(table->stored);
  bool same = table->stored == (type == ADJ_F64 ? ADJI_F64 : ADJI_F32);
  bool aligned = (uintptr_t)(source->bytes + table->offset) % size == 0 && table->row_stride % size == 0;
  return same && aligned && (!table->swapped);
}

static adj_status convert_table(adji_source *source, const adji_table *table, adji_dataset_parts *parts, bool exact) {
  adji_memory *memory = &source->ctx->memory;
  void *block = adji_alloc(memory, adji_mul(parts->count, parts->dim), adji_type_size(parts->type), "points");
  if (!block) return ADJ_E_MEMORY;
  size_t size = adji_stored_size(table->stored);
  adji_conversion conversion = {.stored = table->stored,
                                .swapped = table->swapped,
                                .by_column = table->by_column,
                                .exact = exact,
                                .type = parts->type,
                                .from = source->bytes + table->offset,
                                .to = block,
                                .runs = table->by_column ? table->dim : table->count,
                                .run_length = table->by_column ? table->count : table->dim};
  conversion.run_stride = table->row_stride ? table->row_stride : conversion.run_length * size;
  adj_status status = adji_convert(source->ctx, &conversion);
  if (status) {
    adji_free(memory, block);
    return status;
  }
  parts->data = parts->owner = block;
  parts->release = adji_release_block;
  return ADJ_OK;
}

adj_status adji_read_table(adji_source *source, adj_type asked, const adji_table *table, adji_dataset_parts *parts) {
  parts->type = adji_table_type(source, table->stored, asked);
  parts->count = table->count;
  parts->dim = table->dim;
  size_t size = adji_type_size(parts->type);
  if (usable_in_place(source, table, parts->type)) {
    parts->data = (const char *)(source->bytes + table->offset);
    parts->row_stride = table->row_stride;
    adji_source_give(source, parts);
  } else {
    adj_status status = convert_table(source, table, parts, !asked);
    if (status) return status;
  }
  if (table->by_column && table->count) {
    parts->row_stride = size;
    parts->column_stride = table->count * size;
  }
  return ADJ_OK;
}
