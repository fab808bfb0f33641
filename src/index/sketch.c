/* SPDX-License-Identifier: MIT
 *
 * Sketches: how they are made, and the proofs of their bounds.
 */
#include "index/sketch.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "distance/measure.h"

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef struct packing {
  const adj_dataset *set;
  char *to;
} packing;

enum { ROWS_A_TASK = 1024 };

static adj_status pack_rows(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const packing *p = user;
  const adj_dataset *set = p->set;
  size_t size = adji_type_size(set->type);
  uint64_t end = (task + 1) * ROWS_A_TASK < set->count ? (task + 1) * ROWS_A_TASK : set->count;
  for (uint64_t i = task * ROWS_A_TASK; i < end; i++)
    for (uint32_t j = 0; j < set->dim; j++)
      memcpy(p->to + (i * set->dim + j) * size, set->data + i * set->row_stride + j * set->column_stride, size);
  return ADJ_OK;
}

adj_status adji_packed_init(adj_ctx *ctx, const adj_dataset *set, adji_packed *out) {
  size_t size = adji_type_size(set->type);
  *out = (adji_packed){.ctx = ctx, .type = set->type, .dim = set->dim, .count = set->count};
  out->rows = set->data;
  out->stride = set->row_stride / size;
  if (set->column_stride == size && set->row_stride % size == 0) return ADJ_OK;
  out->copy = adji_alloc(&ctx->memory, adji_mul(set->count, set->dim), size, "points row by row");
  if (!out->copy) return ADJ_E_MEMORY;
  out->rows = out->copy;
  out->stride = set->dim;
  packing p = {set, out->copy};
  return adji_loop(ctx, (set->count + ROWS_A_TASK - 1) / ROWS_A_TASK, pack_rows, &p);
}

void adji_packed_clear(adji_packed *packed) {
  if (packed->ctx) adji_free(&packed->ctx->memory, packed->copy);
  *packed = (adji_packed){0};
}

/* z = x - centre in f64: one rounding, relative to z. */
static void centre_row(adj_type type, const void *row, const double *centre, uint32_t dim, double *z) {
  if (type == ADJ_F64) {
    for (uint32_t j = 0; j < dim; j++)
      z[j] = ((const double *)row)[j] - centre[j];
  } else {
    for (uint32_t j = 0; j < dim; j++)
      z[j] = (double)((const float *)row)[j] - centre[j];
  }
}

/* ---- Sketches of one row --------------------------------------------------------------------- */

/* The measures of one row's sketch. With codes, norm_sq and sum are integers, which a double holds exactly. */
typedef struct shape {
  double error_sq; /* |z - z^|^2 */
  double norm_sq;  /* with codes: in steps */
  double sum;      /* sum of the codes */
} shape;

enum { MOST_CODE = 127 };

/* Rounds to the nearest integer, for |q| < 2^51. Compilers can vectorise this form. */
static inline double round_to_integer(double q) {
  return (q + 0x1.8p52) - 0x1.8p52;
}

static shape code_row(const double *z, uint32_t dim, double step, int8_t *codes) {
  shape s = {0, 0, 0};
  double inverse = 1 / step;
  for (uint32_t j = 0; j < dim; j++) {
    double q = z[j] * inverse;
    q = q > MOST_CODE ? MOST_CODE : q;
    q = q < -MOST_CODE ? -MOST_CODE : q;
    q = round_to_integer(q);
    double rest = z[j] - q * step;
    codes[j] = (int8_t)q;
    s.error_sq += rest * rest;
    s.norm_sq += q * q;
    s.sum += q;
  }
  return s;
}

static shape round_row(const double *z, uint32_t dim, float *to) {
  shape s = {0, 0, 0};
  for (uint32_t j = 0; j < dim; j++) {
    to[j] = (float)z[j];
    double rounded = (double)to[j], rest = z[j] - rounded;
    s.error_sq += rest * rest;
    s.norm_sq += rounded * rounded;
  }
  return s;
}

/* An upper bound of |z - z^| for the exact z. Each remainder was computed from a z with an error of 2^-53 |z| and a
 * product q * step with an error of 2^-53 of itself. With codes both are at most 128 steps, unless z is outside their
 * range; there the remainder is so large that the factor covers the error. With f32, either |z| is at most 2^24 times
 * its rounding error, or the rounding is exact. Even then the subtraction before it may not be exact, so its error is
 * added for the whole row. Sums of squares have an error below 2^-30 of themselves. */
