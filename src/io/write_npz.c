/* SPDX-License-Identifier: MIT
 *
 * Pairs as a sparse matrix that scipy.sparse.load_npz opens: CSR, one row per left point, one
 * column per right point, an entry for each pair. The entry is the distance, or true without.
 *
 * A .npz file is a zip file with one .npy file per array. The join says at the start how many rows
 * and pairs there will be, so every array's place is known: indices and data grow side by side,
 * and the checksums, which nobody knows before the end, are written last.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_crc.h"
#include "io/write_zip.h"

enum { FORMAT, SHAPE, INDPTR, INDICES, DATA, MEMBERS };

typedef struct npz_state {
  adji_zip_member member[MEMBERS];
  uint64_t written[MEMBERS]; /* bytes of each so far                     */
  size_t index_bytes;        /* 4 or 8, of indptr and of indices         */
  size_t value_bytes;        /* of data                                  */
  adji_crc_tables crc;
} npz_state;

/* ---- Arrays in pieces, on all threads --------------------------------------------------------- */

/* Bytes that are made, summed and written in one go: a core's own cache, and any thread's stack, holds
 * them. */
enum { PIECE_BYTES = 1 << 16 };

/* count items of one array to append. from is the items as they are to be written; or NULL, and
 * make writes items first .. first + many - 1 to a buffer. */
typedef struct array_part {
  adji_pair_writer *writer;
  int member;
  uint64_t count, piece_items;
  size_t item_bytes;
  const void *from;
  void (*make)(const struct array_part *part, uint64_t first, uint64_t many, void *to);
  const void *user;
  uint32_t *crcs; /* one per piece */
} array_part;

static adj_status write_piece(void *user, uint64_t piece, uint32_t lane) {
  (void)lane;
  array_part *part = user;
  npz_state *state = part->writer->state;
  uint64_t made[PIECE_BYTES / sizeof(uint64_t)];
  uint64_t first = piece * part->piece_items;
  uint64_t many = part->count - first < part->piece_items ? part->count - first : part->piece_items;
  const void *bytes = made;
  if (part->from)
    bytes = (const char *)part->from + first * part->item_bytes;
  else
    part->make(part, first, many, made);
  part->crcs[piece] = adji_crc(&state->crc, bytes, many * part->item_bytes);
  uint64_t at = state->member[part->member].data_at + state->written[part->member] + first * part->item_bytes;
  return adji_output_write_at(part->writer->output, at, bytes, many * part->item_bytes);
}

static adj_status append(array_part *part) {
  adj_ctx *ctx = part->writer->ctx;
  npz_state *state = part->writer->state;
  if (!part->count) return ADJ_OK;
  part->piece_items = PIECE_BYTES / part->item_bytes;
  uint64_t pieces = (part->count - 1) / part->piece_items + 1;
  part->crcs = adji_alloc(&ctx->memory, pieces, sizeof *part->crcs, "checksums");
  if (!part->crcs) return ADJ_E_MEMORY;
  uint64_t begin_ns = adji_now_ns();
  adj_status status = adji_loop(ctx, pieces, write_piece, part);
  adji_zip_member *member = &state->member[part->member];
  for (uint64_t piece = 0; !status && piece < pieces; piece++) {
    uint64_t many = piece + 1 < pieces ? part->piece_items : part->count - piece * part->piece_items;
    member->crc = adji_crc_join(member->crc, part->crcs[piece], many * part->item_bytes);
  }
  state->written[part->member] += part->count * part->item_bytes;
  adji_free(&ctx->memory, part->crcs);
  if (!status) adji_trace(ctx, "write", 0, begin_ns, part->count);
  return status;
}

static adj_status append_bytes(adji_pair_writer *writer, int member, const void *bytes, uint64_t count) {
  array_part part = {.writer = writer, .member = member, .count = count, .item_bytes = 1, .from = bytes};
  return append(&part);
}

/* ---- The start: places, headers and indptr ---------------------------------------------------- */

/* The text that every array begins with. */
static size_t header_of(const adji_pair_writer *writer, int member, uint64_t pairs, char *to) {
  const npz_state *state = writer->state;
  char descr[8], shape[32];
  snprintf(descr, sizeof descr, "'<i%zu'", state->index_bytes);
  snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)(member == INDPTR ? writer->left->count + 1 : pairs));
  switch (member) {
    case FORMAT:
      return adji_npy_header(to, "'|S3'", "()");
    case SHAPE:
      return adji_npy_header(to, "'<i8'", "(2,)");
    case DATA:
      return adji_npy_header(to,
                             state->value_bytes == 8   ? "'<f8'"
                             : state->value_bytes == 4 ? "'<f4'"
                                                       : "'|b1'",
                             shape);
    default:
      return adji_npy_header(to, descr, shape);
  }
}

