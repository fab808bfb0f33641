/* SPDX-License-Identifier: MIT
 *
 * The neighbours of a kNN join as a sparse matrix, like the neighbour graphs of scikit-learn: the CSR matrix of
 * write_npz.c, with each row sorted by distance and without padding. Rows with padding are first copied, without it, to
 * a slice of bounded size.
 */
#include <string.h>

#include "io/write.h"

typedef struct graph_state {
  void *matrix;      /* the state of the matrix format                          */
  uint64_t rows;     /* in a slice; 0: no row has padding                       */
  uint64_t *offsets; /* of a slice, rows + 1                                    */
  uint32_t *ids;
  char *distances; /* NULL when not wanted                                    */
} graph_state;

static const adji_pair_format *const matrix = &adji_format_npz;

/* The writer for calls of the matrix format, which has its own state. */
static adji_pair_writer inner_writer(const adji_pair_writer *writer) {
  const graph_state *state = writer->state;
  adji_pair_writer inner = *writer;
  inner.state = state->matrix;
  return inner;
}

static adj_status make_slice(adji_pair_writer *writer, graph_state *state) {
  adji_memory *memory = &writer->ctx->memory;
  const uint64_t most = (uint64_t)1 << 20; /* entries, unless one row has more */
  state->rows = writer->k < most ? most / writer->k : 1;
  state->offsets = adji_alloc(memory, state->rows + 1, sizeof *state->offsets, "slice of a graph");
  state->ids = adji_alloc(memory, adji_mul(state->rows, writer->k), sizeof *state->ids, "slice of a graph");
  if (!state->offsets || !state->ids) return ADJ_E_MEMORY;
  if (!writer->with_distance) return ADJ_OK;
  state->distances =
      adji_alloc(memory, adji_mul(state->rows, writer->k), adji_type_size(writer->type), "slice of a graph");
  return state->distances ? ADJ_OK : ADJ_E_MEMORY;
}

static adj_status begin(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  graph_state *state = adji_alloc_zero(&writer->ctx->memory, 1, sizeof *state, "state of the graph writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  adji_pair_writer inner = inner_writer(writer);
  adj_status status = matrix->begin(&inner, rows, pairs, degrees);
  state->matrix = inner.state;
  if (!status && pairs < adji_mul(rows, writer->k)) status = make_slice(writer, state);
  return status;
}

/* Copies rows first .. first + count - 1 of the block to the slice, without padding. */
static adj_rows drop_padding(const adji_pair_writer *writer, const adj_rows *rows, uint64_t first, uint64_t count) {
  graph_state *state = writer->state;
  size_t size = adji_type_size(writer->type);
  uint64_t at = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t from = rows->offsets[first + i], end = rows->offsets[first + i + 1];
    while (end > from && rows->ids[end - 1] == ADJ_NO_ID)
      end--;
    state->offsets[i] = at;
    memcpy(state->ids + at, rows->ids + from, (end - from) * sizeof *state->ids);
    if (state->distances)
      memcpy(state->distances + at * size, (const char *)rows->distances + from * size, (end - from) * size);
    at += end - from;
  }
  state->offsets[count] = at;
  return (adj_rows){rows->first_row + first, count, state->offsets, state->ids, state->distances};
}

static adj_status write_rows(adji_pair_writer *writer, const adj_rows *rows) {
  const graph_state *state = writer->state;
  adji_pair_writer inner = inner_writer(writer);
  if (!state->rows) return matrix->rows(&inner, rows);
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; !status && first < rows->row_count; first += state->rows) {
    uint64_t remaining = rows->row_count - first;
    adj_rows slice = drop_padding(writer, rows, first, remaining < state->rows ? remaining : state->rows);
    status = matrix->rows(&inner, &slice);
  }
  return status;
}

static adj_status finish(adji_pair_writer *writer) {
  adji_pair_writer inner = inner_writer(writer);
  return matrix->finish(&inner);
}

static void end(adji_pair_writer *writer) {
  graph_state *state = writer->state;
  if (!state) return;
  adji_memory *memory = &writer->ctx->memory;
  adji_pair_writer inner = inner_writer(writer);
  matrix->end(&inner);
  adji_free(memory, state->offsets);
  adji_free(memory, state->ids);
  adji_free(memory, state->distances);
  adji_free(memory, state);
}

const adji_pair_format adji_table_graph = {"csr", true, begin, write_rows, finish, end};
