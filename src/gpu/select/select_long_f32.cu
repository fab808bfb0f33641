/* SPDX-License-Identifier: MIT
 *
 * Selection from long rows of f32.
 */
#include "gpu/select/select_long.cuh"

adj_status adji_select_long_f32(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k,
                                const adji_select_plan *plan) {
  return select_long<float>(gpu, job, out_k, plan);
}
