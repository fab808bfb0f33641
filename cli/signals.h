/* SPDX-License-Identifier: MIT
 *
 * SIGINT, SIGTERM and SIGHUP: the first cancels the run, the second ends the program.
 */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <adjoin.h>

/* From now on a signal cancels ctx; with NULL it ends the program at once. */
void signals_watch(adj_ctx *ctx);

/* The signal that arrived, or 0. */
int signals_received(void);

/* After each call: its status, or ADJ_CANCELLED when it succeeded and a signal has arrived. */
adj_status signals_status(adj_status status);

#endif
