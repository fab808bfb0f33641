/* SPDX-License-Identifier: MIT
 *
 * The rows of a text table, in parallel. The body is split into chunks at line ends. The first pass counts the lines
 * and rows of each chunk. The second pass can then write each number to its final place and name the line of an error.
 * It also finds the labels, which a third pass copies once their total length is known.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "io/read_csv.h"
#include "io/read_number.h"

enum { CHUNK_BYTES = 1 << 20, COUNT_BLOCK = 240 };

typedef struct chunk {
  const char *begin, *end;
  uint64_t lines, rows;
  uint64_t first_line, first_row; /* first line in the file, first row in the dataset */
  uint64_t label_bytes, label_begin;
} chunk;

typedef struct table {
  const adji_csv_layout *layout;
  const char *file; /* the first byte of the source */
  chunk *chunks;
  uint64_t chunk_count, chunk_bytes;
  uint64_t rows;
  adj_type type;
  char *points;
  uint64_t *label_ends; /* in the second pass: where the label begins in the file */
  char *label_text;
} table;

/* ---- First pass: lines and rows ----------------------------------------------------------------------------- */

/* Counts the line ends among `many` bytes, and in *odd those followed by a character with which a line that is not a
 * row may begin. bytes[many] exists. The counters of a block have one byte, so that the compiler can vectorise the
 * loop; a block is short enough not to overflow them. */
static void count_line_ends(const char *bytes, uint64_t many, uint64_t *lines, uint64_t *odd) {
  const unsigned char *b = (const unsigned char *)bytes;
  for (uint64_t begin = 0; begin < many; begin += COUNT_BLOCK) {
    uint64_t end = many - begin < COUNT_BLOCK ? many : begin + COUNT_BLOCK;
    uint8_t block_lines = 0, block_odd = 0;
    for (uint64_t i = begin; i < end; i++) {
      uint8_t line_end = b[i] == '\n';
      block_lines = (uint8_t)(block_lines + line_end);
      block_odd = (uint8_t)(block_odd + (line_end & (b[i + 1] <= '#')));
    }
    *lines += block_lines;
    *odd += block_odd;
  }
}

static uint64_t count_rows(const char *p, const char *end, char separator) {
  uint64_t rows = 0;
  for (; p < end; p = adji_csv_next_line(p, end))
    rows += !adji_csv_no_row(p, end, separator);
  return rows;
}

/* A chunk consists of the lines that begin within its chunk_bytes. It may end after these bytes, or be empty. The
 * search for the first line end stops at the end of these bytes, which keeps it linear if lines are longer than
 * chunks. */
static void find_chunk(const table *t, uint64_t number, chunk *c) {
  const adji_csv_layout *layout = t->layout;
  uint64_t offset = number * t->chunk_bytes, size = (uint64_t)(layout->end - layout->body);
  uint64_t limit = size - offset > t->chunk_bytes ? offset + t->chunk_bytes : size;
  const char *begin = layout->body;
  if (number && limit > offset) {
    const char *feed = memchr(begin + offset - 1, '\n', limit - offset);
    begin = feed ? feed + 1 : NULL;
  }
  if (!begin || limit == offset) begin = layout->body + limit;
  c->begin = c->end = begin;
  if (begin < layout->body + limit) c->end = adji_csv_next_line(layout->body + limit - 1, layout->end);
}

static adj_status count_chunk(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  table *t = user;
  chunk *c = &t->chunks[task];
  char separator = t->layout->separator;
  find_chunk(t, task, c);
  if (c->begin == c->end) return ADJ_OK;
  uint64_t odd = adji_csv_no_row(c->begin, c->end, separator);
  c->lines = 1; /* the last line, with or without its line end */
  count_line_ends(c->begin, (uint64_t)(c->end - c->begin) - 1, &c->lines, &odd);
  c->rows = odd ? count_rows(c->begin, c->end, separator) : c->lines;
  return ADJ_OK;
}

/* ---- Second pass: numbers -------------------------------------------------------------------------------------- */

typedef struct row_place {
  char *values;         /* where the row's coordinates go */
  uint64_t *label;      /* where the offset of its label goes */
  uint64_t label_bytes; /* sum over the rows of the chunk */
  uint32_t field;       /* number of the current field, for messages */
  const char *at;       /* current position in the text */
} row_place;

