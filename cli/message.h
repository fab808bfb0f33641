/* SPDX-License-Identifier: MIT
 *
 * The library's messages in the program's terms.
 */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <adjoin.h>
#include <stddef.h>

enum { MESSAGE_ROOM = 1200 };

/* The library names the argument that is wrong: "max_pairs: ...", "points.csv: id_column: ...". Users of the program
 * know the option it was given by: "--max-pairs: ...", "points.csv: --id: ...". files are the paths of the run, ended
 * by NULL: one of them in front is not an argument. Returns buffer, which has room for MESSAGE_ROOM characters. */
const char *message_with_options(const char *said, const char *const *files, char *buffer);

/* The last message of the library. Only messages about arguments are rewritten: others may quote a file's content.
 * Returns buffer, as above. */
const char *message_of_failure(adj_status status, const char *const *files, char *buffer);

#endif
