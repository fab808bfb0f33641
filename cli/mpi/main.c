/* SPDX-License-Identifier: MIT
 *
 * The program adjoin-mpi: joins on all ranks of an MPI job. The commands are some of adjoin's. Rank 0 prints the
 * messages of all ranks. Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + n stopped by signal n; the same on every
 * rank.
 */
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../commands.h"
#include "../message.h"
#include "cluster.h"

const char program_name[] = "adjoin-mpi";

bool program_speaks(void) {
  int initialized = 0, ended = 0, rank = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&ended);
  if (initialized && !ended) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank == 0;
}

/* A command of adjoin, with its own examples. */
typedef struct command {
  const subcommand *like;
  const char *examples;
} command;

static const command commands[] = {
    {&command_range,
     "  mpirun -n 4 adjoin-mpi range -r 0.02 points.npy -o pairs.npz\n"
     "                                                   pairs of one set, by four ranks\n"
     "  srun adjoin-mpi range -r 0.02 points.fbin --split -o pairs.npz\n"
     "                                                   a file for each rank, and pairs.json\n"
     "  srun adjoin-mpi range -r 0.02 points.fbin --checkpoint work -o pairs.npz\n"
     "                                                   goes on where an earlier run was stopped\n"},
    {&command_knn,
     "  mpirun -n 4 adjoin-mpi knn -k 10 points.npy -o near.npz\n"
     "                                                   the ten nearest of each point, by four ranks\n"
     "  srun adjoin-mpi knn -k 100 query.fvecs base.fvecs -o near.ivecs --distances near.fvecs\n"
     "                                                   files as nearest-neighbour benchmarks use them\n"},
    {&command_count,
     "  mpirun -n 4 adjoin-mpi count -r 0.02 points.npy  the number of pairs, by four ranks\n"
     "  mpirun -n 4 adjoin-mpi count -r 0.02 points.npy --explain --stats stats.json\n"
     "                                                   how the work is spread, and what each rank did\n"}};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to) {
  fputs(
      "adjoin-mpi: joins of adjoin on all ranks of an MPI job, with the same result, bit for bit\n"
      "\n"
      "  mpirun -n 4 adjoin-mpi range -r 0.02 points.npy -o pairs.npz\n"
      "  srun adjoin-mpi knn -k 10 points.npy -o near.npz\n"
      "\n"
      "Commands ('adjoin-mpi COMMAND --help' has examples and options):\n",
      to);
  for (int i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-10s %s\n", commands[i].like->name, commands[i].like->summary);
  fputs(
      "\n"
      "Each rank reads its rows of npy, fvecs, bvecs, fbin, u8bin, i8bin, hdf5 and raw files; rank 0 reads text,\n"
      "gzipped files and pipes, and sends the others their rows. All ranks write their rows of one file, in a\n"
      "folder that all of them reach; with --split each writes a file of its own.\n"
      "The ranks on a host share its cores, memory and GPUs, unless --threads, --memory and --devices say more.\n",
      to);
}

/* Commands that only adjoin has. */
static bool is_of_adjoin(const char *typed) {
  static const char *const names[] = {"dbscan", "generate", "info", "selftest"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], typed)) return true;
  return false;
}

static int unknown_command(const char *typed) {
  if (is_of_adjoin(typed)) {
    message_print("%s runs in one process: use 'adjoin %s'\n", typed, typed);
    return EXIT_USAGE;
  }
  const char *names[COMMANDS + 1] = {NULL};
  for (int i = 0; i < COMMANDS; i++)
    names[i] = commands[i].like->name;
  const char *nearest = nearest_name(typed, names);
  message_print("there is no command \"%s\"%s%s%s\nTry 'adjoin-mpi --help'.\n", typed, nearest ? "; did you mean " : "",
                nearest ? nearest : "", nearest ? "?" : "");
  return EXIT_USAGE;
}

static int dispatch(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  bool help = !strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h");
  if (argc < 2 || (help && argc == 2)) {
    if (program_speaks()) print_help(help ? stdout : stderr);
    return help ? EXIT_DONE : EXIT_USAGE;
  }
  if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
    if (program_speaks()) printf("adjoin-mpi %s\n", adj_version_string());
    return EXIT_DONE;
  }
  if (help) name = argv[2];
  for (int i = 0; i < COMMANDS; i++) {
    if (strcmp(commands[i].like->name, name) != 0) continue;
    subcommand copy = *commands[i].like;
    copy.examples = commands[i].examples;
    char *ask[] = {argv[1], "--help", NULL};
    return help ? copy.run(&copy, 2, ask) : copy.run(&copy, argc - 1, argv + 1);
  }
  return unknown_command(name);
}

/* Help needs no launcher: a program outside a job is a job of one rank. After a failure that all ranks know, every rank
 * calls MPI_Finalize, so that the launcher does not also complain about ranks that ended without it. SIGXFSZ is
 * ignored, so that a write beyond the limit on file sizes fails and is reported. */
int main(int argc, char **argv) {
  int level = 0, rank = 0;
  signal(SIGXFSZ, SIG_IGN);
  if (argc > 1 && !strcmp(argv[1], ADJ_HELPER)) return adj_helper_main(argc, argv);
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS) {
    fprintf(stderr, "adjoin-mpi: MPI cannot be started\n");
    return EXIT_FAILED;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  cluster_signals(rank);
  int code = dispatch(argc, argv);
  if (fflush(stdout) && !code) {
    message_print("standard output: cannot be written: %s\n", strerror(errno));
    code = EXIT_FAILED;
  }
  int worst = code;
  MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return worst;
}
