/* SPDX-License-Identifier: MIT
 *
 * Datasets. They come from a reader, a generator or the caller's memory, and are checked in one parallel pass.
 */
#include "data/dataset.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- The check: finite, and the bounds -------------------------------------------------------- */

typedef struct scan {
  const adj_dataset *set;
  uint64_t pieces;
  double *bounds; /* per piece: dim lows, dim highs */
} scan;

/* Extends the bounds by rows [begin, end). Packed points are processed in strips of as many whole rows as fit, or of
 * part of a row. Each place in the strip has its own bound, so the compiler can use vectors. Four strips are processed
 * at a time, because loads and stores of the bounds would otherwise cost more than the points. x - x is 0 for finite x
 * and NaN otherwise, so the sum of these differences is 0 iff all coordinates are finite. */
enum { STRIP = 192, FETCH_BYTES = 1 << 17 };

static bool is_packed(const adj_dataset *set) {
  return set->column_stride == adji_type_size(set->type) && set->row_stride == set->dim * set->column_stride;
}

#define SCAN_ROWS(T)                                                                                                \
  typedef struct strip_##T {                                                                                        \
    T low[STRIP], high[STRIP], bad[STRIP];                                                                          \
  } strip_##T;                                                                                                      \
                                                                                                                    \
  static inline T lesser_##T(T a, T b) {                                                                            \
    return a < b ? a : b;                                                                                           \
  }                                                                                                                 \
                                                                                                                    \
  static inline T greater_##T(T a, T b) {                                                                           \
    return a > b ? a : b;                                                                                           \
  }                                                                                                                 \
                                                                                                                    \
  static inline void scan_value_##T(T x, uint32_t j, strip_##T *s) {                                                \
    s->bad[j] += x - x;                                                                                             \
    s->low[j] = lesser_##T(x, s->low[j]);                                                                           \
    s->high[j] = greater_##T(x, s->high[j]);                                                                        \
  }                                                                                                                 \
                                                                                                                    \
  static void scan_strip_##T(const char *at, uint64_t stride, uint32_t many, strip_##T *s) {                        \
    if (stride == sizeof(T))                                                                                        \
      for (uint32_t j = 0; j < many; j++)                                                                           \
        scan_value_##T(((const T *)at)[j], j, s);                                                                   \
    else                                                                                                            \
      for (uint32_t j = 0; j < many; j++, at += stride)                                                             \
        scan_value_##T(*(const T *)at, j, s);                                                                       \
  }                                                                                                                 \
                                                                                                                    \
  static void scan_four_##T(const char *at, uint64_t step, uint32_t many, strip_##T *s) {                           \
    const T *restrict x = (const T *)at, *restrict y = (const T *)(at + step);                                      \
    const T *restrict z = (const T *)(at + 2 * step), *restrict w = (const T *)(at + 3 * step);                     \
    T *restrict low = s->low, *restrict high = s->high, *restrict bad = s->bad;                                     \
    for (uint32_t j = 0; j < many; j++) {                                                                           \
      bad[j] += (x[j] - x[j]) + (y[j] - y[j]) + ((z[j] - z[j]) + (w[j] - w[j]));                                    \
      low[j] = lesser_##T(lesser_##T(lesser_##T(x[j], y[j]), lesser_##T(z[j], w[j])), low[j]);                      \
      high[j] = greater_##T(greater_##T(greater_##T(x[j], y[j]), greater_##T(z[j], w[j])), high[j]);                \
    }                                                                                                               \
  }                                                                                                                 \
                                                                                                                    \
  /* Columns [first, first + part). */                                                                              \
  static void scan_columns_##T(const adj_dataset *set, uint64_t begin, uint64_t end, uint32_t first, uint32_t part, \
                               uint32_t rows, strip_##T *s) {                                                       \
    const char *at = set->data + begin * set->row_stride + first * set->column_stride;                              \
    uint64_t step = rows * set->row_stride;                                                                         \
    for (uint64_t remaining = end - begin; remaining;) {                                                            \
      bool four = is_packed(set) && remaining / 4 >= rows;                                                          \
      uint32_t many = four ? 4 * rows : remaining < rows ? (uint32_t)remaining : rows;                              \
      if (four)                                                                                                     \
        scan_four_##T(at, step, rows *part, s);                                                                     \
      else                                                                                                          \
        scan_strip_##T(at, set->column_stride, many *part, s);                                                      \
      at += many * set->row_stride;                                                                                 \
      remaining -= many;                                                                                            \
    }                                                                                                               \
  }                                                                                                                 \
                                                                                                                    \
  static bool scan_rows_##T(const adj_dataset *set, uint64_t begin, uint64_t end, double *low, double *high) {      \
    bool finite = true;                                                                                             \
    uint32_t dim = set->dim, rows = is_packed(set) && dim > 0 && dim < STRIP ? STRIP / dim : 1;                     \
    for (uint32_t first = 0; first < dim; first += STRIP) {                                                         \
      strip_##T s;                                                                                                  \
      uint32_t part = dim - first < STRIP ? dim - first : STRIP;                                                    \
      for (uint32_t j = 0; j < STRIP; j++) {                                                                        \
        s.low[j] = (T)INFINITY;                                                                                     \
        s.high[j] = (T)-INFINITY;                                                                                   \
        s.bad[j] = 0;                                                                                               \
      }                                                                                                             \
      scan_columns_##T(set, begin, end, first, part, rows, &s);                                                     \
      for (uint32_t j = 0; j < rows * part; j++) {                                                                  \
        finite = finite && s.bad[j] == 0;                                                                           \
        low[first + j % part] = fmin(low[first + j % part], (double)s.low[j]);                                      \
        high[first + j % part] = fmax(high[first + j % part], (double)s.high[j]);                                   \
      }                                                                                                             \
    }                                                                                                               \
    return finite;                                                                                                  \
  }
