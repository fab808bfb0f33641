/* SPDX-License-Identifier: MIT
 *
 * Comma- and tab-separated text: fields, the separator, and files that are not tables. read_csv_columns.c finds out
 * which columns are coordinates; read_csv_rows.c reads the rows.
 */
#include "io/read_csv.h"

#include <string.h>
#include <strings.h>

#include "io/looks_like.h"
#include "io/read_number.h"

/* ---- Fields -------------------------------------------------------------------------------------------------- */

static adji_csv_fault take_quoted(const char **at, const char *end, char separator, adji_csv_field *field) {
  const char *p = *at + 1;
  field->begin = p;
  field->quoted = true;
  for (;; p++) {
    if (p == end || *p == '\n') return ADJI_CSV_OPEN_QUOTE;
    if (*p != '"') continue;
    if (p + 1 == end || p[1] != '"') break;
    p++; /* two quotes stand for one */
  }
  field->end = p;
  const char *after = adji_csv_skip_blanks(p + 1, end, separator);
  bool separated = after == end || *after == '\n' || *after == separator || (separator == ' ' && after > p + 1);
  *at = separator == ' ' ? p + 1 : after;
  return separated ? ADJI_CSV_FINE : ADJI_CSV_TAIL;
}

adji_csv_fault adji_csv_take_field(const char **at, const char *end, char separator, adji_csv_field *field) {
  const char *p = adji_csv_skip_blanks(*at, end, separator);
  *at = p;
  if (p < end && *p == '"') return take_quoted(at, end, separator, field);
  field->begin = p;
  field->quoted = false;
  while (p < end && *p != '\n' && *p != separator && !(separator == ' ' && *p == '\t'))
    p++;
  *at = p;
  while (p > field->begin && adji_csv_blank(p[-1], separator))
    p--;
  field->end = p;
  return ADJI_CSV_FINE;
}

static bool is_word(const char *begin, const char *end, const char *word) {
  return (size_t)(end - begin) == strlen(word) && !strncasecmp(begin, word, strlen(word));
}

adji_csv_fault adji_csv_classify(const adji_csv_field *field) {
  const char *begin = adji_csv_skip_blanks(field->begin, field->end, 0), *end = field->end;
  while (end > begin && adji_csv_blank(end[-1], 0))
    end--;
  if (begin == end) return ADJI_CSV_EMPTY;
  adji_decimal number;
  if (adji_scan_decimal(begin, end, &number) == end) return ADJI_CSV_FINE;
  if (*begin == '-' || *begin == '+') begin++;
  bool special = is_word(begin, end, "nan") || is_word(begin, end, "inf") || is_word(begin, end, "infinity");
  return special ? ADJI_CSV_NOT_FINITE : ADJI_CSV_LETTERS;
}

/* ---- Separator and fields ------------------------------------------------------------------------------- */

/* Refuses a carriage return within the first line, which is the line end of old Mac programs. Read as a blank, it would
 * make the whole file one row. */
static adj_status check_line_end(const adji_csv_first *row) {
  bool quoted = false;
  for (const char *p = row->begin; p < row->end; p++) {
    if (*p == '"') quoted = !quoted;
    if (*p != '\r' || quoted) continue;
    const char *next = p;
    while (next < row->end && (*next == '\r' || *next == '\n'))
      next++;
    if (next < row->end)
      return adji_fail(ADJ_E_FORMAT,
                       "line %llu ends with a carriage return alone; convert the line ends to \\n or \\r\\n",
                       (unsigned long long)row->line);
  }
  return ADJ_OK;
}

