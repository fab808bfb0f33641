/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a kNN join: see knn.h.
 *
 * A device alone finds rows in the order of the result, as many at once as it has memory for. Beside the cores it takes
 * lists of queries (lists.c).
 */
#include "gpu/worker/knn.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "gpu/device/staging.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/knn_chunks.h"
#include "gpu/worker/place.h"
#include "result/offsets.h"

/* Bytes of the device for the rows of a list. */
static const uint64_t LIST_BYTES = (uint64_t)512 << 20;

typedef struct knn_device {
  adji_gpu *gpu;
  adji_gpu_knn *knn;
  adji_lent right; /* if its what is NULL, nothing was lent */
  adji_join join;
  uint64_t rows_at_once; /* as requested; 0: as many as a list takes */
  adji_lists lists;
  const adji_pass *pass;
  adji_run *run;
  adji_device_stats reported; /* the part of the join's statistics that was reported already */
} knn_device;

/* ---- Alone ------------------------------------------------------------------------------------------- */

typedef struct row_counter {
  const adji_window *window;
  _Atomic uint64_t pairs;
} row_counter;

static void count_some(void *user, uint64_t begin, uint64_t end) {
  row_counter *c = user;
  uint64_t pairs = 0;
  for (uint64_t row = begin; row < end; row++)
    pairs += adji_padded_row_length(c->window->ids + row * c->window->k, c->window->k);
  atomic_fetch_add(&c->pairs, pairs);
}

/* Counts the pairs of a window. Without a radius, every row is as long as it can be. */
static adj_status count_pairs(const knn_device *d, const adji_window *window, uint64_t *pairs) {
  uint64_t rows = window->end_row - window->first_row;
  row_counter counter = {window, rows * adji_join_reach(&d->join)};
  adj_status status = ADJ_OK;
  if (d->join.limits || d->join.limit < (double)INFINITY) {
    atomic_store(&counter.pairs, 0);
    status = adji_each_row(d->join.ctx, rows, count_some, &counter);
  }
  *pairs = atomic_load(&counter.pairs);
  return status;
}

/* Ids and distances of the rows from first on: where they are on the device, and where they go. Returns the number of
 * arrays. */
static uint32_t arrays_of(const knn_device *d, const adji_gpu_table *from, uint64_t first, adji_array arrays[2]) {
  const adji_window *to = d->pass->window;
  uint64_t size = adji_type_size(d->join.left->type);
  uint64_t there = (first - from->first_row) * to->k, here = adji_window_at(to, first);
  arrays[0] = (adji_array){from->ids + there, to->ids + here, sizeof *to->ids};
  if (!to->distances) return 1;
  arrays[1] = (adji_array){(const char *)from->distances + there * size, (char *)to->distances + here * size, size};
  return 2;
}

/* Finds rows from `row` on, up to the last one that is found at once with it. While the device computes, the lanes
 * prefault the memory that the rows will go to: fresh memory takes as long to provide as to copy to. */
static adj_status find_some(knn_device *d, uint64_t row, uint64_t *end) {
  const adji_window *window = d->pass->window;
  adji_gpu_table found;
  adj_status status = adji_gpu_knn_begin(d->knn, row, &found);
  if (status) return status;
  *end = found.end_row < window->end_row ? found.end_row : window->end_row;
  adji_array arrays[2];
  uint32_t count = arrays_of(d, &found, row, arrays);
  uint64_t entries = (*end - row) * window->k;
  status = adji_prefault_arrays(d->gpu, arrays, count, entries);
  adj_status ended = adji_gpu_knn_end(d->knn);
  if (!status) status = ended;
  if (!status) status = adji_download_arrays(d->gpu, arrays, count, entries, &d->run->device);
  return status;
}

static adj_status find_rows(knn_device *d) {
  const adji_window *window = d->pass->window;
  uint64_t rows = window->end_row - window->first_row;
  adj_status status = ADJ_OK;
  for (uint64_t row = window->first_row; row < window->end_row && !status;) {
    uint64_t start = adji_now_ns(), end = row;
    status = find_some(d, row, &end);
    adji_trace(d->join.ctx, "join", 0, start, end - row);
    d->run->batches++;
    row = end;
    if (!status) status = adji_check_cancel(d->join.ctx);
    if (!status)
      status =
          adji_run_report(d->run, "join", (double)(row - window->first_row) / (double)rows, d->run->tally.pairs, false);
  }
  return status;
}

