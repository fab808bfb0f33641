/* SPDX-License-Identifier: MIT
 *
 * The points of a join: opened, made to fit each other, checked, and described.
 */
#ifndef CLI_JOIN_POINTS_H
#define CLI_JOIN_POINTS_H

#include "join_request.h"

/* The part of the request that says how to read a file. */
adj_open_options points_options(const join_request *request);

/* like: the right set, if this is the left one and both are to have one scale; or NULL. */
adj_status points_open(adj_ctx *ctx, const join_request *request, const char *path, const adj_dataset *like,
                       adj_dataset **out);

/* If one set is f32 and the other f64, replaces the first by an exact copy in f64, with a note. */
adj_status points_widen(const join_request *request, adj_dataset **left, adj_dataset **right);

/* Prints what is wrong with the sets, or dubious, of which the library would know no more than the numbers. right NULL:
 * a self-join. Returns the exit code of the program. */
int points_check(const join_request *request, const adj_dataset *left, const adj_dataset *right);

/* Two of these checks alone. Whether the sets fit each other: prints what is wrong, and returns the exit code. Whether
 * a set has a longitude that cannot be: text, with room for MESSAGE_ROOM characters, tells which. */
int points_match(const join_request *request, const adj_dataset *left, const adj_dataset *right);
bool points_misplaced(const join_request *request, const char *path, const adj_dataset *points, char *text);

/* Prints which columns of the files are coordinates. */
void points_describe(const join_request *request, const adj_dataset *left, const adj_dataset *right);

#endif
