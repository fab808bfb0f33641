/* SPDX-License-Identifier: MIT
 *
 * The costs of a machine: they are written to a file and read from it, and a file of another machine is ignored. With
 * the argument "calibrate" they are measured too.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/costs.h"
#include "plan/plan.h"

static char folder[] = "/tmp/adjoin_costs_XXXXXX";
static char path[64];

static int start(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return 1;
  snprintf(path, sizeof path, "%s/costs", folder);
  return 0;
}

static int stop(void **state) {
  (void)state;
  (void)remove(path);
  return rmdir(folder);
}

static adji_costs_read load(adji_costs *out) {
  char why[256];
  return adji_costs_load(path, "scalar", out, why, sizeof why);
}

static char *read_text(void) {
  static char text[16384];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  return text;
}

static void write_text(const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void costs_are_kept(void **state) {
  (void)state;
  adji_costs costs = adji_built_in_costs, found = {0};
  costs.index_point_ns = 123.456;
  costs.amx_dim_ns = 0.00012345;
  costs.copy_rate = 1.5e10;
  costs.device_ready_s = 3e-5;
  must(adji_costs_save(path, "scalar", &costs));
  assert_int_equal(load(&found), ADJI_COSTS_READ);
  const double *wanted = (const double *)&costs, *got = (const double *)&found;
  for (size_t i = 0; i < sizeof costs / sizeof(double); i++)
    assert_true(fabs(got[i] - wanted[i]) <= 1e-5 * wanted[i]);
  must_fail(ADJ_E_IO, "nowhere", adji_costs_save("/proc/nowhere/costs", "scalar", &costs));
}

/* A damaged file is not used, not even in part. */
static void damage_is_seen(void **state) {
  (void)state;
  must(adji_costs_save(path, "scalar", &adji_built_in_costs));
  char *whole = strdup(read_text()), text[16384];
  adji_costs found = {.row_ns = 7};
  size_t length = strlen(whole);
  for (size_t cut = 0; cut < length; cut += cut < 200 || cut + 20 > length ? 1 : 37) {
    snprintf(text, sizeof text, "%.*s", (int)cut, whole);
    write_text(text);
    adji_costs_read read = load(&found);
    assert_true(read == ADJI_COSTS_DAMAGED || read == ADJI_COSTS_OTHER);
  }
  static const struct {
    const char *from, *to;
    adji_costs_read read;
  } changes[] = {
      {"row_ns 1", "row_ns x", ADJI_COSTS_DAMAGED},
      {"row_ns 1", "row_ns -1", ADJI_COSTS_DAMAGED},
      {"pair_ns ", "pair_ns nan", ADJI_COSTS_DAMAGED},
      {"pair_ns ", "pair_ns 9999999", ADJI_COSTS_DAMAGED},
      {"pair_ns ", "tea_ns ", ADJI_COSTS_DAMAGED},
      {"lookup_ns ", "vector_ns ", ADJI_COSTS_DAMAGED},
      {"end ", "end 1", ADJI_COSTS_DAMAGED},
      {"adjoin costs", "other costs", ADJI_COSTS_DAMAGED},
      {"adjoin costs 1", "adjoin costs 2", ADJI_COSTS_OTHER},
      {"version ", "version 9", ADJI_COSTS_OTHER},
      {"; scalar;", "; avx512;", ADJI_COSTS_OTHER},
      {"machine ", "machine Old ", ADJI_COSTS_OTHER},
  };
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    const char *at = strstr(whole, changes[i].from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, changes[i].to, at + strlen(changes[i].from));
    write_text(text);
    assert_int_equal(load(&found), changes[i].read);
  }
  snprintf(text, sizeof text, "%smore\n", whole);
  write_text(text);
  assert_int_equal(load(&found), ADJI_COSTS_DAMAGED);
  (void)remove(path);
  assert_int_equal(load(&found), ADJI_COSTS_MISSING);
  assert_true(found.row_ns == 7); /* no damaged file has changed it */
  free(whole);
}

/* ---- Contexts -------------------------------------------------------------------------------------------- */

typedef struct logged {
  int warnings, notes;
  char last[1024];
} logged;

static void keep_line(void *user, adj_log_level level, const char *line) {
  logged *l = user;
  l->warnings += level == ADJ_LOG_WARN;
  l->notes += level == ADJ_LOG_INFO;
  snprintf(l->last, sizeof l->last, "%s", line);
}

static adj_ctx *context_with(const char *isa, logged *l) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 1;
  options.isa = isa;
  options.device_count = 0;
  options.log = keep_line;
  options.log_user = l;
  *l = (logged){0};
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

