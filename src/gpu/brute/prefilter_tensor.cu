/* SPDX-License-Identifier: MIT
 *
 * Brute force through tensor cores: rounds, and the memory of a batch of queries.
 */
#include "gpu/brute/prefilter_tensor_scan.cuh"

namespace {

enum { FEWEST = 1024, LONGEST = 16384, MOST_SETTLED = 8192, AGAIN_AT_ONCE = 2048 };

/* Of a list's room, what a round may be expected to fill, and how many more pass than in exact arithmetic. */
const double FILL = 0.6, LOOSE = 1.5, MOST_FACTOR = 4;

/* The values of all queries with positions first .. end - 1, of which first is a multiple of ADJI_TENSOR_TILE: those
 * that are not below the bounds; or all. */
adj_status scan(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job, const adji_tensor_batch *b,
                bool all, uint64_t first, uint64_t end) {
  adji_tensor_scan_job s = {};
  s.left = adji_at<uint4>(b->values);
  s.right = adji_at<uint4>(points->values);
  s.starts = adji_at<float>(points->starts);
  s.bounds = adji_at<float>(b->bounds);
  s.about = adji_at<adji_tensor_query>(b->about);
  s.queries = static_cast<uint32_t>(job->queries);
  s.width = points->rules.width;
  s.first = first;
  s.end = end;
  s.point_count = points->count;
  s.point_stride = points->stride;
  s.right_first = job->right_first;
  s.all = all;
  s.drop_self = job->drop_self;
  s.room = b->rounds.room;
  s.counts = adji_at<uint32_t>(b->counts);
  s.passed = adji_at<uint2>(b->passed);
  return s.width <= 64 ? adji_tensor_scan_narrow(gpu, s) : adji_tensor_scan_wide(gpu, s);
}

adj_status scan_rounds(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                       const adji_tensor_batch *b) {
  const adji_tensor_rounds rounds = b->rounds;
  adj_status status = scan(gpu, points, job, b, true, 0, rounds.first);
  if (!status) status = adji_tensor_tighten(gpu, points, b, job, rounds.first);
  for (uint64_t begin = rounds.first; begin < points->count && !status;) {
    uint64_t end =
        static_cast<uint64_t>(static_cast<double>(begin) * rounds.factor) / ADJI_TENSOR_TILE * ADJI_TENSOR_TILE;
    /* Rather one that is a little longer than one more that is short. */
    if (end + end / 4 > points->count) end = points->count;
    status = scan(gpu, points, job, b, false, begin, end);
    if (!status) status = adji_tensor_tighten(gpu, points, b, job, 0);
    begin = end;
  }
  return status;
}

adj_status search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job, adji_tensor_batch *b,
                  adji_tensor_outcome *out) {
  adj_status status = adji_tensor_batch_get(gpu, points, job, b);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemsetAsync(b->failed.at, 0, 2 * sizeof(uint32_t), gpu->compute));
  status = adji_tensor_copy_queries(gpu, points, job, b);
  if (!status) status = scan_rounds(gpu, points, job, b);
  if (!status) status = adji_tensor_refine(gpu, points, b, job);
  return status ? status : adji_tensor_fetch(gpu, b, out);
}

/* Some of the queries that failed, which are the job's; those that fail again go to `to`, behind the first so many. */
adj_status search_again(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                        adji_tensor_batch *b, uint32_t *to, adji_tensor_outcome *out) {
  uint64_t before = out->failed;
  adj_status status = search(gpu, points, job, b, out);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemcpyAsync(to + before, out->numbers, out->failed * sizeof(uint32_t), cudaMemcpyDeviceToDevice,
                                 gpu->compute));
  out->failed += before;
  out->numbers = to;
  return ADJ_OK;
}

