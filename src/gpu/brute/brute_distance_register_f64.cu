/* SPDX-License-Identifier: MIT
 *
 * Instances of brute_distance_register.cuh for f64.
 */
#include "gpu/brute/brute_distance_register.cuh"

adj_status adji_distance_register_f64(adji_gpu *gpu, const adji_distance_job *job) {
  return launch_register_step<double>(gpu, job);
}