static void choose_places(adji_pair_writer *writer, uint64_t rows, uint64_t pairs) {
  static const char *const names[MEMBERS] = {"format.npy", "shape.npy", "indptr.npy", "indices.npy", "data.npy"};
  npz_state *state = writer->state;
  const uint64_t limit = INT32_MAX;
  bool small = rows <= limit && pairs <= limit && writer->right->count <= limit;
  state->index_bytes = small ? 4 : 8;
  state->value_bytes = writer->with_distance ? adji_type_size(writer->type) : 1;
  const uint64_t data_bytes[MEMBERS] = {3, 16, (rows + 1) * state->index_bytes, pairs * state->index_bytes,
                                        pairs * state->value_bytes};
  for (int i = 0; i < MEMBERS; i++) {
    char header[ADJI_NPY_HEADER];
    state->member[i] = (adji_zip_member){.name = names[i]};
    state->member[i].bytes = header_of(writer, i, pairs, header) + data_bytes[i];
    state->written[i] = 0;
  }
  adji_zip_place(state->member, MEMBERS);
}

typedef struct row_starts {
  const uint32_t *degrees;
  const uint64_t *piece_starts; /* pairs before each piece's first row */
} row_starts;

/* indptr[i], the pairs before row i: piece by piece, from the sums of the pieces before. */
static void make_indptr(const array_part *part, uint64_t first, uint64_t many, void *to) {
  const row_starts *starts = part->user;
  uint64_t sum = starts->piece_starts[first / part->piece_items];
  for (uint64_t i = 0; i < many; i++) {
    if (part->item_bytes == 4)
      ((int32_t *)to)[i] = (int32_t)sum;
    else
      ((int64_t *)to)[i] = (int64_t)sum;
    if (first + i + 1 < part->count) sum += starts->degrees[first + i]; /* the last entry has no row */
  }
}

static adj_status write_indptr(adji_pair_writer *writer, uint64_t rows, const uint32_t *degrees) {
  npz_state *state = writer->state;
  uint64_t piece_rows = PIECE_BYTES / state->index_bytes, pieces = rows / piece_rows + 1;
  uint64_t *sums = adji_alloc(&writer->ctx->memory, pieces, sizeof *sums, "row starts");
  if (!sums) return ADJ_E_MEMORY;
  uint64_t sum = 0;
  for (uint64_t piece = 0; piece < pieces; piece++) {
    sums[piece] = sum;
    uint64_t end = (piece + 1) * piece_rows < rows ? (piece + 1) * piece_rows : rows;
    for (uint64_t row = piece * piece_rows; row < end; row++)
      sum += degrees[row];
  }
  row_starts starts = {degrees, sums};
  array_part part = {.writer = writer,
                     .member = INDPTR,
                     .count = rows + 1,
                     .item_bytes = state->index_bytes,
                     .make = make_indptr,
                     .user = &starts};
  adj_status status = append(&part);
  adji_free(&writer->ctx->memory, sums);
  return status;
}

static adj_status begin(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  npz_state *state = adji_alloc(&writer->ctx->memory, 1, sizeof *state, "state of the npz writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  adji_crc_init(&state->crc);
  choose_places(writer, rows, pairs);
  adj_status status = ADJ_OK;
  for (int i = 0; !status && i < MEMBERS; i++) {
    char header[ADJI_NPY_HEADER];
    size_t bytes = header_of(writer, i, pairs, header);
    status = append_bytes(writer, i, header, bytes);
  }
  const int64_t shape[2] = {(int64_t)rows, (int64_t)writer->right->count};
  if (!status) status = append_bytes(writer, FORMAT, "csr", 3);
  if (!status) status = append_bytes(writer, SHAPE, shape, sizeof shape);
  if (!status) status = write_indptr(writer, rows, degrees);
  return status;
}

/* ---- The pairs -------------------------------------------------------------------------------- */

static void make_wide_ids(const array_part *part, uint64_t first, uint64_t many, void *to) {
  const uint32_t *ids = part->user;
  for (uint64_t i = 0; i < many; i++)
    ((int64_t *)to)[i] = ids[first + i];
}

static void make_true(const array_part *part, uint64_t first, uint64_t many, void *to) {
  (void)part, (void)first;
  memset(to, 1, many);
}

static adj_status write_rows(adji_pair_writer *writer, const adj_rows *rows) {
  npz_state *state = writer->state;
  uint64_t first = rows->offsets[0], pairs = rows->offsets[rows->row_count] - first;
  array_part indices = {.writer = writer, .member = INDICES, .count = pairs, .item_bytes = state->index_bytes};
  if (state->index_bytes == sizeof *rows->ids) {
    indices.from = rows->ids + first;
  } else {
    indices.make = make_wide_ids;
    indices.user = rows->ids + first;
  }
  array_part data = {.writer = writer, .member = DATA, .count = pairs, .item_bytes = state->value_bytes};
  if (writer->with_distance)
    data.from = (const char *)rows->distances + first * state->value_bytes;
  else
    data.make = make_true;
  adj_status status = append(&indices);
  return status ? status : append(&data);
}

static adj_status finish(adji_pair_writer *writer) {
  const npz_state *state = writer->state;
  for (int i = 0; i < MEMBERS; i++)
    if (state->written[i] != state->member[i].bytes)
      return adji_fail(ADJ_E_INTERNAL, "%s: %s has %llu bytes where %llu were announced",
                       adji_output_name(writer->output), state->member[i].name, (unsigned long long)state->written[i],
                       (unsigned long long)state->member[i].bytes);
  return adji_zip_finish(writer->output, state->member, MEMBERS);
}

static void end(adji_pair_writer *writer) {
  adji_free(&writer->ctx->memory, writer->state);
}

const adji_pair_format adji_format_npz = {"npz", true, begin, write_rows, finish, end};
