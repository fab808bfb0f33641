/* SPDX-License-Identifier: MIT
 *
 * Text tables: shared by the readers of fields, columns and rows.
 *
 * Each line is a row, unless it is blank or its first character is '#'. A field may be quoted. A quoted field ends on
 * the line on which it began, so a file can be split at any line end and read in parallel.
 */
#ifndef ADJI_READ_CSV_H
#define ADJI_READ_CSV_H

#include <string.h>

#include "io/source.h"

/* separator: 0 if the first row decides. */
adj_status adji_read_csv(adji_source *source, const adj_open_options *options, int separator,
                         adji_dataset_parts *parts);

/* The role of a column that is not one of the coordinates 0 .. dim - 1. */
#define ADJI_CSV_SKIP UINT32_MAX
#define ADJI_CSV_LABEL (UINT32_MAX - 1)

typedef struct adji_csv_layout {
  char separator;         /* ' ' stands for any run of blanks and tabs             */
  uint32_t dim;           /* coordinates taken from a row                          */
  uint32_t fields;        /* in every row                                          */
  bool labels;            /* one column is the label                               */
  uint32_t *role;         /* per field: which coordinate, or one of those above    */
  const char *body, *end; /* the rows                                       */
  uint64_t body_line;     /* number of the first line of the body, from 1   */
  bool header;
  char *columns; /* names of the columns of coordinates, as in a dataset */
  uint64_t columns_bytes;
  adji_geo geo[2];
} adji_csv_layout;

/* The first row: a header or a point. */
typedef struct adji_csv_first {
  const char *begin, *end; /* end: after its line */
  uint64_t line;
  char separator;
  uint32_t fields;
} adji_csv_first;

/* Finds out whether the first row is a header, and which columns are coordinates and labels. Fills role, dim, labels,
 * header, columns and geo of the layout, whose other fields but the body are set. The caller frees role and columns,
 * also after a failure. */
adj_status adji_csv_choose_columns(adji_source *source, const adj_open_options *options, const adji_csv_first *row,
                                   adji_csv_layout *layout);

/* Reads all rows of the body. */
adj_status adji_csv_read_rows(adji_source *source, const adji_csv_layout *layout, adj_type type,
                              adji_dataset_parts *parts);

/* ---- Fields --------------------------------------------------------------------------------------------- */

typedef struct adji_csv_field {
  const char *begin, *end; /* the content: within the quotes, or without surrounding blanks */
  bool quoted;
} adji_csv_field;

typedef enum adji_csv_fault {
  ADJI_CSV_FINE,
  ADJI_CSV_SHORT,      /* too few fields                   */
  ADJI_CSV_LONG,       /* too many                         */
  ADJI_CSV_EMPTY,      /* not a number: empty              */
  ADJI_CSV_LETTERS,    /* not a number: other text         */
  ADJI_CSV_NOT_FINITE, /* nan, inf                         */
  ADJI_CSV_OVERFLOW,   /* too large for the type           */
  ADJI_CSV_OPEN_QUOTE, /* the quote is not closed on its line */
  ADJI_CSV_TAIL        /* text between quote and separator */
} adji_csv_fault;

/* The message for faults that a few words describe. */
static inline const char *adji_csv_fault_text(adji_csv_fault fault) {
  return fault == ADJI_CSV_EMPTY        ? "the field is empty"
         : fault == ADJI_CSV_OPEN_QUOTE ? "the quote is not closed on its line"
                                        : "something follows the closing quote";
}

/* Blank within a line. The carriage return of a Windows line end counts as one. */
static inline bool adji_csv_blank(char c, char separator) {
  return c == ' ' || c == '\r' || (c == '\t' && separator != '\t');
}

static inline const char *adji_csv_skip_blanks(const char *p, const char *end, char separator) {
  while (p < end && adji_csv_blank(*p, separator))
    p++;
  return p;
}

/* Whether the line at p is not a row. */
static inline bool adji_csv_no_row(const char *p, const char *end, char separator) {
  p = adji_csv_skip_blanks(p, end, separator);
  return p == end || *p == '\n' || *p == '#';
}

/* The start of the line after the one p is in. */
static inline const char *adji_csv_next_line(const char *p, const char *end) {
  const char *feed = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
  return feed ? feed + 1 : end;
}

/* Reads the field at *at, and moves *at to the separator, line end or end after it. */
adji_csv_fault adji_csv_take_field(const char **at, const char *end, char separator, adji_csv_field *field);

/* Moves *at past the separator there; false at the end of the line. */
static inline bool adji_csv_take_separator(const char **at, const char *end, char separator) {
  const char *p = *at;
  if (p < end && *p == separator && separator != ' ') {
    *at = p + 1;
    return true;
  }
  *at = p = adji_csv_skip_blanks(p, end, separator);
  return p < end && *p != '\n'; /* blanks separate the fields */
}

/* Counts the fields of the row, up to the first fault, which is returned. */
adji_csv_fault adji_csv_count_fields(const char *row, const char *end, char separator, uint64_t *fields);

/* Whether the content of a field is a number, and if not, why. */
adji_csv_fault adji_csv_classify(const adji_csv_field *field);

#endif