static double error_bound(const adji_sketch *sketch, shape s) {
  double noise = sketch->prefilter->codes ? 0x1p-44 * sketch->step * sqrt((double)sketch->dim)
                                          : 0x1p-50 * sqrt(s.norm_sq) + 0x1p-149 * sqrt((double)sketch->dim);
  return sqrt(s.error_sq) * (1 + 0x1p-20) + noise;
}

/* ---- Scale ----------------------------------------------------------------------------------- */

enum { SAMPLE_ROWS = 1024, FEWEST_ROWS = 128, SAMPLE_SHARE = 16, SAMPLE_ENTRIES = 1 << 20, SCALES = 10 };
static const double SMALLER = 0.85; /* ratio of each scale to the previous one */

static const void *sampled_row(const adji_packed *points, uint64_t count, uint64_t i) {
  uint64_t begin, end;
  adji_slice(points->count, count, i, &begin, &end);
  return adji_packed_row(points, begin + (i * 2654435761u) % (end - begin));
}

/* The mean of a sample. Any finite centre is correct; a good one makes the sketches small. */
static void find_centre(adji_sketch *sketch, const adji_packed *points, uint64_t count) {
  double *sum = sketch->centre;
  for (uint32_t j = 0; j < sketch->dim; j++)
    sum[j] = 0;
  for (uint64_t i = 0; i < count; i++) {
    const void *row = sampled_row(points, count, i);
    for (uint32_t j = 0; j < sketch->dim; j++) {
      double x = points->type == ADJ_F64 ? ((const double *)row)[j] : (double)((const float *)row)[j];
      sum[j] += x / (double)count;
    }
  }
}

/* The largest error of the sample's rows, with codes of this step. */
static double worst_error(const adji_sketch *sketch, const double *sample, uint64_t rows, double step, int8_t *codes) {
  double worst_sq = 0;
  for (uint64_t i = 0; i < rows; i++) {
    double error_sq = code_row(sample + i * sketch->dim, sketch->dim, step, codes).error_sq;
    if (!(error_sq <= worst_sq)) worst_sq = error_sq;
  }
  return sqrt(worst_sq);
}

/* Chooses the step of the codes. A step that reaches the farthest coordinate of the sample wastes codes if that
 * coordinate is an outlier; a smaller step clips coordinates. The best step has the smallest worst error: a stray costs
 * as much as a thousand pairs of codes, so strays should be rare. Returns that error, or infinity if no step works. */
static double find_step(adji_sketch *sketch, const double *sample, uint64_t rows, int8_t *codes) {
  double widest = 0, best = INFINITY;
  for (uint64_t i = 0; i < rows * sketch->dim; i++)
    widest = fabs(sample[i]) > widest ? fabs(sample[i]) : widest;
  double step = widest / MOST_CODE / SMALLER;
  for (int i = 0; i < SCALES; i++) {
    step *= SMALLER;
    if (!(step > 0x1p-400 && step < 0x1p400)) continue; /* squares of remainders must neither vanish nor overflow */
    double error = worst_error(sketch, sample, rows, step, codes);
    if (!(error < best)) continue;
    best = error;
    sketch->step = step;
  }
  return best;
}

/* Chooses centre and step, and the error above which a point is a stray. */
static adj_status find_scale(adji_sketch *sketch, const adji_packed *points) {
  adji_memory *memory = &sketch->ctx->memory;
  uint64_t rows = SAMPLE_ENTRIES / sketch->dim + 1;
  uint64_t few = points->count / SAMPLE_SHARE > FEWEST_ROWS ? points->count / SAMPLE_SHARE : FEWEST_ROWS;
  if (rows > SAMPLE_ROWS) rows = SAMPLE_ROWS;
  if (rows > few) rows = few;
  if (rows > points->count) rows = points->count;
  double *sample = adji_alloc(memory, (rows + 1) * sketch->dim, sizeof *sample, "sample of points");
  int8_t *codes = adji_alloc(memory, sketch->dim, 1, "sample of points");
  adj_status status = sample && codes ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) {
    find_centre(sketch, points, rows);
    for (uint64_t i = 0; i < rows; i++)
      centre_row(points->type, sampled_row(points, rows, i), sketch->centre, sketch->dim, sample + i * sketch->dim);
    sketch->most_error = sketch->prefilter->codes ? 1.5 * find_step(sketch, sample, rows, codes) : INFINITY;
  }
  adji_free(memory, sample);
  adji_free(memory, codes);
  return status;
}

