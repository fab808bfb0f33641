/* SPDX-License-Identifier: MIT
 *
 * The program adjoin: finds the subcommand and runs it. Messages go to standard error, data to
 * standard output. Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + n stopped by signal n.
 */
#include <adjoin.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "message.h"

const char program_name[] = "adjoin";

bool program_speaks(void) {
  return true;
}

static int run_selftest(const subcommand *command, int argc, char **argv) {
  (void)command;
  return adjoin_selftest(argc, argv);
}

static const subcommand command_selftest = {
    .name = "selftest", .summary = "check every backend of this machine against the reference", .run = run_selftest};

static const subcommand *const commands[] = {&command_range,    &command_knn,  &command_count,    &command_dbscan,
                                             &command_generate, &command_info, &command_selftest, NULL};

static const subcommand *find_command(const char *name) {
  for (const subcommand *const *c = commands; *c; c++)
    if (!strcmp((*c)->name, name)) return *c;
  return NULL;
}

static void print_help(FILE *to) {
  fputs(
      "adjoin: find points that lie near each other, exactly\n"
      "\n"
      "  adjoin generate unif -n 100k -d 3 -o points.npy  make 100,000 points to try it with\n"
      "  adjoin count -r 0.02 points.npy                  how many pairs are within 0.02?\n"
      "  adjoin range -r 0.02 points.npy -o pairs.npz     all of these pairs\n"
      "  adjoin knn -k 10 points.npy -o near.npz          the ten nearest neighbours of each point\n"
      "\n"
      "Commands ('adjoin COMMAND --help' has examples and options):\n",
      to);
  for (const subcommand *const *c = commands; *c; c++)
    fprintf(to, "  %-10s %s\n", (*c)->name, (*c)->summary);
  fputs(
      "\n"
      "Reads npy, csv, tsv, fvecs, bvecs, fbin, u8bin, i8bin, hdf5 and raw files, also gzipped.\n"
      "Writes npz, csv, tsv, npy and ivecs.\n"
      "Results are exact: they do not depend on threads, instruction set or backend.\n",
      to);
}

static int unknown_command(const char *typed) {
  enum { MOST = 15 };
  const char *names[MOST + 1];
  size_t many = 0;
  for (const subcommand *const *c = commands; *c && many < MOST; c++)
    names[many++] = (*c)->name;
  names[many] = NULL;
  const char *nearest = nearest_name(typed, names);
  fprintf(stderr, "adjoin: there is no command \"%s\"", typed);
  if (nearest) fprintf(stderr, "; did you mean %s?", nearest);
  fprintf(stderr, "\nTry 'adjoin --help'.\n");
  return EXIT_USAGE;
}

static int dispatch(int argc, char **argv) {
  if (argc < 2) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
    printf("adjoin %s\n", adj_version_string());
    return EXIT_DONE;
  }
  bool help = !strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h");
  if (help && argc == 2) {
    print_help(stdout);
    return EXIT_DONE;
  }
  if (help) name = argv[2];
  const subcommand *command = find_command(name);
  if (!command) return unknown_command(name);
  if (!help) return command->run(command, argc - 1, argv + 1);
  char *ask[] = {argv[2], "--help", NULL};
  return command->run(command, 2, ask);
}

/* If standard input, output or error is closed, the next opened file would get its number, and printed text would end
 * up in that file. So the number is taken by another file, opened in such a way that using it fails, as with a closed
 * one. */
static void reserve_standard(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) (void)open("/", O_RDONLY);
  }
}

/* Standard output is written when it is flushed: a full disk shows only then. SIGXFSZ is ignored, so that a write
 * beyond the limit on file sizes fails and is reported. */
int main(int argc, char **argv) {
  reserve_standard();
  signal(SIGXFSZ, SIG_IGN);
  if (argc > 1 && !strcmp(argv[1], ADJ_HELPER)) return adj_helper_main(argc, argv);
  int code = dispatch(argc, argv);
  if (!fflush(stdout) || code) return code;
  fprintf(stderr, "adjoin: standard output: cannot be written: %s\n", strerror(errno));
  return EXIT_FAILED;
}
