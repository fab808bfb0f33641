/* SPDX-License-Identifier: MIT
 *
 * Pairs as a NumPy array: int64 of shape (m, 2) or, with distances, records (left, right, distance).
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"

uint64_t adji_row_of_pair(const adj_rows *rows, uint64_t pair) {
  /* Finds the last row that begins at or before the pair. It is not empty. Row low always begins there, row high never
   * does. */
  uint64_t low = 0, high = rows->row_count, at = rows->offsets[0] + pair;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (rows->offsets[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static adj_status begin(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)rows, (void)degrees;
  char header[ADJI_NPY_HEADER], shape[64], descr[96];
  snprintf(shape, sizeof shape, writer->with_distance ? "(%llu,)" : "(%llu, 2)", (unsigned long long)pairs);
  snprintf(descr, sizeof descr,
           writer->with_distance ? "[('left', '<i8'), ('right', '<i8'), ('distance', '<f%zu')]" : "'<i8'",
           adji_type_size(writer->type));
  return adji_output_write(writer->output, header, adji_npy_header(header, descr, shape));
}

typedef struct npy_block {
  const adji_pair_writer *writer;
  const adj_rows *rows;
} npy_block;

static uint64_t record_bytes(const adji_pair_writer *writer) {
  return 2 * sizeof(int64_t) + (writer->with_distance ? adji_type_size(writer->type) : 0);
}

static uint64_t format_records(const void *user, uint64_t first, uint64_t count, char *to) {
  const npy_block *block = user;
  const adj_rows *rows = block->rows;
  size_t size = block->writer->with_distance ? adji_type_size(block->writer->type) : 0;
  const char *begin_at = to;
  uint64_t row = adji_row_of_pair(rows, first);
  for (uint64_t pair = rows->offsets[0] + first; count; count--, pair++) {
    while (pair >= rows->offsets[row + 1])
      row++;
    int64_t ids[2] = {(int64_t)(rows->first_row + row), rows->ids[pair]};
    memcpy(to, ids, sizeof ids);
    to += sizeof ids;
    if (size) memcpy(to, (const char *)rows->distances + pair * size, size);
    to += size;
  }
  return (uint64_t)(to - begin_at);
}

static adj_status write_rows(adji_pair_writer *writer, const adj_rows *rows) {
  npy_block block = {writer, rows};
  adji_items items = {.count = rows->offsets[rows->row_count] - rows->offsets[0],
                      .bytes_each = record_bytes(writer),
                      .format = format_records,
                      .user = &block};
  return adji_output_items(writer->output, &items);
}

static adj_status finish(adji_pair_writer *writer) {
  (void)writer; /* the header has the number of pairs already */
  return ADJ_OK;
}

static void end(adji_pair_writer *writer) {
  (void)writer;
}

const adji_pair_format adji_format_npy = {"npy", false, begin, write_rows, finish, end};