static adj_status find_first_row(const adji_source *source, adji_csv_first *row) {
  const char *p = (const char *)source->bytes, *end = p + source->size;
  if (source->size >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3; /* the UTF-8 byte order mark */
  /* The separator is not known yet, but a line of tabs alone cannot be the first row. */
  for (row->line = 1; p < end && adji_csv_no_row(p, end, 0); row->line++)
    p = adji_csv_next_line(p, end);
  if (p == end) return adji_fail(ADJ_E_FORMAT, "there are no rows and no header");
  row->begin = p;
  row->end = adji_csv_next_line(p, end);
  return check_line_end(row);
}

static bool has_outside_quotes(const char *p, const char *end, char wanted) {
  bool quoted = false;
  for (; p < end; p++) {
    if (*p == '"') quoted = !quoted;
    if (*p == wanted && !quoted) return true;
  }
  return false;
}

/* A comma if the row has one; otherwise the character that separates its fields, with a note. */
static char find_separator(const adji_source *source, const adji_csv_first *row) {
  const char *begin = adji_csv_skip_blanks(row->begin, row->end, 0), *end = row->end;
  while (end > begin && (adji_csv_blank(end[-1], 0) || end[-1] == '\n'))
    end--;
  if (has_outside_quotes(begin, end, ',')) return ',';
  char separator = has_outside_quotes(begin, end, ';')    ? ';'
                   : has_outside_quotes(begin, end, '\t') ? '\t'
                   : has_outside_quotes(begin, end, ' ')  ? ' '
                                                          : ',';
  /* A mix of tabs and blanks counts as blanks. */
  if (separator == '\t' && has_outside_quotes(begin, end, ' ')) separator = ' ';
  const char *separator_name = separator == ';' ? "semicolons" : separator == '\t' ? "tabs" : "blanks";
  if (separator != ',')
    adji_log(source->ctx, ADJ_LOG_INFO, "%s: line %llu has no comma: its fields are separated by %s", source->name,
             (unsigned long long)row->line, separator_name);
  return separator;
}

adji_csv_fault adji_csv_count_fields(const char *row, const char *end, char separator, uint64_t *fields) {
  adji_csv_field field;
  *fields = 0;
  do {
    ++*fields;
    adji_csv_fault fault = adji_csv_take_field(&row, end, separator, &field);
    if (fault) return fault;
  } while (adji_csv_take_separator(&row, end, separator));
  return ADJI_CSV_FINE;
}

static adj_status count_fields(adji_csv_first *row) {
  uint64_t fields;
  adji_csv_fault fault = adji_csv_count_fields(row->begin, row->end, row->separator, &fields);
  if (fault)
    return adji_fail(ADJ_E_FORMAT, "line %llu, column %llu: %s", (unsigned long long)row->line,
                     (unsigned long long)fields, adji_csv_fault_text(fault));
  if (fields > (1u << 24) + 1)
    return adji_fail(ADJ_E_FORMAT, "line %llu: %llu columns are more than a point can have",
                     (unsigned long long)row->line, (unsigned long long)fields);
  row->fields = (uint32_t)fields;
  return ADJ_OK;
}

/* ---- Entry --------------------------------------------------------------------------------------------------- */

static adj_status find_layout(adji_source *source, const adj_open_options *options, char separator,
                              adji_csv_layout *layout) {
  adji_csv_first row;
  adj_status status = find_first_row(source, &row);
  if (status) return status;
  row.separator = separator ? separator : find_separator(source, &row);
  status = count_fields(&row);
  if (status) return status;
  layout->separator = row.separator;
  layout->fields = row.fields;
  layout->end = (const char *)source->bytes + source->size;
  status = adji_csv_choose_columns(source, options, &row, layout);
  layout->body = layout->header ? row.end : row.begin;
  layout->body_line = row.line + layout->header;
  return status;
}

adj_status adji_read_csv(adji_source *source, const adj_open_options *options, int separator,
                         adji_dataset_parts *parts) {
  adji_memory *memory = &source->ctx->memory;
  adji_csv_layout layout = {0};
  const char *other = adji_looks_like(source);
  if (other) return adji_fail(ADJ_E_FORMAT, "is not a table of text: it looks like %s", other);
  adj_status status = find_layout(source, options, (char)separator, &layout);
  if (!status) status = adji_csv_read_rows(source, &layout, options->type ? options->type : ADJ_F64, parts);
  adji_free(memory, layout.role);
  if (status) {
    adji_free(memory, layout.columns);
    return status;
  }
  parts->columns = layout.columns;
  parts->columns_bytes = layout.columns_bytes;
  memcpy(parts->geo, layout.geo, sizeof layout.geo);
  return ADJ_OK;
}
