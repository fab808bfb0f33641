/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: the k smallest of the rows of a matrix on a device.
 */
#include <string.h>

#include "adjoin_cuda.h"
#include "data/dataset.h"
#include "gpu/select/select.h"
#include "result/select.h"

ADJI_DEFINE_INIT(adj_cuda_select_options, .order = ADJ_ORDER_DISTANCE)

static const struct {
  const char *name;
  adji_select_algorithm algorithm;
} ALGORITHMS[] = {{"short", ADJI_SELECT_SHORT},
                  {"bound", ADJI_SELECT_BOUND},
                  {"bits", ADJI_SELECT_BITS},
                  {"bitonic", ADJI_SELECT_BITONIC},
                  {"radix", ADJI_SELECT_RADIX},
                  {"sample", ADJI_SELECT_SAMPLE},
                  {"sort", ADJI_SELECT_SORT},
                  {"block-bits", ADJI_SELECT_BLOCK_BITS},
                  {"block-bitonic", ADJI_SELECT_BLOCK_BITONIC},
                  {"block-radix", ADJI_SELECT_BLOCK_RADIX},
                  {"block-sample", ADJI_SELECT_BLOCK_SAMPLE},
                  {"stream-sort", ADJI_SELECT_STREAM_SORT}};

static adj_status find_algorithm(const char *name, uint32_t k, adji_select_algorithm *out) {
  *out = ADJI_SELECT_AUTO;
  if (!name) return ADJ_OK;
  for (size_t i = 0; i < sizeof ALGORITHMS / sizeof *ALGORITHMS; i++)
    if (!strcmp(name, ALGORITHMS[i].name)) *out = ALGORITHMS[i].algorithm;
  if (*out == ADJI_SELECT_AUTO) return adji_fail(ADJ_E_ARGUMENT, "algorithm: there is no '%s' for selection", name);
  if (!adji_select_takes(*out, k))
    return adji_fail(ADJ_E_ARGUMENT, "algorithm: %s is for k up to %d, not %u", name, (int)ADJI_SELECT_MOST, k);
  return ADJ_OK;
}

static adj_status make_job(const adj_matrix *matrix, uint32_t k, const adj_cuda_select_options *options,
                           adji_gpu_select *job) {
  adj_matrix m;
  adj_cuda_select_options o;
  adj_matrix_init(&m, sizeof m);
  adj_cuda_select_options_init(&o, sizeof o);
  adj_status status = adji_take_struct(&m, sizeof m, matrix, "adj_matrix");
  if (!status && options) status = adji_take_struct(&o, sizeof o, options, "adj_cuda_select_options");
  if (!status) status = adji_check_selection(&m, k, o.order);
  if (!status && o.largest > 1) status = adji_fail(ADJ_E_ARGUMENT, "largest: %u is neither 0 nor 1", o.largest);
  if (!status) status = find_algorithm(o.algorithm, k, &job->algorithm);
  if (status) return status;
  uint64_t size = adji_type_size(m.type);
  job->type = m.type;
  job->values = m.values;
  job->rows = m.rows;
  job->columns = m.columns;
  job->row_stride = m.row_stride ? m.row_stride / size : m.columns;
  job->k = k;
  job->largest = o.largest;
  job->sorted = o.order != ADJ_ORDER_ANY;
  job->ids = o.ids;
  return ADJ_OK;
}

adj_status adj_cuda_select_k(adj_ctx *ctx, const adj_matrix *matrix, uint32_t k, const adj_cuda_select_options *options,
                             adj_cuda_stream stream, uint32_t *columns, void *values) {
  if (!ctx || !matrix || !columns) return adji_fail(ADJ_E_ARGUMENT, "ctx, matrix and columns: none may be NULL");
  adji_gpu_select job = {.columns_out = columns, .values_out = values};
  adji_gpu *gpu;
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = make_job(matrix, k, options, &job);
  if (!status) status = adji_gpu_of(ctx, &gpu);
  if (!status && job.rows) {
    adji_gpu_lock(gpu);
    adji_gpu_reset_peak(gpu);
    status = adji_gpu_after(gpu, stream);
    if (!status) status = adji_gpu_select_rows(gpu, &job);
    if (!status) status = adji_gpu_before(gpu, stream);
    adji_gpu_unlock(gpu);
  }
  adji_call_set(outer);
  return status;
}
