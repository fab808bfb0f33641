/* SPDX-License-Identifier: MIT
 *
 * HDF5 files through the library's interface: values in other files, sizes that files state, a helper process. This
 * program is its own helper. Tests that need files made on the spot are in tests/cli/test_hdf5.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "io/read.h"

static const double points[] = {0, 1.5, -2.25, 3, 4, -0.5};
static const char *const helpers[] = {NULL, "/proc/self/exe"};

/* Names of external storage are relative to the current folder. */
static int enter_data(void **state) {
  (void)state;
  return chdir(READERS_DATA);
}

static adj_ctx *context_or_skip(const char *memory) {
  adj_ctx *ctx = context_of(2, NULL);
  bool have = have_hdf5(ctx);
  adj_ctx_destroy(ctx);
  if (!have) skip();
  if (!memory) return context_of(2, NULL);
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.memory_limit = strtoull(memory, NULL, 10);
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

static void no_children(void) {
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
  assert_int_equal(errno, ECHILD);
}

/* Must run before the library is loaded, so it is the first test. */
static void environment_is_refused(void **state) {
  (void)state;
  static const char *const variables[] = {"HDF5_VOL_CONNECTOR", "HDF5_DRIVER"};
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = NULL;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(setenv(variables[i], "planted", 1), 0);
    char words[100];
    snprintf(words, sizeof words, "one.h5: hdf5: %s is set in the environment", variables[i]);
    must_fail(ADJ_E_UNSUPPORTED, words, adj_dataset_open(ctx, "one.h5", NULL, &set));
    assert_int_equal(unsetenv(variables[i]), 0);
  }
  adj_ctx_destroy(ctx);
}

static void other_files(void **state) {
  (void)state;
  static const struct {
    const char *file, *dataset, *message;
  } cases[] = {
      {"external.h5", NULL, "external.h5: allow_external: is needed for dataset \"p\", which has external storage"},
      {"external.h5", "p", "external.h5: allow_external: is needed for dataset \"p\", which has external storage"},
      {"virtual.h5", NULL, "virtual.h5: allow_external: is needed for dataset \"p\", which is virtual"},
      {"virtual.h5", "p", "virtual.h5: allow_external: is needed for dataset \"p\", which is virtual"},
      {"link.h5", "there", "link.h5: allow_external: is needed for dataset \"there\", a link into file \"one.h5\""}};
  adj_ctx *ctx = context_or_skip(NULL);
  adj_dataset *set = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int h = 0; h < 2; h++) {
      adj_open_options options = open_defaults();
      options.dataset = cases[i].dataset;
      options.helper = helpers[h];
      must_fail(ADJ_E_UNSUPPORTED, cases[i].message, adj_dataset_open(ctx, cases[i].file, &options, &set));
      options.allow_external = 1;
      must(adj_dataset_open(ctx, cases[i].file, &options, &set));
      check_and_destroy(set, ADJ_F32, 3, 2, points);
    }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  no_children();
  adj_ctx_destroy(ctx);
}

/* A file of 70 KB whose one chunk of 64 MB must be unpacked for three rows. */
static void large_chunk(void **state) {
  (void)state;
  static const double zeros[6] = {0};
  for (int h = 0; h < 2; h++) {
    adj_open_options options = open_defaults();
    options.helper = helpers[h];
    adj_dataset *set = NULL;
    adj_ctx *ctx = context_or_skip("20000000");
    must_fail(ADJ_E_MEMORY, "large_chunk.h5: chunks of an HDF5 file: needs 192.0 MiB",
              adj_dataset_open(ctx, "large_chunk.h5", &options, &set));
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
    ctx = context_or_skip("300000000");
    must(adj_dataset_open(ctx, "large_chunk.h5", &options, &set));
    check_and_destroy(set, ADJ_F32, 3, 2, zeros);
    adj_ctx_destroy(ctx);
  }
}

