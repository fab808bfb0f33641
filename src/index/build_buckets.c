/* SPDX-License-Identifier: MIT
 *
 * Builds an index in few dimensions: points are moved together with their coordinates, twice.
 *
 *   1. Cell numbers are computed, and the points of each slice of rows in each bucket are counted. A bucket has
 *      consecutive cell numbers with the same leading bits. If a sample shows that points lie unevenly, buckets of
 *      equal population are used instead.
 *   2. Records of the points (row, the low bits of its cell number, coordinates) are moved to their buckets.
 *   3. Each bucket, which fits a cache, is sorted by cell. Its ids and coordinates are written to their places.
 *   4. The cells of all buckets are written, one after the other.
 *
 * So memory is read and written in order, except for what is in a cache. Sorting row numbers and gathering the
 * coordinates from scattered rows took half as long again.
 */
#include <string.h>

#include "data/dataset.h"
#include "index/build_private.h"

enum { RECORD_HEADER = 2, MOST_ROW_BYTES = 24 }; /* header of a record: row number, low bits; coordinates follow */
enum { BUCKET_POINTS = 1024, MOST_BUCKET_BITS = 11, MORE_BUCKET_BITS = 12, MANY_POINTS = 1 << 22 };
/* For the largest sets: larger buckets would leave the cache, and more buckets would leave it while records are
 * moved. */
enum { MOST_BITS = 14, MOST_POINTS = 1 << 14 };
enum { BIN_BITS = 4, BIN_SAMPLE = 16, SAMPLED_ROWS = 16, UNEVEN = 4 };
enum { SMALL_BUCKET = 2048, SMALL_DIGIT = 9, MOST_DIGIT = 11, MOST_PASSES = 4 };
enum { LARGE_BUCKET = 1 << 15 };

typedef struct buckets {
  adji_build *b;
  uint32_t bits;    /* leading bits of a cell number that tell plain buckets apart */
  uint32_t shift;   /* bin of a cell number: key >> shift */
  uint64_t count;   /* number of buckets */
  uint32_t *bucket; /* bucket of each bin; NULL: each bin is a bucket */
  uint64_t *firsts; /* the first cell number of each bucket, and the end of the last one */
  uint32_t *places; /* per slice, one per bucket: number of points; later, the place of the next one */
  uint32_t *starts; /* first position of each bucket; at the end the number of points */
  uint32_t *cells;  /* cells per bucket; later, cells in earlier buckets */
  uint64_t *keys;   /* cell numbers of rows, in the memory for coordinates */
  uint32_t *records;
  uint32_t words;    /* words per record */
  uint32_t largest;  /* points of the largest bucket */
  uint64_t *scratch; /* per lane: twice largest items, and as many cells */
} buckets;

/* ---- 1. Cell numbers ---------------------------------------------------------------------------- */

/* Counts the points of a sample in each bin, from rows all over the set. Returns the size of the sample. */
static uint64_t sample_bins(const buckets *k, uint32_t *bins) {
  uint64_t rows = k->b->count, keys[ADJI_KEY_BLOCK];
  uint64_t blocks = (BIN_SAMPLE << k->bits) / SAMPLED_ROWS, step = rows / blocks, sampled = 0;
  if (step < SAMPLED_ROWS) step = SAMPLED_ROWS;
  for (uint64_t begin = 0; begin + SAMPLED_ROWS <= rows; begin += step, sampled += SAMPLED_ROWS) {
    adji_number_block(k->b, begin, begin + SAMPLED_ROWS, keys);
    for (int i = 0; i < SAMPLED_ROWS; i++)
      bins[keys[i] >> k->shift]++;
  }
  return sampled;
}

/* Whether buckets of equal ranges of cell numbers hold about as many points each. */
static bool plain_is_even(const buckets *k, const uint32_t *bins, uint64_t bin_bits, uint64_t sampled) {
  uint64_t each = UINT64_C(1) << (bin_bits - k->bits);
  for (uint64_t i = 0; i < UINT64_C(1) << k->bits; i++) {
    uint64_t many = 0;
    for (uint64_t j = 0; j < each; j++)
      many += bins[i * each + j];
    if (many > UNEVEN * (sampled >> k->bits)) return false;
  }
  return true;
}

/* Joins bins into buckets of about equal population. Cell numbers of a bucket share their upper 32 bits, so that
 * records need only the lower ones. */
