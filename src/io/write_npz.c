/* SPDX-License-Identifier: MIT
 *
 * Results for NumPy and SciPy, as .npz files.
 *
 * Pairs are a sparse matrix that scipy.sparse.load_npz opens: CSR, one row per left point, one column per right point,
 * an entry for each pair. The entry is the distance, or true without distances. The graph of a kNN join is such a
 * matrix, with each row sorted by distance and without padding, like the neighbour graphs of scikit-learn.
 *
 * The table of a kNN join, for numpy.load: "indices", int64 of shape (n, k) with -1 for padding, and, if the join has
 * distances, "distances" in the type of the points with inf for padding.
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
  uint64_t pairs;     /* of all rows so far, including earlier shares */
  /* Graph: this many rows at a time are copied here without their padding. 0: no row has padding. */
  uint64_t slice_rows;
  char slice[]; /* slice_rows + 1 offsets, then distances and ids */
} npz_state;

static adj_status complete(adji_pair_writer *writer) {
  npz_state *state = writer->state;
  return adji_arrays_complete(&state->arrays, &writer->sums);
}

/* ---- The matrix: headers and indptr ----------------------------------------------------------- */

/* 32-bit indices if they suffice, which scipy reads as well. */
static size_t bytes_of_index(const adji_pair_writer *writer) {
  const uint64_t limit = INT32_MAX;
  return writer->rows <= limit && writer->pairs <= limit && writer->right_count <= limit ? 4 : 8;
}

static size_t bytes_of_value(const adji_pair_writer *writer) {
  return writer->with_distance ? adji_type_size(writer->type) : 1;
}

static uint64_t matrix_bytes(const adji_pair_writer *writer, bool least) {
  (void)least;
  uint64_t each = bytes_of_index(writer), pairs = adji_mul(writer->pairs, each + bytes_of_value(writer));
  return pairs < UINT64_MAX / 2 ? pairs + writer->rows * each : pairs;
}

/* indptr[i] is the number of pairs before row i; the last entry has no row. */
static adj_status begin_arrays(adji_pair_writer *writer) {
  npz_state *state = writer->state;
  uint64_t rows = writer->rows, pairs = writer->pairs;
  bool first = writer->share.first;
  uint64_t before = writer->share.pairs_before, own = writer->share.pairs;
  size_t each_index = bytes_of_index(writer), each_value = bytes_of_value(writer);
  state->index_bytes = each_index;
  state->value_bytes = each_value;
  state->pairs = before;
  const char *index = each_index == 4 ? "'<i4'" : "'<i8'", *value = adji_npy_real(writer->type);
  adji_array each[ARRAYS] = {
      [FORMAT] = {"format.npy", "'|S3'", "()", 3, first ? 0 : 3, first ? 3 : 0},
      [SHAPE] = {"shape.npy", "'<i8'", "(2,)", 16, first ? 0 : 16, first ? 16 : 0},
      [INDPTR] = {"indptr.npy", index, "", (rows + 1) * each_index, writer->share.rows_before * each_index,
                  (writer->share.rows + writer->share.last) * each_index},
      [INDICES] = {"indices.npy", index, "", pairs * each_index, before * each_index, own * each_index},
      [DATA] = {"data.npy", writer->with_distance ? value : "'|b1'", "", pairs * each_value, before * each_value,
                own * each_value},
  };
  snprintf(each[INDPTR].shape, sizeof each->shape, "(%llu,)", (unsigned long long)rows + 1);
  snprintf(each[INDICES].shape, sizeof each->shape, "(%llu,)", (unsigned long long)pairs);
  memcpy(each[DATA].shape, each[INDICES].shape, sizeof each->shape);
  return adji_arrays_begin(&state->arrays, writer->ctx, writer->output, each, ARRAYS, first);
}

