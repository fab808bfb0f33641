/* SPDX-License-Identifier: MIT
 *
 * Products of f32 sketches with AVX2.
 */
#include "distance/product_plain.h"

#if defined(__x86_64__)
void adji_product_avx2(const adji_product_task *task) {
  product_plain(task);
}
#endif