/* ---- Sketches of all rows -------------------------------------------------------------------- */

enum { POINTS_A_TASK = 512 };

typedef struct part {
  double error, norm_sq;
  uint64_t strays;
} part;

typedef struct build {
  adji_sketch *sketch;
  const adji_packed *points;
  part *parts;     /* per task */
  double *scratch; /* per lane: a row and its sketch */
} build;

/* Writes the words of a sketch to its lane of its block. */
static void place_words(adji_sketch *sketch, uint64_t position, const uint32_t *words) {
  char *to = sketch->blocks +
             (position / ADJI_SKETCH_BLOCK * sketch->groups * ADJI_SKETCH_BLOCK + position % ADJI_SKETCH_BLOCK) * 4;
  for (uint64_t g = 0; g < sketch->groups; g++)
    memcpy(to + g * 4 * ADJI_SKETCH_BLOCK, &words[g], 4);
}

static void sketch_point(const build *b, uint64_t i, double *z, part *to) {
  adji_sketch *sketch = b->sketch;
  bool codes = sketch->prefilter->codes;
  uint32_t *words = (uint32_t *)(void *)(z + sketch->dim);
  memset(words, 0, (uint64_t)sketch->groups * 4); /* pads the last group */
  centre_row(sketch->type, adji_packed_row(b->points, i), sketch->centre, sketch->dim, z);
  shape s = codes ? code_row(z, sketch->dim, sketch->step, (int8_t *)words)
                  : round_row(z, sketch->dim, (float *)(void *)words);
  double error = error_bound(sketch, s);
  if (!(error <= sketch->most_error) || !(s.norm_sq < 1e37)) {
    sketch->minus[i] = codes ? (adji_value){.code = ADJI_ABSENT} : (adji_value){.f32 = -INFINITY};
    to->strays++;
    return; /* the words stay 0 */
  }
  if (codes) {
    for (uint32_t g = 0; g < sketch->groups; g++)
      words[g] ^= 0x80808080u; /* + 128 */
    sketch->minus[i].code = -(int32_t)(s.norm_sq / 2);
    sketch->errors[i] = error;
    sketch->bases[i] = (int32_t)(s.norm_sq + 256 * s.sum);
  } else {
    sketch->minus[i].f32 = -(float)(s.norm_sq / 2);
  }
  place_words(sketch, i, words);
  if (error > to->error) to->error = error;
  if (s.norm_sq > to->norm_sq) to->norm_sq = s.norm_sq;
}

/* Entries of f64 that hold a row and its sketch. */
static uint64_t scratch_of(const adji_sketch *sketch) {
  return sketch->dim + (sketch->groups + 1) / 2;
}

static adj_status sketch_points(void *user, uint64_t task, uint32_t lane) {
  const build *b = user;
  const adji_sketch *sketch = b->sketch;
  uint64_t begin = task * POINTS_A_TASK, end = begin + POINTS_A_TASK;
  double *z = b->scratch + lane * scratch_of(sketch);
  part task_part = {0, 0, 0};
  for (uint64_t i = begin; i < end && i < sketch->count; i++)
    sketch_point(b, i, z, &task_part);
  b->parts[task] = task_part;
  return ADJ_OK;
}

static adj_status list_strays(adji_sketch *sketch) {
  sketch->strays = adji_alloc(&sketch->ctx->memory, sketch->stray_count, sizeof *sketch->strays, "strays");
  if (!sketch->strays) return ADJ_E_MEMORY;
  uint32_t listed = 0;
  for (uint64_t i = 0; i < sketch->count && listed < sketch->stray_count; i++) {
    adji_value minus = sketch->minus[i];
    bool stray = sketch->prefilter->codes ? minus.code == ADJI_ABSENT : isinf(minus.f32);
    if (stray) sketch->strays[listed++] = (uint32_t)i;
  }
  return ADJ_OK;
}