static adj_status alone(void *state, adji_tally *tally) {
  knn_device *d = state;
  uint64_t before = adji_gpu_knn_effort_of(d->knn).candidates;
  adji_gpu_use(d->gpu);
  adj_status status = find_rows(d);
  if (!status) status = count_pairs(d, d->pass->window, &tally->pairs);
  tally->candidates = adji_gpu_knn_effort_of(d->knn).candidates - before;
  return status;
}

/* ---- Passes ------------------------------------------------------------------------------------------ */

static uint64_t queries_a_list(const knn_device *d) {
  uint64_t row = (uint64_t)d->join.k * (4 + adji_type_size(d->join.left->type)) + 16, queries = LIST_BYTES / row + 1;
  if (queries > d->join.left->count) queries = d->join.left->count + 1;
  return d->rows_at_once && d->rows_at_once < queries ? d->rows_at_once : queries;
}

static adj_status begin_lists(knn_device *d, const adji_pass *pass) {
  d->lists.list_queries = queries_a_list(d);
  adj_status status = adji_lists_begin(&d->lists, pass);
  if (status) return status;
  status = adji_staging_open(d->gpu, d->join.ctx->threads + 1);
  if (!status)
    status = adji_gpu_knn_begin_lists(d->knn, pass->window->first_row, pass->window->end_row, &d->lists.list_queries);
  if (status) adji_lists_end(&d->lists, &(adji_device_stats){0});
  return status;
}

/* The device is locked until the end of the pass, since a thread that uses the team must not wait for the device. */
static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  knn_device *d = state;
  d->pass = pass;
  d->run = run;
  adji_gpu_lock(d->gpu);
  adj_status status = pass->alone ? ADJ_OK : begin_lists(d, pass);
  if (status) adji_gpu_unlock(d->gpu);
  return status;
}

static adj_status drain(void *state, adji_feed *feed) {
  knn_device *d = state;
  adji_gpu_use(d->gpu);
  return adji_lists_drain(&d->lists, feed);
}

static void end(void *state, adji_run *run) {
  knn_device *d = state;
  if (!d->pass->alone) {
    adji_gpu_knn_end_lists(d->knn);
    adji_lists_end(&d->lists, &run->device);
  }
  adji_device_stats now = adji_gpu_knn_work(d->knn);
  adji_device_stats_report(&now, &d->reported, &run->device);
  adji_gpu_unlock(d->gpu);
}

/* ---- Making it --------------------------------------------------------------------------------------- */

/* For up to so many queries brute force reads the points once, while building a tree reads them many times. */
enum { FEW_QUERIES = 16 };

adj_status adji_gpu_knn_choose(adji_knn_request *request, adji_algorithm algorithm, const char **reason) {
  adji_gpu_knn_options *o = &request->options;
  bool can = adji_gpu_knn_can(o->join, o->measure), few = o->join->left->count <= FEW_QUERIES && !o->lender;
  if (algorithm && algorithm != ADJI_ALGORITHM_BRUTE && !can)
    return adji_fail(
        ADJ_E_UNSUPPORTED,
        "algorithm: on a GPU trees and grids are for up to six dimensions, and for L2, L1 and Linf (and what is "
        "computed from these); \"brute\" is for all others");
  o->brute = (algorithm ? algorithm == ADJI_ALGORITHM_BRUTE : few || !can) ? &request->choice : NULL;
  o->grid.use = algorithm == ADJI_ALGORITHM_GRID;
  *reason = o->grid.use ? "asked for; queries that find too few are searched for in wider cells, or in a tree"
            : algorithm ? "asked for"
            : !o->brute
                ? o->lender ? "the index has a tree on the GPU" : "in few dimensions a tree leaves few candidates"
            : !can ? "trees on a GPU are for up to six dimensions, and L2, L1 and Linf"
                   : "for few queries a tree is not worth building";
  if (o->join->limits && (o->brute || o->grid.use))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "radii: on a GPU a radius for each query is for trees: up to six dimensions, and L2, L1 and Linf "
                     "(and what is computed from these)");
  if (o->brute && !adji_select_takes(request->choice.select, o->join->k))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: of paper.select= only radix, sample, sort, block-bits, block-radix, block-sample and "
                     "stream-sort are for k above %d, which is %u",
                     (int)ADJI_SELECT_MOST, o->join->k);
  return ADJ_OK;
}

adj_status adji_gpu_knn_can_share(const adji_join *join, const adji_measure *measure) {
  if (!adji_gpu_knn_can(join, measure))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "cores and a GPU share joins in up to six dimensions, by L2, L1 and Linf (and by what is computed "
                     "from these)");
  if (!adji_knn_row_fits(join))
    return adji_fail(ADJ_E_UNSUPPORTED, "rows of %u neighbours are too large for the buffers of a GPU", join->k);
  return ADJ_OK;
}

