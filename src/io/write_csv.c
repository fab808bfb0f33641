/* SPDX-License-Identifier: MIT
 *
 * Pairs as text: a header line, then one line per pair, "left,right" or "left,right,distance". Lines of a kNN join are
 * "left,rank,right,distance", where rank 1 is the nearest; padding has no line.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_text.h"

typedef struct text_state {
  char separator;
  uint64_t line_bytes; /* most bytes of one line */
  adji_decimals decimals;
} text_state;

static uint64_t digits_of(uint64_t number) {
  char text[ADJI_COUNT_TEXT];
  return (uint64_t)(adji_put_count(number, text) - text);
}

/* A line has two names, and perhaps a rank and a distance, each with a separator or line end. Entries of a kNN join may
 * be padding. */
static uint64_t text_bytes(const adji_pair_writer *writer, bool least) {
  uint64_t fields = 2 + (writer->k > 0) + writer->with_distance;
  if (least) return writer->k ? 0 : adji_mul(writer->pairs, 2 * fields);
  uint64_t names = digits_of(writer->left_count) + digits_of(writer->right_count);
  uint64_t others = (writer->k ? digits_of(writer->k) : 0) + (writer->with_distance ? 10 : 0);
  return adji_mul(writer->pairs, names + others + fields);
}

static adj_status begin(adji_pair_writer *writer) {
  text_state *state = adji_alloc(&writer->ctx->memory, 1, sizeof *state, "state of the text writer");
  if (!state) return ADJ_E_MEMORY;
  writer->state = state;
  char separator = state->separator = writer->format == &adji_format_tsv ? '\t' : ',';
  state->line_bytes = adji_row_name_bytes(writer->left) + adji_row_name_bytes(writer->right) + ADJI_REAL_TEXT + 3;
  if (writer->k) state->line_bytes += ADJI_COUNT_TEXT + 1;
  adji_decimals_init(&state->decimals);
  char header[40];
  const char rank[] = {'r', 'a', 'n', 'k', separator, 0};
  int length = snprintf(header, sizeof header, "left%c%sright%c%s", separator, writer->k ? rank : "",
                        writer->with_distance ? separator : '\n', writer->with_distance ? "distance\n" : "");
  return adji_write_header(writer, header, (uint64_t)length, writer->share.bytes_before);
}

/* Formats pairs first .. first + count - 1 of the block. All lines of a row have the same left name, so it is formatted
 * once and then copied from the line above. */
static uint64_t format_pairs(const void *user, uint64_t first, uint64_t count, char *to) {
  const adji_row_block *block = user;
  const adji_pair_writer *writer = block->writer;
  const text_state *state = writer->state;
  const adji_rows *rows = block->rows;
  const char *begin_at = to, *name = NULL;
  size_t size = adji_type_size(writer->type), name_bytes = 0;
  uint64_t row = adji_row_of_pair(rows, first), end = rows->offsets[row + 1];
  for (uint64_t pair = rows->offsets[0] + first; count; count--, pair++) {
    while (pair >= end) {
      end = rows->offsets[++row + 1];
      name = NULL;
    }
    int64_t id = adji_id_at(rows, pair);
    if (id < 0) continue;
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
    to = adji_put_row_name(writer->right, (uint64_t)id, state->separator, to);
    if (writer->with_distance) {
      *to++ = state->separator;
      to = adji_put_real(&state->decimals, writer->type, (const char *)rows->distances + pair * size, to);
    }
    *to++ = '\n';
  }
  return (uint64_t)(to - begin_at);
}

static adj_status write_rows(adji_pair_writer *writer, const adji_rows *rows) {
  const text_state *state = writer->state;
  uint64_t pairs = rows->offsets[rows->row_count] - rows->offsets[0];
  return adji_write_block(writer, rows, pairs, state->line_bytes, format_pairs);
}

const adji_pair_format adji_format_csv = {"csv", false, text_bytes, begin, write_rows, NULL, NULL};
const adji_pair_format adji_format_tsv = {"tsv", false, text_bytes, begin, write_rows, NULL, NULL};
