/* SPDX-License-Identifier: MIT
 *
 * Invalid text tables: each message names file, line and column, and says what is there.
 */
#include <stdio.h>
#include <stdlib.h>

#include "files.h"

typedef struct error_case {
  const char *name, *text;
  const char *columns, *id_column;
  adj_status status;
  const char *message;
} error_case;

static const error_case cases[] = {
    {"a.csv", "x,y\n1,2\n\n# c\n3,abc\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 5, column 2: \"abc\" is not a number"},
    {"a.csv", "what,x\nlamp,2\n", NULL, NULL, ADJ_E_FORMAT,
     "a.csv: line 2, column 1: \"lamp\" is not a number (if this column holds names, make it the id column "
     "or choose the columns of coordinates)"},
    {"a.csv", "1,2\n3,4x\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 2, column 2: \"4x\" is not a number"},
    {"a.csv", "1,2\n3 4,5\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 2, column 1: \"3 4\" is not a number"},
    {"a.csv", "1,2\n3,0x10\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: \"0x10\" is not a number"},
    {"a.csv", "1,2\n3,\"4x\"\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: \"4x\" is not a number"},
    {"a.csv", "1,2\n3,e5\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: \"e5\" is not a number"},
    {"a.csv", "1,2\r\n3,1e\r\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: \"1e\" is not a number"},
    {"a.csv", "1,2\n3,a\x01z\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: \"a?z\" is not a number"},
    {"a.csv", "1,2\n3,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", NULL, NULL, ADJ_E_FORMAT,
     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\" is not a number"},
    {"a.csv", "1,2\n3\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 2: 1 fields where 2 are expected"},
    {"a.csv", "x,y\n1,2,3\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 2: 3 fields where 2 are expected"},
    {"a.csv", "x,y\n1,2,,,\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 2: 5 fields where 2 are expected"},
    {"a.csv", "1,2\n3,\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: the field is empty"},
    {"a.csv", "1,2\n,4\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 1: the field is empty"},
    {"a.csv", "1,\n3,4\n", NULL, NULL, ADJ_E_FORMAT, "line 1, column 2: the field is empty"},
    {"a.csv", "1,2\n3,\"\"\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: the field is empty"},
    {"a.tsv", "1\t2\n\t4\n", NULL, NULL, ADJ_E_FORMAT, "a.tsv: line 2, column 1: the field is empty"},
    {"a.txt", "1 2\n3 4 5\n", NULL, NULL, ADJ_E_FORMAT, "a.txt: line 2: 3 fields where 2 are expected"},
    {"a.txt", "1 2\n3\n", NULL, NULL, ADJ_E_FORMAT, "a.txt: line 2: 1 fields where 2 are expected"},
    {"a.txt", "1 2\n3 4x\n", NULL, NULL, ADJ_E_FORMAT, "a.txt: line 2, column 2: \"4x\" is not a number"},
    {"a.csv", "1,2\n3,nan\n", NULL, NULL, ADJ_E_DATA, "line 2, column 2: \"nan\" is not a finite coordinate"},
    {"a.csv", "NaN,2\n3,4\n", NULL, NULL, ADJ_E_DATA, "line 1, column 1: \"NaN\" is not a finite coordinate"},
    {"a.csv", "1,2\n-Inf,4\n", NULL, NULL, ADJ_E_DATA, "line 2, column 1: \"-Inf\" is not a finite coordinate"},
    {"a.csv", "1,2\n3,+infinity\n", NULL, NULL, ADJ_E_DATA, "\"+infinity\" is not a finite coordinate"},
    {"a.csv", "1,2\n3,1e309\n", NULL, NULL, ADJ_E_DATA, "line 2, column 2: \"1e309\" is too large for f64"},
    {"a.csv", "1,2\n3,\"-1e309\"\n", NULL, NULL, ADJ_E_DATA, "line 2, column 2: \"-1e309\" is too large for f64"},
    {"a.csv", "1,2\n\"3,4\n5,6\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 1: the quote is not closed on its line"},
    {"a.csv", "1,2\n3,\"4", NULL, NULL, ADJ_E_FORMAT, "line 2, column 2: the quote is not closed on its line"},
    {"a.csv", "x,\"y\n3,4\n", NULL, NULL, ADJ_E_FORMAT, "line 1, column 2: the quote is not closed on its line"},
    {"a.csv", "1,2\n\"3\"x,4\n", NULL, NULL, ADJ_E_FORMAT, "line 2, column 1: something follows the closing quote"},
    {"a.csv", "\"x\"z,y\n3,4\n", NULL, NULL, ADJ_E_FORMAT, "line 1, column 1: something follows the closing quote"},
    {"a.csv", "n,x\n\"a,1\n", "x", NULL, ADJ_E_FORMAT, "line 2, column 1: the quote is not closed on its line"},
    {"a.csv", "x,y\n1,2\n", "x,q", NULL, ADJ_E_ARGUMENT, "a.csv: columns: there is no column \"q\"; the file has x, y"},
    {"a.csv", "x,y\n1,2\n", "x,", NULL, ADJ_E_ARGUMENT, "columns: there is no column \"\"; the file has x, y"},
    {"a.csv", "x,y\n1,2\n", "3", NULL, ADJ_E_ARGUMENT, "columns: there is no column \"3\"; the file has x, y"},
    {"a.csv", "1,2\n", "0", NULL, ADJ_E_ARGUMENT, "no column \"0\"; the file has 2 columns and no header"},
    {"a.csv", "1,2\n", "2-1", NULL, ADJ_E_ARGUMENT, "no column \"2-1\"; the file has 2 columns and no header"},
    {"a.csv", "1,2\n", "1-99999999999999999999", NULL, ADJ_E_ARGUMENT, "the file has 2 columns and no header"},
    {"a.csv", "1,2\n", "x", NULL, ADJ_E_ARGUMENT, "no column \"x\"; the file has 2 columns and no header"},
    {"a.csv", "x,y\n1,2\n", "x,1", NULL, ADJ_E_ARGUMENT, "columns: column 1 is given twice"},
    {"a.csv", "x,y\n1,2\n", "1-2,y", NULL, ADJ_E_ARGUMENT, "columns: column 2 is given twice"},
    {"a.csv", "x,y\n1,2\n", "x", "x", ADJ_E_ARGUMENT, "columns: column 1 is given twice"},
    {"a.csv", "x,y\n1,2\n", NULL, "q", ADJ_E_ARGUMENT, "id_column: there is no column \"q\"; the file has x, y"},
    {"a.csv", "x,y\n1,2\n", NULL, "1-2", ADJ_E_ARGUMENT, "id_column: there is no column \"1-2\""},
    {"a.csv", "x\n1\n", NULL, "x", ADJ_E_FORMAT, "there is no column besides the id column"},
    {"a.csv", "x,y,x\n1,2,3\n", "x,y", NULL, ADJ_E_ARGUMENT,
     "columns: 2 columns are named \"x\"; give the number of one"},
    /* columns that number or name the rows are not taken as coordinates */
    {"a.csv", "id,x,y\n1,2,3\n", NULL, NULL, ADJ_E_ARGUMENT,
     "a.csv: columns: column 1, \"id\", seems to number or name the rows; give columns=x,y, or columns=id,x,y if it is "
     "a "
     "coordinate; id_column=1 names the rows by it"},
    {"a.csv", ",x,y\n0,2,3\n", NULL, NULL, ADJ_E_ARGUMENT, "column 1, \"\", seems to number or name the rows"},
    {"a.csv", "Unnamed: 0,x,y\n0,2,3\n", NULL, NULL, ADJ_E_ARGUMENT, "give columns=x,y"},
    {"a.csv", "x,y,source_id\n0,2,3\n", NULL, NULL, ADJ_E_ARGUMENT, "column 3, \"source_id\", seems"},
    {"a.csv", "x,y,objID\n0,2,3\n", NULL, NULL, ADJ_E_ARGUMENT, "column 3, \"objID\", seems"},
    {"a.csv", "x, INDEX ,y\n0,2,3\n", NULL, NULL, ADJ_E_ARGUMENT, "give columns=x,y, or columns=x,INDEX,y if"},
    {"a.csv", "id,n,x\n1,2,3\n", NULL, "id", ADJ_E_ARGUMENT, "column 2, \"n\", seems"},
    {"a.csv", "1,0.5\n2,0.25\n3,4\n", NULL, NULL, ADJ_E_ARGUMENT,
     "a.csv: columns: column 1 goes up by one from row to row, as row numbers do; give columns=2, or columns=1-2 if it "
     "is a coordinate; id_column=1 names the rows by it"},
    {"a.txt", "1.0e+00 5.0 7.5\n2.0e+00 5.5 8.5\n3.0e+00 6 9.5\n", NULL, NULL, ADJ_E_ARGUMENT,
     "give columns=2-3, or columns=1-3"},
    {"a.txt", "0 5 7\n1 5 8\n2 5 9\n", NULL, NULL, ADJ_E_ARGUMENT, "give columns=2-3, or columns=1-3 if"},
    /* points without rows */
    {"a.csv", "x,y,z\n", NULL, NULL, ADJ_E_FORMAT,
     "a.csv: line 1 is read as a header, and no rows follow: there are no points"},
    {"a.csv", "# c\nx,y,z", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 2 is read as a header, and no rows follow"},
    {"a.csv", "Dear all,\n", NULL, NULL, ADJ_E_FORMAT, "line 1 is read as a header, and no rows follow"},
    /* rows that are not taken as a header */
    {"a.csv", "1,2x\n3,4\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 1, column 2: \"2x\" is not a number"},
    {"a.csv", "Oslo,10.75,59.91\nRome,12.5,41.9\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: line 1, column 1: \"Oslo\""},
    /* messages that say what was probably meant */
    {"a.csv", "x;y\n1,5;2,5\n", NULL, NULL, ADJ_E_FORMAT,
     "line 2, column 1: \"1,5\" is not a number; a number has a decimal point, and no commas"},
    {"a.csv", "1,5;2,5\n", NULL, NULL, ADJ_E_FORMAT,
     "\"5;2\" is not a number; fields and decimals must be separated by"},
    {"a.csv", "x,y\n\"1,234.5\",2\n", NULL, NULL, ADJ_E_FORMAT, "a number has a decimal point, and no commas"},
    {"a.tsv", "x\ty\n1 234\t2\n", NULL, NULL, ADJ_E_FORMAT, "a number has no separators between thousands"},
    {"a.csv", "x,y\n12:34:56,-01:02:03\n", NULL, NULL, ADJ_E_FORMAT, "an angle or a time must be one number"},
    {"a.tsv", "ra\tdec\n12 34 56.7\t-01 02 03\n", NULL, NULL, ADJ_E_FORMAT, "an angle or a time must be one number"},
    {"a.csv", "x,y\n12h34m56s,2\n", NULL, NULL, ADJ_E_FORMAT, "an angle or a time must be one number"},
    {"a.csv", "x,y\n12\xc2\xb0,2\n", NULL, NULL, ADJ_E_FORMAT, "an angle or a time must be one number"},
    {"a.csv", "x,y\n1,NA\n", NULL, NULL, ADJ_E_FORMAT,
     "line 2, column 2: \"NA\" is not a number; rows with missing values must be left out"},
    {"a.csv", "x,y\n1,null\n", NULL, NULL, ADJ_E_FORMAT, "rows with missing values must be left out"},
    {"a.csv", "", NULL, NULL, ADJ_E_FORMAT, "a.csv: the file is empty"},
    {"a.csv", "\n\n# nothing\n", NULL, NULL, ADJ_E_FORMAT, "a.csv: there are no rows and no header"},
    {"a.csv", "\xef\xbb\xbf", NULL, NULL, ADJ_E_FORMAT, "a.csv: there are no rows and no header"},
};

static void wrong_tables(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const error_case *c = &cases[i];
    adj_open_options options = open_defaults();
    options.columns = c->columns;
    options.id_column = c->id_column;
    adj_dataset *set = NULL;
    adj_status status = open_text(ctx, c->name, c->text, &options, &set);
    if (status != c->status || !strstr(adj_last_error(), c->message))
      fail_msg("case %zu: %s, \"%s\" instead of \"%s\"", i, adj_status_name(status), adj_last_error(), c->message);
    assert_null(set);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
  }
  adj_ctx_destroy(ctx);
}

