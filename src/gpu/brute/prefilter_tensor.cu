/* SPDX-License-Identifier: MIT
 *
 * Brute force through tensor cores: the rounds of scans, and the memory of a batch of queries.
 */
#include "gpu/brute/prefilter_tensor_scan.cuh"
#include "gpu/brute/prefilter_tensor_tiles.cuh"

namespace {

enum { FEWEST = 1024, LONGEST = 16384, MOST_REFINED = 8192, AGAIN_AT_ONCE = 2048 };

/* FILL: the part of a list that a round is expected to fill. LOOSE: how many times as many pairs pass as in exact
 * arithmetic. */
const double FILL = 0.6, LOOSE = 1.5, MOST_FACTOR = 4, MOST_TILE_FACTOR = 8;

/* Lists the values of all queries with positions first .. end - 1: all values in the first scan, later those that are
 * not below the bounds. */
adj_status scan(adji_gpu *gpu, const adji_tensor_batch *b, uint64_t first, uint64_t end) {
  adji_tensor_scan_job s = {adji_tensor_view_of(b)};
  s.left = adji_at<uint4>(b->values);
  s.right = adji_at<uint4>(b->points->values);
  s.starts = adji_at<float>(b->points->starts);
  s.queries = static_cast<uint32_t>(b->job->queries);
  s.first = first;
  s.end = end;
  s.all = !first;
  return s.rules.width <= 64 ? adji_tensor_scan_narrow(gpu, s) : adji_tensor_scan_wide(gpu, s);
}

adj_status scan_rounds(adji_gpu *gpu, const adji_tensor_batch *b) {
  const adji_tensor_rounds rounds = b->rounds;
  uint64_t count = b->points->count;
  adj_status status = scan(gpu, b, 0, rounds.first);
  if (!status) status = adji_tensor_tighten(gpu, b, rounds.first);
  for (uint64_t begin = rounds.first; begin < count && !status;) {
    uint64_t end =
        static_cast<uint64_t>(static_cast<double>(begin) * rounds.factor) / ADJI_TENSOR_TILE * ADJI_TENSOR_TILE;
    /* Make this round slightly longer rather than add a short one. */
    if (end + end / 4 > count) end = count;
    status = scan(gpu, b, begin, end);
    if (!status) status = adji_tensor_tighten(gpu, b, 0);
    begin = end;
  }
  return status;
}

/* ---- In tree order --------------------------------------------------------------------------- */

/* Scans the tiles that prefilter_tensor_lists.cu has scheduled. all: these are the first tiles, and all their values
 * are listed. */
adj_status scan_tiles(adji_gpu *gpu, const adji_tensor_batch *b, bool all) {
  adji_tensor_scan_job s = {adji_tensor_view_of(b)};
  s.left = adji_at<uint4>(b->values);
  s.right = adji_at<uint4>(b->points->values);
  s.starts = adji_at<float>(b->points->starts);
  s.queries = static_cast<uint32_t>(b->job->queries);
  s.end = b->starts * static_cast<uint64_t>(ADJI_TENSOR_TILE);
  s.all = all;
  s.tiles = adji_blocks_for(b->points->count, ADJI_TENSOR_TILE);
  s.entries = adji_tile_lists_of(b).work;
  s.items = adji_at<adji_tile_item>(b->items);
  s.item_counts = adji_at<uint32_t>(b->list_counts);
  return adji_tensor_scan_tiles(gpu, s);
}

/* The same rounds as scan_rounds, over tiles: first the tiles nearest to each block of queries, then those of its list,
 * nearest first. The points of a round are expected to be farther away than those of earlier rounds. So no more of them
 * pass than of a sample of all points, and usually fewer. */
adj_status scan_tile_rounds(adji_gpu *gpu, adji_tensor_batch *b) {
  uint64_t tiles = adji_blocks_for(b->points->count, ADJI_TENSOR_TILE);
  double factor = 1 + (FILL * b->rounds.capacity / b->job->k - 1) / LOOSE;
  if (factor > MOST_TILE_FACTOR) factor = MOST_TILE_FACTOR;
  uint64_t most = tiles < ADJI_TILE_NEAREST ? tiles : ADJI_TILE_NEAREST, starts = b->rounds.capacity / ADJI_TENSOR_TILE;
  b->starts = static_cast<uint32_t>(starts < most ? starts : most);
  double scanned = b->starts * factor;
  b->nearest = scanned < static_cast<double>(most) ? static_cast<uint32_t>(scanned) : static_cast<uint32_t>(most);
  adj_status status = adji_tile_lists_get(gpu, b);
  if (!status) status = adji_tile_begin(gpu, b);
  if (!status) status = scan_tiles(gpu, b, true);
  if (!status) status = adji_tensor_tighten(gpu, b, b->starts * ADJI_TENSOR_TILE);
  if (!status) status = adji_tile_nearest(gpu, b);
  if (!status) status = scan_tiles(gpu, b, false);
  if (!status) status = adji_tensor_tighten(gpu, b, 0);
  if (!status) status = adji_tile_list(gpu, b);
  scanned = b->nearest;
  for (uint64_t begin = 0; begin < tiles - b->nearest && !status;) {
    scanned *= factor;
    uint64_t end = static_cast<uint64_t>(scanned) - b->nearest;
    if (end <= begin) end = begin + 1;
    if (end + end / 4 > tiles) end = tiles;
    status = adji_tile_next(gpu, b, begin, end);
    if (!status) status = scan_tiles(gpu, b, false);
    if (!status) status = adji_tensor_tighten(gpu, b, 0);
    begin = end;
  }
  return status;
}

adj_status search(adji_gpu *gpu, adji_tensor_batch *b, adji_tensor_outcome *out) {
  adj_status status = adji_tensor_batch_get(gpu, b);
  if (!status) status = adji_tensor_copy_queries(gpu, b);
  if (!status) status = adji_tensor_in_order(b->points) ? scan_tile_rounds(gpu, b) : scan_rounds(gpu, b);
  if (!status) status = adji_tensor_refine(gpu, b);
  return status ? status : adji_tensor_fetch(gpu, b, out);
}

/* Searches again for the queries of the batch, which failed before. Queries that fail again are appended to `to`. */
adj_status search_again(adji_gpu *gpu, adji_tensor_batch *b, uint32_t *to, adji_tensor_outcome *out) {
  uint64_t before = out->failed;
  adj_status status = search(gpu, b, out);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemcpyAsync(to + before, out->numbers, out->failed * sizeof(uint32_t), cudaMemcpyDeviceToDevice,
                                 gpu->compute));
  out->failed += before;
  out->numbers = to;
  return ADJ_OK;
}

}  // namespace

