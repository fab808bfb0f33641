/* SPDX-License-Identifier: MIT
 *
 * kNN joins in chunks: the pool of rows that are not complete after their search at home, with their lists so far.
 * These rows visit the other pieces of the right set.
 */
#include <math.h>
#include <string.h>

#include "gpu/worker/knn_chunks_private.h"

/* LEAST_ROOM: rows that the pool holds at least. LEAST_BATCH: the least size of a batch that visits. TASKS: of a loop
 * over the rows, per thread. */
enum { LEAST_ROOM = 1024, LEAST_BATCH = 256, TASKS = 8 };

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* Bytes of an entry in a scratch list, for a sum and an id. Lists begin with their sums, so this is a multiple of the
 * size of a sum. */
static uint64_t scratch_entry(const adji_knn_chunks *c) {
  return 2 * (uint64_t)c->type;
}

adj_status adji_knn_pool_open(adji_knn_chunks *c, uint64_t rows) {
  adji_memory *memory = &c->join.ctx->memory;
  adji_knn_pool *p = &c->pool;
  uint64_t k = c->join.k, row = 16 + c->point + k * (4 + c->type), least = rows < LEAST_ROOM ? rows : LEAST_ROOM;
  p->room = adji_memory_available(memory) / 4 / row;
  if (p->room > rows) p->room = rows;
  if (p->room < least) p->room = least;
  c->batch = c->size / 4 > LEAST_BATCH ? c->size / 4 : LEAST_BATCH;
  if (c->batch > p->room) c->batch = p->room;
  atomic_store(&p->count, 0);
  p->rows = adji_alloc(memory, p->room, sizeof *p->rows, "open rows");
  p->lengths = adji_alloc(memory, p->room, sizeof *p->lengths, "open rows");
  p->homes = adji_alloc(memory, p->room, sizeof *p->homes, "open rows");
  p->selected = adji_alloc(memory, p->room, sizeof *p->selected, "open rows");
  p->points = adji_alloc(memory, p->room, c->point, "open rows");
  p->ids = adji_alloc(memory, adji_mul(p->room, k), sizeof *p->ids, "open rows");
  p->sums = adji_alloc(memory, adji_mul(p->room, k), c->type, "open rows");
  c->query_points = adji_alloc(memory, c->batch, c->point, "queries");
  c->query_bounds = adji_alloc(memory, c->batch, c->type, "queries");
  c->scratch =
      adji_alloc(memory, adji_mul(2 * (uint64_t)c->join.ctx->threads, k), scratch_entry(c), "lists of neighbours");
  bool all = p->rows && p->lengths && p->homes && p->selected && p->points && p->ids && p->sums && c->query_points &&
             c->query_bounds && c->scratch;
  return all ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_knn_pool_close(adji_knn_chunks *c) {
  adji_knn_pool *p = &c->pool;
  void *blocks[] = {p->rows, p->lengths, p->homes,        p->selected,     p->points,
                    p->ids,  p->sums,    c->query_points, c->query_bounds, c->scratch};
  for (int i = 0; i < 10; i++)
    adji_free(&c->join.ctx->memory, blocks[i]);
  memset(p, 0, sizeof *p);
  c->query_points = c->query_bounds = c->scratch = NULL;
}

void adji_knn_pool_put(adji_knn_chunks *c, uint64_t at, uint32_t row, uint32_t home, const uint32_t *ids,
                       const void *sums, uint32_t length) {
  adji_knn_pool *p = &c->pool;
  const adj_dataset *set = c->join.left;
  uint64_t k = c->join.k;
  p->rows[at] = row;
  p->homes[at] = home;
  p->lengths[at] = length;
  for (uint32_t j = 0; j < set->dim; j++)
    memcpy(p->points + at * c->point + j * c->type, set->data + row * set->row_stride + j * set->column_stride,
           c->type);
  if (!length) return;
  memcpy(p->ids + at * k, ids, length * sizeof *ids);
  memcpy(p->sums + at * k * c->type, sums, length * c->type);
}

/* ---- Selecting rows that visit a piece --------------------------------------------------------------- */

typedef struct selection {
  adji_knn_chunks *c;
  uint64_t piece, tasks;
  uint64_t *counts; /* of each task */
} selection;

/* A lower bound of the canonical sums between a point and the points of a box: the difference to the nearest face is
 * computed in T, and rounding is monotone (gpu/knn/knn_search.cuh). The faces of the box are coordinates of points, so
 * they are of type T. */
static double least_sum(const adji_knn_chunks *c, const void *point, const double *low, const double *high) {
  uint32_t dim = c->join.left->dim;
  if (c->type == 8) {
    double s = 0;
    for (uint32_t j = 0; j < dim; j++) {
      double x = ((const double *)point)[j], below = low[j] - x, above = x - high[j];
      s = adji_step_f64(&c->measure, s, fmax(fmax(below, above), 0));
    }
    return s;
  }
  float s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    float x = ((const float *)point)[j], below = (float)low[j] - x, above = x - (float)high[j];
    s = adji_step_f32(&c->measure, s, fmaxf(fmaxf(below, above), 0));
  }
  return (double)s;
}

