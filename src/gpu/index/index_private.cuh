/* SPDX-License-Identifier: MIT
 *
 * Building the grid's index on a device: what the steps share. index.cu lists the steps.
 */
#ifndef ADJI_GPU_INDEX_INDEX_PRIVATE_CUH
#define ADJI_GPU_INDEX_INDEX_PRIVATE_CUH

#include "gpu/index/index.cuh"

typedef struct adji_building {
  adji_gpu *gpu;
  const adji_gpu_grid *grid;
  const adji_gpu_rows *rows;
  const adji_gpu_index_options *options;
  adji_gpu_index *index;
  uint32_t key_bits;
  adji_block spare_numbers, spare_ids, temporary, image_counts;
} adji_building;

/* Step 3. */
adj_status adji_index_find_cells(adji_building *b);

/* Cuts runs of rows that are in the order of a curve: see index_cut.cu. Changes nothing where a block cannot have the
 * shared memory for it. */
adj_status adji_index_cut(adji_building *b);

#endif
