/* SPDX-License-Identifier: MIT
 *
 * Instances of brute_distance_register.cuh for f32.
 */
#include "gpu/brute/brute_distance_register.cuh"

adj_status adji_distance_register_f32(adji_gpu *gpu, const adji_distance_job *job) {
  return launch_register_step<float>(gpu, job);
}
