/* SPDX-License-Identifier: MIT
 *
 * The range join on a device: counts, and the launches for them. Everything runs in order on one stream, except the
 * copies of results (range_fill.cu).
 */
#include "gpu/range/range_private.cuh"
#include "gpu/range/range_tree.cuh"
#include "gpu/shared/arrays.cuh"

uint64_t adji_gpu_range_cells(const adji_gpu_range *r) {
  return r->right->cell_count;
}
adji_device_stats adji_gpu_range_work(adji_gpu_range *r) {
  r->work.kernel_s = adji_stopwatch_read(&r->watch);
  adji_device_stats all = r->work;
  if (!r->reports_right) return all;
  adji_device_stats right = adji_gpu_right_work(r->lent ? r->lent : r->own_tree);
  adji_device_stats_add(&all, &right);
  return all;
}
const uint32_t *adji_gpu_range_degrees(const adji_gpu_range *r) {
  return adji_at<uint32_t>(r->degrees);
}
const uint64_t *adji_gpu_range_offsets(const adji_gpu_range *r) {
  return adji_at<uint64_t>(r->offsets);
}

/* ---- Counting ------------------------------------------------------------------------------------------------- */

/* Notes the number of cells, which the index build has left in the answers. */
static void note_cells(adji_gpu_range *r) {
  if (r->right == &r->own_right && !r->own_right.cell_count)
    r->own_right.cell_count = r->gpu->answers[ADJI_ANSWER_CELLS];
}

adji_tiles_job adji_range_job(const adji_gpu_range *r) {
  adji_tiles_job job = {};
  const adji_row_style *style = &r->join.style;
  job.type = r->join.left->type;
  job.measure = &r->measure;
  job.box = r->box.at;
  job.limit = r->join.limit;
  job.dim = r->join.left->dim;
  job.grid = r->grid;
  job.left = r->left;
  job.right = r->right;
  job.keep = style->one_way ? ADJI_KEEP_ABOVE : style->drop_self ? ADJI_KEEP_OTHERS : ADJI_KEEP_ALL;
  job.query_count = r->left->count;
  job.answers = adji_answer_at(r->gpu, 0);
  job.spread_answers = adji_answer_at(r->gpu, ADJI_ANSWER_SPREAD);
  return job;
}

static adj_status run_kernels(adji_gpu_range *r, const adji_tiles_job *job) {
  adji_range_tree_job tree = {r->tree, r->limits.at, r->blocks};
  if (r->tree) return adji_range_tree_run(r->gpu, r->gpu->compute, job, &tree);
  if (r->all_pairs) return adji_all_pairs_run(r->gpu, r->gpu->compute, job, r->blocks);
  if (r->tensor) return adji_tensor_tiles_run(r->gpu, r->gpu->compute, job, &r->halves, &r->given, r->blocks);
  return adji_tiles_run(r->gpu, r->gpu->compute, job);
}

/* Queries of a block of threads. */
enum { TILES_BLOCK = 4 * ADJI_WARP, TENSOR_BLOCK = 256 };

/* Runs one launch, or as many as it takes to keep the number of running blocks within the limit. */
adj_status adji_range_compare(adji_gpu_range *r, const adji_tiles_job *job) {
  if (adji_access_by_point(r->points.options.access)) return adji_per_point_run(r->gpu, &r->points, job);
  if (!r->blocks || r->tree) return run_kernels(r, job);
  uint64_t each = static_cast<uint64_t>(r->blocks) * (r->tensor ? TENSOR_BLOCK : TILES_BLOCK);
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; first < job->query_count && !status; first += each) {
    adji_tiles_job slice = *job;
    if (slice.queries) slice.queries += first;
    slice.first_query += first;
    slice.query_count = job->query_count - first < each ? job->query_count - first : each;
    status = run_kernels(r, &slice);
  }
  return status;
}

adj_status adji_range_compare_timed(adji_gpu_range *r, const adji_tiles_job *job) {
  adj_status status = adji_range_start_watch(r);
  if (!status) status = adji_range_compare(r, job);
  return status ? status : adji_range_stop_watch(r);
}