/* slice_bytes: for write_graph() */
static adj_status begin_matrix(adji_pair_writer *writer, uint64_t slice_bytes) {
  npz_state *state = adji_alloc(&writer->ctx->memory, sizeof *state + slice_bytes, 1, "state of the npz writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  adj_status status = begin_arrays(writer);
  const int64_t extents[2] = {(int64_t)writer->rows, (int64_t)writer->right_count};
  adji_array_part format = {.array = FORMAT, .count = 3, .item_bytes = 1, .from = "csr"};
  adji_array_part shape = {.array = SHAPE, .count = 2, .item_bytes = sizeof *extents, .from = extents};
  if (!status && writer->share.first) status = adji_arrays_append(&state->arrays, &format);
  if (!status && writer->share.first) status = adji_arrays_append(&state->arrays, &shape);
  return status;
}

static adj_status begin_pairs(adji_pair_writer *writer) {
  return begin_matrix(writer, 0);
}

/* ---- The matrix: pairs ------------------------------------------------------------------------ */

/* The starts of rows among all pairs. */
typedef struct row_starts {
  const uint64_t *offsets;
  uint64_t before; /* pairs before the first of these rows */
  size_t index_bytes;
} row_starts;

static void make_indptr(const void *user, uint64_t first, uint64_t many, void *to) {
  const row_starts *starts = user;
  for (uint64_t i = 0; i < many; i++) {
    uint64_t at = starts->before + (starts->offsets[first + i] - starts->offsets[0]);
    if (starts->index_bytes == 4)
      ((int32_t *)to)[i] = (int32_t)at;
    else
      ((int64_t *)to)[i] = (int64_t)at;
  }
}

static adj_status write_indptr(npz_state *state, const uint64_t *offsets, uint64_t count) {
  row_starts starts = {offsets, state->pairs, state->index_bytes};
  adji_array_part part = {
      .array = INDPTR, .count = count, .item_bytes = state->index_bytes, .make = make_indptr, .user = &starts};
  return adji_arrays_append(&state->arrays, &part);
}

/* Entries of rows, from entry `first` on. */
typedef struct entries {
  const adji_rows *rows;
  uint64_t first;
} entries;

static void make_wide_ids(const void *user, uint64_t first, uint64_t many, void *to) {
  const entries *from = user;
  adji_put_wide_ids(from->rows, from->first + first, many, to);
}

static void make_narrow_ids(const void *user, uint64_t first, uint64_t many, void *to) {
  const entries *from = user;
  for (uint64_t i = 0; i < many; i++)
    ((int32_t *)to)[i] = (int32_t)adji_id_at(from->rows, from->first + first + i);
}

static void make_true(const void *user, uint64_t first, uint64_t many, void *to) {
  (void)user, (void)first;
  memset(to, 1, many);
}

static adj_status write_pairs(adji_pair_writer *writer, const adji_rows *rows) {
  npz_state *state = writer->state;
  uint64_t first = rows->offsets[0], pairs = rows->offsets[rows->row_count] - first;
  entries from = {rows, first};
  adji_array_part indices = {.array = INDICES, .count = pairs, .item_bytes = state->index_bytes, .user = &from};
  if (state->index_bytes == 4 && rows->ids)
    indices.from = rows->ids + first;
  else
    indices.make = state->index_bytes == 4 ? make_narrow_ids : make_wide_ids;
  adji_array_part data = {.array = DATA, .count = pairs, .item_bytes = state->value_bytes};
  if (writer->with_distance)
    data.from = (const char *)rows->distances + first * state->value_bytes;
  else
    data.make = make_true;
  adj_status status = write_indptr(state, rows->offsets, rows->row_count);
  state->pairs += pairs;
  if (!status) status = adji_arrays_append(&state->arrays, &indices);
  return status ? status : adji_arrays_append(&state->arrays, &data);
}

static adj_status finish_matrix(adji_pair_writer *writer) {
  npz_state *state = writer->state;
  const uint64_t end = 0; /* added to the number of pairs so far */
  adj_status status = writer->share.last ? write_indptr(state, &end, 1) : ADJ_OK;
  return status ? status : adji_arrays_finish(&state->arrays, &writer->sums);
}

const adji_pair_format adji_format_npz = {"npz", true, matrix_bytes, begin_pairs, write_pairs, finish_matrix, complete};

/* ---- The graph -------------------------------------------------------------------------------- */

static adj_status begin_graph(adji_pair_writer *writer) {
  const uint64_t most = (uint64_t)1 << 20; /* entries, unless one row has more */
  bool padded = writer->pairs < adji_mul(writer->rows, writer->k);
  uint64_t rows = !padded ? 0 : writer->k < most ? most / writer->k : 1;
  size_t entry_bytes = sizeof(int64_t) + (writer->with_distance ? adji_type_size(writer->type) : 0);
  adj_status status = begin_matrix(writer, (rows + 1) * sizeof(uint64_t) + rows * writer->k * entry_bytes);
  npz_state *state = writer->state;
  if (state) state->slice_rows = rows;
  return status;
}

/* Copies rows first .. first + count - 1 of the block to the slice, without padding. */
static adji_rows drop_padding(const adji_pair_writer *writer, const adji_rows *rows, uint64_t first, uint64_t count) {
  npz_state *state = writer->state;
  size_t size = writer->with_distance ? adji_type_size(writer->type) : 0;
  uint64_t *offsets = (uint64_t *)(void *)state->slice, at = 0;
  int64_t *ids = (int64_t *)(offsets + state->slice_rows + 1);
  char *distances = (char *)(ids + state->slice_rows * writer->k);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t from = rows->offsets[first + i], end = rows->offsets[first + i + 1];
    while (end > from && adji_id_at(rows, end - 1) < 0)
      end--;
    offsets[i] = at;
    adji_put_wide_ids(rows, from, end - from, ids + at);
    if (size) memcpy(distances + at * size, (const char *)rows->distances + from * size, (end - from) * size);
    at += end - from;
  }
  offsets[count] = at;
  return (adji_rows){rows->first_row + first, count, offsets, .wide = ids, .distances = size ? distances : NULL};
}

