/* SPDX-License-Identifier: MIT
 *
 * Rows of numbers without names. Pairs as a NumPy array: int64 of shape (m, 2) or, with distances, records (left,
 * right, distance). The table of a kNN join, with k ids or distances per left point: as a NumPy array of shape (n, k),
 * or as .ivecs and .fvecs files, where each row begins with its length. Padding is -1 and inf.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_arrays.h"

/* ---- Pairs ------------------------------------------------------------------------------------ */

static uint64_t bytes_of_pair(const adji_pair_writer *writer) {
  return 2 * sizeof(int64_t) + (writer->with_distance ? adji_type_size(writer->type) : 0);
}

static uint64_t pairs_bytes(const adji_pair_writer *writer, bool least) {
  (void)least;
  return adji_mul(writer->pairs, bytes_of_pair(writer));
}

static adj_status begin_pairs(adji_pair_writer *writer) {
  char header[ADJI_NPY_HEADER], shape[64], descr[96];
  snprintf(shape, sizeof shape, writer->with_distance ? "(%llu,)" : "(%llu, 2)", (unsigned long long)writer->pairs);
  snprintf(descr, sizeof descr,
           writer->with_distance ? "[('left', '<i8'), ('right', '<i8'), ('distance', '<f%zu')]" : "'<i8'",
           adji_type_size(writer->type));
  return adji_write_header(writer, header, adji_npy_header(header, descr, shape),
                           adji_mul(writer->share.pairs_before, bytes_of_pair(writer)));
}

static uint64_t format_pairs(const void *user, uint64_t first, uint64_t count, char *to) {
  const adji_row_block *block = user;
  const adji_rows *rows = block->rows;
  size_t size = block->writer->with_distance ? adji_type_size(block->writer->type) : 0;
  const char *begin = to;
  uint64_t row = adji_row_of_pair(rows, first);
  for (uint64_t pair = rows->offsets[0] + first; count; count--, pair++) {
    while (pair >= rows->offsets[row + 1])
      row++;
    int64_t ids[2] = {(int64_t)(rows->first_row + row), adji_id_at(rows, pair)};
    memcpy(to, ids, sizeof ids);
    to += sizeof ids;
    if (size) memcpy(to, (const char *)rows->distances + pair * size, size);
    to += size;
  }
  return (uint64_t)(to - begin);
}

static adj_status write_pairs(adji_pair_writer *writer, const adji_rows *rows) {
  return adji_write_block(writer, rows, rows->offsets[rows->row_count] - rows->offsets[0], bytes_of_pair(writer),
                          format_pairs);
}

const adji_pair_format adji_format_npy = {"npy", false, pairs_bytes, begin_pairs, write_pairs, NULL, NULL};

/* ---- Tables: npy ------------------------------------------------------------------------------ */

static size_t bytes_of_entry(const adji_pair_writer *writer) {
  return writer->format == &adji_table_npy ? sizeof(int64_t) : adji_type_size(writer->type);
}

static uint64_t table_bytes(const adji_pair_writer *writer, bool least) {
  (void)least;
  return adji_mul(writer->pairs, bytes_of_entry(writer));
}

static adj_status begin_npy(adji_pair_writer *writer) {
  char header[ADJI_NPY_HEADER], shape[48];
  const char *descr = writer->format == &adji_table_npy ? "'<i8'" : adji_npy_real(writer->type);
  snprintf(shape, sizeof shape, "(%llu, %u)", (unsigned long long)writer->rows, writer->k);
  return adji_write_header(writer, header, adji_npy_header(header, descr, shape),
                           adji_mul(writer->share.pairs_before, bytes_of_entry(writer)));
}

static uint64_t format_npy_ids(const void *user, uint64_t first, uint64_t count, char *to) {
  const adji_row_block *block = user;
  adji_put_wide_ids(block->rows, block->rows->offsets[0] + first, count, to);
  return count * sizeof(int64_t);
}

