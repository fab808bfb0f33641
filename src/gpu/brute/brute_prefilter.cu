/* SPDX-License-Identifier: MIT
 *
 * Brute force with a prefilter, on tensor cores or by cuBLAS: which joins use it, the batches of queries, and the
 * matrix method for queries that it cannot certify.
 */
#include "gpu/brute/brute_prefilter.cuh"

#include "gpu/brute/brute_matrix.cuh"
#include "gpu/brute/prefilter_gemm.cuh"

namespace {

/* With fewer queries or points, comparing is faster than copying. */
enum { FEWEST_QUERIES = 64, FEWEST_POINTS = 2048 };

/* Bytes of the queries of a batch. */
const uint64_t BATCH_BYTES = 512 << 20;

uint64_t batch_of(const adji_brute_job *job, bool gemm) {
  uint64_t bytes = gemm ? adji_gemm_query_bytes(job) : adji_tensor_query_bytes(job);
  uint64_t queries = BATCH_BYTES / bytes / ADJI_TENSOR_ROWS * ADJI_TENSOR_ROWS;
  return queries > ADJI_TENSOR_ROWS ? queries : ADJI_TENSOR_ROWS;
}

adj_status copy_points(adji_gpu *gpu, const adji_brute_job *job, bool gemm, adji_gpu_brute_prefilter_state *s) {
  if (s->copied) return ADJ_OK;
  adj_status status =
      gemm ? adji_gemm_copy_points(gpu, job, &s->points) : adji_tensor_copy_points(gpu, job, &s->points);
  s->copied = !status;
  return status;
}

void drop_points(adji_gpu *gpu, adji_gpu_brute_prefilter_state *s) {
  if (s->copied) adji_tensor_points_clear(gpu, &s->points);
  s->copied = false;
}

/* Searches one batch; queries it fails go to the matrix method. */
adj_status search_batch(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice,
                        adji_gpu_brute_prefilter_state *s) {
  adji_tensor_outcome found;
  adj_status status = choice->method == ADJI_METHOD_GEMM
                          ? adji_gemm_search(gpu, &s->points, job, choice, &s->batch, &found)
                          : adji_tensor_search(gpu, &s->points, job, &s->batch, &found);
  if (status) return status;
  s->work->queries += job->queries;
  s->work->sums += found.sums;
  s->work->again += found.again;
  s->work->failed += found.failed;
  if (!found.failed) return ADJ_OK;
  adji_brute_job rest = *job;
  rest.numbers = found.numbers;
  rest.queries = found.failed;
  return adji_brute_matrix(gpu, &rest, choice);
}

adj_status search_batches(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice,
                          adji_gpu_brute_prefilter_state *s) {
  uint64_t size = job->type == ADJ_F64 ? 8 : 4, most = batch_of(job, choice->method == ADJI_METHOD_GEMM);
  adj_status status = ADJ_OK;
  for (uint64_t done = 0; done < job->queries && !status;) {
    adji_brute_job some = *job;
    some.queries = job->queries - done < most ? job->queries - done : most;
    some.first_row += done;
    some.ids += done * job->k;
    some.distances = static_cast<char *>(some.distances) + done * job->k * size;
    status = search_batch(gpu, &some, choice, s);
    if (status == ADJ_E_DEVICE_MEMORY && most > ADJI_TENSOR_ROWS) {
      most = most / 2 / ADJI_TENSOR_ROWS * ADJI_TENSOR_ROWS;
      status = ADJ_OK;
      continue;
    }
    done += some.queries;
  }
  return status;
}

}  // namespace

bool adji_gpu_brute_prefilter_applies(const adji_brute_job *job, const adji_brute_choice *choice) {
  if (choice->method == ADJI_METHOD_MATRIX || job->numbers) return false;
  if (choice->method == ADJI_METHOD_GEMM) return adji_gemm_can(job);
  if (choice->distance || choice->select || !adji_tensor_can(job)) return false;
  return choice->method == ADJI_METHOD_TENSOR || (job->queries >= FEWEST_QUERIES && job->right_count >= FEWEST_POINTS);
}

adj_status adji_gpu_brute_prefilter_search(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice,
                                           bool keep, adji_gpu_brute_prefilter_state *s) {
  adj_status status = copy_points(gpu, job, choice->method == ADJI_METHOD_GEMM, s);
  if (!status) status = search_batches(gpu, job, choice, s);
  adji_tensor_batch_clear(gpu, &s->batch);
  if (status || !keep) drop_points(gpu, s);
  /* Without memory for it, everything goes to the matrix method. */
  if (status == ADJ_E_DEVICE_MEMORY && choice->method == ADJI_METHOD_AUTO) status = adji_brute_matrix(gpu, job, choice);
  return status;
}

void adji_gpu_brute_prefilter_clear(adji_gpu *gpu, adji_gpu_brute_prefilter_state *s) {
  drop_points(gpu, s);
}
