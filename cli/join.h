/* SPDX-License-Identifier: MIT
 *
 * What range, knn and count share: the options, and the run from files to result.
 */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include "join_request.h"
#include "options.h"
#include "trace.h"

/* The tables of options that the commands share. */
extern const option join_metric_options[], join_input_options[], join_run_options[], join_report_options[];

/* Those of one program only: adjoin has none, adjoin-mpi has the ones for clusters. */
extern const option join_program_options[];

/* For the tables of commands that write files; type is that of the request. */
#define JOIN_WRITE_OPTIONS(type)                                                                                \
  {OPTION_FLAG, 0, "no-clobber", NULL, offsetof(type, no_clobber), "fail if a file to write exists already"}, { \
    OPTION_FLAG, 0, "no-sync", NULL, offsetof(type, no_sync),                                                   \
        "do not wait until the files are on the disk; faster,\nbut a power failure may lose them"               \
  }

/* The flags that these options stand for. */
uint32_t join_write_flags(bool no_clobber, bool no_sync);

/* Parses the arguments into the request, which has the command's defaults. Sets *stop if the program is to exit with
 * the returned code, as after --help. */
int join_parse(const subcommand *command, join_request *request, int argc, char **argv, bool *stop);

/* The lengths of --box to lengths (NULL: not wanted), which has room for one more than the text has
 * commas. Returns how many, or 0 when the text is no list of lengths. */
uint32_t join_box_lengths(const char *text, double *lengths);

/* The numbers of --devices to numbers (NULL: not wanted), which has room for JOIN_MOST_DEVICES. Returns how many, 0 for
 * none, or -1 when the text is neither. */
enum { JOIN_MOST_DEVICES = 64 };
int32_t join_device_numbers(const char *text, int32_t *numbers);

/* What is asked for, as the library takes it. False: no memory. The caller frees spec->box. */
bool join_spec(const join_request *request, adj_join_spec *spec);

/* Options of the context; devices, with room for JOIN_MOST_DEVICES, must live as long as the options. Messages of the
 * library are printed unless the request is quiet. */
void join_context(const join_request *request, trace_log *trace, int32_t *devices, adj_ctx_options *options);

/* The paths of the run, ended by NULL; and whether they are what they are meant to be, before a long run. */
enum { JOIN_MOST_FILES = 8 };
void join_files(const join_request *request, const char **files);
adj_status join_check_paths(const join_request *request);

/* Prints what may surprise: rows that are padded, lengths of 0. points: of the right set. */
void join_notes(const join_request *request, uint64_t points, bool two_sets);

/* Runs the join. Returns the exit code of the program. */
int join_run(const subcommand *command, const join_request *request);

/* Prints why a call of the library failed. files are the paths of the run, ended by NULL. Returns the exit code, which
 * depends on a signal. */
int join_failed(adj_status status, const char *const *files);

#endif