static uint64_t format_npy_distances(const void *user, uint64_t first, uint64_t count, char *to) {
  const adji_row_block *block = user;
  size_t size = adji_type_size(block->writer->type);
  memcpy(to, (const char *)block->rows->distances + (block->rows->offsets[0] + first) * size, count * size);
  return count * size;
}

static adj_status write_npy(adji_pair_writer *writer, const adji_rows *rows) {
  bool ids = writer->format == &adji_table_npy;
  return adji_write_block(writer, rows, rows->row_count * writer->k, bytes_of_entry(writer),
                          ids ? format_npy_ids : format_npy_distances);
}

const adji_pair_format adji_table_npy = {"npy", false, table_bytes, begin_npy, write_npy, NULL, NULL};
const adji_pair_format adji_distances_npy = {"npy", false, table_bytes, begin_npy, write_npy, NULL, NULL};

/* ---- Tables: ivecs and fvecs ------------------------------------------------------------------ */

static uint64_t vecs_bytes(const adji_pair_writer *writer, bool least) {
  (void)least;
  return adji_mul(writer->rows, 4 * ((uint64_t)writer->k + 1));
}

static adj_status begin_vecs(adji_pair_writer *writer, const char *format) {
  if (writer->k <= INT32_MAX)
    return adji_write_header(writer, NULL, 0, adji_mul(writer->share.rows_before, 4 * ((uint64_t)writer->k + 1)));
  return adji_fail(ADJ_E_ARGUMENT, "%s: %s has rows of at most %d entries, and k is %u",
                   adji_output_name(writer->output), format, INT32_MAX, writer->k);
}

static adj_status begin_ivecs(adji_pair_writer *writer) {
  if (writer->right_count > (uint64_t)INT32_MAX + 1)
    return adji_fail(ADJ_E_ARGUMENT, "%s: ivecs holds ids up to %d, and there are %llu points; write npy or npz",
                     adji_output_name(writer->output), INT32_MAX, (unsigned long long)writer->right_count);
  return begin_vecs(writer, "ivecs");
}

static adj_status begin_fvecs(adji_pair_writer *writer) {
  if (writer->type != ADJ_F32)
    return adji_fail(ADJ_E_ARGUMENT, "%s: fvecs holds f32 and the distances are f64; write npy, or join in f32",
                     adji_output_name(writer->output));
  return begin_vecs(writer, "fvecs");
}

/* There are fewer than 2^31 points, so ids fit. */
static void put_narrow_ids(const int64_t *ids, uint32_t count, char *to) {
  for (uint32_t i = 0; i < count; i++) {
    int32_t id = (int32_t)ids[i];
    memcpy(to + i * sizeof id, &id, sizeof id);
  }
}

/* Copies rows of k 32-bit words, each after k itself. ADJ_NO_ID is -1 as an int32. */
static uint64_t format_vecs(const void *user, uint64_t first, uint64_t count, char *to) {
  const adji_row_block *block = user;
  const char *begin = to;
  uint32_t k = block->writer->k;
  size_t bytes = (size_t)k * sizeof k;
  bool ids = block->writer->format == &adji_table_ivecs;
  const void *words = ids ? (const void *)block->rows->ids : block->rows->distances;
  uint64_t at = block->rows->offsets[first];
  for (; count; count--, at += k, to += sizeof k + bytes) {
    memcpy(to, &k, sizeof k);
    if (ids && block->rows->wide)
      put_narrow_ids(block->rows->wide + at, k, to + sizeof k);
    else
      memcpy(to + sizeof k, (const char *)words + at * sizeof k, bytes);
  }
  return (uint64_t)(to - begin);
}

static adj_status write_vecs(adji_pair_writer *writer, const adji_rows *rows) {
  return adji_write_block(writer, rows, rows->row_count, 4 * ((uint64_t)writer->k + 1), format_vecs);
}

const adji_pair_format adji_table_ivecs = {"ivecs", false, vecs_bytes, begin_ivecs, write_vecs, NULL, NULL};
const adji_pair_format adji_distances_fvecs = {"fvecs", false, vecs_bytes, begin_fvecs, write_vecs, NULL, NULL};
