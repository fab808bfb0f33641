/* SPDX-License-Identifier: MIT
 *
 * The cells of a point and of its images in a periodic box.
 */
#include "index/images.h"

bool adji_grid_is_periodic(const adji_grid *grid) {
  for (uint32_t a = 0; a < grid->axis_count; a++)
    if (grid->axes[a].period > 0) return true;
  return false;
}

uint32_t adji_cells_of_images(const adji_grid *grid, const adj_dataset *set, uint64_t row, uint64_t *keys) {
  uint32_t count = 1;
  if (keys) keys[0] = 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *axis = &grid->axes[a];
    double x = adji_dataset_at(set, row, axis->dim), image = x;
    if (axis->period > 0 && x <= axis->margin) image = x + axis->period;
    if (axis->period > 0 && x >= axis->period - axis->margin) image = x - axis->period;
    if (keys) {
      uint64_t here = axis->stride * adji_axis_slab(axis, x), there = axis->stride * adji_axis_slab(axis, image);
      for (uint32_t i = 0; i < count; i++) {
        if (image != x) keys[count + i] = keys[i] + there;
        keys[i] += here;
      }
    }
    if (image != x) count *= 2;
  }
  return count;
}
