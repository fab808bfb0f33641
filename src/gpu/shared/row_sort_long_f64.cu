/* SPDX-License-Identifier: MIT
 *
 * Long rows of ids with f64 sums.
 */
#include "gpu/shared/row_sort_long_private.cuh"

adj_status adji_sort_long_f64(adji_long_rows *l) {
  return sort_long_pairs<double>(l);
}
