/* SPDX-License-Identifier: MIT
 *
 * Algorithms and backends, and the one table of their names.
 */
#ifndef ADJI_NAMES_H
#define ADJI_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "adjoin.h"

/* One algorithm has one name, wherever it runs. */
typedef enum adji_algorithm {
  ADJI_ALGORITHM_AUTO = 0, /* to be chosen */
  ADJI_ALGORITHM_KDTREE,
  ADJI_ALGORITHM_GRID,
  ADJI_ALGORITHM_EGO,
  ADJI_ALGORITHM_BRUTE
} adji_algorithm;

/* Sets of algorithms and of backends. */
#define ADJI_BIT(which) (UINT32_C(1) << (which))

/* The algorithms that there are for a kind of join, on any backend. */
uint32_t adji_algorithms_of(adj_join_kind kind);

const char *adji_algorithm_name(adji_algorithm algorithm);
const char *adji_backend_name(adj_backend backend);

/* NULL is "auto". False: there is none of that name. */
bool adji_algorithm_find(const char *name, adji_algorithm *out);

/* The names of a set in words: "grid, ego and brute". Returns text. */
const char *adji_algorithms_text(uint32_t set, const char *last, char *text, size_t capacity);
const char *adji_backends_text(uint32_t set, const char *last, char *text, size_t capacity);

#endif
