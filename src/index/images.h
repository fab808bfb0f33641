/* SPDX-License-Identifier: MIT
 *
 * Images of points in a periodic box. The grid does not wrap round. Instead, a point within reach of a face of the box
 * gets a second entry in the index, in the cell where its image beyond the opposite face lies. Its coordinates stay the
 * original ones, so the kernels decide with the bits of the definition.
 *
 * Every pair that belongs is met exactly once. Let a be a query, in its cell inside the box, and b a candidate. On a
 * periodic axis of length L the margin m is at least the true distance, the shorter way round, of coordinates that
 * belong. The images of b are b; b + L if b <= m; and b - L if b >= L - m.
 *
 * At least once: if |a - b| <= m, the image b lies within m of a. Otherwise L - |a - b| <= m. If b > a, then
 * b >= L - m + a >= L - m, so b - L is an image and lies within m of a. If b < a, the same holds for b + L. So on every
 * axis some image is within the reach of the slabs, and the cell of this combination of images is among the cells
 * visited (grid.c). An image's coordinate rounds by 2^-53 of 2 L. With at most 2^20 slabs that is far less than the
 * slack of a slab.
 *
 * At most once: two images on one axis are L apart. An axis exists only where L is at least 4 cells, that is 4 * reach
 * slabs. So their slabs differ by at least 4 * reach - 1 > 2 * reach, and no query has both within reach. Of all
 * combinations at most one is among the cells visited.
 *
 * The same bound excludes two images of b on one side: b <= m and b >= L - m together would need L <= 2 m.
 */
#ifndef ADJI_IMAGES_H
#define ADJI_IMAGES_H

#include "index/grid.h"

/* Writes the numbers of the cells that hold the point or one of its images to keys, which has room for 2^axes entries
 * (NULL: count only). Returns how many there are: 1 if the point is far from all faces. */
uint32_t adji_cells_of_images(const adji_grid *grid, const adj_dataset *set, uint64_t row, uint64_t *keys);

bool adji_grid_is_periodic(const adji_grid *grid);

#endif
