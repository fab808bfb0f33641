/* SPDX-License-Identifier: MIT
 *
 * Text tables that are wrong: each message names file, line and column, and says what is there.
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
    {"a.csv", "name,x\nlamp,2\n", NULL, NULL, ADJ_E_FORMAT,
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
    {"a.csv", "1,2\n3,1e39\n", NULL, NULL, ADJ_E_DATA, "line 2, column 2: \"1e39\" is too large for f32"},
    {"a.csv", "1,2\n3,\"-1e39\"\n", NULL, NULL, ADJ_E_DATA, "line 2, column 2: \"-1e39\" is too large for f32"},
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

static void overflow_of_f64(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_open_options options = open_defaults();
  options.type = ADJ_F64;
  adj_dataset *set = NULL;
  must_fail(ADJ_E_DATA, "a.csv: line 1, column 2: \"1e400\" is too large for f64",
            open_text(ctx, "a.csv", "1e300,1e400\n", &options, &set));
  adj_ctx_destroy(ctx);
}

/* Columns of a file with many are not all listed. */
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

/* Of several errors in different chunks, the first in the file is told, whatever the threads do. */
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_tables), cmocka_unit_test(overflow_of_f64),
                                     cmocka_unit_test(many_names), cmocka_unit_test(first_of_many_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
