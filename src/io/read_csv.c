/* SPDX-License-Identifier: MIT
 *
 * Comma- and tab-separated text: fields, and the layout of a table, from its first row: the separator, whether that row
 * is a header, and which columns are coordinates or labels.
 */
#include "io/read_csv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

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

enum { NAMES_SHOWN = 24, NAMES_ROOM = 600 };

/* The first row: a header or a point. */
typedef struct first_row {
  const char *begin, *end; /* end: after its line */
  uint64_t line;
  char separator;
  uint32_t fields;
} first_row;

/* ---- Separator and fields ------------------------------------------------------------------------------- */

static adj_status find_first_row(const adji_source *source, first_row *row) {
  const char *p = (const char *)source->bytes, *end = p + source->size;
  if (source->size >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) p += 3; /* the UTF-8 byte order mark */
  /* The separator is not known yet, but a line of tabs alone cannot be the first row. */
  for (row->line = 1; p < end && adji_csv_no_row(p, end, 0); row->line++)
    p = adji_csv_next_line(p, end);
  if (p == end) return adji_fail(ADJ_E_FORMAT, "there are no rows and no header");
  row->begin = p;
  row->end = adji_csv_next_line(p, end);
  return ADJ_OK;
}

static bool has_outside_quotes(const char *p, const char *end, char wanted) {
  bool quoted = false;
  for (; p < end; p++) {
    if (*p == '"') quoted = !quoted;
    if (*p == wanted && !quoted) return true;
  }
  return false;
}

