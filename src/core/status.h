/* SPDX-License-Identifier: MIT
 *
 * Failures: a status, and a message for the calling thread that names what is wrong.
 */
#ifndef ADJI_STATUS_H
#define ADJI_STATUS_H

#include "adjoin.h"
#include "core/exact.h"

/* Functions that libadjoin_mpi also uses, a separate library of the same version. They are not part of the
 * interface. */
#define ADJI_SHARED ADJ_API

/* Stores the message for adj_last_error() of this thread and returns status. */
ADJI_SHARED adj_status adji_fail(adj_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#ifdef __clang_analyzer__ /* tell the analyser that a failure is never ADJ_OK */
#define adji_fail(status, ...) (adji_fail(status, __VA_ARGS__), (status))
#endif

/* Prefixes the stored message: "points.csv: line 3: ...". */
ADJI_SHARED adj_status adji_fail_in(adj_status status, const char *where);

/* Copies a caller's struct, perhaps of an older or newer version, to ours, which holds the defaults. Both begin with
 * struct_size. ADJ_E_STRUCT if the size is absurd, or a field that this version does not know is set. */
ADJI_SHARED adj_status adji_take_struct(void *ours, size_t our_size, const void *theirs, const char *name);

/* Copies ours to a caller's struct, as much as fits there. */
ADJI_SHARED adj_status adji_give_struct(void *theirs, const void *ours, size_t our_size, const char *name);

/* For the _init functions: zeroes the caller's struct, then sets the defaults. The macro defines such a function. */
ADJI_SHARED void adji_init_struct(void *theirs, size_t their_size, void *defaults, size_t our_size);
#define ADJI_DEFINE_INIT(type, ...)                                \
  void type##_init(type *to, size_t struct_size) {                 \
    type defaults = {__VA_ARGS__};                                 \
    adji_init_struct(to, struct_size, &defaults, sizeof defaults); \
  }

#endif
