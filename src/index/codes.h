/* SPDX-License-Identifier: MIT
 *
 * Eight-bit codes of the points of an index: the prefilter of range joins in many dimensions. A dot product of codes
 * costs a sixteenth of the operations of a distance and drops nearly all candidates (distance/prefilter_codes.h).
 *
 * Exactness (L2). Let q(x) be x in steps, q_j = clamp((x_j - low_j) / step, 0, 255), and c(x) its code, q(x) rounded to
 * whole numbers. Clamping never increases a difference. By the triangle inequality over all dimensions,
 *
 *   |c(x) - c(y)|  <=  |q(x) - q(y)| + |c(x) - q(x)| + |c(y) - q(y)|  <=  |x - y| / step + e_left + e_right,
 *
 * where e is the largest |c - q| of any point of a set: at most sqrt(dim) / 2, and about sqrt(dim / 12) for most. A
 * pair that belongs has |x - y| <= W, where W covers the roundings of the canonical sum. So pairs with |c(x) - c(y)|^2
 * > (W / step + e_left + e_right)^2 cannot belong. This is a comparison of integers. All other pairs go to the
 * canonical distance.
 */
#ifndef ADJI_CODES_H
#define ADJI_CODES_H

#include "index/grid.h"

enum { ADJI_CODE_BLOCK = 16, ADJI_CODE_MIN_DIM = 10, ADJI_CODE_MAX_DIM = 8192 };

/* The scale by which coordinates become codes. Both sets of a join share it. */
typedef struct adji_code_scale {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim;
  double *low;      /* per dimension */
  double inverse;   /* 1 / step */
  int64_t reach_sq; /* the largest |c(x) - c(y)|^2 of a pair that may belong, for the largest e there can be */
} adji_code_scale;

/* Codes in blocks of 16 positions: for every 4 dimensions, 16 points x 4 bytes. */
typedef struct adji_codes {
  adj_ctx *ctx;
  uint32_t dim, groups; /* groups of 4 dimensions, the last one padded with 0 */
  uint8_t *bytes;       /* block b, group g: 64 bytes at (b * groups + g) * 64   */
  int32_t *start;       /* per position: see distance/prefilter_codes.h          */
  void *rows;           /* the points row by row, for pairs that pass; NULL: none    */
  double error;         /* e */
} adji_codes;

/* Chooses the scale from a sample, so that a few outliers do not spoil it. *useful: whether the steps of the codes are
 * fine enough for this radius. Fails only if memory runs out. */
adj_status adji_code_scale_init(adj_ctx *ctx, const adj_dataset *set, double limit, adji_code_scale *out, bool *useful);
void adji_code_scale_clear(adji_code_scale *scale);

/* The share of all pairs that pass the codes, from a sample of 512 pairs. */
double adji_code_share(const adji_code_scale *scale, const adj_dataset *left, const adj_dataset *right);

/* rows: also stores the points row by row. Time: one pass. Memory: dim + 4 bytes per point, and dim coordinates with
 * rows. */
adj_status adji_codes_build(adj_ctx *ctx, const adji_index *index, const adji_code_scale *scale, bool rows,
                            adji_codes *out);
void adji_codes_clear(adji_codes *codes);

/* The largest |c(x) - c(y)|^2 of a pair that may belong. limit must be at most the scale's. */
int64_t adji_codes_reach_sq(const adji_code_scale *scale, double limit, const adji_codes *left,
                            const adji_codes *right);

/* Writes the code of one position, as a query of the prefilter, to `words` (`groups` entries). Returns its squared
 * norm; see distance/prefilter_codes.h. */
int64_t adji_codes_query(const adji_codes *codes, uint32_t position, uint32_t *words);

#endif
