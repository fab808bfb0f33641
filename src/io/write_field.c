/* SPDX-License-Identifier: MIT
 *
 * Fields of a csv or tsv file.
 */
#include "io/write_field.h"

#include <string.h>

uint64_t adji_row_name_bytes(const adj_dataset *set) {
  if (!set->label_ends) return ADJI_COUNT_TEXT;
  uint64_t longest = 0, begin = 0;
  for (uint64_t row = 0; row < set->count; row++) {
    uint64_t length = set->label_ends[row] - begin;
    if (length > longest) longest = length;
    begin = set->label_ends[row];
  }
  return 2 * longest + 2; /* if every character is a quote, plus the two around them */
}

/* A label needs quotes if a reader would misread it: if it has a separator, a quote or a line end, begins or ends with
 * a blank, begins like a comment, or is empty. */
static bool needs_quotes(const char *label, size_t length, char separator) {
  if (!length || label[0] == ' ' || label[0] == '#' || label[length - 1] == ' ') return true;
  for (size_t i = 0; i < length; i++) {
    char c = label[i];
    if (c == separator || c == '"' || c == '\n' || c == '\r' || c == '\t') return true;
  }
  return false;
}

char *adji_put_row_name(const adj_dataset *set, uint64_t row, char separator, char *to) {
  size_t length;
  const char *label = adj_dataset_label(set, row, &length);
  if (!label) return adji_put_count(row, to);
  if (!needs_quotes(label, length, separator)) {
    memcpy(to, label, length);
    return to + length;
  }
  *to++ = '"';
  for (size_t i = 0; i < length; i++) {
    if (label[i] == '"') *to++ = '"';
    *to++ = label[i];
  }
  *to++ = '"';
  return to;
}
