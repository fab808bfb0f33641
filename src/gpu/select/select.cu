/* SPDX-License-Identifier: MIT
 *
 * The k smallest of each row of a matrix: the choice of an algorithm, and the plan of a bound.
 *
 * For k up to 2,048, in long rows (select_long.cuh):
 * 1. A sample gives each row a bound.
 * 2. One pass collects the keys that are not above it, a few times k.
 * 3. Sorting these keys gives the answer.
 *
 * The bound hardly ever fails. If it does, there are fewer than k keys up to it or more than there is room for, and the
 * counts show it. Otherwise all keys up to the bound were collected, at least k of them, so the k smallest are among
 * them. Rows that fail get a second bound, from a sample that no order of the values can mislead, and a second pass.
 * Rows that fail again are done by one block each, without a bound. This is sample select in one stage, with one
 * splitter; select_sample.cuh does it for any k. Short rows stay in shared memory (select_short.cu).
 */
#include "gpu/select/select.cuh"

#include <cmath>

extern "C" {
#include "data/dataset.h"
}

namespace {

/* ---- Plans ----------------------------------------------------------------------------------- */

enum { GROUPS = ADJI_SAMPLE_GROUPS, LOG_GROUPS = 8, SHORTEST_ROW = 4096, MOST_PARTS = 256, MOST_CAPACITY = 131072 };

/* Of 2^log_size values, the number of groups that hold one of the k smallest is about binomial. The rank is `safety`
 * deviations above the mean of that number, plus 5 for the tail if few are expected. expected: the number of smallest
 * values of which `rank` groups hold one. */
adji_sample_plan plan_of_size(uint32_t columns, uint32_t k, uint32_t log_size, uint32_t log_run, double safety) {
  double each = std::ldexp(1.0, static_cast<int>(log_size)) / GROUPS;
  double hit = 1 - std::pow(1 - static_cast<double>(k) / columns, each), mean = GROUPS * hit;
  double rank = std::ceil(mean + safety * std::sqrt(mean * (1 - hit)) + 5);
  adji_sample_plan plan = {{log_size, log_run, GROUPS, 1}, double(columns)};
  if (rank >= GROUPS) return plan;
  plan.how.rank = static_cast<uint32_t>(rank);
  plan.expected = columns * (1 - std::pow(1 - rank / GROUPS, 1 / each));
  return plan;
}

/* The smallest sample with at most `goal` expected keys, or the best one of up to 1/16 of the row. */
adji_sample_plan plan_sample(uint32_t columns, uint32_t k, uint32_t log_run, double safety, double goal) {
  adji_sample_plan best = {{LOG_GROUPS, log_run, GROUPS, 1}, INFINITY};
  for (uint32_t log_size = LOG_GROUPS; columns >> log_size >= 16 && best.expected > goal; log_size++) {
    adji_sample_plan plan = plan_of_size(columns, k, log_size, log_run, safety);
    if (plan.expected < best.expected) best = plan;
  }
  return best;
}

/* Chooses segments short enough that each multiprocessor gets several, so that all multiprocessors end at about the
 * same time. */
void plan_segments(const adji_gpu *gpu, const adji_gpu_select *job, adji_select_plan *plan) {
  uint64_t rows = job->rows, vectors = job->columns / (16 / adji_type_size(job->type)) + 1;
  uint64_t units = vectors * rows / (static_cast<uint64_t>(gpu->multiprocessors) * 64) / ADJI_SCAN_UNIT;
  units = units < 2 ? 2 : units > 16 ? 16 : units;
  plan->segments = adji_blocks_for(vectors, static_cast<uint32_t>(units) * ADJI_SCAN_UNIT);
  plan->length = adji_blocks_for(adji_blocks_for(vectors, plan->segments), ADJI_SCAN_UNIT) * ADJI_SCAN_UNIT;
}

/* Plans a sample that several blocks share. With 6 deviations a bound has fewer than k keys up to it once in 10^8 rows,
 * even if neighbouring values are alike, since a run counts for one group. If they are alike, the number of keys can be
 * larger by a factor of up to the values in a run; the capacity is twice that. */
void plan_parts(const adji_gpu_select *job, uint32_t log_access, adji_select_plan *plan) {
  plan->first = plan_sample(static_cast<uint32_t>(job->columns), job->k, 0, 6, 2.6 * job->k + 1600);
  adji_sampling *how = &plan->first.how;
  bool runs = how->log_size >= LOG_GROUPS + log_access;
  how->log_run = runs ? log_access : 0;
  uint32_t accesses = (1u << how->log_size) >> (runs ? log_access - 1 : 0); /* each access is half of a run */
  while (how->parts < MOST_PARTS && accesses / how->parts > ADJI_PART_READS && how->parts * job->rows < 2048)
    how->parts *= 2;
  plan->capacity = 32768;
  while (plan->capacity < 2 * std::ldexp(plan->first.expected, static_cast<int>(how->log_run)) &&
         plan->capacity < MOST_CAPACITY)
    plan->capacity *= 2;
}

/* False: a bound does not help, since the rows are too short or k is too large a share of them. */
bool plan_bounds(const adji_gpu *gpu, const adji_gpu_select *job, adji_select_plan *plan) {
  uint32_t columns = static_cast<uint32_t>(job->columns), k = job->k;
  if (columns < SHORTEST_ROW || k > ADJI_SELECT_MOST) return false;
  uint32_t log_access = job->type == ADJ_F64 ? 2 : 3; /* values per 32 bytes */
  plan->few = job->rows < static_cast<uint64_t>(gpu->multiprocessors);
  double goal = k > 1024 ? 1.65 * k : 2.0 * k + 600;
  if (plan->few) {
    plan_parts(job, log_access, plan);
  } else {
    plan->first = plan_sample(columns, k, log_access, 5.5, goal);
    plan->capacity = 1024;
    while (plan->capacity < 8192 && plan->capacity < 4 * plan->first.expected)
      plan->capacity *= 2;
  }
  plan_segments(gpu, job, plan);
  double most = std::fmin(plan->capacity / 1.3, columns / 3.0);
  plan->again = plan_sample(columns, k, 0, 8, std::fmin(2 * goal, most));
  return plan->first.expected <= most && (plan->few || plan->again.expected <= most);
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* Writes the padding entries beyond the columns of the matrix. One thread per entry; output in device memory. */
template <class T>
__global__ void pad_rows(uint64_t rows, uint32_t from, uint32_t k, T padding, uint32_t *columns, T *values) {
  uint64_t each = k - from, i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < rows * each; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    uint64_t to = i / each * k + from + i % each;
    columns[to] = ADJ_NO_ID;
    if (values) values[to] = padding;
  }
}

template <class T>
adj_status pad(adji_gpu *gpu, const adji_gpu_select *job) {
  uint32_t from = static_cast<uint32_t>(job->columns);
  T padding = static_cast<T>(job->largest ? -INFINITY : INFINITY);
  pad_rows<T><<<1024, 256, 0, gpu->compute>>>(job->rows, from, job->k, padding, job->columns_out,
                                              static_cast<T *>(job->values_out));
  ADJI_LAUNCHED(gpu, "pad_rows");
  return ADJ_OK;
}

/* The algorithm is chosen if none was requested or the requested one does not take such rows.
 *
 * Rows are short if two fit a multiprocessor's shared memory, so that one is read while the other is processed, and if
 * that is faster than a bound (on an H200, f32: up to 8,192 columns for small k, 4,096 for large k, and whenever k is
 * too large a share of the row for a bound). */
enum { SHORT_FEW = 8192, SHORT_MANY = 4096, FEW_VALUES = 128, BOUND_SHARE = 8 };

bool suits_short(const adji_gpu_select *job) {
  return job->columns <= (job->k <= FEW_VALUES ? SHORT_FEW : SHORT_MANY) ||
         static_cast<uint64_t>(job->k) * BOUND_SHARE > job->columns;
}

/* Chooses an algorithm where no bound is useful: k is up to 2,048 and a large share of the row, which then has fewer
 * than 16,384 columns. Such rows fit shared memory on a device that has 227 KiB of it per block. On other devices a row
 * that a block can sort at once is read once, while digits take five passes. A longer row would be sorted again and
 * again in a buffer that discards little: on an H200 that took 13 ms, digits 7.9 ms (16,384 rows of 32,768, k =
 * 2,048). */
adj_status choose_without_bound(adji_gpu *gpu, adji_gpu_select *job) {
  bool fits = false, sorted_at_once = job->columns <= (job->type == ADJ_F64 ? 4096 : 8192);
  adj_status status = adji_select_short_fits(gpu, job, 1, &fits);
  job->algorithm = fits ? ADJI_SELECT_SHORT : sorted_at_once ? ADJI_SELECT_BITS : ADJI_SELECT_RADIX;
  return status;
}

/* For k above 2,048. From three quarters of the row on, sorting the whole row costs no more than selecting. Samples
 * move fewer bytes than digits; they were twice as fast in rows of 4 million and slower in rows of 32,768 (H200, k up
 * to 2,048). They were not measured for larger k, so they are used only on request. */
adji_select_algorithm choose_for_many(const adji_gpu_select *job) {
  return static_cast<uint64_t>(job->k) >= job->columns / 4 * 3 ? ADJI_SELECT_SORT : ADJI_SELECT_RADIX;
}

/* plan: the plan of a bound, if that is the choice. */
adj_status choose_algorithm(adji_gpu *gpu, adji_gpu_select *job, adji_select_plan *plan) {
  bool automatic = job->algorithm == ADJI_SELECT_AUTO, fits = false;
  if (automatic || job->algorithm == ADJI_SELECT_SHORT) {
    adj_status status = adji_select_short_fits(gpu, job, automatic ? 2 : 1, &fits);
    if (status) return status;
    if (automatic && !suits_short(job)) fits = false;
    job->algorithm = fits ? ADJI_SELECT_SHORT : job->k <= ADJI_SELECT_MOST ? ADJI_SELECT_BOUND : choose_for_many(job);
  }
  if (job->algorithm != ADJI_SELECT_BOUND || plan_bounds(gpu, job, plan)) return ADJ_OK;
  *plan = {};
  return choose_without_bound(gpu, job);
}

}  // namespace

adj_status adji_gpu_select_rows(adji_gpu *gpu, const adji_gpu_select *job) {
  if (!job->rows) return ADJ_OK;
  bool f64 = job->type == ADJ_F64;
  adji_gpu_select request = *job;
  if (request.k > request.columns) {
    adj_status padded = f64 ? pad<double>(gpu, job) : pad<float>(gpu, job);
    if (padded || !request.columns) return padded;
    request.k = static_cast<uint32_t>(request.columns);
  }
  adji_select_plan plan = {};
  adj_status status = choose_algorithm(gpu, &request, &plan);
  if (status) return status;
  if (request.algorithm == ADJI_SELECT_SHORT) return adji_select_short(gpu, &request, job->k);
  if (request.algorithm == ADJI_SELECT_BLOCK_BITS || request.algorithm == ADJI_SELECT_BLOCK_BITONIC)
    return adji_select_block_bits(gpu, &request, job->k);
  if (request.algorithm >= ADJI_SELECT_RADIX) return adji_select_large(gpu, &request, job->k);
  return f64 ? adji_select_long_f64(gpu, &request, job->k, &plan) : adji_select_long_f32(gpu, &request, job->k, &plan);
}