SCAN_ROWS(float)
SCAN_ROWS(double)

adj_status adji_points_changed(void) {
  return adji_fail(ADJ_E_DATA, "the points changed during the call: nobody may write to them while they are read");
}

static adj_status name_bad_value(const adj_dataset *set, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin; i < end; i++)
    for (uint32_t j = 0; j < set->dim; j++) {
      double x = adji_dataset_at(set, i, j);
      if (!isfinite(x))
        return adji_fail(ADJ_E_DATA, "row %llu, column %u: %s is not a finite coordinate",
                         (unsigned long long)(set->first_row + i) + 1, j + 1, isnan(x) ? "NaN" : "infinity");
    }
  return adji_points_changed(); /* the scan found one */
}

static adj_status scan_piece(void *user, uint64_t piece, uint32_t lane) {
  (void)lane;
  scan *job = user;
  const adj_dataset *set = job->set;
  uint64_t begin, end;
  adji_slice(set->count, job->pieces, piece, &begin, &end);
  double *low = job->bounds + piece * 2 * set->dim, *high = low + set->dim;
  for (uint32_t j = 0; j < set->dim; j++) {
    low[j] = INFINITY;
    high[j] = -INFINITY;
  }
  uint64_t rows = end - begin;
  if (set->fetch && rows > FETCH_BYTES / set->row_stride + 1) rows = FETCH_BYTES / set->row_stride + 1;
  for (uint64_t at = begin; at < end; at += rows) {
    if (rows > end - at) rows = end - at;
    adj_status status = set->fetch ? set->fetch(set->fetch_from, at * set->row_stride, rows * set->row_stride) : ADJ_OK;
    if (status) return status;
    bool finite = set->type == ADJ_F64 ? scan_rows_double(set, at, at + rows, low, high)
                                       : scan_rows_float(set, at, at + rows, low, high);
    if (!finite) return name_bad_value(set, at, at + rows);
  }
  return ADJ_OK;
}

/* The number of pieces of the scan. Few, because the bounds of all are combined. Data that is fetched is cut at huge
 * pages, so that files are read nearly in order; but the bounds of a piece must stay small compared with its rows. */
static uint64_t count_pieces(const adj_dataset *set) {
  uint64_t few = 4 * (uint64_t)set->ctx->threads, pieces = set->count * set->dim / 65536 + 1;
  if (set->fetch) {
    uint64_t pages = set->count * set->row_stride / ADJI_HUGE_PAGE;
    if (pages > set->count / 256) pages = set->count / 256;
    if (few < pages) few = pages;
  }
  if (pieces > few) pieces = few;
  return pieces < set->count ? pieces : set->count;
}