/* Clears the cache counter and the totals in one call. The answers between them are not in use here. */
static adj_status clear_totals(adji_gpu_range *r) {
  return adji_answer_clear(r->gpu, r->gpu->compute, ADJI_ANSWER_CACHE, ADJI_ANSWERS - ADJI_ANSWER_CACHE);
}

/* Sets the room for what a count finds, in row chunks or in pairs, of which each is two entries. Every row has a chunk
 * of its own and takes more as they fill up. In few dimensions chunks are used where most rows fit one, and an estimate
 * would take longer than it saves. Otherwise there is room for a fifth more than a sample estimates, or half more where
 * all pairs are compared. Each warp may leave some of its chunks or pairs unused. */
static adj_status choose_room(adji_gpu_range *r, adji_count_cache_request *request) {
  double rows = static_cast<double>(r->rows), pairs = static_cast<double>(r->single_pairs), candidates;
  bool in_pairs = request->form == ADJI_CACHE_PAIRS;
  request->room = (in_pairs ? pairs : pairs / ADJI_WARP) + 1;
  if (r->single_pairs) return ADJ_OK;
  request->room = 1.3 * rows + 1024;
  if (r->lent) request->room += 1.2 * rows * r->lent->row_chunks; /* as if this join were like the last one */
  if (r->join.left->dim <= 3 || r->tree) return ADJ_OK;
  uint64_t sample = r->all_pairs ? adji_all_pairs_sample(r->rows, 4096) : 4096;
  adj_status status = adji_gpu_range_sample(r, sample, &pairs, &candidates);
  bool two_entries = r->mirrored && !r->join.style.one_way; /* an item is two entries */
  if (!status) request->room += pairs * (r->all_pairs ? 1.5 : 1.2) / (!in_pairs ? ADJI_WARP : two_entries ? 2 : 1);
  return status;
}

/* Room for tile hits. The last tile of a warp, and of each of its stretches of queries, may not be full. */
static double tile_hit_room(const adji_gpu_range *r) {
  if (r->single_pairs) return static_cast<double>(r->single_pairs) / ADJI_WARP + 1;
  return (static_cast<double>(r->rows) / ADJI_WARP + 1) * (r->tile_hit_candidates / ADJI_WARP + 3);
}

/* Makes a cache of query hits, or of tile hits unless single evaluation caches entries. */
static adj_status make_hits(adji_gpu_range *r) {
  adji_count_cache_request request = {ADJI_CACHE_NONE, 0, r->rows, r->join.left->type, false};
  adji_tiles_job job = adji_range_job(r);
  if (r->tensor || r->all_pairs || r->tree || adji_range_wants_sums(r) ||
      adji_access_by_point(r->points.options.access))
    return ADJ_OK;
  if (r->query_hits && adji_tiles_can_keep_query_hits(&job)) {
    request.form = ADJI_CACHE_QUERY_HITS;
    request.room = static_cast<double>(r->rows) * (r->grid->row_count / ADJI_QUERY_HIT_GROUP);
    adj_status status = adji_count_cache_make(r->gpu, &request, &r->cache);
    if (status || r->cache.form != ADJI_CACHE_NONE) return status;
  }
  if (r->single || !(r->tile_hit_candidates > 0) || !adji_tiles_can_keep_tile_hits(&job)) return ADJ_OK;
  request.form = ADJI_CACHE_TILE_HITS;
  request.room = tile_hit_room(r);
  return adji_count_cache_make(r->gpu, &request, &r->cache);
}

static adj_status make_count_cache(adji_gpu_range *r) {
  adji_count_cache_free(r->gpu, &r->cache);
  adj_status status = make_hits(r);
  if (status || r->cache.form != ADJI_CACHE_NONE || !r->single) return status;
  adji_count_cache_request request = {adji_range_adds(r) ? ADJI_CACHE_PAIRS : ADJI_CACHE_ROW_CHUNKS, 0, r->rows,
                                      r->join.left->type, adji_range_wants_sums(r)};
  status = choose_room(r, &request);
  return status ? status : adji_count_cache_make(r->gpu, &request, &r->cache);
}

/* Finds the longest row, for kernels that do not report it. */
static __global__ void find_longest(const uint32_t *degrees, uint64_t rows, unsigned long long *longest) {
  uint32_t most = 0;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows;
       i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
    most = degrees[i] > most ? degrees[i] : most;
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % ADJI_WARP == 0) atomicMax(longest, static_cast<unsigned long long>(most));
}

