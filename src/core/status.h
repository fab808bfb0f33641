/* SPDX-License-Identifier: MIT
 *
 * How the library fails: a status, and a message for the calling thread that names what is wrong.
 */
#ifndef ADJI_STATUS_H
#define ADJI_STATUS_H

#include "adjoin.h"

/* Stores the message for adj_last_error() of this thread and returns status. */
adj_status adji_fail(adj_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#ifdef __clang_analyzer__ /* which has to be told that a failure is never ADJ_OK */
#define adji_fail(status, ...) (adji_fail(status, __VA_ARGS__), (status))
#endif

/* Puts a message in front of the one stored: "points.csv: line 3: ...". */
adj_status adji_fail_in(adj_status status, const char *where);

/* Takes a caller's struct of another (older or newer) version over into ours. The first
 * uint32_t of both is struct_size. ours holds the defaults; known sizes only. */
adj_status adji_take_struct(void *ours, size_t our_size, const void *theirs, const char *name);

/* Hands ours back into a caller's struct, as far as the caller's reaches. */
adj_status adji_give_struct(void *theirs, const void *ours, size_t our_size, const char *name);

/* For the _init functions: zero what the caller has room for, then the defaults. */
void adji_init_struct(void *theirs, size_t their_size, void *defaults, size_t our_size);

#endif