static adj_status check_and_bound(adj_dataset *set) {
  adj_ctx *ctx = set->ctx;
  uint32_t dim = set->dim;
  if (!set->count) return ADJ_OK; /* low and high are 0 */
  uint64_t pieces = count_pieces(set);
  scan job = {set, pieces, adji_alloc(&ctx->memory, pieces * 2, dim * sizeof(double), "bounds")};
  if (!job.bounds) return ADJ_E_MEMORY;
  adj_status status = adji_loop(ctx, pieces, scan_piece, &job);
  for (uint32_t j = 0; !status && j < dim; j++) {
    set->low[j] = INFINITY;
    set->high[j] = -INFINITY;
    for (uint64_t p = 0; p < pieces; p++) {
      double *low = job.bounds + p * 2 * dim;
      set->low[j] = fmin(set->low[j], low[j]);
      set->high[j] = fmax(set->high[j], low[dim + j]);
    }
  }
  adji_free(&ctx->memory, job.bounds);
  return status;
}

/* ---- Create and destroy --------------------------------------------------------------------------- */

adj_status adji_check_shape(adj_type type, uint32_t dim, uint64_t count) {
  if (type != ADJ_F32 && type != ADJ_F64)
    return adji_fail(ADJ_E_ARGUMENT, "type: %d is neither ADJ_F32 nor ADJ_F64", (int)type);
  if (dim < 1 || dim > 1u << 24) return adji_fail(ADJ_E_ARGUMENT, "dim: %u dimensions are not between 1 and 2^24", dim);
  if (count > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_ARGUMENT, "count: %llu points are more than the %llu a dataset can hold",
                     (unsigned long long)count, (unsigned long long)ADJ_MAX_COUNT);
  if (adji_mul(count, (uint64_t)dim * 8) >> 60)
    return adji_fail(ADJ_E_ARGUMENT, "count, dim: %llu x %u coordinates exceed any machine", (unsigned long long)count,
                     dim);
  return ADJ_OK;
}

static void forget(adj_dataset *set) {
  adji_free(&set->ctx->memory, set->low);
  adji_free(&set->ctx->memory, set->scale);
  free(set);
}

adj_status adji_dataset_adopt(adj_ctx *ctx, const adji_dataset_parts *parts, adj_dataset **out) {
  adj_status status = adji_check_shape(parts->type, parts->dim, parts->count);
  if (status) return status;
  adj_dataset *set = calloc(1, sizeof *set);
  if (!set) return adji_fail(ADJ_E_MEMORY, "no memory for a dataset");
  *set = *parts;
  set->ctx = ctx;
  if (!set->column_stride) set->column_stride = adji_type_size(set->type);
  if (!set->row_stride) set->row_stride = set->dim * set->column_stride;
  set->low = adji_alloc_zero(&ctx->memory, 2 * (uint64_t)set->dim, sizeof(double), "bounds");
  set->high = set->low ? set->low + set->dim : NULL;
  uint64_t begin = adji_now_ns();
  status = set->low ? check_and_bound(set) : ADJ_E_MEMORY;
  if (status) {
    set->scale = NULL; /* still the caller's */
    forget(set);
    return status;
  }
  set->fetch = NULL;
  adji_trace(ctx, "check", 0, begin, set->count);
  *out = set;
  return ADJ_OK;
}

void adji_release_block(adj_dataset *dataset) {
  adji_free(&dataset->ctx->memory, dataset->owner);
}

void adji_release_mapping(adj_dataset *dataset) {
  munmap(dataset->owner, dataset->owner_bytes);
}

void adj_dataset_destroy(adj_dataset *dataset) {
  if (!dataset) return;
  adji_memory *memory = &dataset->ctx->memory;
  if (dataset->release) dataset->release(dataset);
  adji_free(memory, dataset->label_text);
  adji_free(memory, dataset->label_ends);
  adji_free(memory, dataset->columns);
  forget(dataset);
}

ADJI_DEFINE_INIT(adj_points, .type = ADJ_F32, .ownership = ADJ_COPY)

typedef struct copying {
  const adji_dataset_parts *from;
  char *to;
  adj_type type; /* of the output, if converted */
} copying;

