/* SPDX-License-Identifier: MIT
 *
 * Valid text tables: separators, headers, columns, labels, line ends, and files of many chunks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "files.h"

typedef struct text_case {
  const char *name, *text;
  const char *columns, *id_column;
  uint64_t count;
  uint32_t dim;
  double values[8];
} text_case;

static const text_case cases[] = {
    {"plain.csv", "1,2\n3,4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"no-final-newline.csv", "1,2\n3,4", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"windows.csv", "x,y\r\n1,2\r\n3,4\r\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"empty-lines.csv", "\n\n1,2\n\n3,4\n\n  \n\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"comments.csv", "# made by hand\n1,2\n # more\n3,4\n#end", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"mark.csv", "\xef\xbb\xbfx,y\n1,2\n", "x,y", NULL, 1, 2, {1, 2}},
    {"mark-no-header.csv",
     "\xef\xbb\xbf"
     "1,2\n",
     NULL,
     NULL,
     1,
     2,
     {1, 2}},
    {"blanks.csv", " 1 ,\t2 \n3  , 4\t\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"quoted.csv", "\"x\",\"y\"\n\"1\",\" 2 \"\n\"3\" , 4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"one.csv", "5\n6\n7\n", NULL, NULL, 3, 1, {5, 6, 7}},
    {"tiny.csv", "5", NULL, NULL, 1, 1, {5}},
    {"signs.csv", "+1,-2\n-0.5,.25\n", NULL, NULL, 2, 2, {1, -2, -0.5, 0.25}},
    {"exponents.csv", "1e3,2E-1\n1.5e+2,5e0\n", NULL, NULL, 2, 2, {1000, 0.2, 150, 5}},
    {"semicolons.csv", "x;y\n1;2\n", NULL, NULL, 1, 2, {1, 2}},
    {"tabs.csv", "1\t2\n3\t4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"aligned.txt", "  1   2\n 10  20  \n", NULL, NULL, 2, 2, {1, 2, 10, 20}},
    {"mixed-blanks.txt", "1 \t2\n3\t 4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"quoted-blanks.txt", "a b\n\"1\" \"2\"\n", "b", NULL, 1, 1, {2}},
    {"plain.tsv", "x\ty\n1\t2\n 3 \t4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"unknown-ending.points", "1,2\n3,4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"UPPER.CSV", "1,2\n", NULL, NULL, 1, 2, {1, 2}},
    {"names-with-digits.csv", "2MASS,x\n1,2\n", NULL, NULL, 1, 2, {1, 2}},
    {"counting.csv", "0,0\n1,0\n2,0\n", NULL, NULL, 3, 2, {0, 0, 1, 0, 2, 0}}, /* points on a line */
    {"diagonal.csv", "1,1,0.5\n2,2,0.5\n", NULL, NULL, 2, 3, {1, 1, 0.5, 2, 2, 0.5}},
    {"numbered.csv", "1,5,0.5\n2,3,0.5\n", "2-3", NULL, 2, 2, {5, 0.5, 3, 0.5}},
    {"numbered-id.csv", "1,5,0.5\n2,3,0.5\n3,2,1\n", NULL, "1", 3, 2, {5, 0.5, 3, 0.5, 2, 1}},
    {"id-alone.csv", "id\n1\n2\n", NULL, NULL, 2, 1, {1, 2}},
    {"grid.csv", "grid,solid\n1,2\n", NULL, NULL, 1, 2, {1, 2}}, /* not every name that ends in id */
    {"by-name.csv", "id,x,y,z\n7,1,2,3\n", "z,x", NULL, 1, 2, {3, 1}},
    {"by-name-blanks.csv", "id,x y,z\n7,1,2\n", " x y , z ", NULL, 1, 2, {1, 2}},
    {"by-number.csv", "id,x,y,z\nA,1,2,3\n", "4,2-3", NULL, 1, 3, {3, 1, 2}},
    {"by-number-no-header.csv", "A,1,2,3\nB,4,5,6\n", "2-4", NULL, 2, 3, {1, 2, 3, 4, 5, 6}},
    {"quoted-comma.csv", "name,x\n\"a, b\",1\n\"c \"\"d\"\"\",2\n", "x", NULL, 2, 1, {1, 2}},
    {"name-is-number.csv", "id,1,2\n5,6,7\n", "2", NULL, 1, 1, {7}},
    {"number-label.csv", "A,1\nB,2\n", NULL, "1", 2, 1, {1, 2}},
};

