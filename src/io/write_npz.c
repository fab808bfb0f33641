/* SPDX-License-Identifier: MIT
 *
 * Pairs as a sparse matrix that scipy.sparse.load_npz opens: CSR, one row per left point, one
 * column per right point, an entry for each pair. The entry is the distance, or true without distances.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_arrays.h"

enum { FORMAT, SHAPE, INDPTR, INDICES, DATA, ARRAYS };

typedef struct npz_state {
  adji_arrays arrays;
  size_t index_bytes; /* 4 or 8, of indptr and of indices */
  size_t value_bytes; /* of data                          */
} npz_state;

/* ---- Begin: headers and indptr ---------------------------------------------------- */

static adj_status begin_arrays(adji_pair_writer *writer, uint64_t rows, uint64_t pairs) {
  npz_state *state = writer->state;
  const uint64_t limit = INT32_MAX;
  bool small = rows <= limit && pairs <= limit && writer->right->count <= limit;
  state->index_bytes = small ? 4 : 8;
  state->value_bytes = writer->with_distance ? adji_type_size(writer->type) : 1;
  const char *index = small ? "'<i4'" : "'<i8'", *value = adji_npy_real(writer->type);
  adji_array each[ARRAYS] = {
      [FORMAT] = {"format.npy", "'|S3'", "()", 3},
      [SHAPE] = {"shape.npy", "'<i8'", "(2,)", 16},
      [INDPTR] = {"indptr.npy", index, "", (rows + 1) * state->index_bytes},
      [INDICES] = {"indices.npy", index, "", pairs * state->index_bytes},
      [DATA] = {"data.npy", writer->with_distance ? value : "'|b1'", "", pairs * state->value_bytes},
  };
  snprintf(each[INDPTR].shape, sizeof each->shape, "(%llu,)", (unsigned long long)rows + 1);
  snprintf(each[INDICES].shape, sizeof each->shape, "(%llu,)", (unsigned long long)pairs);
  memcpy(each[DATA].shape, each[INDICES].shape, sizeof each->shape);
  return adji_arrays_begin(&state->arrays, writer->ctx, writer->output, each, ARRAYS);
}

typedef struct row_starts {
  const uint32_t *degrees;
  const uint64_t *chunk_starts; /* pairs before the first row of each chunk */
  uint64_t rows;
  size_t index_bytes;
} row_starts;

/* indptr[i] is the number of pairs before row i. Each chunk starts from the sum of those before it. */
static void make_indptr(const void *user, uint64_t first, uint64_t many, void *to) {
  const row_starts *starts = user;
  uint64_t sum = starts->chunk_starts[first / (ADJI_ARRAYS_CHUNK / starts->index_bytes)];
  for (uint64_t i = 0; i < many; i++) {
    if (starts->index_bytes == 4)
      ((int32_t *)to)[i] = (int32_t)sum;
    else
      ((int64_t *)to)[i] = (int64_t)sum;
    if (first + i < starts->rows) sum += starts->degrees[first + i]; /* the last entry has no row */
  }
}

static adj_status write_indptr(adji_pair_writer *writer, uint64_t rows, const uint32_t *degrees) {
  npz_state *state = writer->state;
  uint64_t chunk_rows = ADJI_ARRAYS_CHUNK / state->index_bytes, chunks = rows / chunk_rows + 1;
  uint64_t *sums = adji_alloc(&writer->ctx->memory, chunks, sizeof *sums, "row starts");
  if (!sums) return ADJ_E_MEMORY;
  uint64_t sum = 0;
  for (uint64_t chunk = 0; chunk < chunks; chunk++) {
    sums[chunk] = sum;
    uint64_t end = (chunk + 1) * chunk_rows < rows ? (chunk + 1) * chunk_rows : rows;
    for (uint64_t row = chunk * chunk_rows; row < end; row++)
      sum += degrees[row];
  }
  row_starts starts = {degrees, sums, rows, state->index_bytes};
  adji_array_part part = {
      .array = INDPTR, .count = rows + 1, .item_bytes = state->index_bytes, .make = make_indptr, .user = &starts};
  adj_status status = adji_arrays_append(&state->arrays, &part);
  adji_free(&writer->ctx->memory, sums);
  return status;
}

static adj_status begin(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  npz_state *state = adji_alloc(&writer->ctx->memory, 1, sizeof *state, "state of the npz writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  adj_status status = begin_arrays(writer, rows, pairs);
  const int64_t extents[2] = {(int64_t)rows, (int64_t)writer->right->count};
  adji_array_part format = {.array = FORMAT, .count = 3, .item_bytes = 1, .from = "csr"};
  adji_array_part shape = {.array = SHAPE, .count = 2, .item_bytes = sizeof *extents, .from = extents};
  if (!status) status = adji_arrays_append(&state->arrays, &format);
  if (!status) status = adji_arrays_append(&state->arrays, &shape);
  if (!status) status = write_indptr(writer, rows, degrees);
  return status;
}

/* ---- The pairs -------------------------------------------------------------------------------- */

static void make_wide_ids(const void *user, uint64_t first, uint64_t many, void *to) {
  const uint32_t *ids = user;
  for (uint64_t i = 0; i < many; i++)
    ((int64_t *)to)[i] = ids[first + i];
}

static void make_true(const void *user, uint64_t first, uint64_t many, void *to) {
  (void)user, (void)first;
  memset(to, 1, many);
}

static adj_status write_rows(adji_pair_writer *writer, const adj_rows *rows) {
  npz_state *state = writer->state;
  uint64_t first = rows->offsets[0], pairs = rows->offsets[rows->row_count] - first;
  adji_array_part indices = {.array = INDICES, .count = pairs, .item_bytes = state->index_bytes};
  if (state->index_bytes == sizeof *rows->ids) {
    indices.from = rows->ids + first;
  } else {
    indices.make = make_wide_ids;
    indices.user = rows->ids + first;
  }
  adji_array_part data = {.array = DATA, .count = pairs, .item_bytes = state->value_bytes};
  if (writer->with_distance)
    data.from = (const char *)rows->distances + first * state->value_bytes;
  else
    data.make = make_true;
  adj_status status = adji_arrays_append(&state->arrays, &indices);
  return status ? status : adji_arrays_append(&state->arrays, &data);
}

static adj_status finish(adji_pair_writer *writer) {
  npz_state *state = writer->state;
  return adji_arrays_finish(&state->arrays);
}

static void end(adji_pair_writer *writer) {
  adji_free(&writer->ctx->memory, writer->state);
}

const adji_pair_format adji_format_npz = {"npz", true, begin, write_rows, finish, end};