/* All queries that failed, with longer lists. What fails again overtakes none that is still to come. */
adj_status search_failed(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                         adji_tensor_batch *batch, adji_tensor_outcome *out) {
  adji_tensor_batch longer = {};
  longer.rounds = adji_tensor_rounds_of(points->count, job->k, true);
  if (longer.rounds.room == batch->rounds.room) return ADJ_OK;
  uint32_t *numbers = adji_at<uint32_t>(batch->failed) + 2;
  uint64_t failed = out->failed;
  adji_brute_job some = *job;
  adji_tensor_outcome told = {0, failed, out->sums, numbers};
  adj_status status = ADJ_OK;
  for (uint64_t done = 0; done < failed && !status; done += some.queries) {
    some.numbers = numbers + done;
    some.queries = failed - done < AGAIN_AT_ONCE ? failed - done : AGAIN_AT_ONCE;
    status = search_again(gpu, points, &some, &longer, numbers, &told);
    if (status == ADJ_E_DEVICE_MEMORY && !done) break; /* they are left to another way */
  }
  adji_tensor_batch_clear(gpu, &longer);
  if (status == ADJ_E_DEVICE_MEMORY && !told.failed) return ADJ_OK;
  *out = told;
  return status;
}

}  // namespace

adji_tensor_rounds adji_tensor_rounds_of(uint64_t points, uint32_t k, bool again) {
  adji_tensor_rounds rounds = {FEWEST, 128, 0, 0};
  while (rounds.room < 8 * k)
    rounds.room *= 2;
  if (rounds.room < 16 * k && k <= FEWEST / 4) rounds.room *= 2;
  while (rounds.most < 4 * k && rounds.most < MOST_SETTLED)
    rounds.most *= 2;
  rounds.first = points < rounds.room ? static_cast<uint32_t>(points) : rounds.room;
  double factor = 1 + (FILL * rounds.room / k - 1) / LOOSE;
  rounds.factor = factor < MOST_FACTOR ? factor : MOST_FACTOR;
  if (again) {
    rounds.room = LONGEST;
    rounds.most = MOST_SETTLED;
  }
  return rounds;
}

adj_status adji_tensor_batch_get(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                 adji_tensor_batch *b) {
  uint64_t rows = (job->queries + ADJI_TENSOR_ROWS - 1) / ADJI_TENSOR_ROWS * ADJI_TENSOR_ROWS;
  struct {
    adji_block *block;
    uint64_t bytes;
  } const wanted[] = {{&b->values, rows * points->row_bytes},
                      {&b->about, rows * sizeof(adji_tensor_query)},
                      {&b->bounds, rows * sizeof(float)},
                      {&b->counts, rows * sizeof(uint32_t)},
                      {&b->passed, job->queries * b->rounds.room * sizeof(uint2)},
                      {&b->failed, (job->queries + 2) * sizeof(uint32_t)}};
  b->row_room = rows;
  for (const auto &w : wanted) {
    if (w.block->bytes >= w.bytes) continue;
    adji_block_free(gpu, gpu->compute, w.block);
    adj_status status = adji_block_get(gpu, gpu->compute, w.bytes, "brute force", w.block);
    if (status) return status;
  }
  return ADJ_OK;
}

adj_status adji_tensor_fetch(adji_gpu *gpu, const adji_tensor_batch *b, adji_tensor_outcome *out) {
  uint32_t told[2];
  ADJI_CUDA(gpu, cudaMemcpyAsync(told, b->failed.at, sizeof told, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  out->failed = told[0];
  out->sums += told[1];
  out->numbers = adji_at<uint32_t>(b->failed) + 2;
  return ADJ_OK;
}

bool adji_tensor_can(const adji_brute_job *job) {
  return job->measure->step == ADJI_STEP_L2 && job->dim <= ADJI_TENSOR_MOST_DIM && job->k <= ADJI_TENSOR_MOST_K &&
         job->right_count;
}

uint64_t adji_tensor_query_bytes(const adji_brute_job *job) {
  return adji_tensor_width(job->dim) * 2ull + sizeof(adji_tensor_query) + 12 +
         adji_tensor_rounds_of(job->right_count, job->k, false).room * sizeof(uint2);
}

adj_status adji_tensor_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                              adji_tensor_batch *batch, adji_tensor_outcome *out) {
  *out = adji_tensor_outcome{};
  if (!job->queries) return ADJ_OK;
  batch->rounds = adji_tensor_rounds_of(points->count, job->k, false);
  adj_status status = search(gpu, points, job, batch, out);
  if (!status && out->failed) status = search_failed(gpu, points, job, batch, out);
  return status;
}

void adji_tensor_batch_clear(adji_gpu *gpu, adji_tensor_batch *batch) {
  adji_block *blocks[] = {&batch->values, &batch->about,  &batch->bounds,
                          &batch->counts, &batch->passed, &batch->failed};
  for (adji_block *block : blocks)
    adji_block_free(gpu, gpu->compute, block);
}
