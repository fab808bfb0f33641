/* SPDX-License-Identifier: MIT
 *
 * The progress of a join: one line on the terminal, updated in place and erased at the end.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <adjoin.h>
#include <stdbool.h>

typedef struct progress_line {
  bool on, terminal; /* terminal: false means plain lines, two a second */
  bool drawn;
  double began;
} progress_line;

/* Progress is shown if standard error is a terminal; or always, or never. */
void progress_begin(progress_line *progress, bool always, bool never);

/* For adj_run_control: user is the progress. Never cancels. */
int progress_show(void *user, const adj_progress *where);

void progress_end(progress_line *progress); /* erases the line */

#endif
