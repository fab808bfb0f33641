/* SPDX-License-Identifier: MIT
 *
 * HDF5 files: the only dataset of a file, or one by name, as stored and as either type.
 *
 * Damaged files make the HDF5 library leak, loop and crash. This is known (the program reads such files in a process of
 * its own for this reason), and must not end the search for our own faults. So each input is read in a child process,
 * which hands back its coverage. A child that dies is a finding, unless it died in the HDF5 library or in what the
 * library called. Without sanitizers there are no stack frames to tell, so only our own checks count.
 *
 * Leak checks are off here, because the HDF5 library has many leaks. The context counts what the reader allocates, and
 * fuzz_read checks that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counters.h"
#include "harness.h"
#include "io/hdf5_library.h"

enum { SECONDS = 15, REPORT_ROOM = 1 << 16 };

/* Functions of sanitizers and libFuzzer; NULL without them. */
#define MAYBE __attribute__((weak))
MAYBE void print_stack_trace(void) __asm__("__sanitizer_print_stack_trace");
MAYBE void set_death_callback(void (*callback)(void)) __asm__("__sanitizer_set_death_callback");

/* An allocation that is too large fails, as without sanitizers, instead of ending the process. */
const char *asan_options(void) __asm__("__asan_default_options");
const char *asan_options(void) {
  return "max_allocation_size_mb=1024:allocator_may_return_null=1";
}

/* ---- In the child ----------------------------------------------------------------------------------------- */

static void on_signal(int number) {
  if (print_stack_trace) print_stack_trace();
  _exit(number);
}

static void read_each(const uint8_t *data, size_t size) {
  static const char *const names[] = {NULL, "large", "group/f64be"};
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  for (int i = 0; i < 3; i++) {
    options.dataset = names[i];
    options.type = (adj_type)(i % 2 ? ADJ_F64 : 0);
    fuzz_read("a.h5", &options, data, size, 0);
  }
}

static _Noreturn void run_child(const uint8_t *data, size_t size, int report, uint8_t *covered) {
  dup2(report, STDERR_FILENO);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  struct sigaction end = {.sa_handler = on_signal};
  sigaction(SIGABRT, &end, NULL);
  sigaction(SIGALRM, &end, NULL);
  if (set_death_callback) set_death_callback(NULL); /* libFuzzer's would save the input */
  alarm(SECONDS);
  read_each(data, size);
  size_t count;
  const uint8_t *counters = fuzz_counters(&count);
  if (covered) memcpy(covered, counters, count);
  _exit(0);
}

/* ---- What it died of ---------------------------------------------------------------------------------------- */

static bool holds_any(const char *line, size_t length, const char *const *words) {
  for (; *words; words++)
    if (memmem(line, length, *words, strlen(*words))) return true;
  return false;
}

/* Whether a frame of the HDF5 library is further in than all frames of ours. */
static bool is_of_hdf5(const char *text) {
  static const char *const theirs[] = {"libhdf5", NULL};
  static const char *const ours[] = {"/src/core/", "/src/data/", "/src/io/", NULL};
  while ((text = strstr(text, "    #"))) {
    size_t length = strcspn(text, "\n");
    if (holds_any(text, length, theirs)) return true;
    if (holds_any(text, length, ours)) return false;
    text += length;
  }
  return !print_stack_trace; /* without sanitizers: a signal, but none of our own checks */
}

static void check_child(int ended, int report) {
  static char text[REPORT_ROOM];
  if (WIFEXITED(ended) && !WEXITSTATUS(ended)) return;
  ssize_t length = pread(report, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = 0;
  bool own = strstr(text, " does not hold") || strstr(text, "runtime error:");
  if (!own && is_of_hdf5(text)) return;
  fprintf(stderr, "wait status %d\n%s\n", ended, text);
  abort();
}

/* ---- The target ------------------------------------------------------------------------------------------- */

/* Done before the first child, so that no child needs to do it. */
static void prepare(int *report, uint8_t **covered) {
  const adji_hdf5 *h5;
  fuzz_context();
  if (!adji_hdf5_enter(&h5)) adji_hdf5_leave();
  *report = memfd_create("report", MFD_CLOEXEC);
  require(*report >= 0);
  size_t count;
  fuzz_counters(&count);
  if (!count) return;
  *covered = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(*covered != MAP_FAILED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int report = -1;
  static uint8_t *covered;
  if (report < 0) prepare(&report, &covered);
  require(ftruncate(report, 0) == 0 && lseek(report, 0, SEEK_SET) == 0);
  size_t count;
  uint8_t *counters = fuzz_counters(&count);
  if (covered) memset(covered, 0, count);
  pid_t child = fork();
  require(child >= 0);
  if (!child) run_child(data, size, report, covered);
  int ended;
  pid_t got;
  do /* the signal of libFuzzer's timer interrupts this */
    got = waitpid(child, &ended, 0);
  while (got < 0 && errno == EINTR);
  require(got == child);
  check_child(ended, report);
  for (size_t i = 0; covered && i < count; i++)
    if (covered[i]) counters[i] = covered[i];
  return 0;
}
