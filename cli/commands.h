/* SPDX-License-Identifier: MIT
 *
 * The subcommands, one per file.
 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options.h"

extern const subcommand command_range, command_knn, command_count, command_dbscan, command_generate, command_info;

/* Parses its own arguments; argv[0] is "selftest". */
int adjoin_selftest(int argc, char **argv);

#endif
