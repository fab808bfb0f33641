/* SPDX-License-Identifier: MIT
 *
 * Images of points in a periodic box. The grid knows nothing of wrapping round: a point within reach of
 * a face of the box is put into the order of the index a second time, into the cell where its image
 * beyond the opposite face lies. Its coordinates stay the original ones, so that the kernels decide
 * with the bits of the definition.
 *
 * Every pair that belongs is met exactly once. Let a be a query, in its cell inside of the box, and b a
 * candidate. On a periodic axis of length L a margin m is at least as wide as the true distance, the
 * shorter way round, of coordinates that belong, and the images of b are b; b + L if b <= m; b - L if
 * b >= L - m.
 *
 * At least once: if |a - b| <= m, the image b lies within m of a. Otherwise L - |a - b| <= m. If b > a,
 * then b >= L - m + a >= L - m, so b - L is an image, and it lies within m of a; if b < a, b + L does.
 * So on every axis some image is within the width of a slab's reach, and the cell of the combination of
 * these images is among those looked at (grid.c). An image's coordinate rounds by 2^-53 of 2 L, which
 * with at most 2^20 slabs is far less than the slack of a slab.
 *
 * At most once: two images on one axis are L apart. An axis is made only where L is at least 4 cells,
 * that is 4 * reach slabs, so their slabs differ by at least 4 * reach - 1 > 2 * reach, and no query
 * has both within reach. So of all combinations at most one is among the cells looked at.
 *
 * The same bound rules out that b has two images on one side: both b <= m and b >= L - m would need
 * L <= 2 m.
 */
#ifndef ADJI_IMAGES_H
#define ADJI_IMAGES_H

#include "index/grid.h"

/* The numbers of the cells that hold a point or an image of it, to keys (NULL: not wanted), which has
 * room for 2^axes. Returns how many: 1 where the point is far from all faces. */
uint32_t adji_cells_of_images(const adji_grid *grid, const adj_dataset *set, uint64_t row, uint64_t *keys);

/* Whether the grid has a periodic axis. */
bool adji_grid_is_periodic(const adji_grid *grid);

#endif
