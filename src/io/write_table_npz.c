/* SPDX-License-Identifier: MIT
 *
 * The table of a kNN join for numpy.load: "indices", int64 of shape (n, k) with -1 for padding, and, if the join has
 * distances, "distances" in the type of the points with inf for padding.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_arrays.h"

enum { INDICES, DISTANCES };

static adj_status begin(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)degrees;
  adji_arrays *arrays = adji_alloc(&writer->ctx->memory, 1, sizeof *arrays, "state of the npz writer");
  if (!arrays) return ADJ_E_MEMORY;
  writer->state = arrays;
  adji_array each[] = {
      [INDICES] = {"indices.npy", "'<i8'", "", pairs * sizeof(int64_t)},
      [DISTANCES] = {"distances.npy", adji_npy_real(writer->type), "", pairs * adji_type_size(writer->type)}};
  for (int i = INDICES; i <= DISTANCES; i++)
    snprintf(each[i].shape, sizeof each[i].shape, "(%llu, %u)", (unsigned long long)rows, writer->k);
  return adji_arrays_begin(arrays, writer->ctx, writer->output, each, writer->with_distance ? 2 : 1);
}

static void make_indices(const void *user, uint64_t first, uint64_t many, void *to) {
  const uint32_t *ids = user;
  adji_put_wide_ids(ids + first, many, to);
}

static adj_status write_rows(adji_pair_writer *writer, const adj_rows *rows) {
  uint64_t first = rows->offsets[0], entries = rows->offsets[rows->row_count] - first;
  size_t size = adji_type_size(writer->type);
  adji_array_part indices = {.array = INDICES,
                             .count = entries,
                             .item_bytes = sizeof(int64_t),
                             .make = make_indices,
                             .user = rows->ids + first};
  adj_status status = adji_arrays_append(writer->state, &indices);
  if (status || !writer->with_distance) return status;
  adji_array_part distances = {
      .array = DISTANCES, .count = entries, .item_bytes = size, .from = (const char *)rows->distances + first * size};
  return adji_arrays_append(writer->state, &distances);
}

static adj_status finish(adji_pair_writer *writer) {
  return adji_arrays_finish(writer->state);
}

static void end(adji_pair_writer *writer) {
  adji_free(&writer->ctx->memory, writer->state);
}

const adji_pair_format adji_table_npz = {"npz", true, begin, write_rows, finish, end};