/* Sketches all points, once centre and step are known. */
static adj_status sketch_all(build *b) {
  adji_sketch *sketch = b->sketch;
  adji_memory *memory = &sketch->ctx->memory;
  uint64_t room = (sketch->count + ADJI_TILE_MULTIPLE - 1) / ADJI_TILE_MULTIPLE * ADJI_TILE_MULTIPLE;
  uint64_t tasks = (sketch->count + POINTS_A_TASK - 1) / POINTS_A_TASK;
  sketch->blocks = adji_alloc_zero(memory, adji_mul(room, sketch->groups), 4, "sketches of points");
  sketch->minus = adji_alloc_zero(memory, room, sizeof *sketch->minus, "sketches of points");
  b->parts = adji_alloc(memory, tasks, sizeof *b->parts, "sketches of points");
  b->scratch =
      adji_alloc(memory, adji_mul(scratch_of(sketch), sketch->ctx->threads), sizeof *b->scratch, "sketches of points");
  bool codes = sketch->prefilter->codes;
  if (codes) sketch->errors = adji_alloc(memory, sketch->count, sizeof *sketch->errors, "sketches of points");
  if (codes) sketch->bases = adji_alloc(memory, sketch->count, sizeof *sketch->bases, "sketches of points");
  bool allocated = sketch->blocks && sketch->minus && b->parts && b->scratch;
  if (codes) allocated = allocated && sketch->errors && sketch->bases;
  adj_status status = allocated ? adji_loop(sketch->ctx, tasks, sketch_points, b) : ADJ_E_MEMORY;
  double norm_sq = 0;
  uint64_t strays = 0;
  for (uint64_t t = 0; t < tasks && !status; t++) {
    if (b->parts[t].error > sketch->error) sketch->error = b->parts[t].error;
    if (b->parts[t].norm_sq > norm_sq) norm_sq = b->parts[t].norm_sq;
    strays += b->parts[t].strays;
  }
  sketch->norm = sqrt(norm_sq) * (1 + 0x1p-20);
  sketch->stray_count = (uint32_t)strays;
  if (!status) status = list_strays(sketch);
  adji_free(memory, b->parts);
  adji_free(memory, b->scratch);
  return status;
}

adj_status adji_sketch_init(adj_ctx *ctx, const adji_packed *points, const adji_prefilter_sketch *prefilter,
                            adji_sketch *out, bool *useful) {
  *useful = false;
  uint32_t most_dim = prefilter->codes ? ADJI_CODES_MAX_DIM : ADJI_SKETCH_MAX_DIM;
  *out = (adji_sketch){.ctx = ctx, .prefilter = prefilter, .type = points->type, .dim = points->dim};
  if (!points->count || points->dim > most_dim) return ADJ_OK;
  uint64_t begin_ns = adji_now_ns();
  out->count = points->count;
  out->groups = adji_sketch_groups(prefilter->codes, points->dim);
  out->step = 1;
  out->centre = adji_alloc(&ctx->memory, points->dim, sizeof *out->centre, "sketches of points");
  build b = {.sketch = out, .points = points};
  adj_status status = out->centre ? find_scale(out, points) : ADJ_E_MEMORY;
  bool scaled = !status && (out->most_error < INFINITY || !prefilter->codes);
  if (scaled) status = sketch_all(&b);
  *useful = !status && scaled && out->stray_count <= out->count / 8;
  if (!*useful) adji_sketch_clear(out);
  adji_trace(ctx, "sketch", 0, begin_ns, points->count);
  return status;
}

adj_status adji_sketch_init_like(adj_ctx *ctx, const adji_packed *points, const adji_sketch *scale, adji_sketch *out) {
  uint64_t begin_ns = adji_now_ns();
  *out = (adji_sketch){.ctx = ctx, .prefilter = scale->prefilter, .type = scale->type, .dim = scale->dim};
  out->count = points->count;
  out->groups = scale->groups;
  out->step = scale->step;
  out->most_error = scale->most_error;
  out->centre = adji_alloc(&ctx->memory, out->dim, sizeof *out->centre, "sketches of points");
  if (!out->centre) return ADJ_E_MEMORY;
  memcpy(out->centre, scale->centre, out->dim * sizeof *out->centre);
  build b = {.sketch = out, .points = points};
  adj_status status = sketch_all(&b);
  if (status) adji_sketch_clear(out);
  adji_trace(ctx, "sketch", 0, begin_ns, points->count);
  return status;
}

