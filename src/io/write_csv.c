/* SPDX-License-Identifier: MIT
 *
 * Pairs as text: a header line, then one line per pair, "left,right" or "left,right,distance". Lines of a kNN join are
 * "left,rank,right,distance", where rank 1 is the nearest; padding has no line.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_field.h"

typedef struct text_state {
  char separator;
  uint64_t line_bytes; /* most bytes of one line */
  adji_decimals decimals;
} text_state;

/* A block of rows to format. */
typedef struct text_block {
  const adji_pair_writer *writer;
  const text_state *state;
  const adj_rows *rows;
} text_block;

static adj_status begin_text(adji_pair_writer *writer, char separator) {
  text_state *state = adji_alloc(&writer->ctx->memory, 1, sizeof *state, "state of the text writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  state->separator = separator;
  state->line_bytes = adji_row_name_bytes(writer->left) + adji_row_name_bytes(writer->right) + ADJI_REAL_TEXT + 3;
  if (writer->k) state->line_bytes += ADJI_COUNT_TEXT + 1;
  adji_decimals_init(&state->decimals);
  char header[40];
  const char rank[] = {'r', 'a', 'n', 'k', separator, 0};
  int length = snprintf(header, sizeof header, "left%c%sright%c%s", separator, writer->k ? rank : "",
                        writer->with_distance ? separator : '\n', writer->with_distance ? "distance\n" : "");
  return adji_output_write(writer->output, header, (uint64_t)length);
}

static adj_status begin_csv(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)rows, (void)pairs, (void)degrees;
  return begin_text(writer, ',');
}

static adj_status begin_tsv(adji_pair_writer *writer, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)rows, (void)pairs, (void)degrees;
  return begin_text(writer, '\t');
}

/* Formats pairs first .. first + count - 1 of the block. All lines of a row have the same left name, so it is formatted
 * once and then copied from the line above. */
static uint64_t format_pairs(const void *user, uint64_t first, uint64_t count, char *to) {
  const text_block *block = user;
  const adji_pair_writer *writer = block->writer;
  const text_state *state = block->state;
  const adj_rows *rows = block->rows;
  const char *begin = to, *name = NULL;
  size_t size = adji_type_size(writer->type), name_bytes = 0;
  uint64_t row = adji_row_of_pair(rows, first), end = rows->offsets[row + 1];
  for (uint64_t pair = rows->offsets[0] + first; count; count--, pair++) {
    while (pair >= end) {
      end = rows->offsets[++row + 1];
      name = NULL;
    }
    if (rows->ids[pair] == ADJ_NO_ID) continue;
    if (name) {
      memcpy(to, name, name_bytes);
      name = to;
      to += name_bytes;
    } else {
      name = to;
      to = adji_put_row_name(writer->left, rows->first_row + row, state->separator, to);
      *to++ = state->separator;
      name_bytes = (size_t)(to - name);
    }
    if (writer->k) {
      to = adji_put_count(pair - rows->offsets[row] + 1, to);
      *to++ = state->separator;
    }
    to = adji_put_row_name(writer->right, rows->ids[pair], state->separator, to);
    if (writer->with_distance) {
      *to++ = state->separator;
      to = adji_put_real(&state->decimals, writer->type, (const char *)rows->distances + pair * size, to);
    }
    *to++ = '\n';
  }
  return (uint64_t)(to - begin);
}

static adj_status write_rows(adji_pair_writer *writer, const adj_rows *rows) {
  const text_state *state = writer->state;
  text_block block = {writer, state, rows};
  adji_items items = {.count = rows->offsets[rows->row_count] - rows->offsets[0],
                      .bytes_each = state->line_bytes,
                      .format = format_pairs,
                      .user = &block};
  return adji_output_items(writer->output, &items);
}

static adj_status finish(adji_pair_writer *writer) {
  (void)writer; /* a text file ends with its last line */
  return ADJ_OK;
}

static void end(adji_pair_writer *writer) {
  adji_free(&writer->ctx->memory, writer->state);
}

const adji_pair_format adji_format_csv = {"csv", false, begin_csv, write_rows, finish, end};
const adji_pair_format adji_format_tsv = {"tsv", false, begin_tsv, write_rows, finish, end};