static void join_bins(buckets *k, uint64_t bins, uint64_t sampled) {
  uint64_t target = sampled >> k->bits, many = 0;
  k->count = 0;
  k->firsts[0] = 0;
  for (uint64_t i = 0; i < bins; i++) {
    uint64_t first = i << k->shift, own = k->bucket[i];
    if (i && (many + own > target || first >> 32 != k->firsts[k->count] >> 32)) {
      k->firsts[++k->count] = first;
      many = 0;
    }
    many += own;
    k->bucket[i] = (uint32_t)k->count;
  }
  k->firsts[++k->count] = bins << k->shift;
}

static void plain_buckets(buckets *k) {
  k->shift = k->b->grid->key_bits - k->bits;
  k->count = UINT64_C(1) << k->bits;
  for (uint64_t i = 0; i <= k->count; i++)
    k->firsts[i] = i << k->shift;
}

static uint32_t bin_bits(const buckets *k) {
  uint32_t bits = k->bits + BIN_BITS, most = k->b->grid->key_bits;
  return bits < most ? bits : most;
}

/* Chooses the buckets. In small sets any bucket fits a cache. */
static adj_status choose_buckets(buckets *k) {
  adji_memory *memory = &k->b->ctx->memory;
  bool can_be_plain = k->b->grid->key_bits <= 32 + k->bits, small = k->b->count < MANY_POINTS;
  uint32_t bits = bin_bits(k);
  uint64_t bins = UINT64_C(1) << bits;
  k->shift = k->b->grid->key_bits - bits;
  k->firsts = adji_alloc(memory, bins + 1, sizeof *k->firsts, "buckets");
  if (!k->firsts) return ADJ_E_MEMORY;
  if (can_be_plain && small) {
    plain_buckets(k);
    return ADJ_OK;
  }
  k->bucket = adji_alloc_zero(memory, bins, sizeof *k->bucket, "buckets");
  if (!k->bucket) return ADJ_E_MEMORY;
  uint64_t sampled = sample_bins(k, k->bucket);
  if (!can_be_plain || !plain_is_even(k, k->bucket, bits, sampled)) {
    join_bins(k, bins, sampled);
    return ADJ_OK;
  }
  adji_free(memory, k->bucket);
  k->bucket = NULL;
  plain_buckets(k);
  return ADJ_OK;
}

static inline __attribute__((always_inline)) uint64_t bucket_of(const uint32_t *bucket, uint32_t shift, uint64_t key) {
  return bucket ? bucket[key >> shift] : key >> shift;
}

static adj_status number_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const buckets *k = user;
  uint32_t *counts = k->places + slice * k->count;
  uint64_t begin, end, next;
  adji_slice(k->b->count, k->b->slices, slice, &begin, &end);
  for (; begin < end; begin = next) {
    next = adji_number_block(k->b, begin, end, k->keys + begin);
    if (k->bucket)
      for (uint64_t i = begin; i < next; i++)
        counts[k->bucket[k->keys[i] >> k->shift]]++;
    else
      for (uint64_t i = begin; i < next; i++)
        counts[k->keys[i] >> k->shift]++;
  }
  return ADJ_OK;
}

/* Turns counts into places. */
static void place_buckets(buckets *k) {
  uint32_t at = 0;
  for (uint64_t i = 0; i < k->count; i++) {
    k->starts[i] = at;
    for (uint64_t slice = 0; slice < k->b->slices; slice++) {
      uint32_t *place = &k->places[slice * k->count + i], many = *place;
      *place = at;
      at += many;
    }
    if (at - k->starts[i] > k->largest) k->largest = at - k->starts[i];
  }
  k->starts[k->count] = at;
}