adji_tensor_rounds adji_tensor_rounds_of(uint64_t points, uint32_t k, bool again) {
  adji_tensor_rounds rounds = {FEWEST, 128, 0, 0};
  while (rounds.capacity < 8 * k)
    rounds.capacity *= 2;
  if (rounds.capacity < 16 * k && k <= FEWEST / 4) rounds.capacity *= 2;
  while (rounds.most < 4 * k && rounds.most < MOST_REFINED)
    rounds.most *= 2;
  rounds.first = points < rounds.capacity ? static_cast<uint32_t>(points) : rounds.capacity;
  double factor = 1 + (FILL * rounds.capacity / k - 1) / LOOSE;
  rounds.factor = factor < MOST_FACTOR ? factor : MOST_FACTOR;
  if (again) {
    rounds.capacity = LONGEST;
    rounds.most = MOST_REFINED;
  }
  return rounds;
}

adji_tensor_view adji_tensor_view_of(const adji_tensor_batch *batch) {
  const adji_tensor_points *points = batch->points;
  const adji_brute_job *job = batch->job;
  adji_tensor_view view = {};
  view.rules = points->rules;
  view.frame = adji_at<adji_tensor_frame>(points->frame);
  view.query_info = adji_at<adji_tensor_query>(batch->query_info);
  view.point_count = points->count;
  view.point_stride = points->stride;
  view.order = adji_at<uint32_t>(points->order);
  view.right_first = job->right_first;
  view.drop_self = job->drop_self;
  view.limit = job->limit;
  view.k = job->k;
  view.capacity = batch->rounds.capacity;
  view.bounds = adji_at<float>(batch->bounds);
  view.counts = adji_at<uint32_t>(batch->counts);
  view.passed = adji_at<uint2>(batch->passed);
  view.failed = adji_at<uint32_t>(batch->failed);
  view.reaches = adji_at<float>(batch->reaches);
  view.kept = adji_at<uint32_t>(batch->kept);
  return view;
}