static void valid_tables(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 2; threads++) {
    adj_ctx *ctx = context_of(threads, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      const text_case *c = &cases[i];
      adj_open_options options = open_defaults();
      options.columns = c->columns;
      options.id_column = c->id_column;
      for (int memory = 0; memory < 2; memory++) {
        adj_dataset *set = NULL;
        adj_status status = memory ? read_bytes(ctx, c->name, c->text, strlen(c->text), &options, &set)
                                   : open_text(ctx, c->name, c->text, &options, &set);
        if (status) fail_msg("%s", adj_last_error());
        check_and_destroy(set, ADJ_F64, c->count, c->dim, c->values);
      }
    }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* Text is f64 unless f32 is asked for. */
static void types(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  static const char text[] = "0.1,16777217,1e300\n";
  must(open_text(ctx, "wide.csv", text, NULL, &set));
  check_and_destroy(set, ADJ_F64, 1, 3, (double[]){0.1, 16777217, 1e300});
  options.type = ADJ_F64;
  must(open_text(ctx, "wide.csv", text, &options, &set));
  check_and_destroy(set, ADJ_F64, 1, 3, (double[]){0.1, 16777217, 1e300});
  options.columns = "1-2";
  options.type = ADJ_F32;
  must(open_text(ctx, "narrow.csv", text, &options, &set));
  check_and_destroy(set, ADJ_F32, 1, 2, (double[]){(double)0.1f, 16777216});
  adj_ctx_destroy(ctx);
}

static void check_label(const adj_dataset *set, uint64_t row, const char *wanted) {
  size_t length = 0;
  const char *label = adj_dataset_label(set, row, &length);
  assert_non_null(label);
  if (length != strlen(wanted) || memcmp(label, wanted, length) != 0)
    fail_msg("label %llu is \"%.*s\" instead of \"%s\"", (unsigned long long)row, (int)length, label, wanted);
}

static void labels(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  options.id_column = "star";
  must(open_text(ctx, "stars.csv", "x,star,y\n1, HD 1 ,2\n# none\n3,\"a \"\"b\"\", c\",4\n5,,6\n7,\"\",8\n9,\"\"\"\",0",
                 &options, &set));
  static const char *wanted[] = {"HD 1", "a \"b\", c", "", "", "\""};
  for (uint64_t i = 0; i < 5; i++)
    check_label(set, i, wanted[i]);
  size_t length;
  assert_null(adj_dataset_label(set, 5, &length));
  check_and_destroy(set, ADJ_F64, 5, 2, (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 0});
  options.id_column = "2";
  must(open_text(ctx, "blanks.txt", "1 one 2\n3 \"two or more\" 4\n", &options, &set));
  check_label(set, 1, "two or more");
  check_and_destroy(set, ADJ_F64, 2, 2, (double[]){1, 2, 3, 4});
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Several megabytes: rows of different length in many chunks, with comments and blank lines between them. Labels and
 * values both encode the number of the row. */
static char *make_large(uint64_t rows, size_t *size) {
  size_t room = rows * 64 + 1000, used = 0;
  char *text = malloc(room);
  assert_non_null(text);
  used += (size_t)sprintf(text, "id,a,b\n");
  for (uint64_t i = 0; i < rows; i++) {
    if (i % 1000 == 7) used += (size_t)sprintf(text + used, "# %llu\n", (unsigned long long)i);
    if (i % 501 == 3) used += (size_t)sprintf(text + used, "\n");
    used += (size_t)sprintf(text + used, "r%llu,%llu,%.*f\n", (unsigned long long)i, (unsigned long long)i % 65536,
                            (int)(i % 9), (double)(i % 1000) / 8);
  }
  *size = used;
  return text;
}

static void many_chunks(void **state) {
  (void)state;
  const uint64_t rows = 300000;
  size_t size, length;
  char *text = make_large(rows, &size), wanted[32];
  for (uint32_t threads = 1; threads <= 3; threads++) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_open_options options = open_defaults();
    options.id_column = "id";
    adj_dataset *set = NULL;
    must(open_bytes(ctx, "large.csv", text, size, &options, &set));
    assert_int_equal(adj_dataset_count(set), rows);
    for (uint64_t i = 0; i < rows; i++) {
      double row[2];
      must(adj_dataset_row(set, i, row));
      char printed[32];
      snprintf(printed, sizeof printed, "%.*f", (int)(i % 9), (double)(i % 1000) / 8);
      if (row[0] != (double)(i % 65536) || row[1] != strtod(printed, NULL)) fail_msg("row %llu", (unsigned long long)i);
      snprintf(wanted, sizeof wanted, "r%llu", (unsigned long long)i);
      const char *label = adj_dataset_label(set, i, &length);
      if (length != strlen(wanted) || memcmp(label, wanted, length) != 0) fail_msg("label %llu", (unsigned long long)i);
    }
    adj_dataset_destroy(set);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
  free(text);
}

static void notes_are_made(void **state) {
  (void)state;
  static const struct {
    const char *name, *text, *note;
  } noted[] = {{"n.csv", "x,y\n1,2\n", "line 1 is the header"},
               {"n.csv", "0,1\n0.5,2\n", "line 1, which is 0, 1, ..., is read as a point"},
               {"n.csv", "Lon,LAT,z\n5,2,1\n", "columns 1 and 2 are longitude and latitude by their names"},
               {"n.csv", "#\nx,2\n1,2\n", "line 2 is taken as the header, although 1 of its fields are numbers"},
               {"n.csv", "1;2\n", "separated by semicolons"},
               {"n.csv", "1\t2\n", "separated by tabs"},
               {"n.csv", "1 2\n", "separated by blanks"}};
  for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++) {
    notes heard;
    adj_ctx *ctx = context_with_notes(&heard);
    adj_dataset *set = NULL;
    must(open_text(ctx, noted[i].name, noted[i].text, NULL, &set));
    if (!strstr(heard.text, noted[i].note)) fail_msg("\"%s\" was not said: %s", noted[i].note, heard.text);
    adj_dataset_destroy(set);
    adj_ctx_destroy(ctx);
  }
}

/* ---- Longitude and latitude ----------------------------------------------------------------------------- */

/* Longitude is 5 and latitude 2 in every file. */
static void places_are_found(void **state) {
  (void)state;
  static const struct {
    const char *text, *columns;
  } files[] = {
      {"lon,lat\n5,2\n", NULL},
      {"lat,lon\n2,5\n", NULL},
      {"Latitude,name,LONGITUDE\n2,Oslo,5\n", NULL},
      {" lng , Lat \n5,2\n", NULL},
      {"\"dec\",\"ra\"\n2,5\n", NULL},
      {"id,RAJ2000,DEJ2000\n1,5,2\n", NULL},
      {"_DEJ2000;_RAJ2000\n2;5\n", NULL},
      {"Source\tDE_ICRS\tRA_ICRS\n1\t2\t5\n", NULL},
      {"ra_deg,dec_deg,ra_error,dec_error\n5,2,1,1\n", NULL},
      {"Dec (deg),RA (deg)\n2,5\n", NULL},
      {"lat[degrees],lon[degrees]\n2,5\n", NULL},
      {"decimalLatitude,decimalLongitude\n2,5\n", NULL},
      {"DELTA_J2000,ALPHA_J2000\n2,5\n", NULL},
      {"declination,right_ascension\n2,5\n", NULL},
      {"raMean,decMean\n5,2\n", NULL},
      {"lat,lon\n2,5\n", "lat,lon"}, /* known names decide, whatever the order of the chosen columns */
      {"lat,lon\n2,5\n", "1,2"},
      {"a,b\n2,5\n", "b,a"}, /* without known names the order of the chosen columns decides */
      {"2,5\n", "2,1"},
      {"a,lat\n5,2\n", "a,lat"},
  };
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    adj_open_options options = open_defaults();
    adj_dataset *set = NULL;
    options.metric = ADJ_HAVERSINE;
    options.columns = files[i].columns;
    if (open_text(ctx, "p.csv", files[i].text, &options, &set)) fail_msg("%s: %s", files[i].text, adj_last_error());
    check_and_destroy(set, ADJ_F64, 1, 2, (double[]){5, 2});
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* A file was opened without the metric. The join refuses it if its column names say latitude, longitude. */
static void joins_know_the_names(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *wrong = NULL, *good = NULL;
  adj_plan *plan = NULL;
  must(open_text(ctx, "p.csv", "lat,lon\n2,5\n3,5\n", NULL, &wrong));
  must(open_text(ctx, "p.csv", "lon,lat\n5,2\n5,3\n", NULL, &good));
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.metric = ADJ_HAVERSINE;
  spec.radius = 1;
  must_fail(ADJ_E_ARGUMENT, "left: its columns are lat, lon", adj_plan_create(ctx, &spec, wrong, NULL, &plan));
  must_fail(ADJ_E_ARGUMENT, "right: its columns are lat, lon", adj_plan_create(ctx, &spec, good, wrong, &plan));
  must(adj_plan_create(ctx, &spec, good, NULL, &plan));
  adj_plan_destroy(plan);
  adj_dataset_destroy(wrong);
  adj_dataset_destroy(good);
  adj_ctx_destroy(ctx);
}

static void check_columns(const adj_dataset *set, const char *const *wanted) {
  for (uint32_t j = 0; wanted[j]; j++)
    assert_string_equal(adj_dataset_column(set, j), wanted[j]);
  assert_null(adj_dataset_column(set, adj_dataset_dim(set)));
}

/* Which columns became coordinates, also in another type. */
static void columns_are_named(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL, *other = NULL;
  options.id_column = "y";
  options.columns = "3,x";
  must(open_text(ctx, "a.csv", "x, y ,\"z\x01\"\n1,a,3\n0.1,bc,16777217\n", &options, &set));
  check_columns(set, (const char *[]){"z?", "x", NULL});
  must(adj_dataset_convert(set, ADJ_F32, &other));
  check_columns(other, (const char *[]){"z?", "x", NULL});
  check_label(other, 1, "bc");
  check_and_destroy(other, ADJ_F32, 2, 2, (double[]){3, 1, 16777216, (double)0.1f});
  adj_dataset_destroy(set);
  must(open_text(ctx, "a.csv", "1,2,3\n", &(adj_open_options){.struct_size = sizeof options, .columns = "3,1"}, &set));
  check_columns(set, (const char *[]){"3", "1", NULL});
  must(adj_dataset_convert(set, ADJ_F64, &other));
  check_and_destroy(other, ADJ_F64, 1, 2, (double[]){3, 1});
  must_fail(ADJ_E_ARGUMENT, "type", adj_dataset_convert(set, (adj_type)7, &other));
  must_fail(ADJ_E_ARGUMENT, "neither may be NULL", adj_dataset_convert(NULL, ADJ_F64, &other));
  adj_dataset_destroy(set);
  must(open_text(ctx, "a.csv", "1e39,1\n", NULL, &set));
  must_fail(ADJ_E_DATA, "row 1, column 1", adj_dataset_convert(set, ADJ_F32, &other));
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(places_are_found),
                                     cmocka_unit_test(joins_know_the_names),
                                     cmocka_unit_test(columns_are_named),
                                     cmocka_unit_test(valid_tables),
                                     cmocka_unit_test(types),
                                     cmocka_unit_test(labels),
                                     cmocka_unit_test(many_chunks),
                                     cmocka_unit_test(notes_are_made)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
