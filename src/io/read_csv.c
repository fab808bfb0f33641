/* SPDX-License-Identifier: MIT
 *
 * Comma- and tab-separated text: entry points and single fields.
 */
#include "io/read_csv.h"

#include <string.h>
#include <strings.h>

#include "io/read_number.h"

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

static adj_status read_text(adji_source *source, const adj_open_options *options, char separator,
                            adji_dataset_parts *parts) {
  adji_csv_layout layout = {0};
  adj_status status = adji_csv_find_layout(source, options, separator, &layout);
  if (!status) status = adji_csv_read_rows(source, &layout, options->type ? options->type : ADJ_F32, parts);
  adji_free(&source->ctx->memory, layout.role);
  return status;
}

adj_status adji_read_csv(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_text(source, options, 0, parts);
}

adj_status adji_read_tsv(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_text(source, options, '\t', parts);
}
