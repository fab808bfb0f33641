/* SPDX-License-Identifier: MIT
 *
 * Eight-bit codes of the points of an index: the prefilter of range joins in many dimensions. A dot product of codes
 * costs a sixteenth of the operations of a distance and drops nearly all candidates (distance/prefilter_codes.h).
 *
 * Exactness (L2). The code of a coordinate is floor(q) with q = clamp((x - low_j) / step, 0, 255). So a code is within
 * 1 of q, and the difference of two codes is within 1 of the difference of their q. Clamping never increases a
 * difference. By the triangle inequality over all dimensions,
 *
 *   |x - y| / step  >=  |q_x - q_y|  >=  |c_x - c_y| - sqrt(dim).
 *
 * A pair that belongs has |x - y| <= W, where W covers the roundings of the canonical sum. So pairs with
 * |c_x - c_y|^2 > (W / step + sqrt(dim))^2 cannot belong. This is an exact comparison of integers. All other pairs go
 * to the canonical distance.
 */
#ifndef ADJI_CODES_H
#define ADJI_CODES_H

#include "index/grid.h"

enum { ADJI_CODE_BLOCK = 16, ADJI_CODE_MIN_DIM = 10, ADJI_CODE_MAX_DIM = 8192 };

/* How coordinates become codes. Both sets of a join share it. */
typedef struct adji_code_scale {
  adj_ctx *ctx;
  double *low;      /* per dimension */
  double inverse;   /* 1 / step */
  int64_t reach_sq; /* the largest |c_x - c_y|^2 of a pair that may belong */
} adji_code_scale;

/* Codes in blocks of 16 positions: for every 4 dimensions, 16 points x 4 bytes. */
typedef struct adji_codes {
  adj_ctx *ctx;
  uint32_t dim, groups; /* groups of 4 dimensions, the last one padded with 0 */
  uint8_t *bytes;       /* block b, group g: 64 bytes at (b * groups + g) * 64   */
  int32_t *offset;      /* per position: |c|^2 - 256 * (sum of c)                */
} adji_codes;

/* Chooses the scale from a sample, so that a few outliers do not spoil it. `useful` says whether a step of the codes
 * is fine enough for this radius. Fails only when out of memory. */
adj_status adji_code_scale_init(adj_ctx *ctx, const adj_dataset *set, double limit, adji_code_scale *out, bool *useful);
void adji_code_scale_clear(adji_code_scale *scale);

/* The share of all pairs that the codes let pass, from a sample of 512. */
double adji_code_share(const adji_code_scale *scale, const adj_dataset *left, const adj_dataset *right);

/* Time: one pass. Memory: dim + 4 bytes per point. */
adj_status adji_codes_build(adj_ctx *ctx, const adji_index *index, const adji_code_scale *scale, adji_codes *out);
void adji_codes_clear(adji_codes *codes);

/* Writes the code of one position, as a query of the prefilter, to `words` (`groups` entries). Returns its squared
 * norm; see distance/prefilter_codes.h. */
int64_t adji_codes_query(const adji_codes *codes, uint32_t position, uint32_t *words);

#endif