/* ---- 2. Records to buckets ------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) void move_rows(const buckets *k, uint64_t begin, uint64_t end,
                                                            uint32_t *places, const size_t bytes,
                                                            const uint32_t *bucket) {
  const adj_dataset *set = k->b->set;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t key = k->keys[i];
    uint32_t *to = k->records + (uint64_t)places[bucket_of(bucket, k->shift, key)]++ * (RECORD_HEADER + bytes / 4);
    to[0] = (uint32_t)i;
    to[1] = (uint32_t)key;
    memcpy(to + RECORD_HEADER, set->data + i * set->row_stride, bytes);
  }
}

static adj_status move_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const buckets *k = user;
  uint32_t *places = k->places + slice * k->count;
  uint64_t begin, end;
  adji_slice(k->b->count, k->b->slices, slice, &begin, &end);
  switch ((k->words - RECORD_HEADER) * 4) {
#define ROWS_OF(bytes)                                    \
  case bytes:                                             \
    if (k->bucket)                                        \
      move_rows(k, begin, end, places, bytes, k->bucket); \
    else                                                  \
      move_rows(k, begin, end, places, bytes, NULL);      \
    break;
    ROWS_OF(8)
    ROWS_OF(12)
    ROWS_OF(16)
    ROWS_OF(20)
    ROWS_OF(24)
#undef ROWS_OF
    default:
      break;
  }
  return ADJ_OK;
}

/* ---- 3. Sorting the buckets ------------------------------------------------------------------------- */

/* Digits of the low bits of cell numbers, counted from the bucket's first cell number. */
typedef struct digits {
  uint32_t first;
  uint32_t passes, bits;
  uint32_t places[MOST_PASSES][1 << MOST_DIGIT];
} digits;

/* Computes the places of the digits of one pass. */
static void count_digits(const buckets *k, const uint32_t *records, uint32_t count, digits *d, uint32_t pass) {
  const uint32_t bits = d->bits, mask = (1u << bits) - 1, shift = pass * bits, first = d->first;
  uint32_t *places = d->places[pass];
  const uint64_t words = k->words, end = count * words;
  memset(places, 0, sizeof *places << bits);
  for (uint64_t i = 1; i < end; i += words)
    places[(records[i] - first) >> shift & mask]++;
  for (uint32_t v = 0, at = 0; v <= mask; v++) {
    uint32_t many = places[v];
    places[v] = at;
    at += many;
  }
}

static void choose_digits(const buckets *k, uint64_t bucket, const uint32_t *records, uint32_t count, digits *d) {
  uint32_t most = count < SMALL_BUCKET ? SMALL_DIGIT : MOST_DIGIT;
  uint64_t numbers = k->firsts[bucket + 1] - k->firsts[bucket];
  uint32_t bits = numbers > 1 ? 64 - (uint32_t)__builtin_clzll(numbers - 1) : 0;
  d->first = (uint32_t)k->firsts[bucket];
  d->passes = bits ? (bits + most - 1) / most : 1;
  d->bits = (bits + d->passes - 1) / d->passes;
  for (uint32_t p = 0; p < d->passes; p++)
    count_digits(k, records, count, d, p);
}

/* Sorts the items of a bucket: low bits above the number of a record. The first pass makes the items. */
static const uint64_t *sort_items(const buckets *k, const uint32_t *records, uint32_t count, digits *d,
                                  uint64_t *items) {
  uint64_t *from = items, *to = items + k->largest;
  const uint32_t bits = d->bits, mask = (1u << bits) - 1;
  const uint64_t words = k->words;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t low = records[i * words + 1] - d->first;
    from[d->places[0][low & mask]++] = (uint64_t)low << 32 | i;
  }
  for (uint32_t p = 1; p < d->passes; p++) {
    uint32_t *places = d->places[p];
    for (uint32_t i = 0; i < count; i++) {
      uint64_t item = from[i];
      to[places[item >> (32 + p * bits) & mask]++] = item;
    }
    uint64_t *exchange = from;
    from = to;
    to = exchange;
  }
  return from;
}

/* Writes ids and coordinates to their places, and the low bits and beginnings of cells to `cells`. Returns the number
 * of cells. There is no branch for cells: every point writes its cell. */
