/* SPDX-License-Identifier: MIT
 *
 * Algorithms, backends and prefilters, and the one table of their names.
 */
#ifndef ADJI_NAMES_H
#define ADJI_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "adjoin.h"
#include "core/exact.h"

/* One algorithm has one name, wherever it runs. */
typedef enum adji_algorithm {
  ADJI_ALGORITHM_AUTO = 0, /* to be chosen */
  ADJI_ALGORITHM_KDTREE,
  ADJI_ALGORITHM_GRID,
  ADJI_ALGORITHM_EGO,
  ADJI_ALGORITHM_BRUTE
} adji_algorithm;

/* Prefilters, which drop candidates before their canonical distance is computed. */
typedef enum adji_prefilter_kind {
  ADJI_PREFILTER_AUTO = 0,
  ADJI_PREFILTER_OFF,
  ADJI_PREFILTER_CODES,  /* range joins on cores: 8-bit codes                              */
  ADJI_PREFILTER_TENSOR, /* on a GPU: products of half-precision copies on tensor cores    */
  ADJI_PREFILTER_GEMM,   /* kNN by brute force: products of f32, on a GPU by cuBLAS        */
  ADJI_PREFILTER_VNNI,   /* kNN by brute force on cores: products of 8-bit codes           */
  ADJI_PREFILTER_AMX     /* the same, in tiles                                             */
} adji_prefilter_kind;

/* Sets of algorithms and of backends. */
#define ADJI_BIT(which) (UINT32_C(1) << (which))

/* The algorithms of a kind of join, on any backend. */
uint32_t adji_algorithms_of(adj_join_kind kind);

const char *adji_algorithm_name(adji_algorithm algorithm);
const char *adji_backend_name(adj_backend backend);

/* NULL is "auto". False: the name is unknown. */
bool adji_algorithm_find(const char *name, adji_algorithm *out);

/* The names of a set in words: "grid, ego and brute". Returns text. */
const char *adji_algorithms_text(uint32_t set, const char *last, char *text, size_t capacity);
const char *adji_backends_text(uint32_t set, const char *last, char *text, size_t capacity);

#endif