static void copy_slice(void *user, uint64_t begin, uint64_t end) {
  const copying *job = user;
  const adji_dataset_parts *from = job->from;
  size_t size = adji_type_size(from->type), row_bytes = from->dim * size;
  bool contiguous = from->column_stride == size;
  for (uint64_t i = begin; i < end; i++) {
    const char *row = from->data + i * from->row_stride;
    char *to = job->to + i * row_bytes;
    if (contiguous)
      memcpy(to, row, row_bytes);
    else
      for (uint32_t j = 0; j < from->dim; j++)
        memcpy(to + j * size, row + j * from->column_stride, size);
  }
}

/* ADJ_COPY: copies the points to packed rows, whatever their strides. On failure parts->owner has the block to free. */
static adj_status copy_points(adj_ctx *ctx, adji_dataset_parts *parts) {
  char *copy = adji_alloc(&ctx->memory, parts->count * parts->dim, adji_type_size(parts->type), "points");
  if (!copy) return ADJ_E_MEMORY;
  copying job = {.from = parts, .to = copy};
  parts->owner = copy;
  adj_status status = adji_loop_slices(ctx, parts->count, parts->count * parts->dim / 65536 + 1, copy_slice, &job);
  if (status) return status;
  parts->data = copy;
  parts->release = adji_release_block;
  parts->row_stride = parts->column_stride = 0;
  return ADJ_OK;
}