/* A comma if the row has one; otherwise what does separate its fields, with a note. */
static char find_separator(const adji_source *source, const first_row *row) {
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

static adj_status count_fields(first_row *row) {
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

/* ---- Columns by name and number --------------------------------------------------------------------------- */

static void list_names(const first_row *row, char *names) {
  const char *p = row->begin;
  size_t used = 0;
  names[0] = 0;
  for (uint32_t c = 0; c < row->fields && c < NAMES_SHOWN && used < NAMES_ROOM - 64; c++) {
    adji_csv_field field;
    char name[48];
    adji_csv_take_field(&p, row->end, row->separator, &field);
    used += (size_t)snprintf(names + used, NAMES_ROOM - used, "%s%s", c ? ", " : "",
                             adji_excerpt(field.begin, field.end, name));
    adji_csv_take_separator(&p, row->end, row->separator);
  }
  if (row->fields > NAMES_SHOWN) snprintf(names + used, NAMES_ROOM - used, ", ... (%u in all)", row->fields);
}

static bool find_name(const first_row *row, const char *name, size_t length, uint32_t *column) {
  const char *p = row->begin;
  for (uint32_t c = 0; c < row->fields; c++) {
    adji_csv_field field;
    adji_csv_take_field(&p, row->end, row->separator, &field);
    if ((size_t)(field.end - field.begin) == length && !memcmp(field.begin, name, length)) {
      *column = c;
      return true;
    }
    adji_csv_take_separator(&p, row->end, row->separator);
  }
  return false;
}

/* "5" or "5-7", both from 1, as columns from 0. */
static bool parse_range(const char *begin, const char *end, uint64_t *first, uint64_t *last) {
  const char *at = begin;
  if (!adji_take_count(&at, end, first)) return false;
  *last = *first;
  if (at < end && *at == '-') {
    at++;
    if (!adji_take_count(&at, end, last)) return false;
  }
  return at == end;
}

/* Whether an option gives columns by number only: then the first row need not be a header. */
static bool all_numbers(const char *list) {
  while (list && *list) {
    const char *end = strchr(list, ',') ? strchr(list, ',') : list + strlen(list);
    uint64_t first, last;
    if (!parse_range(list, end, &first, &last)) return false;
    list = *end ? end + 1 : end;
  }
  return true;
}

typedef struct selection {
  const first_row *row;
  bool header;
  const char *option; /* "columns" or "id_column" */
  uint32_t *role;
  uint32_t dim;
} selection;

static adj_status no_such_column(const selection *s, const char *item, size_t length) {
  char shown[48], names[NAMES_ROOM];
  adji_excerpt(item, item + length, shown);
  if (!s->header)
    return adji_fail(ADJ_E_ARGUMENT, "%s: there is no column \"%s\"; the file has %u columns and no header", s->option,
                     shown, s->row->fields);
  list_names(s->row, names);
  return adji_fail(ADJ_E_ARGUMENT, "%s: there is no column \"%s\"; the file has %s", s->option, shown, names);
}

static adj_status select_item(selection *s, const char *item, size_t length, bool label) {
  uint64_t first, last;
  uint32_t named;
  if (s->header && find_name(s->row, item, length, &named)) {
    first = last = named + 1;
  } else if (!parse_range(item, item + length, &first, &last) || first < 1 || last < first || last > s->row->fields) {
    return no_such_column(s, item, length);
  }
  if (label && first != last) return no_such_column(s, item, length);
  for (uint64_t c = first - 1; c < last; c++) {
    if (s->role[c] != ADJI_CSV_SKIP)
      return adji_fail(ADJ_E_ARGUMENT, "%s: column %llu is given twice", s->option, (unsigned long long)c + 1);
    s->role[c] = label ? ADJI_CSV_LABEL : s->dim++;
  }
  return ADJ_OK;
}

static adj_status select_columns(selection *s, const char *list) {
  s->option = "columns";
  if (!list) {
    for (uint32_t c = 0; c < s->row->fields; c++)
      if (s->role[c] == ADJI_CSV_SKIP) s->role[c] = s->dim++;
    return s->dim ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "there is no column besides the id column");
  }
  for (;;) {
    size_t length = strcspn(list, ",");
    const char *begin = list, *end = list + length;
    while (begin < end && *begin == ' ')
      begin++;
    while (end > begin && end[-1] == ' ')
      end--;
    adj_status status = select_item(s, begin, (size_t)(end - begin), false);
    if (status) return status;
    if (!list[length]) return ADJ_OK;
    list += length + 1;
  }
}

/* ---- Header -------------------------------------------------------------------------------------------------- */

/* What the first row looks like compared to the next. */
typedef struct evidence {
  uint32_t numbers, words; /* in columns that hold coordinates */
  uint32_t changes;        /* in other columns, words above a number */
} evidence;

static adji_csv_fault next_kind(const char **at, const char *end, char separator) {
  adji_csv_field field;
  if (adji_csv_take_field(at, end, separator, &field)) return ADJI_CSV_LETTERS;
  adji_csv_fault kind = adji_csv_classify(&field);
  adji_csv_take_separator(at, end, separator);
  return kind;
}

static evidence look_at_rows(const first_row *row, const char *file_end, const uint32_t *role) {
  evidence found = {0, 0, 0};
  const char *second = row->end;
  while (second < file_end && adji_csv_no_row(second, file_end, row->separator))
    second = adji_csv_next_line(second, file_end);
  const char *p = row->begin, *q = second, *q_end = adji_csv_next_line(second, file_end);
  for (uint32_t c = 0; c < row->fields; c++) {
    adji_csv_fault kind = next_kind(&p, row->end, row->separator), below = next_kind(&q, q_end, row->separator);
    bool number = kind == ADJI_CSV_FINE || kind == ADJI_CSV_NOT_FINITE;
    bool wanted = role[c] < ADJI_CSV_LABEL;
    found.numbers += wanted && number;
    found.words += wanted && kind == ADJI_CSV_LETTERS;
    found.changes += !wanted && kind == ADJI_CSV_LETTERS && below == ADJI_CSV_FINE;
  }
  return found;
}

/* The first row is a header if it has a word in a column of coordinates, or a word above a number in another column. An
 * empty field is neither: a first row of numbers with an empty field is a row with an error. */
static bool is_header(const adji_source *source, const first_row *row, const uint32_t *role) {
  evidence found = look_at_rows(row, (const char *)source->bytes + source->size, role);
  if (!found.words && !found.changes) return false;
  if (found.numbers)
    adji_log(source->ctx, ADJ_LOG_WARN, "%s: line %llu is taken as the header, although %u of its fields are numbers",
             source->name, (unsigned long long)row->line, found.numbers);
  else
    adji_log(source->ctx, ADJ_LOG_INFO, "%s: line %llu is the header", source->name, (unsigned long long)row->line);
  return true;
}

static adj_status assign_roles(selection *s, const adj_open_options *options) {
  for (uint32_t c = 0; c < s->row->fields; c++)
    s->role[c] = ADJI_CSV_SKIP;
  s->dim = 0;
  s->option = "id_column";
  adj_status status = ADJ_OK;
  if (options->id_column) status = select_item(s, options->id_column, strlen(options->id_column), true);
  return status ? status : select_columns(s, options->columns);
}

static adj_status find_layout(adji_source *source, const adj_open_options *options, char separator,
                              adji_csv_layout *layout) {
  first_row row;
  adj_status status = find_first_row(source, &row);
  if (status) return status;
  row.separator = separator ? separator : find_separator(source, &row);
  status = count_fields(&row);
  if (status) return status;
  layout->role = adji_alloc(&source->ctx->memory, row.fields, sizeof *layout->role, "the roles of columns");
  if (!layout->role) return ADJ_E_MEMORY;
  selection s = {.row = &row, .role = layout->role};
  /* Try the columns as numbers first: then only the chosen columns must hold numbers. If that fails, the columns are
   * given by name, or do not exist, and all columns count. */
  bool numbered = all_numbers(options->columns) && all_numbers(options->id_column) && !assign_roles(&s, options);
  if (!numbered) memset(layout->role, 0, row.fields * sizeof *layout->role);
  s.header = is_header(source, &row, layout->role);
  status = assign_roles(&s, options);
  if (status) return status;
  layout->separator = row.separator;
  layout->fields = row.fields;
  layout->dim = s.dim;
  layout->labels = options->id_column != NULL;
  layout->body = s.header ? row.end : row.begin;
  layout->body_line = row.line + s.header;
  layout->end = (const char *)source->bytes + source->size;
  return ADJ_OK;
}

/* ---- Entry --------------------------------------------------------------------------------------------------- */

adj_status adji_read_csv(adji_source *source, const adj_open_options *options, int separator,
                         adji_dataset_parts *parts) {
  adji_csv_layout layout = {0};
  adj_status status = find_layout(source, options, (char)separator, &layout);
  if (!status) status = adji_csv_read_rows(source, &layout, options->type ? options->type : ADJ_F32, parts);
  adji_free(&source->ctx->memory, layout.role);
  return status;
}