static void contexts_read_them(void **state) {
  (void)state;
  logged l;
  adji_costs costs = adji_built_in_costs;
  costs.row_ns = 321;
  must(adji_costs_save(path, "scalar", &costs));
  setenv("ADJOIN_COSTS", path, 1);
  adj_ctx *ctx = context_with("scalar", &l);
  assert_string_equal(adj_ctx_costs(ctx), path);
  assert_true(ctx->costs.row_ns == 321 && !l.warnings && !l.notes);
  adj_ctx_destroy(ctx);
  write_text("adjoin costs 1\nversion tea\n");
  ctx = context_with("scalar", &l);
  assert_null(adj_ctx_costs(ctx));
  assert_true(ctx->costs.row_ns == adji_built_in_costs.row_ns && !l.warnings && l.notes == 1);
  adj_ctx_destroy(ctx);
  write_text("tea\n");
  ctx = context_with("scalar", &l);
  assert_true(!adj_ctx_costs(ctx) && l.warnings == 1 && strstr(l.last, path) && strstr(l.last, "damaged"));
  adj_ctx_destroy(ctx);
  (void)remove(path);
  ctx = context_with("scalar", &l);
  assert_true(!adj_ctx_costs(ctx) && l.warnings == 1 && strstr(l.last, "ADJOIN_COSTS"));
  adj_ctx_destroy(ctx);
  setenv("ADJOIN_COSTS", "none", 1);
  ctx = context_with("scalar", &l);
  assert_true(!adj_ctx_costs(ctx) && !l.warnings && !l.notes);
  must_fail(ADJ_E_ARGUMENT, "ADJOIN_COSTS", adj_calibrate(ctx, NULL));
  must_fail(ADJ_E_ARGUMENT, "ctx", adj_calibrate(NULL, path));
  adj_ctx_destroy(ctx);
}

/* Where the file is: in the folder of a user's cached files. */
static void files_have_a_place(void **state) {
  (void)state;
  const char *before = getenv("HOME");
  char found[512], *home = strdup(before ? before : "/");
  bool asked;
  unsetenv("ADJOIN_COSTS");
  setenv("XDG_CACHE_HOME", "/some/cache", 1);
  assert_true(adji_costs_path(found, sizeof found, &asked) && !asked);
  assert_string_equal(found, "/some/cache/adjoin/costs");
  setenv("XDG_CACHE_HOME", "relative", 1); /* a relative path is ignored */
  setenv("HOME", "/home/me", 1);
  assert_true(adji_costs_path(found, sizeof found, &asked));
  assert_string_equal(found, "/home/me/.cache/adjoin/costs");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_false(adji_costs_path(found, sizeof found, &asked));
  setenv("HOME", home, 1);
  setenv("ADJOIN_COSTS", "none", 1);
  free(home);
}

static adji_costs_read load_says(const char *word) {
  adji_costs found;
  char why[256];
  adji_costs_read read = adji_costs_load(path, "scalar", &found, why, sizeof why);
  if (!strstr(why, word)) fail_msg("\"%s\" does not say \"%s\"", why, word);
  return read;
}