adj_status adj_dataset_create(adj_ctx *ctx, const adj_points *points, adj_dataset **out) {
  adj_points given;
  adj_points_init(&given, sizeof given);
  if (!ctx || !points || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, points and out: none may be NULL");
  adj_status status = adji_take_struct(&given, sizeof given, points, "adj_points");
  if (!status) status = adji_check_shape(given.type, given.dim, given.count);
  if (status) return status;
  if (given.count && !given.data) return adji_fail(ADJ_E_ARGUMENT, "points: data is NULL");
  size_t size = adji_type_size(given.type);
  adji_dataset_parts parts = {.type = given.type, .dim = given.dim, .count = given.count, .data = given.data};
  parts.column_stride = given.column_stride ? given.column_stride : size;
  parts.row_stride = given.row_stride ? given.row_stride : given.dim * parts.column_stride;
  if (parts.row_stride % size || parts.column_stride % size)
    return adji_fail(ADJ_E_ARGUMENT, "row_stride, column_stride: %llu and %llu are not multiples of %zu",
                     (unsigned long long)parts.row_stride, (unsigned long long)parts.column_stride, size);
  if (given.ownership != ADJ_COPY && given.ownership != ADJ_BORROW)
    return adji_fail(ADJ_E_ARGUMENT, "ownership: %d is neither ADJ_COPY nor ADJ_BORROW", (int)given.ownership);
  adji_call outer = adji_call_begin(&ctx->cancels);
  if (given.ownership == ADJ_COPY) status = copy_points(ctx, &parts);
  if (!status) status = adji_dataset_adopt(ctx, &parts, out);
  adji_call_set(outer);
  if (status) adji_free(&ctx->memory, parts.owner);
  return status;
}

/* ---- Another type ---------------------------------------------------------------------------------- */

static void convert_slice(void *user, uint64_t begin, uint64_t end) {
  const copying *job = user;
  const adj_dataset *from = job->from;
  uint64_t at = begin * from->dim;
  for (uint64_t i = begin; i < end; i++)
    for (uint32_t j = 0; j < from->dim; j++, at++) {
      double x = adji_dataset_at(from, i, j);
      if (job->type == ADJ_F64)
        ((double *)(void *)job->to)[at] = x;
      else
        ((float *)(void *)job->to)[at] = (float)x;
    }
}

/* Copies a block; NULL if there is none, or if there is no memory, which sets *status. */
static void *copy_block(adj_ctx *ctx, const void *from, uint64_t bytes, const char *block_name, adj_status *status) {
  if (!from || *status) return NULL;
  void *copy = adji_alloc(&ctx->memory, bytes, 1, block_name);
  if (!copy) *status = ADJ_E_MEMORY;
  return copy ? memcpy(copy, from, bytes) : NULL;
}

/* On failure the caller frees what parts holds. */
static adj_status convert_parts(const adj_dataset *set, adj_type type, adji_dataset_parts *parts) {
  adj_ctx *ctx = set->ctx;
  uint64_t labels = set->label_ends && set->count ? set->label_ends[set->count - 1] : 0;
  *parts = (adji_dataset_parts){.type = type, .dim = set->dim, .count = set->count, .release = adji_release_block};
  parts->owner = adji_alloc(&ctx->memory, set->count * set->dim, adji_type_size(type), "points");
  parts->data = parts->owner;
  adj_status status = parts->owner ? ADJ_OK : ADJ_E_MEMORY;
  parts->label_ends = copy_block(ctx, set->label_ends, set->count * sizeof *set->label_ends, "labels", &status);
  parts->label_text = copy_block(ctx, set->label_text, labels, "labels", &status);
  parts->columns = copy_block(ctx, set->columns, set->columns_bytes, "names of columns", &status);
  parts->columns_bytes = set->columns_bytes;
  parts->first_row = set->first_row;
  parts->all_rows = set->all_rows;
  memcpy(parts->geo, set->geo, sizeof set->geo);
  parts->scale =
      copy_block(ctx, set->scale, 2 * (uint64_t)set->dim * sizeof *set->scale, "scale of the points", &status);
  if (type == ADJ_F64) parts->precision = set->precision ? set->precision : set->type == ADJ_F32 ? FLT_MANT_DIG : 0;
  copying job = {.from = set, .to = parts->owner, .type = type};
  return status ? status : adji_loop_slices(ctx, set->count, set->count * set->dim / 65536 + 1, convert_slice, &job);
}

adj_status adj_dataset_convert(const adj_dataset *dataset, adj_type type, adj_dataset **out) {
  if (!dataset || !out) return adji_fail(ADJ_E_ARGUMENT, "dataset and out: neither may be NULL");
  adj_status status = adji_check_shape(type, dataset->dim, dataset->count);
  if (status) return status;
  adj_ctx *ctx = dataset->ctx;
  adji_dataset_parts parts;
  adji_call outer = adji_call_begin(&ctx->cancels);
  status = convert_parts(dataset, type, &parts);
  if (!status) status = adji_dataset_adopt(ctx, &parts, out);
  adji_call_set(outer);
  if (!status) return ADJ_OK;
  adji_free(&ctx->memory, parts.owner);
  adji_free(&ctx->memory, parts.label_ends);
  adji_free(&ctx->memory, parts.label_text);
  adji_free(&ctx->memory, parts.columns);
  adji_free(&ctx->memory, parts.scale);
  return status;
}

/* ---- Accessors ------------------------------------------------------------------------------------- */

uint64_t adj_dataset_count(const adj_dataset *dataset) {
  return dataset->count;
}
uint32_t adj_dataset_dim(const adj_dataset *dataset) {
  return dataset->dim;
}
adj_type adj_dataset_type(const adj_dataset *dataset) {
  return dataset->type;
}

void adj_dataset_part(const adj_dataset *dataset, uint64_t *first, uint64_t *total) {
  if (first) *first = dataset->first_row;
  if (total) *total = dataset->all_rows ? dataset->all_rows : dataset->count;
}

adj_status adj_dataset_row(const adj_dataset *dataset, uint64_t row, void *out) {
  if (row >= dataset->count)
    return adji_fail(ADJ_E_ARGUMENT, "row: %llu, but the dataset has %llu rows", (unsigned long long)row,
                     (unsigned long long)dataset->count);
  size_t size = adji_type_size(dataset->type);
  for (uint32_t j = 0; j < dataset->dim; j++)
    memcpy((char *)out + j * size, dataset->data + row * dataset->row_stride + j * dataset->column_stride, size);
  return ADJ_OK;
}

void adj_dataset_bounds(const adj_dataset *dataset, uint32_t j, double *low, double *high) {
  *low = j < dataset->dim ? dataset->low[j] : 0;
  *high = j < dataset->dim ? dataset->high[j] : 0;
}

const char *adj_dataset_label(const adj_dataset *dataset, uint64_t row, size_t *length) {
  if (!dataset->label_ends || row >= dataset->count) return NULL;
  uint64_t begin = row ? dataset->label_ends[row - 1] : 0;
  *length = dataset->label_ends[row] - begin;
  return dataset->label_text + begin;
}

const char *adj_dataset_column(const adj_dataset *dataset, uint32_t j) {
  if (!dataset->columns || j >= dataset->dim) return NULL;
  const char *name = dataset->columns;
  while (j--)
    name += strlen(name) + 1;
  return name;
}
