/* SPDX-License-Identifier: MIT
 *
 * The table of a kNN join, with k ids or distances per left point: as a NumPy array of shape (n, k), or as .ivecs and
 * .fvecs files, where each row begins with its length. Padding is -1 and inf.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"

typedef struct table_block {
  const adji_pair_writer *writer;
  const adj_rows *rows;
} table_block;

void adji_put_wide_ids(const uint32_t *ids, uint64_t count, void *to) {
  int64_t *wide = to;
  for (uint64_t i = 0; i < count; i++)
    wide[i] = ids[i] == ADJ_NO_ID ? -1 : (int64_t)ids[i];
}

static adj_status write_items(adji_pair_writer *writer, const adj_rows *rows, uint64_t count, uint64_t bytes_each,
                              uint64_t (*format)(const void *user, uint64_t first, uint64_t count, char *to)) {
  table_block block = {writer, rows};
  adji_items items = {.count = count, .bytes_each = bytes_each, .format = format, .user = &block};
  return adji_output_items(writer->output, &items);
}

static adj_status finish(adji_pair_writer *writer) {
  (void)writer; /* nothing follows the rows */
  return ADJ_OK;
}

static void end(adji_pair_writer *writer) {
  (void)writer;
}

/* ---- npy ---------------------------------------------------------------------------------------- */

static adj_status begin_npy(adji_pair_writer *writer, const char *descr, uint64_t rows) {
  char header[ADJI_NPY_HEADER], shape[48];
  snprintf(shape, sizeof shape, "(%llu, %u)", (unsigned long long)rows, writer->k);
  return adji_output_write(writer->output, header, adji_npy_header(header, descr, shape));
}

static adj_status begin_npy_ids(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)pairs, (void)degrees;
  return begin_npy(writer, "'<i8'", rows);
}

static adj_status begin_npy_distances(adji_pair_writer *writer, uint64_t rows, uint64_t pairs,
                                      const uint32_t *degrees) {
  (void)pairs, (void)degrees;
  return begin_npy(writer, adji_npy_real(writer->type), rows);
}

static uint64_t format_npy_ids(const void *user, uint64_t first, uint64_t count, char *to) {
  const table_block *block = user;
  adji_put_wide_ids(block->rows->ids + block->rows->offsets[0] + first, count, to);
  return count * sizeof(int64_t);
}

static uint64_t format_npy_distances(const void *user, uint64_t first, uint64_t count, char *to) {
  const table_block *block = user;
  size_t size = adji_type_size(block->writer->type);
  memcpy(to, (const char *)block->rows->distances + (block->rows->offsets[0] + first) * size, count * size);
  return count * size;
}

static adj_status write_npy_ids(adji_pair_writer *writer, const adj_rows *rows) {
  return write_items(writer, rows, rows->row_count * writer->k, sizeof(int64_t), format_npy_ids);
}

static adj_status write_npy_distances(adji_pair_writer *writer, const adj_rows *rows) {
  return write_items(writer, rows, rows->row_count * writer->k, adji_type_size(writer->type), format_npy_distances);
}

/* ---- ivecs and fvecs ------------------------------------------------------------------------------ */

static adj_status check_length(const adji_pair_writer *writer, const char *format) {
  if (writer->k <= INT32_MAX) return ADJ_OK;
  return adji_fail(ADJ_E_ARGUMENT, "%s: %s has rows of at most %d entries, and k is %u",
                   adji_output_name(writer->output), format, INT32_MAX, writer->k);
}

static adj_status begin_ivecs(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)rows, (void)pairs, (void)degrees;
  if (writer->right->count > (uint64_t)INT32_MAX + 1)
    return adji_fail(ADJ_E_ARGUMENT, "%s: ivecs holds ids up to %d, and there are %llu points; write npy or npz",
                     adji_output_name(writer->output), INT32_MAX, (unsigned long long)writer->right->count);
  return check_length(writer, "ivecs");
}

static adj_status begin_fvecs(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)rows, (void)pairs, (void)degrees;
  if (writer->type != ADJ_F32)
    return adji_fail(ADJ_E_ARGUMENT, "%s: fvecs holds f32 and the distances are f64; write npy, or join in f32",
                     adji_output_name(writer->output));
  return check_length(writer, "fvecs");
}

/* Copies rows of k 32-bit words, each after k itself. ADJ_NO_ID is -1 as an int32. */
static uint64_t put_vecs(const table_block *block, const void *words, uint64_t first, uint64_t count, char *to) {
  const char *begin = to;
  uint32_t k = block->writer->k;
  size_t bytes = (size_t)k * sizeof k;
  const char *from = (const char *)words + block->rows->offsets[first] * sizeof k;
  for (; count; count--, from += bytes, to += sizeof k + bytes) {
    memcpy(to, &k, sizeof k);
    memcpy(to + sizeof k, from, bytes);
  }
  return (uint64_t)(to - begin);
}

static uint64_t format_ivecs(const void *user, uint64_t first, uint64_t count, char *to) {
  const table_block *block = user;
  return put_vecs(block, block->rows->ids, first, count, to);
}

static uint64_t format_fvecs(const void *user, uint64_t first, uint64_t count, char *to) {
  const table_block *block = user;
  return put_vecs(block, block->rows->distances, first, count, to);
}

static adj_status write_ivecs(adji_pair_writer *writer, const adj_rows *rows) {
  return write_items(writer, rows, rows->row_count, 4 * ((uint64_t)writer->k + 1), format_ivecs);
}

static adj_status write_fvecs(adji_pair_writer *writer, const adj_rows *rows) {
  return write_items(writer, rows, rows->row_count, 4 * ((uint64_t)writer->k + 1), format_fvecs);
}

const adji_pair_format adji_table_npy = {"npy", false, begin_npy_ids, write_npy_ids, finish, end};
const adji_pair_format adji_table_ivecs = {"ivecs", false, begin_ivecs, write_ivecs, finish, end};
const adji_pair_format adji_distances_npy = {"npy", false, begin_npy_distances, write_npy_distances, finish, end};
const adji_pair_format adji_distances_fvecs = {"fvecs", false, begin_fvecs, write_fvecs, finish, end};