void adji_sketch_clear(adji_sketch *sketch) {
  if (!sketch->ctx) return;
  adji_memory *memory = &sketch->ctx->memory;
  adji_free(memory, sketch->centre);
  adji_free(memory, sketch->blocks);
  adji_free(memory, sketch->minus);
  adji_free(memory, sketch->errors);
  adji_free(memory, sketch->bases);
  adji_free(memory, sketch->strays);
  *sketch = (adji_sketch){0};
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

void adji_sketch_query_init(const adji_sketch *sketch, const void *row, double *scratch, void *words,
                            adji_sketch_query *out) {
  memset(words, 0, (uint64_t)sketch->groups * 4);
  centre_row(sketch->type, row, sketch->centre, sketch->dim, scratch);
  bool codes = sketch->prefilter->codes;
  shape s = codes ? code_row(scratch, sketch->dim, sketch->step, words) : round_row(scratch, sketch->dim, words);
  *out = (adji_sketch_query){.error = (error_bound(sketch, s) + sketch->error) * (1 + 0x1p-40)};
  if (codes) {
    out->base.code = (int32_t)(s.norm_sq + 256 * s.sum);
    return;
  }
  out->base.f32 = (float)s.norm_sq;
  double both = sqrt(s.norm_sq) * (1 + 0x1p-20) + sketch->norm;
  out->noise = (sketch->dim + 16.0) * 0x1.4p-24 * both * both + sketch->dim * 0x1p-120;
  if (!(s.norm_sq < 1e37)) { /* products would overflow: this sketch proves nothing */
    memset(words, 0, (uint64_t)sketch->groups * 4);
    out->base.f32 = 0;
    out->error = INFINITY;
  }
}

void adji_sketch_query_like(const adji_sketch *sketch, const adji_sketch *from, uint64_t point, void *words,
                            adji_sketch_query *out) {
  const char *block = from->blocks + (point / ADJI_SKETCH_BLOCK * from->groups * ADJI_SKETCH_BLOCK +  //
                                      point % ADJI_SKETCH_BLOCK) *
                                         4;
  *out = (adji_sketch_query){.error = (from->errors[point] + sketch->error) * (1 + 0x1p-40)};
  out->base.code = from->bases[point];
  for (uint64_t g = 0; words && g < from->groups; g++) {
    uint32_t word;
    memcpy(&word, block + g * 4 * ADJI_SKETCH_BLOCK, 4);
    word ^= 0x80808080u; /* - 128 */
    memcpy((char *)words + g * 4, &word, 4);
  }
}

/* The largest squared distance of sketches, in units of the value, for a pair whose canonical sum is at most `sum`. */
static double most_value(const adji_sketch *sketch, const adji_sketch_query *query, double sum) {
  adji_sum_error c = adji_sum_error_of(sketch->type, sketch->dim);
  double farthest = sqrt(sum * c.factor + c.least) * (1 + 0x1p-50) + query->error;
  double steps = farthest / sketch->step;
  return steps * steps * (1 + 0x1p-40) + query->noise;
}

uint32_t adji_sketch_most(const adji_sketch *sketch, const adji_sketch_query *query, double sum) {
  double value = most_value(sketch, query, sum);
  if (sketch->prefilter->codes) return value < 0x1p30 ? (uint32_t)value + 1 : UINT32_C(1) << 30;
  adji_value f32 = {.f32 = value < FLT_MAX ? nextafterf((float)value, INFINITY) : INFINITY};
  return (uint32_t)f32.code;
}

adji_value adji_sketch_least(const adji_sketch *sketch, const adji_sketch_query *query, double sum) {
  double value = most_value(sketch, query, sum);
  if (sketch->prefilter->codes) {
    /* base - 2C <= value iff C >= (base - value) / 2. */
    if (!(value < 0x1p29)) return (adji_value){.code = ADJI_LEAST_ALL};
    return (adji_value){.code = (query->base.code - (int32_t)value) >> 1};
  }
  if (!(value < 1e38)) return (adji_value){.f32 = -FLT_MAX};
  float least = (float)(((double)query->base.f32 - value) / 2);
  return (adji_value){.f32 = nextafterf(least, -INFINITY)};
}

double adji_sketch_sum(const adji_sketch *sketch, const adji_sketch_query *query, uint32_t value) {
  double squared;
  if (sketch->prefilter->codes) {
    squared = (double)value + 1; /* half of a norm was rounded down */
  } else {
    adji_value f32 = {.code = (int32_t)value};
    squared = (double)f32.f32 + query->noise;
  }
  adji_sum_error c = adji_sum_error_of(sketch->type, sketch->dim);
  double farthest = sqrt(squared) * sketch->step * (1 + 0x1p-40) + query->error;
  double sum = farthest * farthest * c.factor * (1 + 0x1p-40) + c.least;
  return sketch->type == ADJ_F32 && sum > FLT_MAX ? INFINITY : sum;
}
