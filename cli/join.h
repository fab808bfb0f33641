/* SPDX-License-Identifier: MIT
 *
 * Shared by range, knn and count: the options, and the run from files to result.
 */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include "join_request.h"
#include "options.h"
#include "trace.h"

/* The tables of options that the commands share. */
extern const option join_metric_options[], join_input_options[], join_run_options[], join_report_options[];

/* Options of one program only: adjoin has none, adjoin-mpi has those for MPI jobs. */
extern const option join_program_options[];

/* For the tables of commands that write files; type is that of the request. */
#define JOIN_WRITE_OPTIONS(type)                                                                                \
  {OPTION_FLAG, 0, "no-clobber", NULL, offsetof(type, no_clobber), "fail if a file to write exists already"}, { \
    OPTION_FLAG, 0, "no-sync", NULL, offsetof(type, no_sync),                                                   \
        "do not wait until the files are on the disk; faster,\nbut a power failure may lose them"               \
  }

/* The flags for the library from these options. */
uint32_t join_write_flags(bool no_clobber, bool no_sync);

/* Parses the arguments into the request, which has the command's defaults. Sets *stop if the program must exit with the
 * returned code, for example after --help. */
int join_parse(const subcommand *command, join_request *request, int argc, char **argv, bool *stop);

/* Writes the lengths of --box to lengths (may be NULL), which has room for one more than the text has commas. Returns
 * their number, or 0 if the text is not a list of lengths. */
uint32_t join_box_lengths(const char *text, double *lengths);

/* Writes the numbers of --devices to numbers (may be NULL), which has room for JOIN_MOST_DEVICES. Returns their number,
 * 0 for "none", or -1 if the text is invalid. */
enum { JOIN_MOST_DEVICES = 64 };
int32_t join_device_numbers(const char *text, int32_t *numbers);

/* Converts the request to a spec for the library. False: no memory. The caller frees spec->box. */
bool join_spec(const join_request *request, adj_join_spec *spec);

/* Options of the context; devices, with room for JOIN_MOST_DEVICES, must live as long as the options. Messages of the
 * library are printed unless the request is quiet. */
void join_context(const join_request *request, trace_log *trace, int32_t *devices, adj_ctx_options *options);

/* join_files: the paths of the run, ended by NULL. join_check_paths: checks before a long run that they can be used as
 * intended. */
enum { JOIN_MOST_FILES = 8 };
void join_files(const join_request *request, const char **files);
adj_status join_check_paths(const join_request *request);

/* Prints notes on surprising results: padded rows, lengths of 0. points: the number of right points. */
void join_notes(const join_request *request, uint64_t points, bool two_sets);

/* Runs the join. Returns the exit code of the program. */
int join_run(const subcommand *command, const join_request *request);

/* Prints why a call of the library failed. files are the paths of the run, ended by NULL. Returns the exit code, which
 * depends on a signal. */
int join_failed(adj_status status, const char *const *files);

#endif
