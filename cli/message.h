/* SPDX-License-Identifier: MIT
 *
 * The library's messages in the program's terms.
 */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <adjoin.h>
#include <stdbool.h>
#include <stddef.h>

enum { MESSAGE_ROOM = 1200 };

/* The name of the program, and whether this process prints messages: only one of several does. Defined with main(). */
extern const char program_name[];
bool program_speaks(void);

/* Prints "PROGRAM: " and the text on standard error, if this process prints messages. */
void message_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The library names the argument that is wrong: "max_pairs: ...", "points.csv: id_column: ...". Users of the program
 * know it as an option: "--max-pairs: ...", "points.csv: --id: ...". files are the paths of the run, ended by NULL,
 * because a path at the beginning of a message is not an argument. Returns buffer, which has room for MESSAGE_ROOM
 * characters. */
const char *message_with_options(const char *said, const char *const *files, char *buffer);

/* The last message of the library. Only messages about arguments are rewritten: others may quote a file's content.
 * Returns buffer, as above. */
const char *message_of_failure(adj_status status, const char *const *files, char *buffer);

#endif
