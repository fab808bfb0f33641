/* SPDX-License-Identifier: MIT
 *
 * Tables of binary values: used in place, or converted to f32 or f64, in parallel over chunks of equal size. The loops
 * convert all values and only note whether any was bad. If so, a second search finds the first bad one. This keeps the
 * loops simple.
 */
#include "io/read_table.h"

#include <math.h>
#include <string.h>

enum { CHUNK_VALUES = 1 << 17 };

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

/* ---- Single values ---------------------------------------------------------------------------------- */

static inline uint64_t load(const unsigned char *at, size_t size, bool swapped) {
  switch (size) {
    case 1:
      return *at;
    case 2: {
      uint16_t x;
      memcpy(&x, at, 2);
      return swapped ? __builtin_bswap16(x) : x;
    }
    case 4: {
      uint32_t x;
      memcpy(&x, at, 4);
      return swapped ? __builtin_bswap32(x) : x;
    }
    default: {
      uint64_t x;
      memcpy(&x, at, 8);
      return swapped ? __builtin_bswap64(x) : x;
    }
  }
}

/* IEEE half precision: 1 sign, 5 exponent, 10 fraction bits. Every half is a float. */
static inline float float_of_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
    float x = (float)fraction * 0x1p-24f;
    return sign ? -x : x;
  }
  uint32_t bits = sign | (exponent == 31 ? 0xffu << 23 : (exponent + 112) << 23) | fraction << 13;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float float_of_bits(uint64_t bits) {
  uint32_t narrow = (uint32_t)bits;
  float x;
  memcpy(&x, &narrow, sizeof x);
  return x;
}

static inline double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* An integer is exact in a float type if its bits from the first 1 to the last fit into the precision. */
static inline bool fits_bits(uint64_t magnitude, int bits) {
  if (magnitude >> bits == 0) return true;
  return 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= bits;
}

static inline uint64_t magnitude_of(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* ---- A run of values ---------------------------------------------------------------------------------- */

/* Converts `many` integers. bad: type TO cannot represent one of them. */
#define INTEGERS(NAME, STORED, MAGNITUDE, TO, BITS)                    \
  case ADJI_##NAME:                                                    \
    for (uint64_t i = 0; i < many; i++) {                              \
      STORED x = (STORED)load(from + i * sizeof x, sizeof x, swapped); \
      to[i] = (TO)x;                                                   \
      if (sizeof x >= 4) bad |= !fits_bits(MAGNITUDE, BITS);           \
    }                                                                  \
    return bad && exact;

/* Converts `many` values, and returns whether type TO cannot represent one of them. */
#define CONVERT_RUN(TO, BITS)                                                                                 \
  static bool convert_run_##TO(const adji_table *table, bool exact, const unsigned char *from, uint64_t many, \
                               TO *to) {                                                                      \
    bool swapped = table->swapped, bad = false;                                                               \
    switch (table->stored) {                                                                                  \
      case ADJI_F16:                                                                                          \
        for (uint64_t i = 0; i < many; i++)                                                                   \
          to[i] = (TO)float_of_half((uint16_t)load(from + 2 * i, 2, swapped));                                \
        return false;                                                                                         \
      case ADJI_F32:                                                                                          \
        for (uint64_t i = 0; i < many; i++)                                                                   \
          to[i] = (TO)float_of_bits(load(from + 4 * i, 4, swapped));                                          \
        return false;                                                                                         \
      case ADJI_F64:                                                                                          \
        for (uint64_t i = 0; i < many; i++) {                                                                 \
          double x = double_of_bits(load(from + 8 * i, 8, swapped));                                          \
          to[i] = (TO)x;                                                                                      \
          bad |= isinf(to[i]) && !isinf(x);                                                                   \
        }                                                                                                     \
        return bad;                                                                                           \
        INTEGERS(I8, int8_t, magnitude_of(x), TO, BITS)                                                       \
        INTEGERS(U8, uint8_t, x, TO, BITS)                                                                    \
        INTEGERS(I16, int16_t, magnitude_of(x), TO, BITS)                                                     \
        INTEGERS(U16, uint16_t, x, TO, BITS)                                                                  \
        INTEGERS(I32, int32_t, magnitude_of(x), TO, BITS)                                                     \
        INTEGERS(U32, uint32_t, x, TO, BITS)                                                                  \
        INTEGERS(I64, int64_t, magnitude_of(x), TO, BITS)                                                     \
        INTEGERS(U64, uint64_t, x, TO, BITS)                                                                  \
      default:                                                                                                \
        return false;                                                                                         \
    }                                                                                                         \
  }