static inline adji_csv_fault store(const adji_decimal *number, char *values, uint32_t j, bool is_f64) {
  if (is_f64) {
    double x = adji_decimal_f64(number);
    memcpy(values + j * sizeof x, &x, sizeof x);
    return isinf(x) ? ADJI_CSV_OVERFLOW : ADJI_CSV_FINE;
  }
  float x = adji_decimal_f32(number);
  memcpy(values + j * sizeof x, &x, sizeof x);
  return isinf(x) ? ADJI_CSV_OVERFLOW : ADJI_CSV_FINE;
}

/* A coordinate that is not a plain number: quoted, or an error. */
static adji_csv_fault read_odd_number(const adji_csv_layout *layout, row_place *place, uint32_t j, bool is_f64) {
  adji_csv_field field;
  const char *p = place->at;
  adji_csv_fault fault = adji_csv_take_field(&p, layout->end, layout->separator, &field);
  if (!fault) fault = adji_csv_classify(&field);
  if (fault) return fault;
  adji_decimal number;
  adji_scan_decimal(adji_csv_skip_blanks(field.begin, field.end, 0), field.end, &number);
  fault = store(&number, place->values, j, is_f64);
  if (!fault) place->at = p;
  return fault;
}

/* A field that is not a coordinate: the label, or unused. */
static adji_csv_fault pass_field(const table *t, row_place *place, uint32_t role) {
  adji_csv_field field;
  const char *p = adji_csv_skip_blanks(place->at, t->layout->end, t->layout->separator), *begin = p;
  adji_csv_fault fault = adji_csv_take_field(&p, t->layout->end, t->layout->separator, &field);
  if (fault) return fault;
  place->at = p;
  if (role != ADJI_CSV_LABEL || !place->label) return ADJI_CSV_FINE;
  *place->label = (uint64_t)(begin - t->file);
  place->label_bytes += (uint64_t)(field.end - field.begin);
  for (const char *q = field.begin; field.quoted && q < field.end; q++)
    if (*q == '"') {
      place->label_bytes--; /* two quotes stand for one */
      q++;
    }
  return ADJI_CSV_FINE;
}

/* Reads coordinate j and moves place->at to the separator or line end after it (if blanks separate: to the next
 * field). */
static inline adji_csv_fault read_number(const adji_csv_layout *layout, row_place *place, uint32_t j, bool is_f64) {
  const char *end = layout->end;
  char separator = layout->separator;
  adji_decimal number;
  const char *begin = adji_csv_skip_blanks(place->at, end, separator);
  const char *after = adji_scan_decimal(begin, end, &number);
  if (after && (after == end || *after != separator || separator == ' ')) {
    const char *next = adji_csv_skip_blanks(after, end, separator);
    bool separated = next == end || *next == '\n' || *next == separator || (separator == ' ' && next > after);
    after = separated ? next : NULL;
  }
  place->at = begin;
  if (!after) return read_odd_number(layout, place, j, is_f64);
  adji_csv_fault fault = store(&number, place->values, j, is_f64);
  if (!fault) place->at = after;
  return fault;
}

/* Moves from the end of a field to the next; false at the end of the line. */
static inline bool next_field(const adji_csv_layout *layout, row_place *place) {
  const char *p = place->at;
  if (layout->separator == ' ') p = adji_csv_skip_blanks(p, layout->end, ' ');
  bool more = p < layout->end && *p != '\n';
  place->at = p + (more && layout->separator != ' ');
  return more;
}

/* Reads the row at place->at and moves place->at to its line end. */
static inline adji_csv_fault read_row(const table *t, row_place *place, bool is_f64) {
  const adji_csv_layout *layout = t->layout;
  for (place->field = 0;; place->field++) {
    uint32_t role = layout->role[place->field];
    adji_csv_fault fault =
        role < ADJI_CSV_LABEL ? read_number(layout, place, role, is_f64) : pass_field(t, place, role);
    if (fault) return fault;
    bool more = next_field(layout, place);
    if (place->field + 1 == layout->fields) return more ? ADJI_CSV_LONG : ADJI_CSV_FINE;
    if (!more) return ADJI_CSV_SHORT;
  }
}

/* ---- Messages -------------------------------------------------------------------------------------------------- */

/* If all columns are coordinates, a word in the first row is more likely a name than a misprint. */
static const char choose_columns[] =
    " (if this column holds names, make it the id column or choose the columns of coordinates)";

static bool is_one_of(const char *begin, const char *end, const char *const *words) {
  size_t length = (size_t)(end - begin);
  for (; *words; words++)
    if (strlen(*words) == length && !strncasecmp(begin, *words, length)) return true;
  return false;
}