adj_status adji_tensor_batch_get(adji_gpu *gpu, adji_tensor_batch *b) {
  uint64_t queries = b->job->queries, rows = adji_rounded_up(queries, ADJI_TENSOR_ROWS);
  struct {
    adji_block *block;
    uint64_t bytes;
  } const wanted[] = {{&b->values, rows * b->points->row_bytes},
                      {&b->query_info, rows * sizeof(adji_tensor_query)},
                      {&b->bounds, rows * sizeof(float)},
                      {&b->counts, rows * sizeof(uint32_t)},
                      {&b->passed, queries * b->rounds.capacity * sizeof(uint2)},
                      {&b->failed, (queries + ADJI_TENSOR_HEAD) * sizeof(uint32_t)}};
  b->row_capacity = rows;
  for (const auto &w : wanted) {
    if (w.block->bytes >= w.bytes) continue;
    adji_block_free(gpu, gpu->compute, w.block);
    adj_status status = adji_block_get(gpu, gpu->compute, w.bytes, "brute force", w.block);
    if (status) return status;
  }
  ADJI_CUDA(gpu, cudaMemsetAsync(b->failed.at, 0, ADJI_TENSOR_HEAD * sizeof(uint32_t), gpu->compute));
  return ADJ_OK;
}

adj_status adji_tensor_fetch(adji_gpu *gpu, const adji_tensor_batch *b, adji_tensor_outcome *out) {
  uint32_t reported[ADJI_TENSOR_HEAD];
  ADJI_CUDA(gpu, cudaMemcpyAsync(reported, b->failed.at, sizeof reported, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  out->failed = reported[ADJI_TENSOR_FAILED];
  out->sums += reported[ADJI_TENSOR_SUMS];
  out->tiles += reported[ADJI_TENSOR_TILES];
  out->numbers = adji_at<uint32_t>(b->failed) + ADJI_TENSOR_HEAD;
  return ADJ_OK;
}

bool adji_tensor_can(const adji_brute_job *job) {
  return job->measure->step == ADJI_STEP_L2 && job->dim <= ADJI_TENSOR_MOST_DIM && job->k <= ADJI_TENSOR_MOST_K &&
         job->right_count;
}

uint64_t adji_tensor_query_bytes(const adji_brute_job *job, bool ordered) {
  uint64_t lists = ordered ? adji_tile_list_bytes(job->right_count) / ADJI_TENSOR_ROWS + 8 : 0;
  return lists + adji_tensor_width(job->dim) * 2ull + sizeof(adji_tensor_query) + 12 +
         adji_tensor_rounds_of(job->right_count, job->k, false).capacity * sizeof(uint2);
}

/* Failures are written in place; writing never overtakes reading. */
adj_status adji_tensor_search_failed(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                     uint32_t *numbers, adji_tensor_outcome *out) {
  adji_brute_job some = *job;
  adji_tensor_batch longer = {points, &some, 0, adji_tensor_rounds_of(points->count, some.k, true)};
  if (longer.rounds.capacity == adji_tensor_rounds_of(points->count, some.k, false).capacity) return ADJ_OK;
  uint64_t failed = out->failed;
  adji_tensor_outcome reported = {0, out->again + failed, out->sums, out->tiles, numbers};
  adj_status status = ADJ_OK;
  for (uint64_t done = 0; done < failed && !status; done += some.queries) {
    some.numbers = numbers + done;
    some.queries = failed - done < AGAIN_AT_ONCE ? failed - done : AGAIN_AT_ONCE;
    status = search_again(gpu, &longer, numbers, &reported);
    if (status == ADJ_E_DEVICE_MEMORY && !done) break; /* the queries go to the matrix method */
  }
  adji_tensor_batch_clear(gpu, &longer);
  if (status == ADJ_E_DEVICE_MEMORY && !reported.failed) return ADJ_OK;
  *out = reported;
  return status;
}

adj_status adji_tensor_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                              adji_tensor_batch *batch, adji_tensor_outcome *out) {
  *out = adji_tensor_outcome{};
  if (!job->queries) return ADJ_OK;
  batch->points = points;
  batch->job = job;
  batch->rounds = adji_tensor_rounds_of(points->count, job->k, false);
  adj_status status = search(gpu, batch, out);
  bool exact = adji_tensor_in_order(points) && adji_tile_exact_can(gpu, job); /* searches all failed queries together */
  if (!status && out->failed && !exact)
    status = adji_tensor_search_failed(gpu, points, job, adji_at<uint32_t>(batch->failed) + ADJI_TENSOR_HEAD, out);
  return status;
}

void adji_tensor_batch_clear(adji_gpu *gpu, adji_tensor_batch *batch) {
  adji_blocks_free(gpu,
                   {&batch->values, &batch->query_info, &batch->bounds, &batch->counts, &batch->passed, &batch->failed,
                    &batch->reaches, &batch->kept, &batch->lists, &batch->list_counts, &batch->items});
}