static adj_status select_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const selection *s = user;
  adji_knn_chunks *c = s->c;
  adji_knn_pool *p = &c->pool;
  uint32_t region = c->inner->each[s->piece].region, dim = c->join.left->dim;
  const double *low = c->inner->regions.low + (uint64_t)region * dim,
               *high = c->inner->regions.high + (uint64_t)region * dim;
  uint64_t begin, end, count = 0;
  adji_slice(atomic_load(&p->count), s->tasks, task, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    double bound = adji_knn_bound(c, p->sums + i * c->join.k * c->type, p->lengths[i]);
    if (p->homes[i] != s->piece && least_sum(c, p->points + i * c->point, low, high) <= bound)
      p->selected[begin + count++] = (uint32_t)i;
  }
  s->counts[task] = count;
  return ADJ_OK;
}

/* Lists the rows that may have neighbours in a piece. */
static adj_status select_rows(adji_knn_chunks *c, uint64_t piece, uint64_t *selected) {
  adji_memory *memory = &c->join.ctx->memory;
  adji_knn_pool *p = &c->pool;
  selection s = {c, piece, TASKS * (uint64_t)c->join.ctx->threads, NULL};
  s.counts = adji_alloc(memory, s.tasks, sizeof *s.counts, "open rows");
  if (!s.counts) return ADJ_E_MEMORY;
  adj_status status = adji_loop(c->join.ctx, s.tasks, select_some, &s);
  *selected = 0;
  for (uint64_t task = 0; task < s.tasks && !status; task++) {
    uint64_t begin, end;
    adji_slice(atomic_load(&p->count), s.tasks, task, &begin, &end);
    memmove(p->selected + *selected, p->selected + begin, s.counts[task] * sizeof *p->selected);
    *selected += s.counts[task];
  }
  adji_free(memory, s.counts);
  return status;
}

/* ---- Visits ------------------------------------------------------------------------------------------ */

typedef struct batch_gather {
  adji_knn_chunks *c;
  uint64_t first; /* number of the first selected row */
} batch_gather;

static void gather_queries(void *user, uint64_t begin, uint64_t end) {
  const batch_gather *g = user;
  adji_knn_chunks *c = g->c;
  adji_knn_pool *p = &c->pool;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t at = p->selected[g->first + i];
    double bound = adji_knn_bound(c, p->sums + at * c->join.k * c->type, p->lengths[at]);
    memcpy(c->query_points + i * c->point, p->points + at * c->point, c->point);
    if (c->type == 8)
      ((double *)(void *)c->query_bounds)[i] = bound;
    else
      ((float *)(void *)c->query_bounds)[i] = (float)bound;
  }
}

typedef struct list {
  const uint32_t *ids;
  const void *sums;
  uint32_t count;
} list;

