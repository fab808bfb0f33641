/* SPDX-License-Identifier: MIT
 *
 * The kernels of knn_places.h, for any CPU.
 */
#include "distance/knn_places_body.h"

static void roots(const double *sums, uint32_t count, double *to) {
  for (uint32_t i = 0; i < count; i++)
    to[i] = sqrt(sums[i]);
}

const adji_places_kernels adji_places_plain = {sums_of_places, roots};