#define WRITE_POINTS(T)                                                                                \
  static inline __attribute__((always_inline))                                                         \
  uint32_t write_points_##T(const buckets *k, const uint32_t *records, uint32_t begin, uint32_t count, \
                            const uint64_t *items, uint32_t *cells, const uint32_t dim) {              \
    const adji_view *view = &k->b->index->view;                                                        \
    uint32_t *ids = (uint32_t *)view->ids + begin;                                                     \
    T *coords = (T *)view->coords + begin;                                                             \
    const uint64_t words = RECORD_HEADER + dim * sizeof(T) / 4, stride = view->stride;                 \
    uint32_t at = 0, before = (uint32_t)(items[0] >> 32), start = begin;                               \
    for (uint32_t i = 0; i < count; i++) {                                                             \
      uint32_t low = (uint32_t)(items[i] >> 32);                                                       \
      const uint32_t *record = records + (uint32_t)items[i] * words;                                   \
      bool is_new = low != before;                                                                     \
      start = is_new ? begin + i : start;                                                              \
      at += is_new;                                                                                    \
      cells[2 * (size_t)at] = before = low;                                                            \
      cells[2 * (size_t)at + 1] = start;                                                               \
      ids[i] = record[0];                                                                              \
      for (uint32_t j = 0; j < dim; j++)                                                               \
        memcpy(&coords[j * stride + i], record + RECORD_HEADER + j * sizeof(T) / 4, sizeof(T));        \
    }                                                                                                  \
    return at + 1;                                                                                     \
  }                                                                                                    \
                                                                                                       \
  /* Kernels rely on finite coordinates: a point must be at distance 0 of itself. */                   \
  static bool finite_##T(const adji_view *view, uint32_t begin, uint32_t count) {                      \
    int not_finite = 0;                                                                                \
    for (uint32_t j = 0; j < view->dim; j++) {                                                         \
      const T *x = (const T *)view->coords + j * view->stride + begin;                                 \
      for (uint32_t i = 0; i < count; i++)                                                             \
        not_finite |= !adji_is_finite(x[i]);                                                           \
    }                                                                                                  \
    return !not_finite;                                                                                \
  }
WRITE_POINTS(float)
WRITE_POINTS(double)

static uint32_t write_bucket(const buckets *k, const uint32_t *records, uint32_t begin, uint32_t count,
                             const uint64_t *items, uint32_t *cells) {
  switch (k->b->set->dim + (k->b->set->type == ADJ_F64 ? 16 : 0)) {
#define DIMS(number, T, dims) \
  case number:                \
    return write_points_##T(k, records, begin, count, items, cells, dims);
    DIMS(2, float, 2)
    DIMS(3, float, 3)
    DIMS(4, float, 4)
    DIMS(5, float, 5)
    DIMS(6, float, 6)
    DIMS(17, double, 1)
    DIMS(18, double, 2)
    DIMS(19, double, 3)
#undef DIMS
    default:
      return 0;
  }
}

/* Sorts a bucket. Its cells overwrite its first records. */
static adj_status order_bucket(void *user, uint64_t number, uint32_t lane) {
  const buckets *k = user;
  const adji_view *view = &k->b->index->view;
  uint32_t begin = k->starts[number], count = k->starts[number + 1] - begin;
  uint32_t *records = k->records + (uint64_t)begin * k->words;
  uint64_t *items = k->scratch + lane * (3 * (uint64_t)k->largest);
  uint32_t *cells = (uint32_t *)(items + 2 * (uint64_t)k->largest);
  digits d;
  if (!count) return ADJ_OK;
  choose_digits(k, number, records, count, &d);
  k->cells[number] = write_bucket(k, records, begin, count, sort_items(k, records, count, &d, items), cells);
  memcpy(records, cells, 2 * (uint64_t)k->cells[number] * sizeof *cells);
  bool finite = k->b->set->type == ADJ_F64 ? finite_double(view, begin, count) : finite_float(view, begin, count);
  return finite ? ADJ_OK : adji_points_changed();
}

/* ---- 4. Cells ----------------------------------------------------------------------------------------- */

static adj_status write_cells(void *user, uint64_t number, uint32_t lane) {
  (void)lane;
  const buckets *k = user;
  const uint32_t *from = k->records + (uint64_t)k->starts[number] * k->words;
  uint64_t first = k->firsts[number];
  for (uint32_t to = k->cells[number]; to < k->cells[number + 1]; to++, from += 2) {
    k->b->index->cell_keys[to] = first + from[0];
    k->b->index->cell_starts[to] = from[1];
  }
  return ADJ_OK;
}

static adj_status make_cells(const buckets *k) {
  uint32_t total = 0;
  for (uint64_t i = 0; i <= k->count; i++) {
    uint32_t many = k->cells[i];
    k->cells[i] = total;
    total += many;
  }
  adj_status status = adji_build_cells(k->b, total);
  return status ? status : adji_loop(k->b->ctx, k->count, write_cells, (void *)k);
}

/* ---- The whole build -------------------------------------------------------------------------------- */

