/* SPDX-License-Identifier: MIT
 *
 * The kernels of knn_places.h, for CPUs with AVX2 and FMA. Roots are stored as vectors, which takes fewer stores: each
 * store that misses the caches waits in a queue, and the core waits when the queue is full.
 */
#if defined(__x86_64__)
#include <immintrin.h>

#include "distance/knn_places_body.h"

static void roots(const double *sums, uint32_t count, double *to) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4)
    _mm256_storeu_pd(to + i, _mm256_sqrt_pd(_mm256_loadu_pd(sums + i)));
  for (; i < count; i++)
    _mm_store_sd(to + i, _mm_sqrt_sd(_mm_setzero_pd(), _mm_load_sd(sums + i)));
}

const adji_places_kernels adji_places_avx2 = {sums_of_places, roots};
#endif