static adj_status measure_rows(adji_gpu_range *r) {
  if ((!adji_range_adds(r) && !r->tensor) || !r->rows) return ADJ_OK;
  uint32_t blocks = adji_blocks_for(r->rows, 256), most = 8 * static_cast<uint32_t>(r->gpu->multiprocessors);
  if (blocks > most) blocks = most;
  find_longest<<<blocks, 256, 0, r->gpu->compute>>>(adji_at<uint32_t>(r->degrees), r->rows,
                                                    adji_answer_at(r->gpu, ADJI_ANSWER_SPREAD + 3 * ADJI_SPREAD));
  ADJI_LAUNCHED(r->gpu, "find_longest");
  return ADJ_OK;
}

/* Counts start at 0 if kernels add to them. Other kernels write the count of every row, if there is anything to
 * compare. The entry after the last row is read, but added to no offset. */
static adj_status clear_degrees(adji_gpu_range *r) {
  if (r->right->count && !adji_range_adds(r) && !r->tensor && !adji_access_by_point(r->points.options.access))
    return ADJ_OK;
  ADJI_CUDA(r->gpu, cudaMemsetAsync(r->degrees.at, 0, (r->rows + 1) * 4, r->gpu->compute));
  return ADJ_OK;
}

/* One thread per pair. */
static __global__ void count_pairs(const adji_gpu_pair *pairs, uint64_t count, bool one_way, uint32_t *degrees) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  adji_gpu_pair pair = pairs[i];
  atomicAdd(degrees + pair.row, 1u);
  if (!one_way) atomicAdd(degrees + pair.id, 1u);
}

static adj_status count_added(adji_gpu_range *r) {
  if (!r->added) return ADJ_OK;
  count_pairs<<<adji_blocks_for(r->added, 256), 256, 0, r->gpu->compute>>>(
      adji_at<adji_gpu_pair>(r->cache.items) + r->added_at, r->added, r->join.style.one_way,
      adji_at<uint32_t>(r->degrees));
  ADJI_LAUNCHED(r->gpu, "count_pairs");
  return ADJ_OK;
}

/* Makes room for the cache, clears the counts, and starts the stopwatch. */
static adj_status begin_count(adji_gpu_range *r, bool keep) {
  adj_status status = ADJ_OK;
  r->added = 0;
  if (keep)
    status = make_count_cache(r);
  else
    adji_count_cache_free(r->gpu, &r->cache);
  if (!status) status = adji_range_start_watch(r);
  if (!status) status = clear_degrees(r);
  if (!status && !r->cleared) status = clear_totals(r);
  r->cleared = false;
  return status;
}

/* Ends a count, once everything is compared. */
static adj_status end_count(adji_gpu_range *r, bool fills) {
  adj_status status = count_added(r);
  if (!status) status = measure_rows(r);
  if (!status)
    status =
        adji_add_up(r->gpu, &r->temporary, adji_at<uint32_t>(r->degrees), adji_at<uint64_t>(r->offsets), r->rows + 1);
  if (!status) status = adji_range_stop_watch(r);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_COUNTED);
  if (!status && fills) status = adji_range_make_events(r, &r->slots[0]); /* while the device counts */
  return status;
}

/* Notes the row chunks per query, to size the count cache of the next join with the same right set. */
static void note_chunks(adji_gpu_range *r, uint64_t pairs) {
  if (r->lent && r->rows) r->lent->row_chunks = static_cast<double>(pairs) / static_cast<double>(r->rows) / ADJI_WARP;
}

adj_status adji_gpu_range_counted(adji_gpu_range *r, adji_gpu_counted *out) {
  adj_status status = adji_answers_fetch(r->gpu, r->gpu->compute);
  if (status) return status;
  if (r->checks_left) status = adji_gpu_check_packed(r->gpu, r->join.left->dim);
  if (status) return status;
  adji_totals totals = adji_answer_totals(r->gpu);
  note_cells(r);
  note_chunks(r, totals.pairs);
  r->counted = adji_gpu_counted{totals.pairs, totals.candidates, totals.longest, totals.slots, false};
  r->counted.pairs += r->added * (r->join.style.one_way ? 1 : 2);
  r->cache.count = r->gpu->answers[ADJI_ANSWER_CACHE] + (r->cache.form == ADJI_CACHE_ROW_CHUNKS ? r->rows : r->added);
  r->counted.redone = r->cache.form != ADJI_CACHE_NONE && r->cache.count > r->cache.room;
  if (r->counted.redone) adji_count_cache_free(r->gpu, &r->cache);
  *out = r->counted;
  return ADJ_OK;
}

