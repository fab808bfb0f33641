/* SPDX-License-Identifier: MIT
 *
 * The list of cases: the range joins here, the kNN joins from cases_knn.c. Every entry is run in
 * f32 and in f64.
 */
#include "cases.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const case_entry entries[] = {
    /* Few points. */
    {CASE("empty", build_uniform, 2, 0, SELF, 0.1)},
    {CASE("empty, 17-D", build_uniform, 17, 0, SELF, 0.1)},
    {CASE("one point", build_uniform, 3, 1, SELF, 0.1)},
    {CASE("one point, with self", build_uniform, 3, 1, SELF, 0.1), WITH_SELF},
    {CASE("two points, apart", build_uniform, 2, 2, SELF, 0)},
    {CASE("two points, together", build_uniform, 2, 2, SELF, 2)},
    {CASE("left empty", build_uniform, 2, 0, 100, 0.1)},
    {CASE("right empty", build_uniform, 2, 100, 0, 0.1)},
    {CASE("both empty", build_uniform, 2, 0, 0, 0.1)},
    {CASE("one against many", build_uniform, 3, 1, 2000, 0.3)},
    {CASE("many against one", build_uniform, 3, 2000, 1, 0.3)},

    /* Ties and duplicates. */
    {CASE("all equal, radius 0", build_equal, 2, 300, SELF, 0)},
    {CASE("all equal, radius 1", build_equal, 3, 300, SELF, 1)},
    {CASE("all equal, two sets", build_equal, 2, 70, 130, 0)},
    {CASE("all equal at 1e9", build_equal, 5, 129, SELF, 0), .offset = 1e9},
    {CASE("duplicates, radius 0", build_duplicates, 2, 1000, SELF, 0)},
    {CASE("duplicates", build_duplicates, 4, 1000, SELF, -0.01)},
    {CASE("duplicates, with self", build_duplicates, 2, 500, SELF, 0), WITH_SELF},
    {CASE("duplicates, one way", build_duplicates, 2, 500, SELF, 0), ONE_WAY},
    {CASE("distinct points, radius 0", build_uniform, 2, 500, SELF, 0)},
    {CASE("lattice 1-D", build_lattice, 1, 500, SELF, 3)},
    {CASE("lattice 2-D", build_lattice, 2, 900, SELF, 1)},
    {CASE("lattice 2-D, diagonal", build_lattice, 2, 900, SELF, 1.4142135623730951)},
    {CASE("lattice 2-D, short of the diagonal", build_lattice, 2, 900, SELF, 1.414213562373095)},
    {CASE("lattice 2-D, radius 5", build_lattice, 2, 900, SELF, 5)},
    {CASE("lattice 3-D", build_lattice, 3, 1000, SELF, 1)},
    {CASE("lattice 3-D, one way", build_lattice, 3, 1000, SELF, 2), ONE_WAY},
    {CASE("lattice 3-D of thirds", build_lattice, 3, 1000, SELF, 1 / 3.0), .scale = 1 / 3.0},
    {CASE("lattice 3-D of tenths", build_lattice, 3, 1000, SELF, 0.1), .scale = 0.1},
    {CASE("lattice 2-D of tenths, radius 0.3", build_lattice, 2, 900, SELF, 0.3), .scale = 0.1},
    {CASE("lattice 4-D", build_lattice, 4, 1296, SELF, 1)},
    {CASE("lattice 6-D", build_lattice, 6, 729, SELF, 1)},
    {CASE("lattice 8-D", build_lattice, 8, 512, SELF, 1)},
    {CASE("lattice 2-D at 1e9", build_lattice, 2, 900, SELF, 128), .scale = 64, .offset = 1e9},
    {CASE("lattice 3-D below zero", build_lattice, 3, 1000, SELF, 1), .offset = -5},
    {CASE("lattice 3-D, L1", build_lattice, 3, 1000, SELF, 2), L1},
    {CASE("lattice 3-D, Linf", build_lattice, 3, 1000, SELF, 1), LINF},
    {CASE("lattices, two sets", build_lattice, 2, 400, 900, 1), .scale = 0.25},
    {CASE("triangles 1-D", build_triangles, 1, 300, SELF, 0)},
    {CASE("triangles 2-D", build_triangles, 2, 600, SELF, 0)},
    {CASE("triangles 2-D, scaled", build_triangles, 2, 600, SELF, 0), .scale = 0x1p-20},
    {CASE("triangles 3-D at -1e6", build_triangles, 3, 600, SELF, 0), .offset = -1e6},
    {CASE("triangles 8-D", build_triangles, 8, 300, SELF, 0)},
    {CASE("zeros, radius 0", build_zeros, 2, 200, SELF, 0)},
    {CASE("zeros, radius of a denormal", build_zeros, 3, 200, SELF, 0x1p-149)},

    /* One ulp inside and outside of the radius. */
    {CASE("ulps 1-D", build_ulps, 1, 600, SELF, 0.0137)},
    {CASE("ulps 2-D", build_ulps, 2, 1000, SELF, 0.037)},
    {CASE("ulps 3-D", build_ulps, 3, 1000, SELF, 0.1)},
    {CASE("ulps 4-D", build_ulps, 4, 1000, SELF, 0.17)},
    {CASE("ulps 5-D", build_ulps, 5, 800, SELF, 0.23)},
    {CASE("ulps 6-D", build_ulps, 6, 800, SELF, 0.29)},
    {CASE("ulps 7-D", build_ulps, 7, 600, SELF, 0.31)},
    {CASE("ulps 8-D", build_ulps, 8, 600, SELF, 0.37)},
    {CASE("ulps 16-D", build_ulps, 16, 400, SELF, 0.7)},
    {CASE("ulps 17-D", build_ulps, 17, 400, SELF, 0.7)},
    {CASE("ulps 33-D", build_ulps, 33, 300, SELF, 1.1)},
    {CASE("ulps 64-D", build_ulps, 64, 200, SELF, 1.9)},
    {CASE("ulps 128-D", build_ulps, 128, 200, SELF, 3.1)},
    {CASE("ulps 2-D, L1", build_ulps, 2, 800, SELF, 0.041), L1},
    {CASE("ulps 5-D, L1", build_ulps, 5, 600, SELF, 0.37), L1},
    {CASE("ulps 2-D, Linf", build_ulps, 2, 800, SELF, 0.03), LINF},
    {CASE("ulps 7-D, Linf", build_ulps, 7, 600, SELF, 0.19), LINF},
    {CASE("ulps 2-D at 1e9", build_ulps, 2, 600, SELF, 3000), .scale = 1e5, .offset = 1e9},
    {CASE("ulps 3-D at 1e5", build_ulps, 3, 600, SELF, 0.3), .offset = 1e5},
    {CASE("ulps 3-D around 0", build_ulps, 3, 600, SELF, 0.3), .scale = 2, .offset = -1},
    {CASE("ulps 2-D, two sets", build_ulps, 2, 300, 900, 0.037)},
    {CASE("ulps 6-D, two sets", build_ulps, 6, 200, 600, 0.31)},
    {CASE("ulps 3-D, two sets, Linf", build_ulps, 3, 300, 500, 0.09), LINF},
    {CASE("cell edges 1-D", build_cell_edges, 1, 500, SELF, 0.1)},
    {CASE("cell edges 2-D", build_cell_edges, 2, 800, SELF, 0.1)},
    {CASE("cell edges 2-D, halves", build_cell_edges, 2, 800, SELF, 0.1), .scale = 0.5},
    {CASE("cell edges 2-D at 1e3", build_cell_edges, 2, 800, SELF, 0.7), .offset = 1e3},
    {CASE("cell edges 2-D at -1e6", build_cell_edges, 2, 800, SELF, 1.1), .offset = -1e6},
    {CASE("cell edges 3-D", build_cell_edges, 3, 1000, SELF, 1 / 3.0)},
    {CASE("cell edges 3-D, L1", build_cell_edges, 3, 1000, SELF, 1 / 3.0), L1},
    {CASE("cell edges 3-D, Linf", build_cell_edges, 3, 1000, SELF, 1 / 3.0), LINF},
    {CASE("cell edges 6-D", build_cell_edges, 6, 700, SELF, 0.9)},
    {CASE("cell edges 2-D, two sets", build_cell_edges, 2, 500, 700, 0.1)},

    /* The ends of the number line. */
    {CASE("denormal coordinates", build_tiny, 2, 400, SELF, 10)},
    {CASE("denormal coordinates, L1", build_tiny, 3, 400, SELF, 20), L1},
    {CASE("denormal coordinates, Linf", build_tiny, 2, 400, SELF, 7), LINF},
    {CASE("denormal coordinates, radius 0", build_tiny, 2, 400, SELF, 0)},
    {CASE("squares underflow", build_tiny, 2, 400, SELF, 10), .scale = 0.05},
    {CASE("squares round to denormals", build_tiny, 2, 400, SELF, 6), .scale = 0.7},
    {CASE("squares are denormal", build_tiny, 3, 400, SELF, 12), .scale = 3},
    {CASE("squares are denormal, 16-D", build_tiny, 16, 200, SELF, 90), .scale = 3},
    {CASE("squares underflow, two sets", build_tiny, 2, 100, 300, 10), .scale = 0.05},
    {CASE("huge, squared radius overflows", build_huge, 2, 300, SELF, 0.3)},
    {CASE("huge, radius 0", build_huge, 2, 300, SELF, 0)},
    {CASE("huge, L1", build_huge, 2, 300, SELF, 0.5), L1},
    {CASE("huge, Linf", build_huge, 3, 300, SELF, 0.5), LINF},
    {CASE("differences overflow when squared", build_huge, 2, 400, SELF, 0.4), .scale = 0.5},
    {CASE("differences overflow when squared, 5-D", build_huge, 5, 300, SELF, 0.9), .scale = 0.5},
    {CASE("sums overflow", build_huge, 8, 300, SELF, 0.99), .scale = 0.499},
    {CASE("large, radius tiny", build_huge, 2, 300, SELF, 1e-30), .scale = 0.9},
    {CASE("huge, two sets", build_huge, 2, 100, 200, 0.4), .scale = 0.5},
    {CASE("radius beyond f32", build_uniform, 2, 100, SELF, 1e300)},

    /* Bad placement: outliers, offsets, uneven extents. */
    {CASE("outlier at 1e9", build_outlier, 2, 1000, SELF, 0.02), .offset = 1e9},
    {CASE("outlier at -1e9", build_outlier, 3, 1000, SELF, 0.1), .offset = -1e9},
    {CASE("outlier at 1e30", build_outlier, 2, 1000, SELF, 0.02), .offset = 1e30},
    {CASE("outlier in right", build_outlier, 2, 500, 700, 0.02), .offset = 1e12},
    {CASE("outlier at 1e6, 6-D", build_outlier, 6, 1500, SELF, 0.3), .offset = 1e6},
    {CASE("outlier at -1e30, two sets, 4-D", build_outlier, 4, 700, 1500, 0.2), .offset = -1e30},
    {CASE("scales of 1 to 1e-7", build_scales, 2, 2500, SELF, 1e-4), .offset = 1e6},
    {CASE("scales of 1 to 1e-7, 3-D, wide", build_scales, 3, 2500, SELF, 0.03), .offset = 1e30},
    {CASE("scales of 1 to 1e-7, 6-D", build_scales, 6, 1500, SELF, 1e-3), .offset = -1e6},
    {CASE("scales of 1 to 2^-28, one place", build_scales, 3, 1500, SELF, 1e-5), .scale = 4, .offset = 1e3},
    {CASE("sentinels of -9999", build_sentinels, 2, 2500, SELF, 0.02), .offset = -9999},
    {CASE("sentinels of 1e30, 3-D", build_sentinels, 3, 2500, SELF, 0.05), .offset = 1e30},
    {CASE("sentinels of -9999, two sets, 6-D", build_sentinels, 6, 900, 1500, 0.3), .offset = -9999},
    {CASE("an axis a million times as long", build_long_axis, 2, 2500, SELF, 300), .scale = 1e6},
    {CASE("the last axis a million times as long, 5-D", build_long_axis, 5, 1500, SELF, 0.5), .scale = -1e6},
    {CASE("radius 1e-12 in a box of 1e9", build_large_box, 2, 900, SELF, 1e-12), .scale = 1e9},
    {CASE("radius 1e-12 in a box of 1e9, 3-D", build_large_box, 3, 900, SELF, 1e-12), .scale = 1e9, .offset = -5e8},
    {CASE("radius 1e-6 in a box of 1e9, 8-D", build_large_box, 8, 600, SELF, 1e-6), .scale = 1e9},
    {CASE("radius 1e-6 in a box of 1e9, 33-D", build_large_box, 33, 300, SELF, 1e-6), .scale = 1e9},
    {CASE("radius 0 in a box of 1e30", build_large_box, 2, 300, SELF, 0), .scale = 1e30},
    {CASE("radius 1e-12, two sets", build_large_box, 2, 400, 600, 1e-12), .scale = 1e9},
    {CASE("collinear, diagonal", build_line, 3, 800, SELF, -0.01)},
    {CASE("collinear, diagonal 16-D", build_line, 16, 500, SELF, -0.02)},
    {CASE("collinear, first axis", build_line, 3, 800, SELF, -0.01), .scale = 1},
    {CASE("collinear, last axis", build_line, 3, 800, SELF, -0.01), .scale = 2},
    {CASE("flat", build_flat, 4, 800, SELF, -0.01)},
    {CASE("flat, Linf", build_flat, 7, 600, SELF, -0.01), LINF},
    {CASE("uneven extents", build_uneven, 5, 800, SELF, -0.01)},
    {CASE("uneven extents, small radius", build_uneven, 3, 800, SELF, 1e-4)},
    {CASE("two clumps in one cell", build_clumps, 2, 600, SELF, 0.01), .scale = 1e-3},
    {CASE("two clumps, wide", build_clumps, 3, 600, SELF, 0.01), .scale = 0.5},
    {CASE("two clumps at 1e4", build_clumps, 2, 600, SELF, 0.5), .scale = 0.01, .offset = 1e4},
    {CASE("two clumps, two sets", build_clumps, 3, 200, 400, 0.01), .scale = 0.01},
    {CASE("clusters 2-D", build_clusters, 2, 2000, SELF, -0.002)},
    {CASE("clusters 2-D, wider", build_clusters, 2, 1000, SELF, -0.04)},
    {CASE("clusters 3-D, one way", build_clusters, 3, 1500, SELF, -0.01), ONE_WAY},
    {CASE("clusters 6-D", build_clusters, 6, 1000, SELF, -0.01)},
    {CASE("clusters, two sets", build_clusters, 3, 700, 900, -0.01)},
    {CASE("left far away", build_far_left, 2, 300, 400, 0.1), .offset = 100},
    {CASE("left far away, within reach", build_far_left, 2, 300, 400, 2), .offset = 2},
    {CASE("left far away, below", build_far_left, 3, 300, 400, 0.1), .offset = -1e6},
    {CASE("left touches right", build_far_left, 1, 300, 400, 0.05), .offset = 1},
    {CASE("left in a wider box", build_wide_left, 2, 800, 300, 0.1), .scale = 1000},
    {CASE("left in a wider box, 5-D", build_wide_left, 5, 800, 300, 0.4), .scale = 1e6},
    {CASE("the same set twice", build_same_sets, 2, 500, 500, -0.01)},
    {CASE("the same set twice, radius 0", build_same_sets, 3, 500, 500, 0)},
    {CASE("below zero", build_uniform, 3, 800, SELF, -0.01), .scale = 2, .offset = -1},
    {CASE("radius larger than the box", build_uniform, 3, 400, SELF, 2)},
    {CASE("radius larger than the box, one way", build_uniform, 2, 400, SELF, 2), ONE_WAY},
    {CASE("radius larger than the box, two sets", build_uniform, 2, 300, 350, 2)},

    /* Dimensions. */
    {CASE("1-D", build_uniform, 1, 900, SELF, -0.01)},
    {CASE("2-D", build_uniform, 2, 900, SELF, -0.01)},
    {CASE("3-D", build_uniform, 3, 900, SELF, -0.01)},
    {CASE("4-D", build_uniform, 4, 900, SELF, -0.01)},
    {CASE("5-D", build_uniform, 5, 900, SELF, -0.01)},
    {CASE("6-D", build_uniform, 6, 900, SELF, -0.01)},
    {CASE("7-D", build_uniform, 7, 900, SELF, -0.01)},
    {CASE("8-D", build_uniform, 8, 900, SELF, -0.01)},
    {CASE("9-D", build_uniform, 9, 600, SELF, -0.01)},
    {CASE("12-D", build_uniform, 12, 600, SELF, -0.01)},
    {CASE("16-D", build_uniform, 16, 600, SELF, -0.01)},
    {CASE("17-D", build_uniform, 17, 600, SELF, -0.01)},
    {CASE("31-D", build_uniform, 31, 400, SELF, -0.01)},
    {CASE("32-D", build_uniform, 32, 400, SELF, -0.01)},
    {CASE("33-D", build_uniform, 33, 400, SELF, -0.01)},
    {CASE("64-D", build_uniform, 64, 300, SELF, -0.01)},
    {CASE("128-D", build_uniform, 128, 200, SELF, -0.02)},
    {CASE("1000-D", build_uniform, 1000, 60, SELF, -0.1)},
    {CASE("1000-D, two sets", build_uniform, 1000, 20, 40, -0.1)},
    {CASE("4-D, two sets", build_uniform, 4, 500, 800, -0.01)},
    {CASE("16-D, two sets", build_uniform, 16, 300, 400, -0.01)},
    {CASE("64-D, L1", build_uniform, 64, 200, SELF, -0.02), L1},
    {CASE("17-D, Linf", build_uniform, 17, 300, SELF, -0.02), LINF},
    {CASE("3-D, with self", build_uniform, 3, 800, SELF, -0.01), WITH_SELF},
    {CASE("5-D, one way", build_uniform, 5, 800, SELF, -0.01), ONE_WAY},
    {CASE("17-D, one way", build_uniform, 17, 400, SELF, -0.02), ONE_WAY},

    /* Sizes around the edges of blocks and batches. */
    {CASE("15 points", build_uniform, 2, 15, SELF, 0.4)},
    {CASE("16 points", build_uniform, 2, 16, SELF, 0.4)},
    {CASE("17 points", build_uniform, 3, 17, SELF, 0.4)},
    {CASE("63 points", build_uniform, 2, 63, SELF, 0.3)},
    {CASE("64 points", build_uniform, 3, 64, SELF, 0.4)},
    {CASE("65 points", build_uniform, 2, 65, SELF, 0.3)},
    {CASE("127 points", build_uniform, 2, 127, SELF, 0.2)},
    {CASE("128 points", build_uniform, 17, 128, SELF, -0.1)},
    {CASE("129 points", build_uniform, 3, 129, SELF, 0.3)},
    {CASE("255 points, all pairs", build_uniform, 2, 255, SELF, 2)},
    {CASE("256 points, all pairs", build_uniform, 2, 256, SELF, 2)},
    {CASE("257 points, all pairs", build_uniform, 9, 257, SELF, 5)},
    {CASE("1023 points, all pairs", build_uniform, 2, 1023, SELF, 2)},
    {CASE("1025 points", build_uniform, 2, 1025, SELF, -0.01)},
    {CASE("4097 points", build_uniform, 2, 4097, SELF, -0.002)},
    {CASE("4097 against 17", build_uniform, 2, 4097, 17, 0.1)},
    {CASE("17 against 4097", build_uniform, 2, 17, 4097, 0.1)},

    /* Row lengths around those at which a GPU changes its way of sorting. */
    {CASE("30 against 512, all pairs", build_uniform, 2, 30, 512, 2)},
    {CASE("30 against 513, all pairs", build_uniform, 2, 30, 513, 2)},
    {CASE("30 against 1024, all pairs", build_uniform, 2, 30, 1024, 2)},
    {CASE("30 against 1025, all pairs", build_uniform, 2, 30, 1025, 2)},
    {CASE("30 against 2048, all pairs", build_uniform, 2, 30, 2048, 2)},
    {CASE("30 against 2049, all pairs", build_uniform, 2, 30, 2049, 2)},
    {CASE("30 against 4096, all pairs", build_uniform, 2, 30, 4096, 2)},
    {CASE("30 against 4097, all pairs", build_uniform, 2, 30, 4097, 2)},
    {CASE("30 against 8192, all pairs", build_uniform, 2, 30, 8192, 2)},
    {CASE("30 against 8193, all pairs", build_uniform, 2, 30, 8193, 2)},
    {CASE("half of 9000", build_uniform, 2, 40, 9000, -0.5)},
    {CASE("a tenth of 9000, clusters", build_clusters, 2, 40, 9000, -0.1)},
    {CASE("7000 that are equal", build_equal, 2, 20, 7000, 0)},
    {CASE("half of 6000 on a lattice", build_lattice, 2, 40, 6000, -0.5)},

    /* Many dimensions, around the steps and tiles of matrix products. */
    {CASE("ulps 100-D", build_ulps, 100, 200, SELF, 2.7)},
    {CASE("ulps 16-D, two sets", build_ulps, 16, 300, 500, 0.7)},
    {CASE("ulps 16-D at 1e9", build_ulps, 16, 300, SELF, 20000), .scale = 1e5, .offset = 1e9},
    {CASE("ulps 64-D at 1e5", build_ulps, 64, 150, SELF, 1.9), .offset = 1e5},
    {CASE("ulps 200-D", build_ulps, 200, 100, SELF, 4)},
    {CASE("lattice 9-D of tenths", build_lattice, 9, 512, SELF, 0.1), .scale = 0.1},
    {CASE("lattice 16-D", build_lattice, 16, 600, SELF, 1)},
    {CASE("outlier at 1e9, 16-D", build_outlier, 16, 600, SELF, 0.9), .offset = 1e9},
    {CASE("clusters 20-D", build_clusters, 20, 700, SELF, -0.05)},
    {CASE("clusters 48-D, one way", build_clusters, 48, 400, SELF, -0.05), ONE_WAY},
    {CASE("8-D, 2049 points", build_uniform, 8, 2049, SELF, -0.002)},
    {CASE("16-D, 129 against 1025", build_uniform, 16, 129, 1025, -0.01)},
    {CASE("96-D, two sets", build_uniform, 96, 70, 300, -0.02)},
    {CASE("300-D", build_uniform, 300, 150, SELF, -0.05)},
};