static void overflow_of_f32(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_open_options options = open_defaults();
  options.type = ADJ_F32;
  adj_dataset *set = NULL;
  must_fail(ADJ_E_DATA, "a.csv: line 2, column 2: \"1e39\" is too large for f32",
            open_text(ctx, "a.csv", "1,2\n3,1e39\n", &options, &set));
  must_fail(ADJ_E_DATA, "a.csv: line 2, column 2: \"-1e39\" is too large for f32",
            open_text(ctx, "a.csv", "1,2\n3,\"-1e39\"\n", &options, &set));
  adj_ctx_destroy(ctx);
}

/* Longitude and latitude must have known names, or be chosen. */
static void places_are_asked_for(void **state) {
  (void)state;
  static const struct {
    const char *text, *columns, *message;
  } files[] = {
      {"5,2\n", NULL,
       "a.csv: columns: no header says which columns are longitude and latitude; choose two, longitude first, such as "
       "columns=1,2"},
      {"x,y\n5,2\n", NULL,
       "columns: no names show which columns are longitude and latitude; choose two, longitude first; the file has x, "
       "y"},
      {"lon,y\n5,2\n", NULL, "no names show which columns are longitude and latitude"},
      {"ra_hours,dec\n5,2\n", NULL, "no names show"}, /* hours and radians are not degrees */
      {"lon (rad),lat (rad)\n5,2\n", NULL, "no names show"},
      {"ra_error,dec_error\n5,2\n", NULL, "no names show"},
      {"ra,dec,glon,glat\n5,2,5,2\n", NULL, "several columns may be longitude or latitude; choose two"},
      {"lat,x\n2,5\n", "lat,x", "columns: longitude comes first, then latitude; by its name column 1 is a latitude"},
      {"x,lon\n2,5\n", "x,lon", "by its name column 2 is a longitude"},
  };
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    adj_open_options options = open_defaults();
    adj_dataset *set = NULL;
    options.metric = ADJ_HAVERSINE;
    options.columns = files[i].columns;
    must_fail(ADJ_E_ARGUMENT, files[i].message, open_text(ctx, "a.csv", files[i].text, &options, &set));
  }
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  options.metric = (adj_metric)99;
  must_fail(ADJ_E_ARGUMENT, "metric: 99 is no metric", open_text(ctx, "a.csv", "1,2\n", &options, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Files that are no tables, under names with and without the ending of a table. */
static void not_tables(void **state) {
  (void)state;
#define BYTES(text) text, sizeof text - 1
  static const struct {
    const char *bytes;
    size_t size;
    const char *message;
  } files[] = {
      {BYTES("{\"x\": 1, \"y\": 2}\n"), "looks like JSON"},
      {BYTES("[\n  [1, 2], [3, 4]\n]\n"), "looks like JSON"},
      {BYTES("\xef\xbb\xbf [{\"x\": 1}]"), "looks like JSON"},
      {BYTES("<!DOCTYPE HTML>\n<p>1,2</p>\n"), "looks like HTML"},
      {BYTES("\n <html><table>1,2</table>"), "looks like HTML"},
      {BYTES("<?xml version=\"1.0\"?>\n<VOTABLE>"), "looks like a VOTable"},
      {BYTES("<?xml version=\"1.0\"?>\n<kml>"), "looks like KML"},
      {BYTES("<points>1,2</points>"), "looks like XML or HTML"},
      {BYTES("\xff\376"
             "1\0,\0002\0\n\0"),
       "looks like UTF-16"},
      {BYTES("\xfe\xff\0001\0,\0002\0\n"), "looks like UTF-16"},
      {BYTES("1\0,\0002\0\n\0"), "looks like UTF-16"},
      {BYTES("%PDF-1.7\n1 0 obj\n"), "looks like a PDF document"},
      {BYTES("PAR1\25\4\25"), "looks like a Parquet file"},
      {BYTES("SIMPLE  =                    T"), "looks like a FITS file"},
      {BYTES("SQLite format 3\0\20"), "looks like an SQLite database"},
      {BYTES("x,y\r1,2\r3,4\r"), "line 1 ends with a carriage return alone"},
      {BYTES("1 2\r3 4\n5 6 7 8\n"), "line 1 ends with a carriage return alone"},
  };
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    adj_dataset *set = NULL;
    must_fail(ADJ_E_FORMAT, files[i].message, open_bytes(ctx, "a.csv", files[i].bytes, files[i].size, NULL, &set));
    must_fail(ADJ_E_FORMAT, files[i].message, open_bytes(ctx, "a.dat", files[i].bytes, files[i].size, NULL, &set));
  }
  adj_dataset *set = NULL;
  must_fail(ADJ_E_FORMAT, "looks like a zip archive", open_text(ctx, "a.csv", "PK\3\4xl", NULL, &set));
  must_fail(ADJ_E_FORMAT, "looks like a binary file", open_bytes(ctx, "a.csv", "1,2\n\0\1\2\3", 8, NULL, &set));
  must(open_text(ctx, "a.csv", "[x],[y]\n1,2\n", NULL, &set)); /* a header of names in brackets */
  check_and_destroy(set, ADJ_F64, 1, 2, (double[]){1, 2});
  adj_ctx_destroy(ctx);
}

/* If a file has many columns, a message does not list them all. */
static void many_names(void **state) {
  (void)state;
  char text[4096];
  size_t used = 0;
  for (int i = 0; i < 100; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%sname%d", i ? "," : "", i);
  adj_ctx *ctx = context_of(1, NULL);
  adj_open_options options = open_defaults();
  options.columns = "other";
  adj_dataset *set = NULL;
  must_fail(ADJ_E_ARGUMENT, "name22, name23, ... (100 in all)", open_text(ctx, "a.csv", text, &options, &set));
  adj_ctx_destroy(ctx);
}

/* If several chunks have errors, the first error in the file is reported, whatever the threads do. */
static void first_of_many_errors(void **state) {
  (void)state;
  const size_t lines = 700000, line = 8;
  char *text = malloc(lines * line + 1);
  assert_non_null(text);
  for (size_t i = 0; i < lines; i++)
    memcpy(text + i * line, i >= 400000 && i % 1000 == 0 ? "123,abc\n" : "123,456\n", line);
  for (uint32_t threads = 1; threads <= 4; threads++) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_dataset *set = NULL;
    must_fail(ADJ_E_FORMAT, "a.csv: line 400001, column 2: \"abc\" is not a number",
              read_bytes(ctx, "a.csv", text, lines * line, &(adj_open_options){.struct_size = sizeof(adj_open_options)},
                         &set));
    adj_ctx_destroy(ctx);
  }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_tables),         cmocka_unit_test(overflow_of_f32),
                                     cmocka_unit_test(places_are_asked_for), cmocka_unit_test(not_tables),
                                     cmocka_unit_test(many_names),           cmocka_unit_test(first_of_many_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