/* Bytes in use at once: coordinates, ids, records; per thread the largest bucket that are_even() allows; counts. */
static uint64_t most_bytes(const buckets *k) {
  uint64_t point = 4 * (uint64_t)k->words + k->b->set->dim * (uint64_t)adji_type_size(k->b->set->type) + 4;
  uint64_t threads = k->b->ctx->threads, largest = k->b->count < LARGE_BUCKET ? k->b->count : LARGE_BUCKET;
  if (largest < k->b->count / (2 * threads)) largest = k->b->count / (2 * threads);
  uint64_t most = UINT64_C(1) << bin_bits(k);
  return k->b->count * point + 3 * sizeof *k->scratch * largest * threads + 4 * most * (k->b->slices + 2) + 12 * most;
}

static bool suits(const buckets *k) {
  const adj_dataset *set = k->b->set;
  size_t size = adji_type_size(set->type), bytes = set->dim * size;
  return !k->b->options->images && k->bits && k->b->grid->key_bits <= 32 + bin_bits(k) && set->column_stride == size &&
         bytes >= 8 && bytes <= MOST_ROW_BYTES && adji_fits(&k->b->ctx->memory, most_bytes(k));
}

/* Whether no bucket has too many points. Such a bucket would keep one thread busy while the others wait, and take more
 * memory than planned. */
static bool are_even(const buckets *k) {
  return k->largest <= LARGE_BUCKET || k->largest < k->b->count / (2 * (uint64_t)k->b->ctx->threads);
}

static adj_status number_points(buckets *k) {
  adji_memory *memory = &k->b->ctx->memory;
  adj_status status = choose_buckets(k);
  if (status) return status;
  k->places = adji_alloc_zero(memory, k->b->slices * k->count, sizeof *k->places, "buckets");
  k->starts = adji_alloc(memory, k->count + 1, sizeof *k->starts, "buckets");
  k->cells = adji_alloc_zero(memory, k->count + 1, sizeof *k->cells, "buckets");
  if (!k->places || !k->starts || !k->cells) return ADJ_E_MEMORY;
  status = adji_build_coords(k->b);
  k->keys = (uint64_t *)(void *)k->b->index->view.coords;
  if (!status) status = adji_loop(k->b->ctx, k->b->slices, number_slice, k);
  if (!status) place_buckets(k);
  return status;
}

static adj_status order_points(buckets *k) {
  adji_build *b = k->b;
  adji_memory *memory = &b->ctx->memory;
  k->records = adji_alloc(memory, adji_mul(b->count, k->words), sizeof *k->records, "records of points");
  k->scratch = adji_alloc(memory, 3 * (uint64_t)k->largest * b->ctx->threads, sizeof *k->scratch, "buckets");
  if (!k->records || !k->scratch) return ADJ_E_MEMORY;
  adj_status status = adji_loop(b->ctx, b->slices, move_slice, k);
  if (!status) adji_clear_slack(b); /* its memory held keys */
  if (!status) status = adji_build_ids(b);
  if (!status) status = adji_loop(b->ctx, k->count, order_bucket, k);
  return status ? status : make_cells(k);
}

static uint32_t bucket_bits(const adji_build *b) {
  uint32_t most = b->count < MANY_POINTS ? MOST_BUCKET_BITS : MORE_BUCKET_BITS, bits = 0;
  while (most < MOST_BITS && b->count >> most > MOST_POINTS)
    most++;
  while (bits < most && bits < b->grid->key_bits && b->count >> bits > BUCKET_POINTS)
    bits++;
  return bits;
}

adj_status adji_build_buckets(adji_build *b, bool *done) {
  buckets k = {.b = b, .bits = bucket_bits(b)};
  k.words = RECORD_HEADER + (uint32_t)(b->set->dim * adji_type_size(b->set->type) / 4);
  *done = suits(&k);
  if (!*done) return ADJ_OK;
  adj_status status = number_points(&k);
  *done = status || are_even(&k);
  if (!status && *done) status = order_points(&k);
  void *blocks[] = {k.bucket, k.firsts, k.places, k.starts, k.cells, k.records, k.scratch};
  for (int i = 0; i < 7; i++)
    adji_free(&b->ctx->memory, blocks[i]);
  if (*done) return status;
  adji_free(&b->ctx->memory, (void *)b->index->view.coords);
  b->index->view.coords = NULL;
  return status;
}
