/* SPDX-License-Identifier: MIT
 *
 * Whole command lines: each line of the input is an argument. The program's main() runs as a function, in a folder with
 * a few small files of points, on cores or on devices in software. Whatever the arguments are, it must end soon, with
 * exit code 0, 1 or 2. A failure must have a message and leave no output, and no temporary file may stay behind.
 *
 * Not run: paths with a slash, which may lie outside of the folder; numbers that only make the run long; the selftest
 * and --calibrate, which take many seconds; HDF5, which the program reads in a process of its own.
 */
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

/* main() of cli/main.c, which is compiled under this name here. */
int adjoin_main(int argc, char **argv);

/* Keeps the reports of sanitizers, if there are any, out of the descriptors that the program writes to. */
extern void set_report_fd(void *fd) __asm__("__sanitizer_set_report_fd") __attribute__((weak));

enum { MOST_ARGUMENTS = 24, MOST_BYTES = 1000, MOST_SECONDS = 30 };

/* ---- Arguments ----------------------------------------------------------------------------------------- */

typedef struct command {
  char text[MOST_BYTES + 1];
  char *argv[MOST_ARGUMENTS + 4];
  int argc;
} command;

/* Options whose value decides how long a run takes, and how many characters the value may have. */
static const struct {
  const char *name;
  size_t most;
} LONG_RUNS[] = {{"-n", 4},       {"--count", 4},   {"-d", 2},       {"--dim", 2},           {"-k", 3},
                 {"--k", 3},      {"--threads", 1}, {"--memory", 3}, {"--device-memory", 3}, {"--clusters", 4},
                 {"--tuning", 60}};

/* Whether a value is short and no larger than thousands. Sizes may be millions. */
static bool is_modest(const char *name, const char *value, size_t most) {
  bool size = strstr(name, "memory") != NULL;
  return strlen(value) <= most && !strpbrk(value, size ? "GT" : "MGT") && (size || !strpbrk(value, "eE") || most > 9);
}

static bool is_quick(const command *c, int at) {
  for (size_t i = 0; i < sizeof LONG_RUNS / sizeof *LONG_RUNS; i++) {
    const char *name = LONG_RUNS[i].name, *argument = c->argv[at], *value = NULL;
    size_t length = strlen(name);
    if (strncmp(argument, name, length)) continue;
    if (!argument[length]) value = c->argv[at + 1];
    if (argument[length] == '=') value = argument + length + 1;
    if (argument[1] != '-' && argument[length]) value = argument + length;
    if (value && !is_modest(name, value, LONG_RUNS[i].most)) return false;
  }
  return true;
}

static bool has_word(const char *text, const char *word) {
  for (; *text; text++) {
    size_t i = 0;
    while (word[i] && tolower((unsigned char)text[i]) == word[i])
      i++;
    if (!word[i]) return true;
  }
  return false;
}

static bool may_run(const command *c) {
  if (c->argc > 1 && strlen(c->argv[1]) > 4 && has_word(c->argv[1], "selftest")) return false;
  for (int i = 1; i < c->argc; i++) {
    const char *argument = c->argv[i];
    if (strchr(argument, '/') || has_word(argument, "calibrate") || has_word(argument, "hdf") ||
        has_word(argument, ".h5"))
      return false;
    if (!is_quick(c, i)) return false;
  }
  return true;
}

/* Options that keep runs small come first, so that later options override them. */
static bool split(const uint8_t *data, size_t size, command *c) {
  static char program[] = "adjoin", threads[] = "--threads=1", memory[] = "--memory=64M";
  if (size > MOST_BYTES) return false;
  if (size) memcpy(c->text, data, size);
  c->text[size] = 0;
  c->argc = 0;
  c->argv[c->argc++] = program;
  for (char *at = c->text; c->argc < MOST_ARGUMENTS; at++) {
    c->argv[c->argc++] = at;
    bool joins = c->argc == 2 && (!strncmp(at, "range\n", 6) || !strncmp(at, "knn\n", 4) ||
                                  !strncmp(at, "count\n", 6) || !strncmp(at, "generate\n", 9));
    if (joins) c->argv[c->argc++] = threads;
    if (joins) c->argv[c->argc++] = memory;
    at = strchr(at, '\n');
    if (!at) break;
    *at = 0;
  }
  c->argv[c->argc] = NULL;
  return may_run(c);
}

/* ---- The folder ---------------------------------------------------------------------------------------- */