CONVERT_RUN(float, 24)
CONVERT_RUN(double, 53)

static bool convert_run(const adji_conversion *c, const unsigned char *from, uint64_t many, void *to) {
  return c->type == ADJ_F64 ? convert_run_double(c->table, c->exact, from, many, to)
                            : convert_run_float(c->table, c->exact, from, many, to);
}

/* ---- Conversion in chunks --------------------------------------------------------------------------------- */

/* A run is a row of dim values, or a column of count values with by_column. */
typedef struct chunked_conversion {
  const adji_conversion *conversion;
  uint64_t run_length, run_stride; /* values of a run; bytes from run to run */
  uint64_t values, chunks;
} chunked_conversion;

static adj_status report_value(const chunked_conversion *job, const unsigned char *at, uint64_t index) {
  const adji_conversion *c = job->conversion;
  adji_stored stored = c->table->stored;
  uint64_t run = index / job->run_length, place = index % job->run_length;
  unsigned long long row = c->first_row + (c->table->by_column ? place : run) + 1;
  unsigned long long column = (c->table->by_column ? run : place) + 1;
  uint64_t bits = load(at, adji_stored_size(stored), c->table->swapped);
  const char *type = type_name(c->type);
  if (stored == ADJI_F64)
    return adji_fail(ADJ_E_DATA, "row %llu, column %llu: %.17g is too large for %s", row, column, double_of_bits(bits),
                     type);
  if (stored == ADJI_U64)
    return adji_fail(ADJ_E_DATA, "row %llu, column %llu: %llu is not exact as %s; choose a type to round it", row,
                     column, (unsigned long long)bits, type);
  return adji_fail(ADJ_E_DATA, "row %llu, column %llu: %lld is not exact as %s; choose a type to round it", row, column,
                   (long long)bits, type);
}

static adj_status convert_chunk(void *user, uint64_t chunk, uint32_t lane) {
  (void)lane;
  const chunked_conversion *job = user;
  const adji_conversion *c = job->conversion;
  size_t from_size = adji_stored_size(c->table->stored), to_size = adji_type_size(c->type);
  bool packed = job->run_stride == job->run_length * from_size; /* runs without gaps are one long run */
  uint64_t at, end;
  adji_slice(job->values, job->chunks, chunk, &at, &end);
  while (at < end) {
    uint64_t run = at / job->run_length, place = at % job->run_length;
    uint64_t many = end - at;
    if (!packed && many > job->run_length - place) many = job->run_length - place;
    const unsigned char *from = (const unsigned char *)c->from + run * job->run_stride + place * from_size;
    char *to = (char *)c->to + at * to_size;
    if (convert_run(c, from, many, to)) {
      uint64_t i = 0;
      while (i + 1 < many && !convert_run(c, from + i * from_size, 1, to + i * to_size))
        i++;
      return report_value(job, from + i * from_size, at + i);
    }
    at += many;
  }
  return ADJ_OK;
}

adj_status adji_convert(adj_ctx *ctx, const adji_conversion *conversion) {
  const adji_table *table = conversion->table;
  chunked_conversion job = {.conversion = conversion, .values = adji_mul(table->count, table->dim)};
  if (!job.values) return ADJ_OK;
  job.run_length = table->by_column ? table->count : table->dim;
  job.run_stride = table->row_stride ? table->row_stride : job.run_length * adji_stored_size(table->stored);
  job.chunks = job.values / CHUNK_VALUES + 1;
  return adji_loop(ctx, job.chunks, convert_chunk, &job);
}

/* ---- Tables ------------------------------------------------------------------------------------------------- */

