/* SPDX-License-Identifier: MIT
 *
 * The columns of a text table: whether the first row is a header, and which columns are coordinates or labels. Choices
 * that the caller leaves open must be clear from the file: a column that may hold row numbers is not taken as a
 * coordinate, and longitude and latitude are found by their names. In case of doubt, opening fails and asks the caller
 * to choose.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/read_csv.h"
#include "io/read_csv_names.h"
#include "io/read_number.h"

enum { NAMES_SHOWN = 24, NAMES_ROOM = 600 };

/* ---- Columns by name and number --------------------------------------------------------------------------- */

/* Takes the next name of a header. */
static adji_csv_field next_name(const adji_csv_first *row, const char **at) {
  adji_csv_field field = {0};
  adji_csv_take_field(at, row->end, row->separator, &field);
  adji_csv_take_separator(at, row->end, row->separator);
  return field;
}

/* The names of the columns that have the role; of all columns if it is 0. */
static uint32_t list_names(const adji_csv_first *row, const uint32_t *role, uint32_t wanted, char *names) {
  const char *p = row->begin;
  size_t used = 0;
  uint32_t many = 0;
  names[0] = 0;
  for (uint32_t c = 0; c < row->fields; c++) {
    adji_csv_field field = next_name(row, &p);
    char name[48];
    if (role && role[c] != wanted) continue;
    if (many < NAMES_SHOWN && used < NAMES_ROOM - 64)
      used += (size_t)snprintf(names + used, NAMES_ROOM - used, "%s%s", many ? ", " : "",
                               adji_excerpt(field.begin, field.end, name));
    many++;
  }
  if (many > NAMES_SHOWN) snprintf(names + used, NAMES_ROOM - used, ", ... (%u in all)", many);
  return many;
}

/* The number of columns with the name; *column: the first. */
static uint32_t find_name(const adji_csv_first *row, const char *name, size_t length, uint32_t *column) {
  const char *p = row->begin;
  uint32_t found = 0;
  for (uint32_t c = 0; c < row->fields; c++) {
    adji_csv_field field = next_name(row, &p);
    if ((size_t)(field.end - field.begin) != length || memcmp(field.begin, name, length) != 0) continue;
    if (!found++) *column = c;
  }
  return found;
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

/* Whether an option gives columns by number only, so that the first row need not be a header. */
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
  const adji_csv_first *row;
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
  list_names(s->row, NULL, 0, names);
  return adji_fail(ADJ_E_ARGUMENT, "%s: there is no column \"%s\"; the file has %s", s->option, shown, names);
}

