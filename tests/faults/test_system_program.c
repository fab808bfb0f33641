/* SPDX-License-Identifier: MIT
 *
 * The whole program while the system fails: the n-th allocation, thread, open, stat, read, write, sync or rename, for
 * all n. It exits with 0 and the same output as without a failure, or with 1, a message, and no output at all.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "faults/faults.h"

/* main() of cli/main.c, which is compiled under this name for tests. */
int adjoin_main(int argc, char **argv);

enum { MOST_ARGUMENTS = 16, ROOM = 1 << 16 };

static const char *const COMMANDS[] = {
    "range -q -r 0.3 in.csv --type f64 -o out.npz --distance",
    "range -q -r 0.3 in.csv --type f64 --box 1,1 -o out.csv",
    "range -q -r 0.3 in.csv --type f64 --dry-run",
    "range -r 0.3 in.csv --type f64 --explain -o out.npy",
    "knn -q -k 2 in.npy --type f64 in.csv -o out.ivecs",
    "knn -q -k 2 in.npy -o out.csv --stats out.json --trace out.trace",
    "count -q -r 0.3 in.npy --backend hybrid -o out.csv",
    "generate unif -q -n 20 -d 2 -o out.csv",
    "info in.npy",
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

/* What a run leaves: its exit code, what it printed, and its files. */
typedef struct outcome {
  int code, files;
  uint64_t sum; /* of standard output and the files, except those with times */
  size_t said;  /* bytes on standard error */
} outcome;

static uint64_t add_file(const char *name, uint64_t sum) {
  static char bytes[ROOM];
  FILE *file = fopen(name, "rb");
  assert_non_null(file);
  size_t got = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (size_t i = 0; i < got; i++)
    sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static size_t size_of(const char *name) {
  struct stat about;
  assert_int_equal(stat(name, &about), 0);
  return (size_t)about.st_size;
}

/* Sums up the outputs and removes them. Times differ from run to run. */
static void take_files(outcome *o, bool keep_times) {
  DIR *folder = opendir(".");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    const char *name = entry->d_name;
    if (name[0] == '.' || !strncmp(name, "in.", 3) || !strncmp(name, "std", 3)) continue;
    bool times = strstr(name, ".json") || strstr(name, ".trace");
    if (!times) o->sum += add_file(name, 7);
    o->files++;
    unlink(name);
  }
  closedir(folder);
  if (!keep_times) o->sum = add_file("stdout", o->sum);
}

static void redirect(int *kept, const char *name, int fd) {
  *kept = dup(fd);
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(file >= 0);
  dup2(file, fd);
  close(file);
}

static void restore(int kept, int fd) {
  dup2(kept, fd);
  close(kept);
}

static outcome run(const char *command, fault_kind kind, int64_t n, int64_t *calls) {
  char text[256], *argv[MOST_ARGUMENTS] = {"adjoin"};
  int argc = 1, kept[2];
  snprintf(text, sizeof text, "%s", command);
  for (char *at = strtok(text, " "); at; at = strtok(NULL, " "))
    argv[argc++] = at;
  fflush(NULL);
  redirect(&kept[0], "stdout", STDOUT_FILENO);
  redirect(&kept[1], "stderr", STDERR_FILENO);
  outcome o = {0};
  fault_begin(kind, n);
  o.code = adjoin_main(argc, argv);
  *calls = fault_end();
  fflush(NULL);
  restore(kept[0], STDOUT_FILENO);
  restore(kept[1], STDERR_FILENO);
  o.said = size_of("stderr");
  /* Plans of "info" tell how long reading took. */
  take_files(&o, !strncmp(command, "info", 4));
  return o;
}

/* Reports are written after the result is complete. */
static bool has_reports(const char *command) {
  return strstr(command, "--stats") != NULL;
}

static void try_all(const char *command, fault_kind kind) {
  int64_t calls = 0, n = 0;
  outcome expected = run(command, FAULT_NONE, 0, &calls);
  if (expected.code) fail_msg("%s: exit code %d", command, expected.code);
  expected = run(command, FAULT_NONE, 0, &calls); /* the first run may load libraries that stay */
  int64_t blocks = fault_blocks();
  int descriptors = fault_descriptors(), threads = fault_threads();
  for (bool hit = true; hit; n += hit) {
    outcome now = run(command, kind, n, &calls);
    hit = calls > n;
    const char *what = fault_name(kind);
    if (now.code != 0 && now.code != 1) fail_msg("%s, %s %lld: exit code %d", command, what, (long long)n, now.code);
    if (now.code && !now.said) fail_msg("%s, %s %lld: failed without a message", command, what, (long long)n);
    /* If the folder could not be synced, it has the whole file all the same. */
    bool late = kind == FAULT_SYNC || kind == FAULT_CLOSE || kind == FAULT_OPEN;
    if (now.code && now.files && !has_reports(command) && !(late && now.sum == expected.sum))
      fail_msg("%s, %s %lld: failed, with an output", command, what, (long long)n);
    if (!now.code && (now.sum != expected.sum || now.files != expected.files))
      fail_msg("%s, %s %lld: another output", command, what, (long long)n);
    if (fault_blocks() != blocks) fail_msg("%s, %s %lld: blocks lost", command, what, (long long)n);
    assert_int_equal(fault_descriptors(), descriptors);
    assert_int_equal(fault_threads(), threads);
    assert_true(n < 10000);
  }
  print_message("%s: %s failed %lld times\n", command, fault_name(kind), (long long)n);
}

static void every_command(void **state) {
  (void)state;
  static const fault_kind kinds[] = {FAULT_MEMORY, FAULT_MAP,   FAULT_THREAD, FAULT_OPEN,  FAULT_STAT,
                                     FAULT_READ,   FAULT_WRITE, FAULT_SYNC,   FAULT_RENAME};
  for (int c = 0; c < COMMAND_COUNT; c++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
      try_all(COMMANDS[c], kinds[k]);
}

static int enter_folder(void **state) {
  char *folder = malloc(1024);
  const char *parent = getenv("TMPDIR");
  snprintf(folder, 1024, "%s/adjoin-program-XXXXXX",
           parent                     ? parent
           : access("/dev/shm", W_OK) ? P_tmpdir
                                      : "/dev/shm");
  *state = folder;
  if (!mkdtemp(folder) || chdir(folder)) return -1;
  int64_t calls;
  FILE *file = fopen("in.csv", "w");
  if (!file) return -1;
  fputs("x,y\n0,0\n0.25,0.5\n0.5,0.5\n1,1\n0.75,0.1\n", file);
  fclose(file);
  run("generate unif -q -n 40 -d 2 -o in.npy", FAULT_NONE, 0, &calls);
  return 0;
}

static int leave_folder(void **state) {
  DIR *folder = opendir(".");
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder));)
    unlink(entry->d_name);
  closedir(folder);
  int failed = chdir("/") || rmdir(*state);
  free(*state);
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_command)};
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
