/* SPDX-License-Identifier: MIT
 *
 * From cell numbers to positions, the third step of building an index (index.cu): a directory, or a table of the rows
 * of cells that are not empty.
 */

#include "gpu/index/index_private.cuh"
#include "gpu/shared/arrays.cuh"

enum { THREADS = 256 };

/* The last position of each bucket writes the number of positions so far to the entry after the bucket. The running
 * maximum of these entries is the directory. Also counts the cells. */
template <class KEY>
static __global__ void write_ends(const KEY *numbers, uint64_t count, uint32_t shift, uint32_t *directory,
                                  unsigned long long *cells) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool last = false;
  if (i < count) {
    KEY number = numbers[i], next = i + 1 < count ? numbers[i + 1] : number;
    last = i + 1 == count || number != next;
    if (i + 1 == count || number >> shift != next >> shift)
      directory[(static_cast<uint64_t>(number) >> shift) + 1] = static_cast<uint32_t>(i + 1);
  }
  int block_cells = __syncthreads_count(last);
  if (threadIdx.x == 0 && block_cells) atomicAdd(cells, static_cast<unsigned long long>(block_cells));
}

/* Makes the directory: a bucket for every cell number, or for a power of two of them, so that the number of buckets
 * stays within its limit. */
template <class KEY>
static adj_status find_buckets(adji_building *b) {
  adji_gpu *gpu = b->gpu;
  adji_gpu_index *index = b->index;
  adji_gpu_cells *cells = &index->cells;
  cells->keys = b->grid->keys;
  cells->position_numbers = index->numbers;
  while (cells->keys >> cells->shift > ADJI_GPU_BUCKETS(index->count))
    cells->shift++;
  uint64_t entries = (cells->keys >> cells->shift) + 2;
  adj_status status = adji_block_get(gpu, gpu->compute, entries * 4, "directory of cells", &index->directory_block);
  if (!status) status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_CELLS, 1);
  if (status) return status;
  uint32_t *directory = adji_at<uint32_t>(index->directory_block);
  cells->directory = directory;
  ADJI_CUDA(gpu, cudaMemsetAsync(directory, 0, entries * 4, gpu->compute));
  if (index->count) {
    write_ends<KEY><<<adji_blocks_for(index->count, THREADS), THREADS, 0, gpu->compute>>>(
        static_cast<const KEY *>(index->numbers), index->count, cells->shift, directory,
        adji_answer_at(gpu, ADJI_ANSWER_CELLS));
    ADJI_LAUNCHED(gpu, "write_ends");
  }
  return adji_run_maximum(gpu, &b->temporary, directory, entries);
}

/* Whether a row of cells begins or ends at a position of the index, and whether a cell begins there. */
template <class KEY>
struct row_ends {
  uint64_t row;
  bool first, last, first_of_cell;

  __device__ row_ends(const KEY *numbers, uint64_t count, uint64_t i, uint64_t row_stride) {
    row = numbers[i] / row_stride;
    first = i == 0 || numbers[i - 1] / row_stride != row;
    last = i + 1 == count || numbers[i + 1] / row_stride != row;
    first_of_cell = i == 0 || numbers[i - 1] != numbers[i];
  }
};

template <class KEY>
static __global__ void count_rows_of_cells(const KEY *numbers, uint64_t count, uint64_t row_stride,
                                           unsigned long long *rows, unsigned long long *cells) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  bool first = false, first_of_cell = false;
  if (i < count) {
    row_ends<KEY> ends(numbers, count, i, row_stride);
    first = ends.first;
    first_of_cell = ends.first_of_cell;
  }
  int many_rows = __syncthreads_count(first), many_cells = __syncthreads_count(first_of_cell);
  if (threadIdx.x) return;
  atomicAdd(rows, static_cast<unsigned long long>(many_rows));
  atomicAdd(cells, static_cast<unsigned long long>(many_cells));
}

/* The first position of each row of cells inserts the row into the table. In a second pass, with ENDS, the last
 * position finds the entry and sets its count. */
template <class KEY, bool ENDS>
static __global__ void enter_rows(const KEY *numbers, uint64_t count, uint64_t row_stride, adji_gpu_row *table,
                                  uint64_t mask) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  row_ends<KEY> ends(numbers, count, i, row_stride);
  if (!(ENDS ? ends.last : ends.first)) return;
  for (uint64_t at = adji_row_hash(ends.row) & mask;; at = (at + 1) & mask) {
    unsigned long long *key = reinterpret_cast<unsigned long long *>(&table[at].number);
    if (ENDS) {
      if (*key != ends.row) continue;
      table[at].count = static_cast<uint32_t>(i) + 1 - table[at].begin;
      return;
    }
    if (atomicCAS(key, static_cast<unsigned long long>(ADJI_NO_ROW), static_cast<unsigned long long>(ends.row)) !=
        ADJI_NO_ROW)
      continue;
    table[at].begin = static_cast<uint32_t>(i);
    return;
  }
}

/* Makes the table of the rows of cells that are not empty. */
template <class KEY>
static adj_status find_rows(adji_building *b) {
  adji_gpu *gpu = b->gpu;
  adji_gpu_index *index = b->index;
  const KEY *numbers = static_cast<const KEY *>(index->numbers);
  uint64_t stride = b->grid->row_stride, size = 64;
  uint32_t blocks = adji_blocks_for(index->count, THREADS);
  adj_status status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_CELLS, 2);
  if (status) return status;
  count_rows_of_cells<<<blocks, THREADS, 0, gpu->compute>>>(
      numbers, index->count, stride, adji_answer_at(gpu, ADJI_ANSWER_ITEMS), adji_answer_at(gpu, ADJI_ANSWER_CELLS));
  ADJI_LAUNCHED(gpu, "count_rows_of_cells");
  status = adji_answers_fetch(gpu, gpu->compute);
  if (status) return status;
  while (size < 2 * gpu->answers[ADJI_ANSWER_ITEMS])
    size *= 2;
  status = adji_block_get(gpu, gpu->compute, size * sizeof(adji_gpu_row), "rows of cells", &index->rows_block);
  if (status) return status;
  adji_gpu_row *table = adji_at<adji_gpu_row>(index->rows_block);
  ADJI_CUDA(gpu, cudaMemsetAsync(table, 0xff, size * sizeof *table, gpu->compute));
  enter_rows<KEY, false><<<blocks, THREADS, 0, gpu->compute>>>(numbers, index->count, stride, table, size - 1);
  ADJI_LAUNCHED(gpu, "enter_rows");
  enter_rows<KEY, true><<<blocks, THREADS, 0, gpu->compute>>>(numbers, index->count, stride, table, size - 1);
  ADJI_LAUNCHED(gpu, "enter_rows");
  index->cells.keys = b->grid->keys;
  index->cells.rows = table;
  index->cells.row_mask = size - 1;
  index->cells.position_numbers = numbers;
  index->cell_count = gpu->answers[ADJI_ANSWER_CELLS];
  return ADJ_OK;
}

/* With many axes a table of rows is used: most rows of cells are empty, and the others would be spread over many
 * buckets. */
template <class KEY>
static adj_status find_cells(adji_building *b) {
  bool dense = b->grid->keys <= ADJI_GPU_BUCKETS(b->index->count);
  if (!dense && b->grid->axis_count > 3 && b->index->count) return find_rows<KEY>(b);
  return find_buckets<KEY>(b);
}

adj_status adji_index_find_cells(adji_building *b) {
  return b->index->wide_numbers ? find_cells<uint64_t>(b) : find_cells<uint32_t>(b);
}