static adj_status write_graph(adji_pair_writer *writer, const adji_rows *rows) {
  const npz_state *state = writer->state;
  if (!state->slice_rows) return write_pairs(writer, rows);
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; !status && first < rows->row_count; first += state->slice_rows) {
    uint64_t remaining = rows->row_count - first;
    adji_rows slice = drop_padding(writer, rows, first, remaining < state->slice_rows ? remaining : state->slice_rows);
    status = write_pairs(writer, &slice);
  }
  return status;
}

const adji_pair_format adji_table_graph = {"csr",       true,          matrix_bytes, begin_graph,
                                           write_graph, finish_matrix, complete};

/* ---- The table -------------------------------------------------------------------------------- */

enum { TABLE_IDS, TABLE_DISTANCES };

static uint64_t table_bytes(const adji_pair_writer *writer, bool least) {
  (void)least;
  return adji_mul(writer->pairs, sizeof(int64_t) + (writer->with_distance ? adji_type_size(writer->type) : 0));
}

static adj_status begin_table(adji_pair_writer *writer) {
  npz_state *state = adji_alloc(&writer->ctx->memory, 1, sizeof *state, "state of the npz writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  uint64_t pairs = writer->pairs, before = writer->share.pairs_before, own = writer->share.pairs;
  size_t size = adji_type_size(writer->type), id = sizeof(int64_t);
  adji_array each[] = {
      [TABLE_IDS] = {"indices.npy", "'<i8'", "", pairs * id, before * id, own * id},
      [TABLE_DISTANCES] = {"distances.npy", adji_npy_real(writer->type), "", pairs * size, before * size, own * size}};
  for (int i = TABLE_IDS; i <= TABLE_DISTANCES; i++)
    snprintf(each[i].shape, sizeof each[i].shape, "(%llu, %u)", (unsigned long long)writer->rows, writer->k);
  return adji_arrays_begin(&state->arrays, writer->ctx, writer->output, each, writer->with_distance ? 2 : 1,
                           writer->share.first);
}

static adj_status write_table(adji_pair_writer *writer, const adji_rows *rows) {
  npz_state *state = writer->state;
  uint64_t first = rows->offsets[0], count = rows->offsets[rows->row_count] - first;
  size_t size = adji_type_size(writer->type);
  entries from = {rows, first};
  adji_array_part ids = {.array = TABLE_IDS, .count = count, .item_bytes = sizeof(int64_t), .make = make_wide_ids};
  ids.user = &from;
  adj_status status = adji_arrays_append(&state->arrays, &ids);
  if (status || !writer->with_distance) return status;
  adji_array_part distances = {.array = TABLE_DISTANCES, .count = count, .item_bytes = size};
  distances.from = (const char *)rows->distances + first * size;
  return adji_arrays_append(&state->arrays, &distances);
}

static adj_status finish_table(adji_pair_writer *writer) {
  npz_state *state = writer->state;
  return adji_arrays_finish(&state->arrays, &writer->sums);
}

const adji_pair_format adji_table_npz = {"npz", true, table_bytes, begin_table, write_table, finish_table, complete};
