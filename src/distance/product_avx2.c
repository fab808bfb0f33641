/* SPDX-License-Identifier: MIT
 *
 * The prefilter of f32 sketches, compiled for AVX2.
 */
#include "distance/product_plain.h"

#if defined(__x86_64__)
void adji_product_avx2(const adji_product_task *task) {
  product_plain(task);
}
#endif