/* Settings that another part of the process made in the HDF5 library are restored. */
static void settings_are_restored(void **state) {
  (void)state;
  static const char *const names[] = {"libhdf5_serial.so.310", "libhdf5.so.310",        "libhdf5_serial.so.200",
                                      "libhdf5.so.200",        "libhdf5_serial.so.103", "libhdf5.so.103"};
  adj_ctx *ctx = context_or_skip(NULL);
  void *library = NULL;
  for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
    library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
  if (!library) { /* ADJOIN_HDF5 names another library */
    adj_ctx_destroy(ctx);
    skip();
  }
  int (*get)(unsigned *), (*set)(unsigned);
  *(void **)&get = dlsym(library, "H5PLget_loading_state");
  *(void **)&set = dlsym(library, "H5PLset_loading_state");
  for (unsigned wanted = 0; wanted < 2; wanted++) {
    unsigned got = 7;
    assert_true(set(wanted) >= 0);
    adj_dataset *read = NULL;
    must(adj_dataset_open(ctx, "one.h5", NULL, &read));
    adj_dataset_destroy(read);
    assert_true(get(&got) >= 0);
    assert_int_equal(got, wanted);
  }
  adj_ctx_destroy(ctx);
}

static void other_helpers(void **state) {
  (void)state;
  adj_ctx *ctx = context_or_skip(NULL);
  adj_dataset *set = NULL;
  adj_open_options options = open_defaults();
  options.helper = "/nowhere/adjoin";
  must_fail(ADJ_E_IO, "one.h5: hdf5: helper program \"/nowhere/adjoin\" cannot be started: No such file",
            adj_dataset_open(ctx, "one.h5", &options, &set));
  options.helper = "/bin/true";
  must_fail(ADJ_E_FORMAT, "one.h5: hdf5: the helper program ended before all was read (exit status 0)",
            adj_dataset_open(ctx, "one.h5", &options, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  no_children();
  adj_ctx_destroy(ctx);
}

/* The helper gives the same points as this process, from a file and from bytes. Each allocation fails in turn. */
static void with_helper(void **state) {
  (void)state;
  adj_ctx *ctx = context_or_skip(NULL);
  adj_dataset *set = NULL;
  adj_open_options options = open_defaults();
  options.helper = helpers[1];
  must(adj_dataset_open(ctx, "one.h5", &options, &set));
  check_and_destroy(set, ADJ_F32, 3, 2, points);
  options.type = ADJ_F64;
  must(adj_dataset_open(ctx, "one.h5", &options, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  options.type = 0;
  options.dataset = "group/f64be";
  must(adj_dataset_open(ctx, "several.h5", &options, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  options.dataset = "large";
  must_fail(ADJ_E_DATA, "several.h5: row 1, column 1: 9007199254740993 is not exact as f64",
            adj_dataset_open(ctx, "several.h5", &options, &set));
  options.dataset = "i32";
  static unsigned char bytes[8192];
  FILE *file = fopen("several.h5", "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  int failures = 0;
  for (adj_status status = ADJ_E_MEMORY; status; failures++) {
    atomic_store(&ctx->memory.fail_at, failures);
    status = read_bytes(ctx, "a.h5", bytes, size, &options, &set);
    atomic_store(&ctx->memory.fail_at, -1);
    if (!status) adj_dataset_destroy(set);
    assert_true(!status || status == ADJ_E_MEMORY);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    no_children();
  }
  assert_true(failures > 4);
  adj_ctx_destroy(ctx);
}

/* What a helper says is checked (see hdf5_helper.c). Here its host program has closed standard descriptors. */
static void closed_descriptors(void **state) {
  (void)state;
  adj_ctx *ctx = context_or_skip(NULL);
  int kept = dup(0);
  assert_true(kept > 2);
  assert_int_equal(close(0), 0);
  adj_open_options options = open_defaults();
  options.helper = helpers[1];
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_open(ctx, "one.h5", &options, &set);
  int used = dup(0); /* fails, as descriptor 0 was not left open */
  assert_true(dup2(kept, 0) == 0);
  assert_int_equal(used, -1);
  close(kept);
  must(status);
  check_and_destroy(set, ADJ_F32, 3, 2, points);
  adj_ctx_destroy(ctx);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], ADJ_HELPER)) return adj_helper_main(argc, argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(environment_is_refused), cmocka_unit_test(other_files),   cmocka_unit_test(large_chunk),
      cmocka_unit_test(settings_are_restored),  cmocka_unit_test(other_helpers), cmocka_unit_test(with_helper),
      cmocka_unit_test(closed_descriptors)};
  return cmocka_run_group_tests(tests, enter_data, NULL);
}
