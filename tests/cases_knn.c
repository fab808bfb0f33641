/* SPDX-License-Identifier: MIT
 *
 * The kNN joins of the list of cases: each k around the widths of vectors, blocks and buffers, from 1
 * to more than there are points; ties by the hundred; bounds exactly on a distance; and the sets on
 * which trees grow deep and matrix products lose their digits.
 */
#include <math.h>

#include "cases.h"

/* The k nearest without a bound. */
#define NEAREST(name_, build_, dim_, left_, right_, k_) CASE(name_, build_, dim_, left_, right_, INFINITY), .k = k_

/* The k nearest within a radius. */
#define WITHIN(name_, build_, dim_, left_, right_, k_, radius_) \
  CASE(name_, build_, dim_, left_, right_, radius_), .k = k_

/* One set with every k that is worth a test. */
#define EVERY_K(name_, build_, dim_, count_, ...)                                 \
  {NEAREST(name_ ", k 1", build_, dim_, count_, SELF, 1), __VA_ARGS__},           \
      {NEAREST(name_ ", k 2", build_, dim_, count_, SELF, 2), __VA_ARGS__},       \
      {NEAREST(name_ ", k 7", build_, dim_, count_, SELF, 7), __VA_ARGS__},       \
      {NEAREST(name_ ", k 8", build_, dim_, count_, SELF, 8), __VA_ARGS__},       \
      {NEAREST(name_ ", k 31", build_, dim_, count_, SELF, 31), __VA_ARGS__},     \
      {NEAREST(name_ ", k 32", build_, dim_, count_, SELF, 32), __VA_ARGS__},     \
      {NEAREST(name_ ", k 100", build_, dim_, count_, SELF, 100), __VA_ARGS__}, { \
    NEAREST(name_ ", k 1000", build_, dim_, count_, SELF, 1000), __VA_ARGS__      \
  }

/* One set with k around the number of other points. */
#define ALL_OTHERS(name_, build_, dim_, count_, ...)                                              \
  {NEAREST(name_ ", k n-1", build_, dim_, count_, SELF, (count_)-1), __VA_ARGS__},                \
      {NEAREST(name_ ", k n", build_, dim_, count_, SELF, count_), __VA_ARGS__},                  \
      {NEAREST(name_ ", k n+5", build_, dim_, count_, SELF, (count_) + 5), __VA_ARGS__}, {        \
    NEAREST(name_ ", k n, with self", build_, dim_, count_, SELF, count_), WITH_SELF, __VA_ARGS__ \
  }

/* Few points against many. */
#define AGAINST_MANY(name_, build_, dim_, left_, right_, ...)                                 \
  {NEAREST(name_ ", k 64", build_, dim_, left_, right_, 64), __VA_ARGS__},                    \
      {NEAREST(name_ ", k 127", build_, dim_, left_, right_, 127), __VA_ARGS__},              \
      {NEAREST(name_ ", k 2047", build_, dim_, left_, right_, 2047), __VA_ARGS__},            \
      {NEAREST(name_ ", k 2048", build_, dim_, left_, right_, 2048), __VA_ARGS__},            \
      {NEAREST(name_ ", k 2049", build_, dim_, left_, right_, 2049), __VA_ARGS__},            \
      {NEAREST(name_ ", k 4096", build_, dim_, left_, right_, 4096), __VA_ARGS__},            \
      {NEAREST(name_ ", k 30 %", build_, dim_, left_, right_, (right_)*3 / 10), __VA_ARGS__}, \
      {NEAREST(name_ ", k n-1", build_, dim_, left_, right_, (right_)-1), __VA_ARGS__}, {     \
    NEAREST(name_ ", k n", build_, dim_, left_, right_, right_), __VA_ARGS__                  \
  }

#define PLAIN .scale = 0

