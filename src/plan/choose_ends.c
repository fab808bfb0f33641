/* SPDX-License-Identifier: MIT
 *
 * Points that thin out towards the edge stretch a grid over cells that are nearly all empty: 2 million points of
 * exponential density with 10 neighbours in a plane have 17 cells per point, one in 40 of them not empty. Then there
 * are too many cells for a directory with an entry for each, and sorting takes one more pass. An axis that ends where
 * only few points lie beyond has a third of the slabs. The points beyond are in the last slab, spread out along the
 * other axes.
 *
 * An end leaves as few rows of the sample beyond it as are needed to make the cells fit, and at most one row in 64. The
 * points beyond must not pile up in one cell, where all would be compared with each other.
 */
#include <math.h>
#include <stdbool.h>

#include "plan/choose.h"

enum { MOST_BEYOND = 32, MOST_AXES = 3 };

/* Points expected beyond an end, at most: even in one cell they would be compared in a fraction of a millisecond. */
static const double MOST_POINTS = 32768;
/* An end is moved only if that removes this share of the axis. */
static const double LEAST_SHARE = 1.0 / 16;

/* An end of an axis: the outermost values of the sample, outermost first; none if the end stays. */
typedef struct tail {
  uint32_t count;
  double values[MOST_BEYOND + 1];
  uint64_t rows[MOST_BEYOND + 1]; /* of these values */
} tail;

/* The `many` outermost values at an end: sign is 1 for the upper end, -1 for the lower one. The end stays if more
 * values are within LEAST_SHARE of it. */
static tail find_tail(const adji_ends *axis, double sign, uint64_t sample, uint32_t many) {
  tail t;
  t.count = 0;
  double from = (sign > 0 ? axis->high : -axis->low) - LEAST_SHARE * (axis->high - axis->low);
  uint64_t near = 0;
  for (uint64_t i = 0; i < sample; i++)
    near += sign * axis->values[i] > from;
  if (near >= many) return t;
  for (uint64_t i = 0; i < sample; i++) {
    double x = sign * axis->values[i];
    if (t.count == many && !(x > t.values[many - 1])) continue;
    uint32_t at = t.count < many ? t.count++ : many - 1;
    for (; at && t.values[at - 1] < x; at--) {
      t.values[at] = t.values[at - 1];
      t.rows[at] = t.rows[at - 1];
    }
    t.values[at] = x;
    t.rows[at] = i;
  }
  return t;
}

typedef struct tails {
  tail low, high;
} tails;

/* The axis after each end that is worth moving has moved inwards, past `beyond` rows of the sample. */
static adji_ends move_ends(const adji_ends *axis, const tails *t, uint32_t beyond) {
  adji_ends moved = *axis;
  double least = LEAST_SHARE * (axis->high - axis->low);
  if (beyond < t->low.count && -t->low.values[beyond] - axis->low >= least) moved.low = -t->low.values[beyond];
  if (beyond < t->high.count && axis->high - t->high.values[beyond] >= least) moved.high = t->high.values[beyond];
  return moved.low < moved.high ? moved : *axis;
}

/* Counts the unused numbers at the end of each axis too: as many as neighbours reach, up to 8. */
static double count_cells(const adji_ends *axes, uint32_t axis_count) {
  double cells = 1;
  for (uint32_t a = 0; a < axis_count; a++)
    cells *= floor((axes[a].high - axes[a].low) / axes[a].slab) + 9;
  return cells;
}

static double slab_of(const adji_ends *axis, uint64_t row) {
  return floor((fmin(fmax(axis->values[row], axis->low), axis->high) - axis->low) / axis->slab);
}

/* Whether many of the rows beyond are in one cell: more pairs of them than chance would explain. */
static bool has_crowded_cell(const adji_ends *axes, const tails *t, uint32_t axis_count, uint32_t beyond) {
  enum { ROWS = 2 * MOST_AXES * MOST_BEYOND, MOST_PAIRS = 4 };
  double slabs[ROWS][MOST_AXES];
  uint64_t rows[ROWS];
  uint32_t count = 0, pairs = 0;
  for (uint32_t end = 0; end < 2 * axis_count; end++) {
    const tail *from = end % 2 ? &t[end / 2].high : &t[end / 2].low;
    for (uint32_t i = 0; i < beyond && i < from->count; i++, count++) {
      rows[count] = from->rows[i];
      for (uint32_t a = 0; a < axis_count; a++)
        slabs[count][a] = slab_of(&axes[a], rows[count]);
      for (uint32_t k = 0; k < count; k++) {
        bool same = rows[k] != rows[count];
        for (uint32_t a = 0; a < axis_count; a++)
          same = same && slabs[k][a] == slabs[count][a];
        pairs += same;
      }
    }
  }
  return pairs > MOST_PAIRS;
}

static void move_all_ends(const adji_ends *axes, const tails *t, uint32_t axis_count, uint32_t beyond,
                          adji_ends *moved) {
  for (uint32_t a = 0; a < axis_count; a++)
    moved[a] = move_ends(&axes[a], &t[a], beyond);
}

/* As few rows as make the cells fit. If the cells never fit: half of `most` if that halves the cells, otherwise
 * none. */
static uint32_t choose_beyond(const adji_ends *axes, const tails *t, uint32_t axis_count, uint32_t most, double room) {
  adji_ends moved[MOST_AXES];
  double with_none = 0, with_half = 0;
  for (uint32_t beyond = 0; beyond <= most; beyond++) {
    move_all_ends(axes, t, axis_count, beyond, moved);
    double cells = count_cells(moved, axis_count);
    if (cells <= room) return beyond;
    if (beyond == 0) with_none = cells;
    if (beyond == most / 2) with_half = cells;
  }
  return with_half < with_none / 2 ? most / 2 : 0;
}

void adji_choose_ends(adji_ends *axes, uint32_t axis_count, uint64_t sample, uint64_t population, uint64_t room) {
  if (axis_count > MOST_AXES || count_cells(axes, axis_count) <= (double)room) return;
  double each = (double)population / (double)sample;
  if (each > MOST_POINTS) return;
  uint64_t most = sample / 64 < MOST_BEYOND ? sample / 64 : MOST_BEYOND;
  while (most && (double)(most + 1) * each > MOST_POINTS)
    most--;
  tails t[MOST_AXES] = {0};
  adji_ends moved[MOST_AXES];
  for (uint32_t a = 0; a < axis_count; a++)
    t[a] = (tails){find_tail(&axes[a], -1, sample, (uint32_t)most + 1),
                   find_tail(&axes[a], 1, sample, (uint32_t)most + 1)};
  uint32_t beyond = choose_beyond(axes, t, axis_count, (uint32_t)most, (double)room);
  move_all_ends(axes, t, axis_count, beyond, moved);
  while (beyond && has_crowded_cell(moved, t, axis_count, beyond)) {
    beyond /= 2;
    move_all_ends(axes, t, axis_count, beyond, moved);
  }
  for (uint32_t a = 0; a < axis_count; a++)
    axes[a] = moved[a];
}
