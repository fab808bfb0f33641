/* SPDX-License-Identifier: MIT
 *
 * Files for the tests of the readers.
 */
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/read.h"

adj_open_options open_defaults(void) {
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  return options;
}

/* Works inside the folder of the file, so that messages begin with the name of the file alone. */
adj_status open_bytes(adj_ctx *ctx, const char *name, const void *bytes, uint64_t size, const adj_open_options *options,
                      adj_dataset **out) {
  char folder[] = "readers-XXXXXX", path[256];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(size ? fwrite(bytes, 1, size, file) : 0, size);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chdir(folder), 0);
  adj_status status = adj_dataset_open(ctx, name, options, out);
  assert_int_equal(chdir(".."), 0);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(rmdir(folder), 0);
  return status;
}

adj_status open_text(adj_ctx *ctx, const char *name, const char *text, const adj_open_options *options,
                     adj_dataset **out) {
  return open_bytes(ctx, name, text, strlen(text), options, out);
}

adj_status read_bytes(adj_ctx *ctx, const char *name, const void *bytes, uint64_t size, const adj_open_options *options,
                      adj_dataset **out) {
  adji_source source;
  adji_source_borrow(ctx, name, bytes, size, &source);
  adj_status status = adji_read_source(&source, options, out);
  adji_source_close(&source);
  return status;
}

adj_status open_golden(adj_ctx *ctx, const char *name, const adj_open_options *options, adj_dataset **out) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", READERS_DATA, name);
  return adj_dataset_open(ctx, path, options, out);
}

bool have_hdf5(adj_ctx *ctx) {
  adj_dataset *set = NULL;
  adj_status status = open_golden(ctx, "one.h5", NULL, &set);
  adj_dataset_destroy(set);
  return status != ADJ_E_UNSUPPORTED;
}

void check_and_destroy(adj_dataset *dataset, adj_type type, uint64_t count, uint32_t dim, const double *values) {
  assert_int_equal(adj_dataset_type(dataset), type);
  assert_int_equal(adj_dataset_count(dataset), count);
  assert_int_equal(adj_dataset_dim(dataset), dim);
  double row[64];
  assert_true(dim <= 64);
  for (uint64_t i = 0; i < count; i++) {
    must(adj_dataset_row(dataset, i, row));
    for (uint32_t j = 0; j < dim; j++) {
      double got = type == ADJ_F64 ? row[j] : (double)((float *)row)[j];
      double wanted = values[i * dim + j];
      if (memcmp(&got, &wanted, sizeof got) != 0)
        fail_msg("row %llu, column %u: %.17g instead of %.17g", (unsigned long long)i + 1, j + 1, got, wanted);
    }
  }
  adj_dataset_destroy(dataset);
}

static void keep_note(void *user, adj_log_level level, const char *line) {
  (void)level;
  notes *heard = user;
  size_t used = strlen(heard->text);
  snprintf(heard->text + used, sizeof heard->text - used, "%s\n", line);
}

adj_ctx *context_with_notes(notes *heard) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.log = keep_note;
  options.log_user = heard;
  heard->text[0] = 0;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}
