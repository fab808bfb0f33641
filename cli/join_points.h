/* SPDX-License-Identifier: MIT
 *
 * Opens the points of a join, gives them one type, checks and describes them.
 */
#ifndef CLI_JOIN_POINTS_H
#define CLI_JOIN_POINTS_H

#include "join_request.h"

/* The part of the request that says how to read a file. */
adj_open_options points_options(const join_request *request);

/* like: the right set, if this is the left one and is to be normalised by its scale; or NULL. */
adj_status points_open(adj_ctx *ctx, const join_request *request, const char *path, const adj_dataset *like,
                       adj_dataset **out);

/* If one set is f32 and the other f64, replaces the first by an exact copy in f64, with a note. */
adj_status points_widen(const join_request *request, adj_dataset **left, adj_dataset **right);

/* Prints errors and warnings about the sets that the library cannot give, since it does not know where its numbers come
 * from. right NULL: a self-join. Returns the exit code of the program. */
int points_check(const join_request *request, const adj_dataset *left, const adj_dataset *right);

/* Two of these checks alone. points_match: whether the sets fit each other; prints errors and returns the exit code.
 * points_misplaced: whether a set has an impossible longitude; text, with room for MESSAGE_ROOM characters, receives
 * the message. */
int points_match(const join_request *request, const adj_dataset *left, const adj_dataset *right);
bool points_misplaced(const join_request *request, const char *path, const adj_dataset *points, char *text);

/* Prints which columns of the files are coordinates. */
void points_describe(const join_request *request, const adj_dataset *left, const adj_dataset *right);

#endif