/* If another user has put something else in the place of the file, it is neither read nor waited for. */
static void only_small_files_of_ours_are_read(void **state) {
  (void)state;
  must(adji_costs_save(path, "scalar", &adji_built_in_costs));
  assert_int_equal(truncate(path, (64 << 10) + 1), 0);
  assert_int_equal(load_says("64 KiB"), ADJI_COSTS_REFUSED);
  assert_int_equal(remove(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(load_says("regular"), ADJI_COSTS_REFUSED);
  assert_int_equal(remove(path), 0);
  assert_int_equal(symlink("/dev/zero", path), 0);
  assert_int_equal(load_says("regular"), ADJI_COSTS_REFUSED);
  assert_int_equal(remove(path), 0);
  if (geteuid()) return; /* the rest needs files of other users */
  must(adji_costs_save(path, "scalar", &adji_built_in_costs));
  assert_int_equal(chown(path, 12345, 12345), 0);
  assert_int_equal(load_says("another user"), ADJI_COSTS_REFUSED);
  char other[80];
  snprintf(other, sizeof other, "%s.other", path);
  assert_int_equal(rename(path, other), 0);
  assert_int_equal(chown(other, 0, 0), 0);
  assert_int_equal(symlink(other, path), 0); /* our link to a file of ours; then it is another user's link */
  assert_int_equal(load_says(""), ADJI_COSTS_READ);
  assert_int_equal(lchown(path, 12345, 12345), 0);
  assert_int_equal(load_says("another user"), ADJI_COSTS_REFUSED);
  assert_int_equal(remove(path), 0);
  assert_int_equal(remove(other), 0);
}

/* A planted link is replaced. The file that it led to does not change. */
static void links_are_not_written_through(void **state) {
  (void)state;
  char other[80];
  struct stat at;
  snprintf(other, sizeof other, "%s.other", path);
  FILE *file = fopen(other, "w");
  assert_non_null(file);
  fputs("precious", file);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(symlink(other, path), 0);
  must(adji_costs_save(path, "scalar", &adji_built_in_costs));
  assert_true(!lstat(path, &at) && S_ISREG(at.st_mode));
  assert_true(!stat(other, &at) && at.st_size == 8);
  assert_int_equal(remove(other), 0);
}

/* Folders of other users, or open to all, are not used for cached files. */
static void folders_of_others_are_left_alone(void **state) {
  (void)state;
  char found[512], cache[80], below[96];
  bool asked;
  const char *given = getenv("ADJOIN_COSTS"), *before = getenv("HOME");
  char *costs = strdup(given ? given : "none"), *home = strdup(before ? before : "/");
  snprintf(cache, sizeof cache, "%s/.cache", folder);
  snprintf(below, sizeof below, "%s/adjoin", cache);
  unsetenv("ADJOIN_COSTS");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", folder, 1);
  assert_true(adji_costs_path(found, sizeof found, &asked)); /* the folder can be made */
  assert_true(!mkdir(cache, 0700) && !mkdir(below, 0700));
  assert_true(adji_costs_path(found, sizeof found, &asked));
  assert_int_equal(chmod(below, 0777), 0);
  assert_false(adji_costs_path(found, sizeof found, &asked));
  assert_int_equal(chmod(below, 01777), 0); /* as /tmp is */
  assert_true(adji_costs_path(found, sizeof found, &asked));
  const char *const others[] = {folder, cache, below};
  for (int i = 0; i < 3 && !geteuid(); i++) {
    assert_int_equal(chown(others[i], 12345, 12345), 0);
    assert_false(adji_costs_path(found, sizeof found, &asked));
    adj_ctx *ctx = context_of(1, "scalar");
    if (!i) must_fail(ADJ_E_ARGUMENT, "another user", adj_calibrate(ctx, NULL));
    adj_ctx_destroy(ctx);
    assert_int_equal(chown(others[i], 0, 0), 0);
  }
  assert_true(!rmdir(below) && !symlink("/tmp", below)); /* our own link is fine, another user's link is not */
  assert_true(adji_costs_path(found, sizeof found, &asked));
  if (!geteuid()) {
    assert_int_equal(lchown(below, 12345, 12345), 0);
    assert_false(adji_costs_path(found, sizeof found, &asked));
  }
  assert_true(!remove(below) && !rmdir(cache));
  setenv("HOME", home, 1);
  setenv("ADJOIN_COSTS", costs, 1);
  free(home);
  free(costs);
}

/* The planner uses the costs. Results do not depend on them. */
static void plans_go_by_them(void **state) {
  (void)state;
  uint64_t totals[2];
  bool single[2];
  for (int i = 0; i < 2; i++) {
    adji_costs costs = adji_built_in_costs;
    costs.moved_pair_ns *= i ? 100 : 0.01;
    costs.pair_ns *= i ? 0.01 : 100;
    must(adji_costs_save(path, "scalar", &costs));
    setenv("ADJOIN_COSTS", path, 1);
    logged l;
    adj_ctx *ctx = context_with("scalar", &l);
    adj_dataset *set = uniform(ctx, 4000, 4);
    adj_join_spec spec;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = 0.1;
    spec.backend = ADJ_BACKEND_CPU;
    adj_plan *plan = NULL;
    must(adj_plan_create(ctx, &spec, set, NULL, &plan));
    single[i] = plan->choice.single;
    must(adj_count(plan, NULL, &totals[i], NULL, NULL));
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
    adj_ctx_destroy(ctx);
  }
  setenv("ADJOIN_COSTS", "none", 1);
  assert_true(single[0] && !single[1]);
  assert_int_equal(totals[0], totals[1]);
}

/* Measured costs are read again, and differ from the built-in ones. */
static void machines_are_measured(void **state) {
  (void)state;
  logged l;
  adj_ctx *ctx = context_with(NULL, &l);
  must(adj_calibrate(ctx, path));
  adj_ctx_destroy(ctx);
  setenv("ADJOIN_COSTS", path, 1);
  ctx = context_with(NULL, &l);
  assert_string_equal(adj_ctx_costs(ctx), path);
  assert_int_equal(l.warnings + l.notes, 0);
  const adji_costs *was = &adji_built_in_costs, *is = &ctx->costs;
  assert_true(is->index_point_ns != was->index_point_ns && is->candidate_ns != was->candidate_ns);
  assert_true(is->pair_ns != was->pair_ns && is->tree_dim_ns != was->tree_dim_ns && is->search_ns != was->search_ns);
  assert_true(is->brute_pair_ns != was->brute_pair_ns && is->few_begin_ns == was->few_begin_ns);
  adj_ctx_destroy(ctx);
  setenv("ADJOIN_COSTS", "none", 1);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(costs_are_kept),
      cmocka_unit_test(damage_is_seen),
      cmocka_unit_test(contexts_read_them),
      cmocka_unit_test(files_have_a_place),
      cmocka_unit_test(plans_go_by_them),
      cmocka_unit_test(only_small_files_of_ours_are_read),
      cmocka_unit_test(links_are_not_written_through),
      cmocka_unit_test(folders_of_others_are_left_alone),
  };
  const struct CMUnitTest measured[] = {cmocka_unit_test(machines_are_measured)};
  if (argc > 1 && !strcmp(argv[1], "calibrate")) return cmocka_run_group_tests(measured, start, stop);
  return cmocka_run_group_tests(tests, start, stop);
}
