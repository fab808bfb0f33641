/* SPDX-License-Identifier: MIT
 *
 * The setups of adjoin selftest: the algorithms and settings with which every case is run on a backend.
 */
#ifndef SELFTEST_SETUPS_H
#define SELFTEST_SETUPS_H

#include <adjoin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_SETUPS = 72 };

typedef struct test_setup {
  const char *algorithm, *tuning; /* NULL: chosen by the planner */
  const char *system;             /* NULL: none */
  bool kept;                      /* a question to a kept index */
  bool radii;                     /* with a radius for each left point */
  char text[256];                 /* buffer for a composed tuning */
} test_setup;

/* The number of setups of a backend for range joins or, with `nearest`, for kNN joins. Setup 0 leaves everything to the
 * planner. several: for several GPUs, if the backend is ADJ_BACKEND_GPU. */
int setup_count(adj_backend backend, bool nearest, bool several);

/* Chooses setup a; number: that of the case, by which the papers' kernels alternate. */
void setup_choose(adj_backend backend, bool nearest, bool several, int a, uint32_t number, test_setup *out);

/* Whether a case skips setup a: most of the many setups of a GPU alternate, and a case runs half of them for kNN joins
 * and a third for range joins. */
bool setup_is_left_out(adj_backend backend, bool nearest, bool several, int a, uint32_t number);

/* Appends " (algorithm, tuning)", or the system, to a message. */
void setup_name(const test_setup *setup, char *message, size_t capacity);

#endif
