/* SPDX-License-Identifier: MIT
 *
 * Sketches: small copies of points whose dot products are cheap (distance/prefilter_sketch.h), with bounds on how far a
 * sketch is from its point. They are the prefilter of brute force on cores (L2).
 *
 * Coordinates are centred first: z = x - centre_j. A sketch z^ is step * (8-bit integers), or z rounded to f32 (step
 * 1). With e(x) = |z - z^|, for any two points by the triangle inequality
 *
 *   | |x - y| - |x^ - y^| |  <=  e(x) + e(y).
 *
 * So the distance of sketches bounds the distance of the points from both sides. Pairs whose sketches are too far apart
 * cannot belong, and k pairs whose sketches are near bound the k-th smallest distance. sketch.c has the bounds with all
 * roundings. Points with a bad sketch (far outside the range of the codes) are listed as strays: products prove nothing
 * about them, so every stray is a candidate of every query.
 */
#ifndef ADJI_SKETCH_H
#define ADJI_SKETCH_H

#include "data/dataset.h"
#include "distance/prefilter_sketch.h"

/* Coordinates row by row: the dataset's own, or a packed copy if the dataset has another layout. */
typedef struct adji_packed {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  const void *rows; /* row i begins at entry i * stride */
  uint64_t stride;
  void *copy; /* NULL: rows belong to the dataset */
} adji_packed;

adj_status adji_packed_init(adj_ctx *ctx, const adj_dataset *set, adji_packed *out);
void adji_packed_clear(adji_packed *packed);

static inline const void *adji_packed_row(const adji_packed *packed, uint64_t row) {
  return (const char *)packed->rows + row * packed->stride * adji_type_size(packed->type);
}

typedef struct adji_sketch {
  adj_ctx *ctx;
  const adji_prefilter_sketch *prefilter;
  adj_type type;
  uint32_t dim, groups;
  uint64_t count;
  double *centre; /* per dimension */
  double step;
  double most_error; /* a point whose sketch is farther away than this is a stray */
  double error;      /* no sketch is farther from its point, except those of strays */
  double norm;       /* f32: no sketch is longer */
  char *blocks;      /* see distance/prefilter_sketch.h */
  adji_value *minus; /* minus half the squared norm; for strays a value that never passes */
  double *errors;    /* codes: how far each sketch is from its point, at most; unused for strays */
  int32_t *bases;    /* codes: the base of each point as a query; unused for strays */
  uint32_t *strays;
  uint32_t stray_count;
} adji_sketch;

enum { ADJI_CODES_MAX_DIM = 8192, ADJI_SKETCH_MAX_DIM = 1 << 20 };

/* If sketches of this kind prove nothing (too many strays, or values without a scale), *useful is false and out is
 * cleared. Time: one parallel pass. Memory: about dim + 16 bytes per point with codes, 4 * dim + 4 with f32. */
adj_status adji_sketch_init(adj_ctx *ctx, const adji_packed *points, const adji_prefilter_sketch *prefilter,
                            adji_sketch *out, bool *useful);
/* Sketches of other points with the centre and the step of `scale`, so that the same words stand for a point as a query
 * of either. Always succeeds, however many strays there are. */
adj_status adji_sketch_init_like(adj_ctx *ctx, const adji_packed *points, const adji_sketch *scale, adji_sketch *out);
void adji_sketch_clear(adji_sketch *sketch);

/* What a query's sketch proves. */
typedef struct adji_sketch_query {
  double error; /* e(x) + the largest e(y), including roundings */
  double noise; /* f32: bound on the difference between a value and the squared distance of the sketches */
  adji_value base;
} adji_sketch_query;

/* Makes the sketch of a row as a query: writes `groups` words to words. scratch has dim entries. */
void adji_sketch_query_init(const adji_sketch *sketch, const void *row, double *scratch, void *words,
                            adji_sketch_query *out);

/* The same for point `point` of `from`, which has the scale of `sketch` and codes, as a query of `sketch`. words may be
 * NULL. Not for strays. */
void adji_sketch_query_like(const adji_sketch *sketch, const adji_sketch *from, uint64_t point, void *words,
                            adji_sketch_query *out);

/* The smallest product of a candidate whose canonical sum may be at most `sum`. */
adji_value adji_sketch_least(const adji_sketch *sketch, const adji_sketch_query *query, double sum);

/* The largest value (upper half of a key) of a candidate whose canonical sum may be at most `sum`. */
uint32_t adji_sketch_most(const adji_sketch *sketch, const adji_sketch_query *query, double sum);

/* The largest canonical sum of a candidate with this value. */
double adji_sketch_sum(const adji_sketch *sketch, const adji_sketch_query *query, uint32_t value);

#endif