/* Merges two lists, which ascend by (sum, id), into one of up to k entries. A point in both is taken once. Returns the
 * number of entries. */
#define MERGE(T)                                                                                                      \
  static uint32_t merge_##T(uint32_t k, const list *one, const list *other, uint32_t *ids, T *sums) {                 \
    const T *a = one->sums, *b = other->sums;                                                                         \
    uint32_t i = 0, j = 0, n = 0;                                                                                     \
    while (n < k && (i < one->count || j < other->count)) {                                                           \
      bool first =                                                                                                    \
          j == other->count || (i < one->count && (a[i] < b[j] || (!(b[j] < a[i]) && one->ids[i] <= other->ids[j]))); \
      bool both = first && j < other->count && one->ids[i] == other->ids[j];                                          \
      ids[n] = first ? one->ids[i] : other->ids[j];                                                                   \
      sums[n++] = first ? a[i++] : b[j++];                                                                            \
      j += both;                                                                                                      \
    }                                                                                                                 \
    return n;                                                                                                         \
  }
MERGE(float)
MERGE(double)
#undef MERGE

/* Merges the neighbours found for a row of the current batch, which is row selected[row] of the pool, into its list. */
static void merge_row(adji_knn_chunks *c, uint64_t row, const uint32_t *ids, const void *sums, char *scratch) {
  adji_knn_pool *p = &c->pool;
  uint32_t k = c->join.k, found = adji_padded_row_length(ids, k);
  if (!found) return;
  uint64_t at = p->selected[row];
  char *row_sums = p->sums + at * k * c->type;
  uint32_t *length = &p->lengths[at], *row_ids = p->ids + at * k;
  uint32_t *new_ids = (uint32_t *)(void *)(scratch + k * c->type);
  list before = {row_ids, row_sums, *length}, more = {ids, sums, found};
  *length = c->type == 8 ? merge_double(k, &before, &more, new_ids, (double *)(void *)scratch)
                         : merge_float(k, &before, &more, new_ids, (float *)(void *)scratch);
  memcpy(row_ids, new_ids, *length * sizeof *row_ids);
  memcpy(row_sums, scratch, *length * c->type);
}

static void merge_rows(adji_knn_chunks *c, const adji_knn_rows *rows) {
  uint64_t k = c->join.k;
  char *scratch = c->scratch + rows->scratch * k * scratch_entry(c);
  for (uint64_t i = 0; i < rows->count; i++)
    merge_row(c, rows->first + i, rows->ids + i * k, rows->sums + i * k * c->type, scratch);
}

/* Searches for one batch of the selected rows, which are moved to the front of the list. The first batch opens *knn. */
static adj_status visit_batch(adji_knn_chunks *c, uint64_t first, uint64_t count, adji_gpu_knn **knn) {
  adji_knn_pool *p = &c->pool;
  batch_gather g = {c, first};
  adj_status status = adji_loop_slices(c->join.ctx, count, TASKS * (uint64_t)c->join.ctx->threads, gather_queries, &g);
  if (status) return status;
  adj_dataset queries = c->part->set;
  queries.copy_rows = NULL;
  queries.data = c->query_points;
  queries.count = count;
  queries.low = c->join.left->low;
  queries.high = c->join.left->high;
  adji_join join = c->join;
  join.left = &queries;
  join.right = &c->part->set;
  join.self_join = join.style.drop_self = false; /* no row visits its home, where the point itself is */
  join.style.measure = &c->sums;
  join.style.distances = true;
  adji_gpu_knn_options options = c->options;
  options.join = &join;
  options.measure = &c->sums;
  options.right_names = c->part->ids;
  if (c->on_device) adji_knn_use_pick(&c->part->picked, &options);
  options.bounds = c->query_bounds;
  status = *knn ? adji_gpu_knn_ask(*knn, &queries, c->query_bounds) : adji_gpu_knn_open(c->gpu, &options, knn);
  memmove(p->selected, p->selected + first, count * sizeof *p->selected);
  for (uint64_t row = 0; row < count && !status;) {
    adji_knn_found found = {.first = row};
    status = adji_gpu_knn_begin(*knn, row, &found.table);
    if (!status) status = adji_gpu_knn_end(*knn);
    found.end = found.table.end_row;
    if (!status) status = adji_knn_rows_fetch(c, &found, merge_rows);
    if (!status) status = adji_check_cancel(c->join.ctx);
    row = found.end;
  }
  return status;
}

