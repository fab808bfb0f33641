/* SPDX-License-Identifier: MIT
 *
 * The prefilter of f32 sketches, compiled for AVX2.
 */
#include "distance/prefilter_sketch_plain.h"

#if defined(__x86_64__)
void adji_prefilter_sketch_avx2(const adji_prefilter_sketch_task *task) {
  sketch_plain(task);
}
#endif