adj_status adji_gpu_range_count(adji_gpu_range *r, bool fills, uint64_t first, uint64_t queries) {
  adji_tiles_job job = adji_range_job(r);
  uint64_t remaining = job.query_count - first;
  job.degrees = adji_at<uint32_t>(r->degrees);
  job.first_query = first;
  job.query_count = queries < remaining ? queries : remaining;
  adj_status status = first ? adji_range_start_watch(r) : begin_count(r, fills);
  if (status) return status;
  job.mirrored = r->mirrored;
  adji_count_cache_use(&r->cache, r->left->count, &job);
  status = adji_range_compare(r, &job);
  if (status) return status;
  return queries < remaining ? adji_range_stop_watch(r) : end_count(r, fills);
}

adj_status adji_gpu_range_so_far(adji_gpu_range *r, adji_tally *found) {
  adj_status status = adji_answers_fetch(r->gpu, r->gpu->compute);
  if (status) return status;
  adji_totals totals = adji_answer_totals(r->gpu);
  *found = adji_tally{totals.pairs, totals.candidates};
  return ADJ_OK;
}

static adj_status no_room_for_pairs(const adji_gpu_range *r) {
  return adji_fail(ADJ_E_DEVICE_MEMORY, "device %d: no room for all pairs of neighbours", r->gpu->device);
}

adj_status adji_gpu_range_begin_count(adji_gpu_range *r, bool keep) {
  if (!r->mirrored) return adji_fail(ADJ_E_UNSUPPORTED, "device %d: no kernel finds pairs once", r->gpu->device);
  adj_status status = begin_count(r, keep);
  if (!status) status = adji_range_stop_watch(r);
  if (!status && keep && r->cache.form != ADJI_CACHE_PAIRS) status = no_room_for_pairs(r);
  return status;
}

adj_status adji_gpu_range_add(adji_gpu_range *r, uint64_t pairs, adji_gpu_more *out) {
  adj_status status = adji_answers_fetch(r->gpu, r->gpu->compute);
  if (status) return status;
  uint64_t at = r->gpu->answers[ADJI_ANSWER_CACHE];
  if (r->cache.form != ADJI_CACHE_PAIRS || at > r->cache.room || pairs > r->cache.room - at)
    return no_room_for_pairs(r);
  r->added_at = at;
  r->added = pairs;
  out->pairs = adji_at<adji_gpu_pair>(r->cache.items) + at;
  out->sums = r->cache.sums.at ? adji_at<char>(r->cache.sums) + at * adji_type_size(r->cache.type) : NULL;
  return ADJ_OK;
}

adj_status adji_gpu_range_end_count(adji_gpu_range *r, adji_gpu_counted *out) {
  bool keep = r->cache.form == ADJI_CACHE_PAIRS;
  adj_status status = adji_range_start_watch(r);
  if (!status) status = end_count(r, keep);
  if (!status) status = adji_gpu_range_counted(r, out);
  return !status && keep && out->redone ? no_room_for_pairs(r) : status;
}

adj_status adji_gpu_range_copy_degrees(adji_gpu_range *r, uint32_t *to) {
  ADJI_CUDA(r->gpu, cudaMemcpyAsync(to, r->degrees.at, r->rows * 4, cudaMemcpyDeviceToDevice, r->gpu->compute));
  return ADJ_OK;
}

void adji_gpu_range_forget_degrees(adji_gpu_range *r) {
  adji_block_free(r->gpu, r->gpu->compute, &r->degrees);
}

/* Samples consist of groups of consecutive positions, which may share their cells, spread evenly. A warp has one
 * group. */
enum { GROUP = 2, TENSOR_GROUP = 64 };