static adj_status visit_piece(adji_knn_chunks *c, uint64_t piece, uint64_t selected) {
  adji_gpu_knn *knn = NULL;
  adj_status status = adji_knn_part_fill(c, c->inner, piece, c->part);
  uint64_t start = adji_now_ns();
  for (uint64_t first = 0; first < selected && !status; first += c->batch) {
    uint64_t count = selected - first < c->batch ? selected - first : c->batch;
    status = visit_batch(c, first, count, &knn);
  }
  if (status) adji_gpu_quiesce(c->gpu);
  adji_knn_chunks_close(c, knn);
  adji_trace(c->join.ctx, "visit", 0, start, selected);
  return status;
}

/* ---- Completion -------------------------------------------------------------------------------------- */

static void place_some(void *user, uint64_t begin, uint64_t end) {
  adji_knn_chunks *c = user;
  adji_knn_pool *p = &c->pool;
  uint64_t pairs = 0, k = c->join.k;
  for (uint64_t i = begin; i < end; i++) {
    adji_knn_row_place(c, p->rows[i], p->ids + i * k, p->sums + i * k * c->type, p->lengths[i]);
    pairs += p->lengths[i];
  }
  atomic_fetch_add(&c->pairs, pairs);
}

/* Replaces distances in the lists by sums, which visits need, since two different sums may have the same root. */
static void sum_up(void *user, uint64_t begin, uint64_t end) {
  adji_knn_chunks *c = user;
  adji_knn_pool *p = &c->pool;
  const adj_dataset *set = c->join.right;
  for (uint64_t i = begin; i < end; i++)
    for (uint64_t at = i * c->join.k; at < i * c->join.k + p->lengths[i]; at++) {
      const char *point = p->points + i * c->point, *other = set->data + p->ids[at] * set->row_stride;
      double s = 0;
      float t = 0;
      for (uint32_t j = 0; j < set->dim; j++, point += c->type, other += set->column_stride) {
        if (c->type == 8)
          s = adji_step_f64(&c->measure, s,
                            *(const double *)(const void *)point - *(const double *)(const void *)other);
        else
          t = adji_step_f32(&c->measure, t, *(const float *)(const void *)point - *(const float *)(const void *)other);
      }
      memcpy(p->sums + at * c->type, c->type == 8 ? (const void *)&s : (const void *)&t, c->type);
    }
}

adj_status adji_knn_pool_flush(adji_knn_chunks *c) {
  adji_knn_pool *p = &c->pool;
  adj_status status = ADJ_OK;
  uint64_t rows = atomic_load(&p->count), selected = 0;
  bool done = false;
  if (!rows) return ADJ_OK;
  c->prefaulted = true; /* rows are about to be placed, which prefaulting might overwrite */
  status = adji_knn_rest_search(c, &done);
  if (!status && !done && c->rooted)
    status = adji_loop_slices(c->join.ctx, rows, TASKS * (uint64_t)c->join.ctx->threads, sum_up, c);
  if (!status && !done) status = adji_knn_inner_make(c);
  for (uint64_t piece = 0; !status && !done && piece < c->inner->count; piece++) {
    status = select_rows(c, piece, &selected);
    if (!status && selected) status = visit_piece(c, piece, selected);
    if (!status) status = adji_run_report(c->run, "join", 0, c->run->tally.pairs + atomic_load(&c->pairs), false);
  }
  if (!status && !done)
    status = adji_loop_slices(c->join.ctx, rows, TASKS * (uint64_t)c->join.ctx->threads, place_some, c);
  atomic_store(&p->count, 0);
  return status;
}