/* Whether the values have the requested type and this machine's byte order, and are aligned. */
static bool usable_in_place(const adji_source *source, const adji_table *table, adj_type type) {
  size_t size = adji_stored_size(table->stored);
  bool same = table->stored == (type == ADJ_F64 ? ADJI_F64 : ADJI_F32);
  uintptr_t begin =
      adji_source_pending(source) ? 0 : (uintptr_t)(source->bytes + table->offset); /* 0: in a new block */
  bool aligned = begin % size == 0 && table->row_stride % size == 0;
  return same && aligned && !table->swapped;
}

/* Values stored row by row can be read to their final place, each part when it is checked. Others need the whole
 * file. */
static adj_status use_in_place(adji_source *source, const adji_table *table, adji_dataset_parts *parts) {
  uint64_t row_bytes = table->row_stride ? table->row_stride : table->dim * adji_type_size(parts->type);
  parts->row_stride = table->row_stride;
  if (adji_source_pending(source) && !table->by_column)
    return adji_source_defer(source, table->offset, adji_mul(table->count, row_bytes), parts);
  adj_status status = adji_source_load(source, false);
  if (status) return status;
  parts->data = (const char *)(source->bytes + table->offset);
  adji_source_give(source, parts);
  return ADJ_OK;
}

/* Loads only the bytes of the table, unless they are in memory already. */
static adj_status convert_table(adji_source *source, const adji_table *table, adji_dataset_parts *parts, bool exact) {
  adji_memory *memory = &source->ctx->memory;
  bool pending = adji_source_pending(source);
  uint64_t row_bytes = table->row_stride ? table->row_stride : table->dim * adji_stored_size(table->stored);
  adj_status status = adji_source_load_part(source, table->offset, adji_mul(table->count, row_bytes));
  if (status) return status;
  void *block = adji_alloc(memory, adji_mul(parts->count, parts->dim), adji_type_size(parts->type), "points");
  if (!block) return ADJ_E_MEMORY;
  adji_conversion conversion = {.table = table,
                                .from = source->bytes + (pending ? 0 : table->offset),
                                .to = block,
                                .type = parts->type,
                                .exact = exact,
                                .first_row = table->first_row};
  status = adji_convert(source->ctx, &conversion);
  if (status) {
    adji_free(memory, block);
    return status;
  }
  parts->data = parts->owner = block;
  parts->release = adji_release_block;
  return ADJ_OK;
}

adji_row_range adji_rows_of_part(const adj_open_options *options, uint64_t count) {
  uint64_t begin, end;
  if (!options->parts) return (adji_row_range){0, count};
  adji_slice(count, options->parts, options->part, &begin, &end);
  return (adji_row_range){begin, end - begin};
}

/* A table of the rows that the options select. */
static adj_status narrow(const adj_open_options *options, const adji_table *whole, adji_table *table) {
  *table = *whole;
  if (!options->parts || whole->all_rows) return ADJ_OK;
  if (whole->by_column)
    return adji_fail(ADJ_E_UNSUPPORTED, "parts: values column after column (Fortran order) are read as a whole");
  adji_row_range rows = adji_rows_of_part(options, whole->count);
  uint64_t row_bytes = whole->row_stride ? whole->row_stride : whole->dim * adji_stored_size(whole->stored);
  table->count = rows.count;
  table->first_row = rows.first;
  table->offset += rows.first * row_bytes;
  return ADJ_OK;
}

adj_status adji_read_table(adji_source *source, const adj_open_options *options, const adji_table *table,
                           adji_dataset_parts *parts) {
  adji_table rows;
  adj_status status = narrow(options, table, &rows);
  if (status) return status;
  parts->type = adji_table_type(source, rows.stored, options->type);
  if (rows.stored == ADJI_F16) parts->precision = 11;
  if (rows.stored == ADJI_F32 && parts->type == ADJ_F64) parts->precision = 24;
  parts->count = rows.count;
  parts->dim = rows.dim;
  parts->first_row = rows.first_row;
  parts->all_rows = table->all_rows ? table->all_rows : table->count;
  size_t size = adji_type_size(parts->type);
  bool in_place = usable_in_place(source, &rows, parts->type);
  status = in_place ? use_in_place(source, &rows, parts) : convert_table(source, &rows, parts, !options->type);
  if (status) return status;
  if (rows.by_column && rows.count) {
    parts->row_stride = size;
    parts->column_stride = rows.count * size;
  }
  return ADJ_OK;
}
