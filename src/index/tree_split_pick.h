/* SPDX-License-Identifier: MIT
 *
 * Splitting points: selects the value of some rank among a few values, by counting for each value how many are below
 * it. For types without a sorting network: tree_split_avx2.c, and f64 in tree_split_avx512.c.
 */
#ifndef ADJI_TREE_SPLIT_PICK_H
#define ADJI_TREE_SPLIT_PICK_H

#include <math.h>
#include <string.h>

#include "index/tree_split.h"

/* The most values that are compared with each other. */
enum { ADJI_PICK_FEW = 32 };

/* 1. More values than ADJI_PICK_FEW are reduced to those around the place of the rank in evenly spread values.
 * 2. Vectors of values are compared with all: `below` counts the smaller ones, `up_to` those that are not larger. */
#define PICK(T, INT)                                                                                               \
  typedef T pick_vec_##T __attribute__((vector_size(32)));                                                         \
  typedef INT pick_count_##T __attribute__((vector_size(32)));                                                     \
                                                                                                                   \
  static T pick_by_counting_##T(const T *x, uint32_t count, uint32_t rank) {                                       \
    enum { LANES = 32 / sizeof(T) };                                                                               \
    for (uint32_t i = 0; i < count; i += LANES) {                                                                  \
      pick_vec_##T v = {0};                                                                                        \
      uint32_t many = count - i < LANES ? count - i : LANES;                                                       \
      memcpy(&v, x + i, many * sizeof(T));                                                                         \
      pick_count_##T below = {0}, up_to = {0};                                                                     \
      for (uint32_t j = 0; j < count; j++) {                                                                       \
        pick_vec_##T at = x[j] - (pick_vec_##T){0};                                                                \
        below -= at < v;                                                                                           \
        up_to -= at <= v;                                                                                          \
      }                                                                                                            \
      for (uint32_t lane = 0; lane < many; lane++)                                                                 \
        if (below[lane] <= (INT)rank && (INT)rank < up_to[lane]) return x[i + lane];                               \
    }                                                                                                              \
    return x[0];                                                                                                   \
  }                                                                                                                \
                                                                                                                   \
  static double pick_##T(const void *values, uint32_t count, uint32_t rank) {                                      \
    const T *x = values;                                                                                           \
    if (count <= ADJI_PICK_FEW) return (double)pick_by_counting_##T(x, count, rank);                               \
    double least, most, share = (rank + 0.5) / count, slack = 0.8 / sqrt(count);                                   \
    range_##T(x, count, &least, &most);                                                                            \
    double low = least + (most - least) * fmax(share - slack, 0), high = least + (most - least) * (share + slack); \
    T near[ADJI_FEW + 16];                                                                                         \
    uint64_t under = 0;                                                                                            \
    uint64_t taken = collect_##T(x, count, (double)(T)low, (double)(T)high, near, &under);                         \
    if (rank < under || rank >= under + taken || taken > count / 2)                                                \
      return (double)pick_by_counting_##T(x, count, rank);                                                         \
    return (double)pick_by_counting_##T(near, (uint32_t)taken, (uint32_t)(rank - under));                          \
  }

#endif