const case_entry knn_entries[] = {
    /* Few points. */
    {NEAREST("kNN, empty", build_uniform, 2, 0, SELF, 3)},
    {NEAREST("kNN, one point", build_uniform, 3, 1, SELF, 2)},
    {NEAREST("kNN, one point, with self", build_uniform, 3, 1, SELF, 2), WITH_SELF},
    {NEAREST("kNN, two points", build_uniform, 2, 2, SELF, 1)},
    {NEAREST("kNN, two points, k 8", build_uniform, 17, 2, SELF, 8)},
    {NEAREST("kNN, two equal points, with self", build_equal, 2, 2, SELF, 2), WITH_SELF},
    {NEAREST("kNN, left empty", build_uniform, 2, 0, 100, 5)},
    {NEAREST("kNN, right empty", build_uniform, 2, 100, 0, 5)},
    {NEAREST("kNN, right empty, 64-D", build_uniform, 64, 10, 0, 100)},
    {NEAREST("kNN, both empty", build_uniform, 2, 0, 0, 5)},
    {NEAREST("kNN, one against many", build_uniform, 3, 1, 2000, 10)},
    {NEAREST("kNN, one against many, 40-D", build_uniform, 40, 1, 2000, 10)},
    {NEAREST("kNN, many against one", build_uniform, 3, 2000, 1, 3)},
    {NEAREST("kNN, many against one, 40-D", build_uniform, 40, 500, 1, 1)},

    /* Every k. */
    EVERY_K("kNN, 2-D", build_uniform, 2, 1100, PLAIN),
    EVERY_K("kNN, 6-D", build_uniform, 6, 1100, PLAIN),
    EVERY_K("kNN, 24-D", build_uniform, 24, 1050, PLAIN),
    EVERY_K("kNN, lattice 3-D", build_lattice, 3, 1331, PLAIN),
    EVERY_K("kNN, clusters 3-D", build_clusters, 3, 1100, PLAIN),
    EVERY_K("kNN, duplicates 2-D", build_duplicates, 2, 1100, PLAIN),
    ALL_OTHERS("kNN, 1-D", build_uniform, 1, 65, PLAIN),
    ALL_OTHERS("kNN, 2-D", build_uniform, 2, 300, PLAIN),
    ALL_OTHERS("kNN, 3-D", build_uniform, 3, 513, PLAIN),
    ALL_OTHERS("kNN, 33-D", build_uniform, 33, 257, PLAIN),
    ALL_OTHERS("kNN, lattice 2-D", build_lattice, 2, 256, PLAIN),
    ALL_OTHERS("kNN, all equal", build_equal, 3, 129, PLAIN),
    ALL_OTHERS("kNN, 5-D, L1", build_uniform, 5, 200, L1),
    ALL_OTHERS("kNN, 9-D, Linf", build_uniform, 9, 200, LINF),

    /* Ties and duplicates. */
    {NEAREST("kNN, all equal", build_equal, 2, 700, SELF, 10)},
    {NEAREST("kNN, all equal, k 200", build_equal, 3, 700, SELF, 200)},
    {NEAREST("kNN, all equal, 64-D", build_equal, 64, 300, SELF, 10)},
    {NEAREST("kNN, all equal, with self", build_equal, 2, 700, SELF, 10), WITH_SELF},
    {NEAREST("kNN, all equal at 1e9", build_equal, 5, 300, SELF, 9), .offset = 1e9},
    {NEAREST("kNN, all equal, two sets", build_equal, 2, 70, 130, 12)},
    {NEAREST("kNN, duplicates, 5-D", build_duplicates, 5, 1000, SELF, 40)},
    {NEAREST("kNN, duplicates, with self", build_duplicates, 2, 900, SELF, 5), WITH_SELF},
    {NEAREST("kNN, duplicates, 32-D", build_duplicates, 32, 600, SELF, 30)},
    {NEAREST("kNN, lattice 1-D", build_lattice, 1, 500, SELF, 3)},
    {NEAREST("kNN, lattice 2-D, k 4", build_lattice, 2, 900, SELF, 4)},
    {NEAREST("kNN, lattice 2-D, k 6", build_lattice, 2, 900, SELF, 6)},
    {NEAREST("kNN, lattice 2-D, with self", build_lattice, 2, 900, SELF, 4), WITH_SELF},
    {NEAREST("kNN, lattice 2-D, k 14", build_lattice, 2, 900, SELF, 14)},
    {NEAREST("kNN, lattice 2-D, k 80", build_lattice, 2, 900, SELF, 80)},
    {NEAREST("kNN, lattice 3-D, k 8", build_lattice, 3, 1331, SELF, 8)},
    {NEAREST("kNN, lattice 3-D, k 14", build_lattice, 3, 1331, SELF, 14)},
    {NEAREST("kNN, lattice 3-D, k 15", build_lattice, 3, 1331, SELF, 15)},
    {NEAREST("kNN, lattice 3-D, k 81", build_lattice, 3, 1331, SELF, 81)},
    {NEAREST("kNN, duplicates, 3-D, k 12", build_duplicates, 3, 1500, SELF, 12)},
    {NEAREST("kNN, duplicates, 2-D, k 33", build_duplicates, 2, 1500, SELF, 33)},
    {NEAREST("kNN, duplicates, 3-D, k 150", build_duplicates, 3, 1500, SELF, 150)},
    {NEAREST("kNN, 3-D, k 160", build_uniform, 3, 1500, SELF, 160)},
    {NEAREST("kNN, 3-D, k 161", build_uniform, 3, 1500, SELF, 161)},
    {NEAREST("kNN, lattice 2-D at 1e9", build_lattice, 2, 900, SELF, 7), .scale = 64, .offset = 1e9},
    {NEAREST("kNN, lattice 3-D of thirds", build_lattice, 3, 1000, SELF, 10), .scale = 1 / 3.0},
    {NEAREST("kNN, lattice 3-D of tenths", build_lattice, 3, 1000, SELF, 10), .scale = 0.1, .offset = -0.5},
    {NEAREST("kNN, lattice 3-D, L1", build_lattice, 3, 1000, SELF, 9), L1},
    {NEAREST("kNN, lattice 3-D, Linf", build_lattice, 3, 1000, SELF, 20), LINF},
    {NEAREST("kNN, lattice 6-D", build_lattice, 6, 729, SELF, 15)},
    {NEAREST("kNN, lattice 5-D, k 60", build_lattice, 5, 2500, SELF, 60)},
    {NEAREST("kNN, all equal, 6-D", build_equal, 6, 2500, SELF, 10)},
    {NEAREST("kNN, duplicates, 6-D, two sets", build_duplicates, 6, 1500, 2500, 12)},
    {NEAREST("kNN, lattice 10-D", build_lattice, 10, 1024, SELF, 25)},
    {NEAREST("kNN, lattice 40-D", build_lattice, 40, 600, SELF, 50)},
    {NEAREST("kNN, lattices, two sets", build_lattice, 2, 400, 900, 5), .scale = 0.25},
    {NEAREST("kNN, zeros", build_zeros, 2, 300, SELF, 20)},
    {NEAREST("kNN, two sets, k 1", build_uniform, 3, 1500, 2500, 1)},
    {NEAREST("kNN, lattices, two sets, k 1", build_lattice, 2, 1600, 2500, 1), .scale = 0.25},
    {NEAREST("kNN, lattice 6-D, with self, k 1", build_lattice, 6, 2500, SELF, 1), WITH_SELF},
    {NEAREST("kNN, duplicates, 5-D, two sets, k 1", build_duplicates, 5, 1500, 2500, 1)},
    {NEAREST("kNN, all equal, two sets, k 1", build_equal, 4, 1500, 2500, 1)},
    {NEAREST("kNN, huge, two sets, k 1", build_huge, 2, 700, 900, 1), .scale = 0.5},
    {NEAREST("kNN, zeros, 20-D", build_zeros, 20, 300, SELF, 20)},

    /* With a radius: short rows, and radii exactly on a distance or an ulp away from it. */
    {WITHIN("kNN within 0, distinct points", build_uniform, 2, 500, SELF, 5, 0)},
    {WITHIN("kNN within 0, duplicates", build_duplicates, 3, 900, SELF, 20, 0)},
    {WITHIN("kNN within 0, all equal", build_equal, 2, 300, SELF, 7, 0)},
    {WITHIN("kNN within 0, with self", build_uniform, 2, 300, SELF, 2, 0), WITH_SELF},
    {WITHIN("kNN within 0, 40-D duplicates", build_duplicates, 40, 400, SELF, 20, 0)},
    {WITHIN("kNN within a bound, 2-D", build_uniform, 2, 900, SELF, 8, -0.01)},
    {WITHIN("kNN within a bound, 3-D, k 100", build_uniform, 3, 900, SELF, 100, -0.05)},
    {WITHIN("kNN within a bound, 32-D", build_uniform, 32, 500, SELF, 10, -0.01)},
    {WITHIN("kNN within a bound, two sets", build_uniform, 3, 300, 700, 6, -0.01)},
    {WITHIN("kNN within a bound of everything", build_uniform, 2, 300, SELF, 6, 2)},
    {WITHIN("kNN within a bound beyond f32", build_uniform, 2, 300, SELF, 6, 1e300)},
    {WITHIN("kNN within a bound, L1", build_uniform, 5, 600, SELF, 8, -0.01), L1},
    {WITHIN("kNN within a bound, Linf", build_uniform, 5, 600, SELF, 8, -0.01), LINF},
    {WITHIN("kNN within 1, lattice 2-D", build_lattice, 2, 900, SELF, 6, 1)},
    {WITHIN("kNN within the diagonal, lattice 2-D", build_lattice, 2, 900, SELF, 9, 1.4142135623730951)},
    {WITHIN("kNN within less than the diagonal, lattice 2-D", build_lattice, 2, 900, SELF, 9, 1.414213562373095)},
    {WITHIN("kNN within 0.1, lattice 3-D of tenths", build_lattice, 3, 1000, SELF, 6, 0.1), .scale = 0.1},
    {WITHIN("kNN, triangles 2-D", build_triangles, 2, 600, SELF, 9, 0)},
    {WITHIN("kNN, triangles 3-D at -1e6", build_triangles, 3, 600, SELF, 9, 0), .offset = -1e6},
    {WITHIN("kNN, triangles 20-D", build_triangles, 20, 300, SELF, 9, 0)},
    {WITHIN("kNN, ulps 2-D", build_ulps, 2, 1000, SELF, 12, 0.037)},
    {WITHIN("kNN, ulps 6-D", build_ulps, 6, 800, SELF, 12, 0.29)},
    {WITHIN("kNN, ulps 33-D", build_ulps, 33, 300, SELF, 12, 1.1)},
    {WITHIN("kNN, ulps 128-D", build_ulps, 128, 200, SELF, 12, 3.1)},
    {WITHIN("kNN, ulps 2-D, two sets", build_ulps, 2, 300, 900, 4, 0.037)},
    {WITHIN("kNN, ulps 40-D, two sets", build_ulps, 40, 100, 300, 4, 1.3)},
    {WITHIN("kNN, ulps 5-D, L1", build_ulps, 5, 600, SELF, 12, 0.37), L1},
    {WITHIN("kNN, ulps 7-D, Linf", build_ulps, 7, 600, SELF, 12, 0.19), LINF},
    {WITHIN("kNN, clumps", build_clumps, 3, 600, SELF, 350, 0.01), .scale = 0.01},

    /* The ends of the number line. */
    {NEAREST("kNN, denormal coordinates", build_tiny, 2, 400, SELF, 10)},
    {NEAREST("kNN, denormal coordinates, L1", build_tiny, 3, 400, SELF, 10), L1},
    {NEAREST("kNN, squares underflow", build_tiny, 2, 400, SELF, 10), .scale = 0.05},
    {NEAREST("kNN, squares round to denormals", build_tiny, 3, 400, SELF, 10), .scale = 0.7},
    {NEAREST("kNN, squares are denormal, 24-D", build_tiny, 24, 300, SELF, 10), .scale = 3},
    {WITHIN("kNN, squares are denormal, within 10", build_tiny, 2, 400, SELF, 10, 10), .scale = 3},
    {NEAREST("kNN, huge", build_huge, 2, 300, SELF, 10)},
    {NEAREST("kNN, huge, 24-D", build_huge, 24, 300, SELF, 10)},
    {NEAREST("kNN, huge, L1", build_huge, 3, 300, SELF, 10), L1},
    {NEAREST("kNN, huge, Linf", build_huge, 3, 300, SELF, 10), LINF},
    {NEAREST("kNN, differences overflow when squared", build_huge, 2, 400, SELF, 250), .scale = 0.5},
    {NEAREST("kNN, differences overflow when squared, 30-D", build_huge, 30, 300, SELF, 10), .scale = 0.5},
    {NEAREST("kNN, sums overflow", build_huge, 8, 300, SELF, 100), .scale = 0.499},
    {NEAREST("kNN, huge, two sets", build_huge, 2, 100, 200, 10), .scale = 0.5},
    {WITHIN("kNN, huge, within half", build_huge, 3, 300, SELF, 100, 0.5), LINF},

    /* Far from the origin, where |x|^2 + |y|^2 - 2xy cancels. */
    {NEAREST("kNN, 64-D at 1e6", build_uniform, 64, 500, SELF, 10), .scale = 4, .offset = 1e6},
    {NEAREST("kNN, 64-D at 1e6, spread 1e-3", build_uniform, 64, 500, SELF, 10), .scale = 1e-3, .offset = 1e6},
    {NEAREST("kNN, 64-D at -1e6, k 100", build_uniform, 64, 500, SELF, 100), .scale = 1, .offset = -1e6},
    {NEAREST("kNN, 128-D at 1e4", build_uniform, 128, 300, SELF, 10), .scale = 1, .offset = 1e4},
    {NEAREST("kNN, 128-D at 1e4, two sets", build_uniform, 128, 100, 300, 10), .scale = 1, .offset = 1e4},
    {NEAREST("kNN, 40-D at 1e9", build_uniform, 40, 400, SELF, 10), .scale = 1e3, .offset = 1e9},
    {NEAREST("kNN, 40-D box of 1e9, points an ulp apart", build_large_box, 40, 400, SELF, 3), .scale = 1e9},
    {NEAREST("kNN, 3-D at 1e5", build_uniform, 3, 700, SELF, 10), .offset = 1e5},
    {NEAREST("kNN, 40-D, left far away", build_far_left, 40, 200, 400, 10), .offset = 1e6},

    /* Bad placement: trees grow deep, boxes degenerate, densities differ by powers of ten. */
    {NEAREST("kNN, outlier at 1e9", build_outlier, 2, 1000, SELF, 8), .offset = 1e9},
    {NEAREST("kNN, outlier at 1e30", build_outlier, 3, 1000, SELF, 8), .offset = 1e30},
    {NEAREST("kNN, outlier at -1e12, 32-D", build_outlier, 32, 500, SELF, 8), .offset = -1e12},
    {NEAREST("kNN, outlier in right", build_outlier, 2, 500, 700, 8), .offset = 1e12},
    {NEAREST("kNN, outlier at 1e6, 6-D", build_outlier, 6, 2500, SELF, 8), .offset = 1e6},
    {NEAREST("kNN, scales of 1 to 1e-7", build_scales, 2, 2500, SELF, 8), .offset = 1e6},
    {NEAREST("kNN, scales of 1 to 1e-7, 3-D, k 32", build_scales, 3, 2500, SELF, 32), .offset = 1e30},
    {NEAREST("kNN, scales of 1 to 1e-7, 4-D, k 100", build_scales, 4, 1500, SELF, 100), .offset = -1e30},
    {NEAREST("kNN, scales of 1 to 1e-7, 6-D", build_scales, 6, 2500, SELF, 8), .offset = -1e6},
    {NEAREST("kNN, scales of 1 to 1e-7, two sets", build_scales, 2, 2500, 2500, 8), .offset = 1e6},
    {NEAREST("kNN, scales of 1 to 2^-28, one place", build_scales, 3, 2500, SELF, 8), .scale = 4, .offset = 1e3},
    {NEAREST("kNN, scales of 1 to 2^-112, one place", build_scales, 2, 2500, SELF, 8), .scale = 16, .offset = 1e3},
    {NEAREST("kNN, sentinels of -9999", build_sentinels, 2, 2500, SELF, 8), .offset = -9999},
    {NEAREST("kNN, sentinels of 1e30, 3-D, k 32", build_sentinels, 3, 2500, SELF, 32), .offset = 1e30},
    {NEAREST("kNN, sentinels of -9999, 6-D", build_sentinels, 6, 2500, SELF, 8), .offset = -9999},
    {NEAREST("kNN, sentinels of 1e30, two sets, L1", build_sentinels, 3, 700, 2500, 8), .offset = 1e30, L1},
    {NEAREST("kNN, an axis a million times as long", build_long_axis, 2, 2500, SELF, 8), .scale = 1e6},
    {NEAREST("kNN, the last axis a million times as long, 6-D", build_long_axis, 6, 2500, SELF, 8), .scale = -1e6},
    {NEAREST("kNN, a line, 3-D, many", build_line, 3, 2500, SELF, 8)},
    {NEAREST("kNN, all equal, many", build_equal, 2, 2500, SELF, 8)},
    {NEAREST("kNN, all equal, many, k 100", build_equal, 3, 2500, SELF, 100)},
    {NEAREST("kNN, box of 1e9, points an ulp apart", build_large_box, 2, 900, SELF, 4), .scale = 1e9},
    {NEAREST("kNN, box of 1e9, two sets", build_large_box, 3, 400, 600, 4), .scale = 1e9},
    {NEAREST("kNN, collinear, diagonal", build_line, 3, 1000, SELF, 9)},
    {NEAREST("kNN, collinear, diagonal 24-D", build_line, 24, 500, SELF, 9)},
    {NEAREST("kNN, collinear, first axis", build_line, 3, 1000, SELF, 9), .scale = 1},
    {NEAREST("kNN, collinear, last axis", build_line, 6, 1000, SELF, 9), .scale = 2},
    {NEAREST("kNN, flat", build_flat, 4, 900, SELF, 9)},
    {NEAREST("kNN, flat, 30-D", build_flat, 30, 500, SELF, 9)},
    {NEAREST("kNN, uneven extents", build_uneven, 5, 900, SELF, 9)},
    {NEAREST("kNN, uneven extents, 32-D", build_uneven, 32, 500, SELF, 9)},
    {NEAREST("kNN, clusters 2-D", build_clusters, 2, 2000, SELF, 8)},
    {NEAREST("kNN, clusters 2-D at 100", build_clusters, 2, 2000, SELF, 8), .offset = 100},
    {NEAREST("kNN, clusters 2-D, k 104", build_clusters, 2, 1500, SELF, 104)},
    {NEAREST("kNN, clusters 3-D, k 200", build_clusters, 3, 1500, SELF, 200)},
    {NEAREST("kNN, clusters 2-D, k 400", build_clusters, 2, 700, 2000, 400)},
    {NEAREST("kNN, clusters 3-D, k 504", build_clusters, 3, 2000, SELF, 504)},
    {NEAREST("kNN, clusters 6-D", build_clusters, 6, 1000, SELF, 60)},
    {NEAREST("kNN, clusters 24-D", build_clusters, 24, 600, SELF, 60)},
    {NEAREST("kNN, clusters, two sets", build_clusters, 3, 700, 900, 5)},
    {NEAREST("kNN, left far away", build_far_left, 2, 300, 400, 5), .offset = 100},
    {NEAREST("kNN, left far away, below", build_far_left, 3, 300, 400, 5), .offset = -1e6},
    {NEAREST("kNN, left in a wider box", build_wide_left, 2, 800, 300, 5), .scale = 1000},
    {NEAREST("kNN, left in a wider box, 5-D", build_wide_left, 5, 800, 300, 5), .scale = 1e6},
    {NEAREST("kNN, the same set twice", build_same_sets, 2, 500, 500, 5)},
    {NEAREST("kNN, the same set twice, 40-D", build_same_sets, 40, 300, 300, 5)},

    /* Dimensions. */
    {NEAREST("kNN, 1-D, k 10", build_uniform, 1, 900, SELF, 10)},
    {NEAREST("kNN, 4-D, k 10", build_uniform, 4, 900, SELF, 10)},
    {NEAREST("kNN, 5-D, k 10", build_uniform, 5, 900, SELF, 10)},
    {NEAREST("kNN, 7-D, k 10", build_uniform, 7, 900, SELF, 10)},
    {NEAREST("kNN, 8-D, k 10", build_uniform, 8, 900, SELF, 10)},
    {NEAREST("kNN, 9-D, k 10", build_uniform, 9, 700, SELF, 10)},
    {NEAREST("kNN, 12-D, k 10", build_uniform, 12, 700, SELF, 10)},
    {NEAREST("kNN, 16-D, k 10", build_uniform, 16, 700, SELF, 10)},
    {NEAREST("kNN, 17-D, k 10", build_uniform, 17, 600, SELF, 10)},
    {NEAREST("kNN, 31-D, k 10", build_uniform, 31, 400, SELF, 10)},
    {NEAREST("kNN, 64-D, k 10", build_uniform, 64, 400, SELF, 10)},
    {NEAREST("kNN, 129-D, k 10", build_uniform, 129, 300, SELF, 10)},
    {NEAREST("kNN, 1000-D, k 10", build_uniform, 1000, 60, SELF, 10)},
    {NEAREST("kNN, 1000-D, two sets", build_uniform, 1000, 20, 40, 10)},
    {NEAREST("kNN, 64-D, L1", build_uniform, 64, 300, SELF, 10), L1},
    {NEAREST("kNN, 17-D, Linf", build_uniform, 17, 400, SELF, 10), LINF},
    {NEAREST("kNN, 2-D, L1", build_uniform, 2, 900, SELF, 10), L1},
    {NEAREST("kNN, 3-D, Linf, two sets", build_uniform, 3, 500, 700, 10), LINF},
    {NEAREST("kNN, 3-D, with self", build_uniform, 3, 900, SELF, 10), WITH_SELF},
    {NEAREST("kNN, 40-D, with self", build_uniform, 40, 400, SELF, 10), WITH_SELF},

    /* Sizes around the edges of leaves, blocks and batches. */
    {NEAREST("kNN, 15 points", build_uniform, 2, 15, SELF, 4)},
    {NEAREST("kNN, 16 points", build_uniform, 3, 16, SELF, 4)},
    {NEAREST("kNN, 17 points", build_uniform, 40, 17, SELF, 4)},
    {NEAREST("kNN, 31 points", build_uniform, 2, 31, SELF, 30)},
    {NEAREST("kNN, 33 points", build_uniform, 3, 33, SELF, 31)},
    {NEAREST("kNN, 63 points", build_uniform, 2, 63, SELF, 5)},
    {NEAREST("kNN, 64 points", build_uniform, 3, 64, SELF, 64)},
    {NEAREST("kNN, 65 points", build_uniform, 40, 65, SELF, 5)},
    {NEAREST("kNN, 127 points", build_uniform, 2, 127, SELF, 16)},
    {NEAREST("kNN, 129 points", build_uniform, 3, 129, SELF, 17)},
    {NEAREST("kNN, 255 points", build_uniform, 2, 255, SELF, 33)},
    {NEAREST("kNN, 257 points, 24-D", build_uniform, 24, 257, SELF, 33)},
    {NEAREST("kNN, 1025 points", build_uniform, 2, 1025, SELF, 5)},
    {NEAREST("kNN, 4097 points", build_uniform, 3, 4097, SELF, 6)},
    {NEAREST("kNN, 4097 against 17", build_uniform, 2, 4097, 17, 6)},
    {NEAREST("kNN, 17 against 4097", build_uniform, 2, 17, 4097, 600)},
    {NEAREST("kNN, 3 against 4097, 24-D", build_uniform, 24, 3, 4097, 100)},
    {NEAREST("kNN, 130 against 300, 9-D", build_uniform, 9, 130, 300, 9)},
    {NEAREST("kNN, 97 against 257, 16-D", build_uniform, 16, 97, 257, 300)},

    /* Every k at which a device changes its way of selecting; few queries, and more than fit a tile. */
    AGAINST_MANY("kNN, 8-D", build_uniform, 8, 12, 5000, PLAIN),
    AGAINST_MANY("kNN, lattice 7-D", build_lattice, 7, 3, 5000, PLAIN),
    AGAINST_MANY("kNN, all equal 10-D", build_equal, 10, 17, 5000, PLAIN),
    {NEAREST("kNN, one against 70001, 12-D, k 64", build_uniform, 12, 1, 70001, 64)},
    {NEAREST("kNN, one against 70001, 12-D, k 2049", build_uniform, 12, 1, 70001, 2049)},
    {NEAREST("kNN, one against 70001, 2-D, k 21000", build_uniform, 2, 1, 70001, 21000)},
    /* Queries one by one through a whole tree: lists of one and two vectors, ties, a radius, a last leaf not full. */
    {NEAREST("kNN, 300 against 5001, k 1", build_uniform, 3, 300, 5001, 1)},
    {NEAREST("kNN, 300 against 5001, k 8", build_uniform, 3, 300, 5001, 8)},
    {NEAREST("kNN, 300 against 5001, k 16", build_uniform, 3, 300, 5001, 16)},
    {NEAREST("kNN, 300 against 5001, k 17", build_uniform, 3, 300, 5001, 17)},
    {NEAREST("kNN, 300 against 5001, 5-D, k 9", build_uniform, 5, 300, 5001, 9)},
    {NEAREST("kNN, 300 against 5001, 9-D, k 12", build_uniform, 9, 300, 5001, 12)},
    {NEAREST("kNN, 300 against 4099 on a lattice, k 8", build_lattice, 3, 300, 4099, 8)},
    {NEAREST("kNN, 300 against 4099 on a lattice, k 15", build_lattice, 2, 300, 4099, 15)},
    {NEAREST("kNN, 300 against 4099 equal points, k 16", build_equal, 3, 300, 4099, 16)},
    {WITHIN("kNN, 300 against 5001 within 0.05, k 16", build_uniform, 3, 300, 5001, 16, 0.05)},
    {NEAREST("kNN, 20 against 20000, 7-D, k 33", build_uniform, 7, 20, 20000, 33)},
    {NEAREST("kNN, 5 against 20000, 7-D, L1, k 6000", build_uniform, 7, 5, 20000, 6000), L1},
    {NEAREST("kNN, 768-D", build_uniform, 768, 40, 90, 31)},
    {NEAREST("kNN, 2048-D", build_uniform, 2048, 40, SELF, 39)},
    {NEAREST("kNN, 2047-D, Linf", build_uniform, 2047, 3, 50, 7), LINF},
    {WITHIN("kNN within a bound, 8-D, k 3000", build_uniform, 8, 12, 5000, 3000, -0.1)},
};

const uint32_t knn_entry_count = sizeof knn_entries / sizeof *knn_entries;