adj_status adji_gpu_knn_can_divide(const adji_gpu_knn_options *options) {
  const adji_join *join = options->join;
  if (options->grid.use)
    return adji_fail(ADJ_E_UNSUPPORTED, "the algorithm grid is for one GPU, or for GPUs beside cores");
  if (join->limits) return adji_fail(ADJ_E_UNSUPPORTED, "a radius for each query is for one GPU");
  if (!adji_knn_row_fits(join))
    return adji_fail(ADJ_E_UNSUPPORTED, "rows of %u neighbours are too large for the buffers of a GPU", join->k);
  return ADJ_OK;
}

static void destroy(void *state) {
  knn_device *d = state;
  adji_gpu_lock(d->gpu);
  adji_gpu_knn_close(d->knn);
  adji_gpu_unlock(d->gpu);
  adji_give_back(&d->right);
  free(d);
}

/* Borrows a right set that is kept on the device. The caller must not hold the device's lock, since the set may have to
 * be made. */
static adj_status borrow(knn_device *d, adji_gpu_knn_options *options, uint32_t number) {
  adji_gpu_right_options wanted = {.form = options->brute ? ADJI_RIGHT_POINTS : ADJI_RIGHT_TREE, .cut = options->cut};
  adj_status status = options->lender->lend(options->lender->owner, number, &wanted, &d->right);
  if (!status) options->right = (adji_gpu_right *)(uintptr_t)d->right.what;
  return status;
}

static adj_status open_device(knn_device *d, const adji_gpu_knn_options *options, uint32_t number) {
  adji_gpu_knn_options device_options = *options;
  adj_status status = adji_gpu_at(d->join.ctx, number, &d->gpu);
  if (!status && options->lender) status = borrow(d, &device_options, number);
  if (status) return status;
  adji_gpu_lock(d->gpu);
  status = adji_gpu_knn_open(d->gpu, &device_options, &d->knn);
  adji_gpu_unlock(d->gpu);
  if (status) adji_give_back(&d->right);
  if (status) d->right = (adji_lent){0};
  return status;
}

adj_status adji_gpu_knn_worker_create(const adji_gpu_knn_options *options, uint32_t number, adji_worker *out) {
  knn_device *d = calloc(1, sizeof *d);
  if (!d) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  d->join = *options->join;
  d->rows_at_once = options->rows_at_once;
  const adji_gpu_lender *lender = options->lender;
  adj_status status = open_device(d, options, number);
  while (status == ADJ_E_DEVICE_MEMORY && lender && lender->drop(lender->owner, number))
    status = open_device(d, options, number);
  if (status) {
    free(d);
    return status;
  }
  d->lists = (adji_lists){
      .gpu = d->gpu, .knn = d->knn, .join = &d->join, .placer = &adji_knn_placer, .misses = options->grid.use};
  *out = (adji_worker){.state = d,
                       .name = adji_gpu_worker_name(number),
                       .is_device = true,
                       .begin = begin,
                       .drain = drain,
                       .alone = alone,
                       .end = end,
                       .destroy = destroy};
  return ADJ_OK;
}

/* Bytes that the context's first device has for a join, including those of right sets that are lent; 0: there is no
 * device. */
static uint64_t room_on_device(const adji_gpu_knn_options *options) {
  adji_gpu *gpu;
  if (adji_gpu_of(options->join->ctx, &gpu)) return 0;
  uint64_t held = options->lender ? options->lender->held(options->lender->owner, 0) : 0;
  adji_gpu_lock(gpu);
  uint64_t bytes = adji_gpu_available(gpu);
  adji_gpu_unlock(gpu);
  return bytes + held;
}

bool adji_gpu_knn_fits(const adji_gpu_knn_options *options) {
  return options->brute || adji_knn_whole_bytes(options) <= room_on_device(options);
}

static adj_status create_whole(const adji_gpu_knn_options *options, adji_worker *out) {
  if (options->picks || options->no_picks)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.pick is for sets in chunks, and these fit the device");
  return adji_gpu_knn_worker_create(options, 0, out);
}

adj_status adji_gpu_knn_create(const adji_gpu_knn_options *options, uint64_t chunk, adji_worker *out) {
  const adji_join *join = options->join;
  uint64_t most = join->left->count > join->right->count ? join->left->count : join->right->count;
  if (options->brute || (chunk && chunk >= most)) return create_whole(options, out);
  adj_status can = adji_knn_chunks_can(options);
  uint64_t room = room_on_device(options);
  if (chunk) return can ? can : adji_knn_chunks_create(options, adji_knn_chunks_choose(options, room, chunk), out);
  if (can || !room || adji_knn_whole_bytes(options) <= room) {
    adj_status status = create_whole(options, out);
    if (status != ADJ_E_DEVICE_MEMORY || can || most <= ADJI_LEAST_CHUNK) return status;
  }
  adji_knn_chunking chunking = adji_knn_chunks_choose(options, room, 0);
  if (chunking.size >= most) chunking.size = most / 2 + 1;
  return adji_knn_chunks_create(options, chunking, out);
}

