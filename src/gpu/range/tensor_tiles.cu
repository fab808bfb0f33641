/* SPDX-License-Identifier: MIT
 *
 * Chooses the tensor core kernel that a job needs, and launches it.
 */
#include "gpu/range/tensor_tiles.cuh"

#include "gpu/range/tensor_tiles_kernel.cuh"

/* Bytes from one copy to the next in shared memory: an odd multiple of 16, so that eight copies use all banks. */
static uint32_t pitch_of(uint32_t width) {
  return width * 2 + 16;
}

static products with_types(const adji_tiles_job *job, const adji_gpu_halves *halves,
                           const adji_tensor_tiles_rows *rows) {
  products p = {*job};
  p.left = static_cast<const uint32_t *>(halves->left);
  p.right = static_cast<const uint32_t *>(halves->right);
  p.u = halves->u;
  p.v = halves->v;
  p.steps = halves->scale.width / ADJI_HALVES_STEP;
  p.pitch = pitch_of(halves->scale.width);
  p.tiles = halves->tiles;
  p.boxes = halves->boxes;
  p.left_coords = static_cast<const float *>(job->left->coords);
  p.left_point_step = job->left->point_step;
  p.left_dim_step = job->left->dim_step;
  p.left_rows = static_cast<const float *>(rows->left.data);
  p.right_rows = static_cast<const float *>(rows->right.data);
  p.left_row = rows->left.row_stride;
  p.left_column = rows->left.column_stride;
  p.right_row = rows->right.row_stride;
  p.right_column = rows->right.column_stride;
  p.fours = job->dim % 4 == 0 && p.left_column == 1 && p.right_column == 1 && p.left_row % 4 == 0 &&
            p.right_row % 4 == 0 && reinterpret_cast<uintptr_t>(p.left_rows) % 16 == 0 &&
            reinterpret_cast<uintptr_t>(p.right_rows) % 16 == 0;
  p.left_ids = job->left->ids;
  p.right_ids = job->right->ids;
  p.right_count = job->right->count;
  p.limit = static_cast<float>(job->limit);
  p.sums = static_cast<float *>(job->sums);
  return p;
}

template <class S>
static adj_status launch(adji_gpu *gpu, cudaStream_t stream, const products &job, bool whole) {
  uint64_t bytes = shared_bytes<S>(job.pitch), blocks = (job.query_count + S::ROWS - 1) / S::ROWS, parts = 1;
  if (!job.ids && !whole) { /* as many blocks as the device runs at a time, unless a row must belong to one block */
    uint64_t held = static_cast<uint64_t>(gpu->multiprocessors) * S::BLOCKS;
    parts = held / blocks ? held / blocks : 1;
    if (parts > job.tiles) parts = job.tiles;
  }
  ADJI_ALLOW_SHARED(gpu, join_products<S>);
  dim3 grid(static_cast<uint32_t>(blocks), static_cast<uint32_t>(parts));
  join_products<S><<<grid, S::THREADS, bytes, stream>>>(job);
  ADJI_LAUNCHED(gpu, "join_products");
  return ADJ_OK;
}

typedef shape<0, 2, 4, 64, 2, 8, 1> many_steps; /* up to 12 instructions */
typedef shape<0, 2, 4, 64, 2, 4, 1> more_steps; /* up to ADJI_HALVES_MOST_DIM */

bool adji_tensor_tiles_fit(const adji_gpu *gpu, uint32_t width) {
  uint32_t steps = width / ADJI_HALVES_STEP, pitch = pitch_of(width);
  uint64_t needed = steps > 12 ? shared_bytes<more_steps>(pitch) : steps > 8 ? shared_bytes<many_steps>(pitch) : 0;
  return needed <= static_cast<uint64_t>(gpu->block_shared_bytes);
}

adj_status adji_tensor_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job,
                                 const adji_gpu_halves *halves, const adji_tensor_tiles_rows *rows, bool whole) {
  if (!job->query_count || !job->right->count) return ADJ_OK;
  products p = with_types(job, halves, rows);
  if (p.steps == 1) return launch<shape<1, 4, 2, 128, 3, 4, 5>>(gpu, stream, p, whole);
  if (p.steps == 2) return launch<shape<2, 4, 2, 128, 2, 4, 4>>(gpu, stream, p, whole);
  if (p.steps == 3) return launch<shape<3, 4, 2, 128, 2, 4, 3>>(gpu, stream, p, whole);
  if (p.steps == 4) return launch<shape<4, 4, 2, 128, 2, 4, 3>>(gpu, stream, p, whole);
  if (p.steps == 6) return launch<shape<6, 2, 2, 64, 2, 8, 2>>(gpu, stream, p, whole);
  if (p.steps == 8) return launch<shape<8, 2, 2, 64, 2, 8, 2>>(gpu, stream, p, whole);
  return p.steps <= 12 ? launch<many_steps>(gpu, stream, p, whole) : launch<more_steps>(gpu, stream, p, whole);
}
