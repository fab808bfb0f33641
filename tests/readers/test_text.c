/* SPDX-License-Identifier: MIT
 *
 * Text tables that are right: separators, headers, columns, labels, line ends, and files of many chunks.
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
    {"exponents.csv", "1e3,2E-1\n1.5e+2,5e0\n", NULL, NULL, 2, 2, {1000, (double)0.2f, 150, 5}},
    {"semicolons.csv", "x;y\n1;2\n", NULL, NULL, 1, 2, {1, 2}},
    {"tabs.csv", "1\t2\n3\t4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"aligned.txt", "  1   2\n 10  20  \n", NULL, NULL, 2, 2, {1, 2, 10, 20}},
    {"mixed-blanks.txt", "1 \t2\n3\t 4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"quoted-blanks.txt", "a b\n\"1\" \"2\"\n", "b", NULL, 1, 1, {2}},
    {"plain.tsv", "x\ty\n1\t2\n 3 \t4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"unknown-ending.points", "1,2\n3,4\n", NULL, NULL, 2, 2, {1, 2, 3, 4}},
    {"UPPER.CSV", "1,2\n", NULL, NULL, 1, 2, {1, 2}},
    {"only-header.csv", "x,y,z\n", NULL, NULL, 0, 3, {0}},
    {"only-header-no-end.csv", "x,y,z", NULL, NULL, 0, 3, {0}},
    {"by-name.csv", "id,x,y,z\n7,1,2,3\n", "z,x", NULL, 1, 2, {3, 1}},
    {"by-name-blanks.csv", "id,x y,z\n7,1,2\n", " x y , z ", NULL, 1, 2, {1, 2}},
    {"by-number.csv", "id,x,y,z\nA,1,2,3\n", "4,2-3", NULL, 1, 3, {3, 1, 2}},
    {"by-number-no-header.csv", "A,1,2,3\nB,4,5,6\n", "2-4", NULL, 2, 3, {1, 2, 3, 4, 5, 6}},
    {"quoted-comma.csv", "name,x\n\"a, b\",1\n\"c \"\"d\"\"\",2\n", "x", NULL, 2, 1, {1, 2}},
    {"name-is-number.csv", "id,1,2\n5,6,7\n", "2", NULL, 1, 1, {7}},
    {"number-label.csv", "A,1\nB,2\n", NULL, "1", 2, 1, {1, 2}},
};

static void right_tables(void **state) {
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
        check_and_destroy(set, ADJ_F32, c->count, c->dim, c->values);
      }
    }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

static void types(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  static const char text[] = "0.1,16777217,1e300\n";
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
  check_and_destroy(set, ADJ_F32, 5, 2, (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 0});
  options.id_column = "2";
  must(open_text(ctx, "blanks.txt", "1 one 2\n3 \"two or more\" 4\n", &options, &set));
  check_label(set, 1, "two or more");
  check_and_destroy(set, ADJ_F32, 2, 2, (double[]){1, 2, 3, 4});
  must(open_text(ctx, "none.csv", "x,id\n", &options, &set));
  assert_null(adj_dataset_label(set, 0, &length));
  check_and_destroy(set, ADJ_F32, 0, 1, NULL);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Several megabytes: rows of different length in many chunks, with comments and blank lines between,
 * labels that tell the row, and values that tell it too. */
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
      float row[2];
      must(adj_dataset_row(set, i, row));
      char printed[32];
      snprintf(printed, sizeof printed, "%.*f", (int)(i % 9), (double)(i % 1000) / 8);
      if (row[0] != (float)(i % 65536) || row[1] != strtof(printed, NULL)) fail_msg("row %llu", (unsigned long long)i);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(right_tables), cmocka_unit_test(types), cmocka_unit_test(labels),
                                     cmocka_unit_test(many_chunks), cmocka_unit_test(notes_are_made)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