uint64_t adji_gpu_knn_worker_chunk(const adji_worker *worker) {
  if (adji_is_knn_chunks(worker)) return adji_knn_chunks_size(worker);
  return adji_gpu_knn_chunk(((const knn_device *)worker->state)->knn);
}

adj_status adji_gpu_knn_worker_follow(adji_worker *worker, const uint32_t *rows) {
  knn_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  adj_status status = adji_gpu_knn_follow(d->knn, rows);
  if (!status) status = adji_gpu_wait(d->gpu);
  adji_gpu_unlock(d->gpu);
  return status;
}

adj_status adji_gpu_knn_worker_order(adji_worker *worker, uint32_t *rows) {
  knn_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  adj_status status = adji_gpu_knn_order(d->knn, rows);
  adji_gpu_unlock(d->gpu);
  return status;
}

double adji_gpu_knn_worker_epsilon(const adji_worker *worker) {
  knn_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  double epsilon = adji_gpu_knn_work(d->knn).grid.epsilon;
  adji_gpu_unlock(d->gpu);
  return epsilon > 0 ? epsilon : -1;
}

/* ---- Trials ------------------------------------------------------------------------------------------ */

/* Measures the time of up to *queries queries; *queries becomes their actual number. */
static adj_status time_some(knn_device *d, uint64_t *queries, double *seconds) {
  uint64_t rows, candidates, many = adji_lists_sample(d->join.left->count, *queries, d->lists.ranges, queries);
  uint64_t start = adji_now_ns();
  adj_status status = adji_gpu_knn_list(d->knn, d->lists.ranges, many, 0, d->join.ctx->threads, &rows);
  if (!status) status = adji_gpu_knn_listed(d->knn, 0, &candidates);
  *seconds = (double)(adji_now_ns() - start) * 1e-9;
  return status;
}

/* Times a quarter of the queries first, then all. The difference is the time that more queries would take, since few
 * queries do not keep a device busy. */
static adj_status try_list(knn_device *d, uint64_t queries, double *seconds) {
  uint64_t count = d->join.left->count;
  if (queries > count) queries = count;
  adj_status status = adji_staging_open(d->gpu, d->join.ctx->threads + 1);
  if (!status) status = adji_gpu_knn_begin_lists(d->knn, 0, count, &queries); /* perhaps fewer queries */
  if (status) return status;
  uint64_t few = queries / 4 + 1;
  double first, all;
  status = time_some(d, &few, &first);
  if (!status) status = time_some(d, &queries, &all);
  if (status)
    adji_gpu_quiesce(d->gpu);
  else
    *seconds = all + fmax(all - first, all / 8) * (double)(count - queries) / fmax((double)queries - (double)few, 1);
  adji_gpu_knn_end_lists(d->knn);
  return status;
}

static double copy_seconds(const knn_device *d) {
  double entry = 4 + (d->join.style.distances ? (double)adji_type_size(d->join.left->type) : 0);
  return (double)d->join.left->count * d->join.k * entry / d->join.ctx->costs.copy_rate;
}

adj_status adji_gpu_knn_worker_try(adji_worker *worker, uint64_t queries, double *seconds) {
  knn_device *d = worker->state;
  adji_pass pass = {.kind = ADJI_PASS_FILL};
  *seconds = 0;
  if (!d->join.left->count) return ADJ_OK;
  d->lists.list_queries = queries_a_list(d);
  adj_status status = adji_lists_begin(&d->lists, &pass);
  if (status) return status;
  adji_gpu_lock(d->gpu);
  status = try_list(d, queries, seconds);
  adji_gpu_unlock(d->gpu);
  adji_lists_end(&d->lists, &(adji_device_stats){0});
  *seconds += copy_seconds(d);
  return status;
}

double adji_gpu_knn_worker_guess(const adji_worker *worker, double searches) {
  const knn_device *d = worker->state;
  double points = (double)d->join.right->count + (d->join.self_join ? 0 : (double)d->join.left->count);
  return searches * points * d->join.ctx->costs.device_tree_ns * 1e-9 / adji_gpu_multiprocessors(d->gpu) +
         copy_seconds(d);
}
