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

/* Step 4, along a curve: see index_refine.cu. The order stays unchanged if there is no memory for this step. */
adj_status adji_index_refine(adji_building *b);

/* Cuts runs of rows that are in the order of a curve: see index_cut.cu. Changes nothing if a block cannot have the
 * shared memory for it. */
adj_status adji_index_cut(adji_building *b);

/* Transforms coordinates of `bits` bits so that their bits, interleaved from the highest down, are the number on
 * Hilbert's curve (J. Skilling's method). From the highest bit down, the part of the cube that a bit selects is turned
 * so that its curve begins where the curve of the previous part ends; then a reflected Gray code is decoded. */
template <int DIM>
static __device__ __forceinline__ void adji_to_curve(uint32_t bits, uint32_t (&x)[DIM]) {
  for (uint32_t bit = 1u << (bits - 1); bit > 1; bit >>= 1) {
#pragma unroll
    for (int j = 0; j < DIM; j++) {
      uint32_t swapped = (x[0] ^ x[j]) & (bit - 1);
      bool reflected = x[j] & bit;
      x[0] ^= reflected ? bit - 1 : swapped;
      if (!reflected && j) x[j] ^= swapped;
    }
  }
#pragma unroll
  for (int j = 1; j < DIM; j++)
    x[j] ^= x[j - 1];
  uint32_t turned = 0;
  for (uint32_t bit = 1u << (bits - 1); bit > 1; bit >>= 1)
    if (x[DIM - 1] & bit) turned ^= bit - 1;
#pragma unroll
  for (int j = 0; j < DIM; j++)
    x[j] ^= turned;
}

/* The number on the curve of a point whose coordinates have `bits` bits. */
template <class KEY, int DIM>
static __device__ __forceinline__ KEY adji_curve_number(uint32_t bits, uint32_t (&x)[DIM]) {
  adji_to_curve(bits, x);
  KEY number = 0;
  for (uint32_t bit = bits; bit--;)
#pragma unroll
    for (int j = 0; j < DIM; j++)
      number = static_cast<KEY>(number << 1 | (x[j] >> bit & 1));
  return number;
}

#endif