/* The number of digits from p on. */
static int digits_at(const char *p, const char *end) {
  int many = 0;
  while (p + many < end && isdigit((unsigned char)p[many]))
    many++;
  return many;
}

/* A guess of what text that is not a number means; "" if there is none. */
static const char *guess(const char *begin, const char *end) {
  static const char *const missing[] = {"na", "n/a", "none", "null", "nil", "missing", "unknown", "-", "--", "?", NULL};
  bool digits = false, comma = false, semicolon = false, thousands = false, parts = false;
  for (const char *p = begin; p < end; p++) {
    bool before = p > begin && isdigit((unsigned char)p[-1]);
    int after = digits_at(p + 1, end);
    digits = digits || before || after;
    comma = comma || (*p == ',' && before);
    semicolon = semicolon || *p == ';';
    thousands = thousands || (before && strchr(" '_", *p) && after >= 3);
    /* 12:34:56, 12 34 56, 12h34m56s, 12d34m, and the sign of degrees, whose last byte UTF-8 and Latin-1 share */
    parts = parts || (before && (*p == ':' || *p == 'h' || (strchr(" d", *p) && (after == 1 || after == 2)))) ||
            *p == '\xb0';
  }
  if (is_one_of(begin, end, missing)) return "; rows with missing values must be left out";
  if (!digits) return "";
  if (semicolon) return "; fields and decimals must be separated by different characters, and decimals by a point";
  if (parts) return "; an angle or a time must be one number, such as 188.735 degrees for 12:34:56 hours";
  if (comma) return "; a number has a decimal point, and no commas";
  return thousands ? "; a number has no separators between thousands" : "";
}

static adj_status report(const table *t, const chunk *c, const char *row, const row_place *place,
                         adji_csv_fault fault) {
  unsigned long long line = c->first_line;
  for (const char *p = c->begin; p < row; p = adji_csv_next_line(p, row))
    line++;
  unsigned long long column = place->field + 1;
  if (fault == ADJI_CSV_SHORT || fault == ADJI_CSV_LONG) {
    uint64_t fields;
    adji_csv_count_fields(row, t->layout->end, t->layout->separator, &fields);
    return adji_fail(ADJ_E_FORMAT, "line %llu: %llu fields where %u are expected", line, (unsigned long long)fields,
                     t->layout->fields);
  }
  adji_csv_field field = {0};
  char text[48];
  const char *p = place->at;
  adji_csv_take_field(&p, t->layout->end, t->layout->separator, &field);
  adji_excerpt(field.begin, field.end, text);
  const char *type = t->type == ADJ_F64 ? "f64" : "f32";
  switch (fault) {
    case ADJI_CSV_EMPTY:
    case ADJI_CSV_OPEN_QUOTE:
    case ADJI_CSV_TAIL:
      return adji_fail(ADJ_E_FORMAT, "line %llu, column %llu: %s", line, column, adji_csv_fault_text(fault));
    case ADJI_CSV_NOT_FINITE:
      return adji_fail(ADJ_E_DATA, "line %llu, column %llu: \"%s\" is not a finite coordinate", line, column, text);
    case ADJI_CSV_OVERFLOW:
      return adji_fail(ADJ_E_DATA, "line %llu, column %llu: \"%s\" is too large for %s", line, column, text, type);
    default: {
      const char *hint = guess(field.begin, field.end);
      bool first = line == t->layout->body_line && t->layout->dim == t->layout->fields;
      return adji_fail(ADJ_E_FORMAT, "line %llu, column %llu: \"%s\" is not a number%s", line, column, text,
                       !*hint && first ? choose_columns : hint);
    }
  }
}

/* ---- The passes ------------------------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) adj_status read_chunk_as(table *t, chunk *c, bool is_f64) {
  const adji_csv_layout *layout = t->layout;
  uint64_t row_bytes = layout->dim * (is_f64 ? sizeof(double) : sizeof(float));
  row_place place = {.values = t->points + c->first_row * row_bytes};
  if (t->label_ends) place.label = t->label_ends + c->first_row;
  for (const char *p = c->begin; p < c->end;) {
    if ((unsigned char)*p <= '#' && adji_csv_no_row(p, c->end, layout->separator)) {
      p = adji_csv_next_line(p, c->end);
      continue;
    }
    place.at = p;
    adji_csv_fault fault = read_row(t, &place, is_f64);
    if (fault) return report(t, c, p, &place, fault);
    place.values += row_bytes;
    if (place.label) place.label++;
    p = place.at + (place.at < c->end); /* the last line of a file may have no end */
  }
  c->label_bytes = place.label_bytes;
  return ADJ_OK;
}

