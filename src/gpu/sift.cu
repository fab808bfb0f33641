/* SPDX-License-Identifier: MIT
 *
 * Brute force through tensor cores: rounds, and the memory of a batch of queries.
 */
#include "gpu/sift_scan.cuh"

namespace {

enum { FEWEST = 1024 };

/* Of a list's room, what a round may be expected to fill, and how many more pass than in exact arithmetic. */
const double FILL = 0.6, LOOSE = 1.5, MOST_FACTOR = 4;

adj_status get_batch(adji_gpu *gpu, const adji_sift_points *points, const adji_brute_job *job, adji_sift_batch *b) {
  const char *what = "brute force";
  b->queries = job->queries;
  b->row_room = (job->queries + ADJI_SIFT_ROWS - 1) / ADJI_SIFT_ROWS * ADJI_SIFT_ROWS;
  b->room = adji_sift_rounds_of(points->count, job->k).room;
  struct {
    adji_block *block;
    uint64_t bytes;
  } const wanted[] = {
      {&b->values, b->row_room * points->rules.width * 2}, {&b->about, b->row_room * sizeof(adji_sift_query)},
      {&b->bounds, b->row_room * sizeof(float)},           {&b->counts, b->row_room * sizeof(uint32_t)},
      {&b->passed, b->queries * b->room * sizeof(uint2)},  {&b->failed, (b->queries + 2) * sizeof(uint32_t)}};
  for (const auto &w : wanted) {
    if (w.block->bytes >= w.bytes) continue;
    adji_block_free(gpu, gpu->compute, w.block);
    adj_status status = adji_block_get(gpu, gpu->compute, w.bytes, what, w.block);
    if (status) return status;
  }
  return ADJ_OK;
}

/* The values of all queries with positions first .. end - 1, of which first is a multiple of ADJI_SIFT_TILE: those that
 * are not below the bounds; or all. */
adj_status scan(adji_gpu *gpu, const adji_sift_points *points, const adji_brute_job *job, const adji_sift_batch *b,
                bool all, uint64_t first, uint64_t end) {
  adji_sift_scan_job s = {};
  s.left = adji_at<uint4>(b->values);
  s.right = adji_at<uint4>(points->values);
  s.starts = adji_at<float>(points->starts);
  s.bounds = adji_at<float>(b->bounds);
  s.about = adji_at<adji_sift_query>(b->about);
  s.queries = static_cast<uint32_t>(job->queries);
  s.width = points->rules.width;
  s.first = first;
  s.end = end;
  s.point_count = points->count;
  s.point_stride = points->stride;
  s.all = all;
  s.drop_self = job->drop_self;
  s.room = b->room;
  s.counts = adji_at<uint32_t>(b->counts);
  s.passed = adji_at<uint2>(b->passed);
  return s.width <= 64 ? adji_sift_scan_narrow(gpu, s) : adji_sift_scan_wide(gpu, s);
}

adj_status scan_rounds(adji_gpu *gpu, const adji_sift_points *points, const adji_brute_job *job,
                       const adji_sift_batch *b) {
  adji_sift_rounds rounds = adji_sift_rounds_of(points->count, job->k);
  adj_status status = scan(gpu, points, job, b, true, 0, rounds.first);
  if (!status) status = adji_sift_tighten(gpu, points, b, job, rounds.first);
  for (uint64_t begin = rounds.first; begin < points->count && !status;) {
    uint64_t end = static_cast<uint64_t>(static_cast<double>(begin) * rounds.factor) / ADJI_SIFT_TILE * ADJI_SIFT_TILE;
    /* Rather one that is a little longer than one more that is short. */
    if (end + end / 4 > points->count) end = points->count;
    status = scan(gpu, points, job, b, false, begin, end);
    if (!status) status = adji_sift_tighten(gpu, points, b, job, 0);
    begin = end;
  }
  return status;
}

adj_status fetch_failed(adji_gpu *gpu, const adji_sift_batch *b, adji_sift_outcome *out) {
  uint32_t told[2];
  ADJI_CUDA(gpu, cudaMemcpyAsync(told, b->failed.at, sizeof told, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  *out = adji_sift_outcome{told[0], told[1], adji_at<uint32_t>(b->failed) + 2};
  return ADJ_OK;
}

}  // namespace

adji_sift_rounds adji_sift_rounds_of(uint64_t points, uint32_t k) {
  adji_sift_rounds rounds = {FEWEST, 0, 0};
  while (rounds.room < 8 * k)
    rounds.room *= 2;
  if (rounds.room < 16 * k && k <= FEWEST / 4) rounds.room *= 2;
  rounds.first = points < rounds.room ? static_cast<uint32_t>(points) : rounds.room;
  double factor = 1 + (FILL * rounds.room / k - 1) / LOOSE;
  rounds.factor = factor < MOST_FACTOR ? factor : MOST_FACTOR;
  return rounds;
}

bool adji_sift_can(const adji_brute_job *job) {
  return job->measure->step == ADJI_STEP_L2 && job->dim <= ADJI_SIFT_MOST_DIM && job->k <= ADJI_SIFT_MOST_K;
}

uint64_t adji_sift_query_bytes(const adji_brute_job *job) {
  return adji_sift_width(job->dim) * 2 + sizeof(adji_sift_query) + 12 +
         adji_sift_rounds_of(job->right_count, job->k).room * sizeof(uint2);
}

adj_status adji_sift_search(adji_gpu *gpu, const adji_sift_points *points, const adji_brute_job *job,
                            adji_sift_batch *batch, adji_sift_outcome *out) {
  *out = adji_sift_outcome{};
  if (!job->queries) return ADJ_OK;
  adj_status status = get_batch(gpu, points, job, batch);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemsetAsync(batch->failed.at, 0, 2 * sizeof(uint32_t), gpu->compute));
  status = adji_sift_copy_queries(gpu, points, job, batch);
  if (!status) status = scan_rounds(gpu, points, job, batch);
  if (!status) status = adji_sift_settle(gpu, points, batch, job);
  return status ? status : fetch_failed(gpu, batch, out);
}

void adji_sift_batch_clear(adji_gpu *gpu, adji_sift_batch *batch) {
  adji_block *blocks[] = {&batch->values, &batch->about,  &batch->bounds,
                          &batch->counts, &batch->passed, &batch->failed};
  for (adji_block *block : blocks)
    adji_block_free(gpu, gpu->compute, block);
}