static __global__ void spread(uint32_t *queries, uint64_t groups, uint64_t each, uint64_t count) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= groups * each) return;
  double step = static_cast<double>(count - each) / static_cast<double>(groups);
  uint64_t begin = static_cast<uint64_t>((static_cast<double>(i / each) + 0.5) * step);
  queries[i] = static_cast<uint32_t>(begin + i % each);
}

static adj_status draw_queries(adji_gpu_range *r, uint64_t groups, uint64_t each, uint64_t all, adji_block *queries) {
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, groups * each * 4, "sample", queries);
  if (status) return status;
  spread<<<adji_blocks_for(groups * each, 256), 256, 0, r->gpu->compute>>>(adji_at<uint32_t>(*queries), groups, each,
                                                                           all);
  ADJI_LAUNCHED(r->gpu, "spread");
  return ADJ_OK;
}

adj_status adji_gpu_range_sample(adji_gpu_range *r, uint64_t sample, double *pairs, double *candidates) {
  adji_tiles_job job = adji_range_job(r);
  uint64_t each = r->tensor ? TENSOR_GROUP : GROUP, groups = (sample + each - 1) / each, all = job.query_count;
  adji_block queries = {};
  adj_status status = adji_range_start_watch(r);
  if (!status) status = clear_totals(r);
  if (!status && groups * each < all) {
    status = draw_queries(r, groups, each, all, &queries);
    job.queries = adji_at<uint32_t>(queries);
    job.query_count = groups * each;
    job.lanes = GROUP;
  }
  if (!status) status = adji_range_compare(r, &job);
  if (!status) status = adji_range_stop_watch(r);
  if (!status) status = adji_answers_fetch(r->gpu, r->gpu->compute);
  adji_block_free(r->gpu, r->gpu->compute, &queries);
  if (status) return status;
  note_cells(r);
  double scale = job.query_count ? static_cast<double>(all) / static_cast<double>(job.query_count) : 0;
  adji_totals totals = adji_answer_totals(r->gpu);
  *pairs = static_cast<double>(totals.pairs) * scale;
  *candidates = static_cast<double>(totals.candidates) * scale;
  return ADJ_OK;
}

/* ---- A queue --------------------------------------------------------------------------------------------------- */

static adj_status make_queue(adji_gpu_range *r, uint64_t step, adji_block *queries) {
  adji_gpu *gpu = r->gpu;
  uint64_t samples = (r->rows + step - 1) / step;
  adji_tiles_job job = adji_range_job(r);
  job.degrees = adji_at<uint32_t>(r->degrees);
  adj_status status = adji_block_get(gpu, gpu->compute, r->rows * 4, "queue", &r->queue_rows);
  if (!status) status = adji_block_get(gpu, gpu->compute, samples * 4, "queue", &r->queue_counts);
  if (!status) status = adji_block_get(gpu, gpu->compute, samples * 4, "queue", queries);
  if (!status) status = clear_degrees(r);
  if (!status) status = clear_totals(r);
  if (status) return status;
  adji_point_queue queue = {adji_at<uint32_t>(r->queue_rows), adji_at<uint32_t>(*queries),
                            adji_at<uint32_t>(r->queue_counts), samples, step};
  return adji_per_point_queue(gpu, &r->points, &job, &queue);
}

adj_status adji_gpu_range_make_queue(adji_gpu_range *r, double part, adji_gpu_queue *out) {
  uint64_t step = adji_queue_step(r->rows, part);
  adji_block queries = {};
  adji_gpu_range_forget_queue(r);
  adj_status status = adji_range_start_watch(r);
  if (!status) status = make_queue(r, step, &queries);
  if (!status) status = adji_range_stop_watch(r);
  if (!status) status = adji_gpu_wait(r->gpu);
  adji_block_free(r->gpu, r->gpu->compute, &queries);
  if (status) {
    adji_gpu_range_forget_queue(r);
    return status;
  }
  *out = adji_gpu_queue{adji_at<uint32_t>(r->queue_rows), adji_at<uint32_t>(r->queue_counts),
                        (r->rows + step - 1) / step, step};
  return ADJ_OK;
}

void adji_gpu_range_forget_queue(adji_gpu_range *r) {
  adji_blocks_free(r->gpu, {&r->queue_rows, &r->queue_counts});
}