static adj_status read_chunk(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  table *t = user;
  chunk *c = &t->chunks[task];
  return t->type == ADJ_F64 ? read_chunk_as(t, c, true) : read_chunk_as(t, c, false);
}

static adj_status copy_labels(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  table *t = user;
  const chunk *c = &t->chunks[task];
  char *to = t->label_text + c->label_begin;
  for (uint64_t row = c->first_row; row < c->first_row + c->rows; row++) {
    const char *p = t->file + t->label_ends[row];
    adji_csv_field field;
    adji_csv_take_field(&p, t->layout->end, t->layout->separator, &field);
    for (const char *q = field.begin; q < field.end; q++) {
      *to++ = *q;
      if (field.quoted && *q == '"') q++; /* two quotes stand for one */
    }
    t->label_ends[row] = (uint64_t)(to - t->label_text);
  }
  return ADJ_OK;
}

/* Sets the first line and row of each chunk. */
static void place_chunks(table *t) {
  uint64_t line = t->layout->body_line;
  for (uint64_t i = 0; i < t->chunk_count; i++) {
    t->chunks[i].first_line = line;
    t->chunks[i].first_row = t->rows;
    line += t->chunks[i].lines;
    t->rows += t->chunks[i].rows;
  }
}

static adj_status read_labels(adj_ctx *ctx, table *t) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < t->chunk_count; i++) {
    t->chunks[i].label_begin = bytes;
    bytes += t->chunks[i].label_bytes;
  }
  t->label_text = adji_alloc(&ctx->memory, bytes + 1, 1, "labels");
  if (!t->label_text) return ADJ_E_MEMORY;
  return adji_loop(ctx, t->chunk_count, copy_labels, t);
}

static adj_status read_body(adj_ctx *ctx, table *t) {
  uint64_t size = (uint64_t)(t->layout->end - t->layout->body);
  t->chunk_count = size / t->chunk_bytes + 1;
  t->chunks = adji_alloc_zero(&ctx->memory, t->chunk_count, sizeof *t->chunks, "the chunks of a file");
  if (!t->chunks) return ADJ_E_MEMORY;
  adj_status status = adji_loop(ctx, t->chunk_count, count_chunk, t);
  if (status) return status;
  place_chunks(t);
  if (!t->rows)
    return adji_fail(ADJ_E_FORMAT, "line %llu is read as a header, and no rows follow: there are no points",
                     (unsigned long long)t->layout->body_line - 1);
  if (t->rows > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_DATA, "%llu rows are more than the %llu a dataset can hold", (unsigned long long)t->rows,
                     (unsigned long long)ADJ_MAX_COUNT);
  t->points = adji_alloc(&ctx->memory, adji_mul(t->rows, t->layout->dim), adji_type_size(t->type), "points");
  if (!t->points) return ADJ_E_MEMORY;
  if (t->layout->labels) {
    t->label_ends = adji_alloc(&ctx->memory, t->rows + 1, sizeof *t->label_ends, "labels");
    if (!t->label_ends) return ADJ_E_MEMORY;
  }
  status = adji_loop(ctx, t->chunk_count, read_chunk, t);
  if (!status && t->layout->labels) status = read_labels(ctx, t);
  return status;
}

adj_status adji_csv_read_rows(adji_source *source, const adji_csv_layout *layout, adj_type type,
                              adji_dataset_parts *parts) {
  adji_memory *memory = &source->ctx->memory;
  table t = {.layout = layout, .file = (const char *)source->bytes, .type = type};
  t.chunk_bytes = source->chunk_bytes ? source->chunk_bytes : CHUNK_BYTES;
  adj_status status = read_body(source->ctx, &t);
  adji_free(memory, t.chunks);
  if (status) {
    adji_free(memory, t.points);
    adji_free(memory, t.label_ends);
    adji_free(memory, t.label_text);
    return status;
  }
  *parts = (adji_dataset_parts){.type = type, .dim = layout->dim, .count = t.rows, .data = t.points};
  parts->owner = t.points;
  parts->release = adji_release_block;
  parts->label_text = t.label_text;
  parts->label_ends = t.label_ends;
  return ADJ_OK;
}