#define BYTES(text) text, sizeof(text) - 1
static const struct {
  const char *name, *bytes;
  size_t size;
} INPUTS[] = {
    {"a.csv", BYTES("id,x,y\np,0,0\nq,0.25,0.5\n\"r,s\",0.5,0.5\nt,-1,2\nu,0,0\n")},
    {"b.tsv", BYTES("1\t2\n3\t4\n0.5\t0.5\n")},
    {"c.fvecs", BYTES("\2\0\0\0\0\0\0\0\0\0\200?\2\0\0\0\0\0\0?\0\0\0?")},
    {"d.fbin", BYTES("\2\0\0\0\2\0\0\0\0\0\0\0\0\0\200?\0\0\0?\0\0\0?")},
    {"e.raw", BYTES("\0\0\0\0\0\0\200?\0\0\0?\0\0\0?")},
};
enum { INPUT_COUNT = sizeof INPUTS / sizeof *INPUTS };

static bool is_input(const char *name) {
  for (int i = 0; i < INPUT_COUNT; i++)
    if (!strcmp(INPUTS[i].name, name)) return true;
  return false;
}

static bool is_captured(const char *name) {
  return !strcmp(name, ".out") || !strcmp(name, ".err");
}

static void remove_output(const char *name, void *user) {
  int *outputs = user;
  require(!strstr(name, ".part-"));
  if (is_input(name) || is_captured(name)) return;
  unlink(name);
  ++*outputs;
}

/* Restores inputs that a run has replaced. */
static void restore_inputs(void) {
  for (int i = 0; i < INPUT_COUNT; i++) {
    size_t size = 0;
    char *bytes = fuzz_load(INPUTS[i].name, &size);
    bool same = bytes && size == INPUTS[i].size && !memcmp(bytes, INPUTS[i].bytes, size);
    free(bytes);
    if (!same) fuzz_save(INPUTS[i].name, INPUTS[i].bytes, INPUTS[i].size);
  }
}

/* ---- The run ------------------------------------------------------------------------------------------- */

/* A thread finds runs that do not end, because the program has handlers for the signals of a timer. */
static _Atomic time_t began;

static void *watch(void *unused) {
  for (;; sleep(1)) {
    time_t since = atomic_load(&began);
    if (since && time(NULL) - since > MOST_SECONDS) abort();
  }
  return unused;
}

static void set_up(void) {
  static bool done;
  if (done) return;
  done = true;
  fuzz_enter_scratch();
  setenv("ADJOIN_COSTS", "none", 1);
  if (set_report_fd) set_report_fd((void *)(intptr_t)dup(STDERR_FILENO));
  pthread_t watcher;
  require(!pthread_create(&watcher, NULL, watch, NULL));
  pthread_detach(watcher);
}

/* Redirects the descriptors 0 to 2 to files of the folder, and restores them. */
typedef struct standard {
  int kept[3];
} standard;

static standard redirect(void) {
  static const char *const names[] = {"a.csv", ".out", ".err"};
  standard s;
  fflush(NULL);
  for (int fd = 0; fd < 3; fd++) {
    s.kept[fd] = dup(fd);
    int file = open(names[fd], fd ? O_WRONLY | O_CREAT | O_TRUNC | O_APPEND : O_RDONLY, 0600);
    require(file >= 0 && dup2(file, fd) == fd);
    close(file);
  }
  return s;
}

static void restore(const standard *s) {
  fflush(NULL);
  for (int fd = 0; fd < 3; fd++) {
    if (s->kept[fd] < 0) {
      close(fd);
      continue;
    }
    dup2(s->kept[fd], fd);
    close(s->kept[fd]);
  }
}

static int run(command *c) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
  struct sigaction before[4];
  for (int i = 0; i < 4; i++)
    sigaction(signals[i], NULL, &before[i]);
  standard s = redirect();
  atomic_store(&began, time(NULL));
  int code = adjoin_main(c->argc, c->argv);
  atomic_store(&began, 0);
  restore(&s);
  for (int i = 0; i < 4; i++)
    sigaction(signals[i], &before[i], NULL);
  return code;
}

/* Reports are written after the result, so the result stays if a report fails. */
static bool has_reports(const command *c) {
  for (int i = 1; i < c->argc; i++)
    if (!strncmp(c->argv[i], "--stats", 7) || !strncmp(c->argv[i], "--trace", 7)) return true;
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static command c;
  set_up();
  if (!split(data, size, &c)) return 0;
  restore_inputs();
  int code = run(&c), outputs = 0;
  size_t length = 0;
  char *said = fuzz_load(".err", &length);
  require(said != NULL);
  require(code >= 0 && code <= 2);
  require(!code || length);
  fuzz_visit_scratch(remove_output, &outputs);
  require(!code || !outputs || has_reports(&c));
  free(said);
  return 0;
}