static adj_status select_item(selection *s, const char *item, size_t length, bool label) {
  uint64_t first, last;
  uint32_t named = 0, found = s->header ? find_name(s->row, item, length, &named) : 0;
  char shown[48];
  if (found > 1)
    return adji_fail(ADJ_E_ARGUMENT, "%s: %u columns are named \"%s\"; give the number of one", s->option, found,
                     adji_excerpt(item, item + length, shown));
  if (found) {
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

/* Takes all columns but the label. */
static adj_status select_all(selection *s) {
  for (uint32_t c = 0; c < s->row->fields; c++)
    if (s->role[c] == ADJI_CSV_SKIP) s->role[c] = s->dim++;
  return s->dim ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "there is no column besides the id column");
}

static adj_status select_columns(selection *s, const char *list) {
  s->option = "columns";
  if (!list) return select_all(s);
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

static adj_status assign_roles(selection *s, const adj_open_options *options) {
  for (uint32_t c = 0; c < s->row->fields; c++)
    s->role[c] = ADJI_CSV_SKIP;
  s->dim = 0;
  s->option = "id_column";
  adj_status status = ADJ_OK;
  if (options->id_column) status = select_item(s, options->id_column, strlen(options->id_column), true);
  return status ? status : select_columns(s, options->columns);
}

/* ---- Header -------------------------------------------------------------------------------------------------- */

/* How the first row differs from the next. */
typedef struct evidence {
  uint32_t words;     /* in columns of coordinates, except those that begin like a number: misprints */
  uint32_t numbers;   /* in columns of coordinates */
  uint32_t fractions; /* numbers that a header would not have; a year may be a name */
  uint32_t changes;   /* in other columns: words above a number */
  bool counts;        /* the row is 0, 1, 2, ..., and the next has fractions */
} evidence;

static adji_csv_fault next_kind(const char **at, const char *end, char separator, adji_csv_field *field) {
  *field = (adji_csv_field){0};
  if (adji_csv_take_field(at, end, separator, field)) return ADJI_CSV_LETTERS;
  adji_csv_fault kind = adji_csv_classify(field);
  adji_csv_take_separator(at, end, separator);
  return kind;
}

static bool is_digits(const adji_csv_field *field, uint64_t *value) {
  const char *at = field->begin;
  return adji_take_count(&at, field->end, value) && at == field->end;
}

static bool begins_like_number(const adji_csv_field *field) {
  const char *p = field->begin;
  while (p < field->end && strchr("+-. ", *p))
    p++;
  return p < field->end && isdigit((unsigned char)*p);
}

static const char *next_row(const char *p, const char *end, char separator) {
  while (p < end && adji_csv_no_row(p, end, separator))
    p = adji_csv_next_line(p, end);
  return p;
}

static evidence look_at_rows(const adji_csv_first *row, const char *file_end, const uint32_t *role) {
  evidence found = {.counts = row->fields > 1};
  bool fractions_below = false;
  const char *second = next_row(row->end, file_end, row->separator);
  const char *p = row->begin, *q = second, *q_end = adji_csv_next_line(second, file_end);
  for (uint32_t c = 0; c < row->fields; c++) {
    adji_csv_field field, below;
    uint64_t value;
    adji_csv_fault kind = next_kind(&p, row->end, row->separator, &field);
    adji_csv_fault kind_below = next_kind(&q, q_end, row->separator, &below);
    bool wanted = role[c] < ADJI_CSV_LABEL, digits = is_digits(&field, &value);
    bool number = kind == ADJI_CSV_FINE || kind == ADJI_CSV_NOT_FINITE;
    found.numbers += wanted && number;
    found.fractions += wanted && number && !digits;
    found.words += wanted && kind == ADJI_CSV_LETTERS && !begins_like_number(&field);
    found.changes += !wanted && kind == ADJI_CSV_LETTERS && kind_below == ADJI_CSV_FINE;
    found.counts = found.counts && digits && value == c;
    fractions_below = fractions_below || (kind_below == ADJI_CSV_FINE && !is_digits(&below, &value));
  }
  found.counts = found.counts && fractions_below;
  return found;
}

/* The first row is a header if it has a word in a column of coordinates, or a word above a number in another column. An
 * empty field is neither: a first row of numbers with an empty field is a row with an error. So is a row of words and
 * fractions: a point with a name, or with a misprint. */
static bool is_header(const adji_source *source, const adji_csv_first *row, const uint32_t *role) {
  evidence found = look_at_rows(row, (const char *)source->bytes + source->size, role);
  unsigned long long line = row->line;
  if (found.counts)
    adji_log(source->ctx, ADJ_LOG_WARN,
             "%s: line %llu, which is 0, 1, ..., is read as a point; if it is a header, remove it", source->name, line);
  bool header = (found.words && !found.fractions) || found.changes;
  if (header && found.numbers)
    adji_log(source->ctx, ADJ_LOG_WARN, "%s: line %llu is taken as the header, although %u of its fields are numbers",
             source->name, line, found.numbers);
  return header;
}

static void note_header(const adji_source *source, const selection *s) {
  char unused[NAMES_ROOM];
  uint32_t many = list_names(s->row, s->role, ADJI_CSV_SKIP, unused);
  adji_log(source->ctx, ADJ_LOG_INFO, "%s: line %llu is the header%s%s", source->name, (unsigned long long)s->row->line,
           many ? "; not used: " : "", unused);
}

/* ---- Longitude and latitude ---------------------------------------------------------------------------------- */

typedef struct places {
  uint32_t column[3]; /* by adji_geo: the last such column, */
  uint32_t many[3];   /* and the number of them                 */
} places;

/* Searches all columns but the label; with `chosen`, only the coordinates. */
static places find_places(const selection *s, bool chosen) {
  places found = {0};
  const char *p = s->row->begin;
  for (uint32_t c = 0; c < s->row->fields; c++) {
    adji_csv_field name = next_name(s->row, &p);
    if (s->role[c] == ADJI_CSV_LABEL || (chosen && s->role[c] == ADJI_CSV_SKIP)) continue;
    adji_geo geo = adji_csv_geo_of(name.begin, name.end);
    found.column[geo] = c;
    found.many[geo]++;
  }
  return found;
}

static adj_status ask_for_places(const selection *s, const places *found) {
  char names[NAMES_ROOM];
  if (!s->header)
    return adji_fail(ADJ_E_ARGUMENT,
                     "columns: no header says which columns are longitude and latitude; choose two, longitude first, "
                     "such as columns=1,2");
  list_names(s->row, NULL, 0, names);
  bool several = found->many[ADJI_GEO_LONGITUDE] > 1 || found->many[ADJI_GEO_LATITUDE] > 1;
  return adji_fail(ADJ_E_ARGUMENT, "columns: %s; choose two, longitude first; the file has %s",
                   several ? "several columns may be longitude or latitude"
                           : "no names show which columns are longitude and latitude",
                   names);
}

/* Longitude becomes the first coordinate and latitude the second, in any order of the file or the caller. A pair with
 * only one known name is accepted only if that one is in its place. */
static adj_status choose_places(selection *s, bool chosen) {
  places found = {0};
  if (s->header) found = find_places(s, chosen);
  uint32_t longitudes = found.many[ADJI_GEO_LONGITUDE], latitudes = found.many[ADJI_GEO_LATITUDE];
  uint32_t longitude = found.column[ADJI_GEO_LONGITUDE], latitude = found.column[ADJI_GEO_LATITUDE];
  if (chosen && (s->dim != 2 || longitudes + latitudes == 0)) return ADJ_OK;
  if (chosen && longitudes + latitudes == 1) {
    bool in_place = longitudes ? s->role[longitude] == 0 : s->role[latitude] == 1;
    return in_place ? ADJ_OK
                    : adji_fail(ADJ_E_ARGUMENT,
                                "columns: longitude comes first, then latitude; by its name column %u is a %s",
                                (longitudes ? longitude : latitude) + 1, longitudes ? "longitude" : "latitude");
  }
  if (longitudes != 1 || latitudes != 1) return ask_for_places(s, &found);
  for (uint32_t c = 0; c < s->row->fields; c++)
    if (s->role[c] != ADJI_CSV_LABEL) s->role[c] = ADJI_CSV_SKIP;
  s->role[longitude] = 0;
  s->role[latitude] = 1;
  s->dim = 2;
  return ADJ_OK;
}

/* Warns of longitude and latitude in a join on a plane, which is a common mistake. */
static void warn_of_places(const adji_source *source, const selection *s) {
  places found = find_places(s, true);
  if (found.many[ADJI_GEO_LONGITUDE] == 1 && found.many[ADJI_GEO_LATITUDE] == 1)
    adji_log(
        source->ctx, ADJ_LOG_WARN,
        "%s: metric: columns %u and %u are longitude and latitude by their names; l2 takes degrees as if on a plane: "
        "give metric=haversine for distances on the sphere",
        source->name, found.column[ADJI_GEO_LONGITUDE] + 1, found.column[ADJI_GEO_LATITUDE] + 1);
}

/* ---- Row numbers ------------------------------------------------------------------------------------------- */

enum { ROWS_LOOKED_AT = 64, ROWS_NEEDED = 3 };

/* The value of the next field; false unless it is a whole number. */
static bool next_whole(const char **at, const char *end, char separator, double *value) {
  adji_csv_field field;
  if (next_kind(at, end, separator, &field)) return false;
  adji_decimal number;
  adji_scan_decimal(adji_csv_skip_blanks(field.begin, field.end, 0), field.end, &number);
  *value = adji_decimal_f64(&number);
  return *value == floor(*value);
}

/* Whether the first column of a file without a header goes up by one from row to row, as row numbers do, the second
 * column does not, and there are more than two columns, or fractions. Points on a line may look the same. */
static bool may_be_numbered(const adji_csv_layout *layout, const adji_csv_first *row) {
  uint64_t rows = 0;
  double before[2] = {0, 0}, value[2] = {0, 0};
  bool both = true, fractions = row->fields > 2;
  const char *p = row->begin;
  for (; rows < ROWS_LOOKED_AT; rows++, p = adji_csv_next_line(p, layout->end)) {
    p = next_row(p, layout->end, row->separator);
    if (p == layout->end) break;
    const char *at = p;
    bool first = next_whole(&at, layout->end, row->separator, &value[0]);
    bool second = next_whole(&at, layout->end, row->separator, &value[1]);
    if (!first || (rows && value[0] != before[0] + 1)) return false;
    both = both && second && (!rows || value[1] == before[1] + 1);
    fractions = fractions || !second;
    memcpy(before, value, sizeof value);
  }
  return rows >= ROWS_NEEDED && !both && fractions;
}

/* Writes a suggestion for columns: "2-4", or "x,y,z" if these names can be used, without the column or with it. */
static void suggest(const selection *s, uint32_t without, char *text, size_t room) {
  const char *p = s->row->begin;
  size_t used = 0;
  bool first = true, names = s->header && s->row->fields <= 8;
  for (uint32_t c = 0; names && c < s->row->fields; c++) {
    adji_csv_field name = next_name(s->row, &p);
    size_t length = (size_t)(name.end - name.begin);
    names = c == without || (length && length < 24 && !memchr(name.begin, ',', length));
  }
  p = s->row->begin;
  text[0] = 0;
  for (uint32_t c = 0; c < s->row->fields && used + 64 < room; c++) {
    char name[48];
    adji_csv_field field = next_name(s->row, &p);
    if (c == without || s->role[c] == ADJI_CSV_LABEL) continue;
    if (names) {
      used += (size_t)snprintf(text + used, room - used, "%s%s", first ? "" : ",",
                               adji_excerpt(field.begin, field.end, name));
    } else {
      uint32_t last = c;
      while (last + 1 < s->row->fields && last + 1 != without && s->role[last + 1] != ADJI_CSV_LABEL)
        last++;
      used +=
          (size_t)snprintf(text + used, room - used, last > c ? "%s%u-%u" : "%s%u", first ? "" : ",", c + 1, last + 1);
      while (c < last) {
        c++;
        next_name(s->row, &p);
      }
    }
    first = false;
  }
}

/* A column that seems to number or name the rows is neither taken as a coordinate nor left out unless the caller says
 * so. */
static adj_status check_ids(const selection *s, const adji_csv_layout *layout) {
  const char *p = s->row->begin;
  char without[256], with[256], shown[48];
  for (uint32_t c = 0; s->header && c < s->row->fields; c++) {
    adji_csv_field name = next_name(s->row, &p);
    if (s->role[c] == ADJI_CSV_LABEL || !adji_csv_is_id_name(name.begin, name.end)) continue;
    if (name.begin == name.end && c) continue; /* only the first column has no name if rows are numbered */
    suggest(s, c, without, sizeof without);
    suggest(s, UINT32_MAX, with, sizeof with);
    if (s->dim == 1) return ADJ_OK;
    return adji_fail(
        ADJ_E_ARGUMENT,
        "columns: column %u, \"%s\", seems to number or name the rows; give columns=%s, or columns=%s if it is a "
        "coordinate; id_column=%u names the rows by it",
        c + 1, adji_excerpt(name.begin, name.end, shown), without, with, c + 1);
  }
  if (s->header || s->dim < 2 || s->role[0] == ADJI_CSV_LABEL || !may_be_numbered(layout, s->row)) return ADJ_OK;
  suggest(s, 0, without, sizeof without);
  suggest(s, UINT32_MAX, with, sizeof with);
  return adji_fail(
      ADJ_E_ARGUMENT,
      "columns: column 1 goes up by one from row to row, as row numbers do; give columns=%s, or columns=%s if it "
      "is a coordinate; id_column=1 names the rows by it",
      without, with);
}

/* ---- Names of the coordinates ------------------------------------------------------------------------------- */

/* Names are not kept if there are more columns: no reader could use them. */
enum { MOST_NAMED = 4096, NAME_BYTES = 200 };

static size_t put_name(const adji_csv_field *name, uint32_t column, bool header, char *to) {
  if (!header) return (size_t)snprintf(to, NAME_BYTES, "%u", column + 1) + 1;
  size_t length = 0;
  for (const char *p = name->begin; p < name->end && length + 1 < NAME_BYTES; p++)
    to[length++] = (unsigned char)*p < ' ' || *p == 0x7f ? '?' : *p;
  to[length] = 0;
  return length + 1;
}

/* Stores the names in the order of the coordinates, and what the first two names say. */
static adj_status keep_names(adj_ctx *ctx, const selection *s, adji_csv_layout *layout) {
  if (s->dim > MOST_NAMED) return ADJ_OK;
  char *names = adji_alloc(&ctx->memory, s->dim, NAME_BYTES, "names of columns");
  if (!names) return ADJ_E_MEMORY;
  const char *p = s->row->begin;
  for (uint32_t c = 0; c < s->row->fields; c++) {
    adji_csv_field name = next_name(s->row, &p);
    uint32_t j = s->role[c];
    if (j >= s->dim) continue;
    layout->columns_bytes += put_name(&name, c, s->header, names + (size_t)j * NAME_BYTES);
    if (s->header && j < 2) layout->geo[j] = adji_csv_geo_of(name.begin, name.end);
  }
  char *to = layout->columns = adji_alloc(&ctx->memory, layout->columns_bytes, 1, "names of columns");
  for (uint32_t j = 0; to && j < s->dim; j++) {
    size_t bytes = strlen(names + (size_t)j * NAME_BYTES) + 1;
    memcpy(to, names + (size_t)j * NAME_BYTES, bytes);
    to += bytes;
  }
  adji_free(&ctx->memory, names);
  return layout->columns ? ADJ_OK : ADJ_E_MEMORY;
}

/* ---- Entry ----------------------------------------------------------------------------------------------------- */

adj_status adji_csv_choose_columns(adji_source *source, const adj_open_options *options, const adji_csv_first *row,
                                   adji_csv_layout *layout) {
  layout->role = adji_alloc(&source->ctx->memory, row->fields, sizeof *layout->role, "the roles of columns");
  if (!layout->role) return ADJ_E_MEMORY;
  selection s = {.row = row, .role = layout->role};
  /* Try the columns as numbers first: then only the chosen columns must hold numbers. If that fails, the columns are
   * given by name, or do not exist, and all columns count. */
  bool numbered = all_numbers(options->columns) && all_numbers(options->id_column) && !assign_roles(&s, options);
  if (!numbered) memset(layout->role, 0, row->fields * sizeof *layout->role);
  layout->header = s.header = is_header(source, row, layout->role);
  adj_status status = assign_roles(&s, options);
  if (!status && options->metric == ADJ_HAVERSINE) status = choose_places(&s, options->columns);
  if (!status && options->metric != ADJ_HAVERSINE && !options->columns) status = check_ids(&s, layout);
  if (status) return status;
  if (s.header) note_header(source, &s);
  if (s.header && !options->metric) warn_of_places(source, &s);
  layout->dim = s.dim;
  layout->labels = options->id_column != NULL;
  return keep_names(source->ctx, &s, layout);
}