enum { ENTRIES = sizeof entries / sizeof *entries };

uint32_t case_count(void) {
  return 2 * (ENTRIES + knn_entry_count + metric_entry_count);
}

/* SplitMix64: every seed is a good seed. */
uint64_t case_random(join_case *c) {
  uint64_t x = c->random += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

double case_random_unit(join_case *c) {
  return (double)(case_random(c) >> 11) * 0x1p-53;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A radius that finds about this share of all pairs. It is the distance of a pair, so at least one pair lies on the
 * edge of the ball, as near as rounding allows. */
static double radius_for_share(join_case *c, double share) {
  enum { SAMPLES = 1000 };
  double values[SAMPLES];
  const point_set *other = c->self_join ? &c->left : &c->right;
  adj_join_spec spec = case_spec(c);
  if (!c->left.count || !other->count) return 0;
  for (int i = 0; i < SAMPLES; i++) {
    uint64_t a = case_random(c) % c->left.count, b = case_random(c) % other->count;
    if (c->self_join && a == b) b = (b + 1) % other->count;
    values[i] = reference_value(&spec, c->left.type, row_of(&c->left, a), row_of(other, b), c->left.dim);
  }
  qsort(values, SAMPLES, sizeof *values, by_size);
  double value = values[(int)fmin(share * SAMPLES, SAMPLES - 1)];
  /* L2 distances are rounded after the root, so the root in double is nearer to the edge. Powers overflow early, but
   * the radius of a range join must be finite. */
  double radius = c->metric == ADJ_L2 ? sqrt(value) : reference_distance(&spec, c->left.type, value);
  return fmax(-DBL_MAX, fmin(radius, DBL_MAX));
}

static bool allocate(point_set *set, adj_type type, uint32_t dim, uint64_t count) {
  *set = (point_set){.type = type, .dim = dim, .count = count};
  set->data = calloc(count * dim + 1, type_size(type));
  return set->data != NULL;
}

static bool make_box(join_case *c, const case_entry *entry) {
  if (entry->box == 0) return true;
  c->box_count = entry->uneven_box ? entry->dim : 1;
  c->box = calloc(c->box_count, sizeof *c->box);
  for (uint32_t j = 0; c->box && j < c->box_count; j++)
    c->box[j] = j % 3 == 0 ? entry->box : j % 3 == 1 ? entry->box / 2 : 0;
  return c->box != NULL;
}

adj_join_spec case_spec(const join_case *c) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = c->k ? ADJ_KNN : ADJ_RANGE;
  spec.k = c->k;
  spec.radius = c->radius;
  spec.metric = c->metric;
  spec.p = c->p;
  spec.angle = c->angle;
  spec.unit = c->unit;
  spec.box = c->box;
  spec.box_count = c->box_count;
  spec.flags = c->flags;
  spec.radii = c->radii;
  spec.radius_count = c->radii ? c->left.count : 0;
  return spec;
}

bool case_build_entry(const case_entry *entry, adj_type type, uint64_t seed, join_case *out) {
  join_case c = {.self_join = entry->right == SELF,
                 .k = entry->k,
                 .radius = entry->radius,
                 .metric = entry->metric ? entry->metric : ADJ_L2,
                 .p = entry->p,
                 .angle = entry->angle,
                 .unit = entry->unit,
                 .flags = entry->flags,
                 .random = seed};
  uint64_t right = c.self_join ? 0 : entry->right;
  c.quick = (uint64_t)entry->left * (c.self_join ? entry->left : right) * entry->dim <= 500000;
  snprintf(c.name, sizeof c.name, "%s, %s", entry->name, type == ADJ_F64 ? "f64" : "f32");
  if (!allocate(&c.left, type, entry->dim, entry->left) || !allocate(&c.right, type, entry->dim, right) ||
      !make_box(&c, entry)) {
    case_free(&c);
    return false;
  }
  entry->build(&c, entry);
  fit_points(&c);
  if (c.metric == ADJ_DOT && isfinite(c.radius))
    c.radius = c.radius > 0 ? c.radius - 1 : radius_for_share(&c, -c.radius);
  else if (c.radius < 0)
    c.radius = radius_for_share(&c, -c.radius);
  *out = c;
  return true;
}

bool case_build(uint32_t index, join_case *out) {
  uint32_t number = index / 2;
  const case_entry *entry = number < ENTRIES                     ? &entries[number]
                            : number < ENTRIES + knn_entry_count ? &knn_entries[number - ENTRIES]
                                                                 : &metric_entries[number - ENTRIES - knn_entry_count];
  return case_build_entry(entry, index % 2 ? ADJ_F64 : ADJ_F32, index, out);
}

void case_free(join_case *c) {
  free(c->left.data);
  free(c->right.data);
  free(c->box);
  c->left.data = c->right.data = NULL;
  c->box = NULL;
}
