/* SPDX-License-Identifier: MIT
 *
 * The grid on a device: its axes, and tables of the rows of cells around a cell.
 */
#include <cmath>

#include "gpu/index/index.cuh"

static uint32_t count_rows(const adji_grid *grid) {
  uint32_t rows = 1;
  for (uint32_t a = 1; a < grid->axis_count; a++)
    rows *= 2 * grid->axes[a - 1].reach + 1;
  return rows;
}

/* The least squared distance to the cells of a row, along all axes but the last. Only slabs of equal width count: slabs
 * whose numbers differ by two are one width apart, up to rounding (find_gaps() in tiles_high_dim.cuh). */
static double gap_of_row(const adji_grid *grid, uint32_t row) {
  double sum = 0;
  for (uint32_t a = grid->axis_count - 1; a--;) {
    uint32_t slabs = 2 * grid->axes[a].reach + 1, at = row % slabs;
    uint32_t away = at > grid->axes[a].reach ? at - grid->axes[a].reach : grid->axes[a].reach - at;
    row /= slabs;
    if (away < 2 || grid->axes[a].breaks || grid->axes[a].period > 0) continue;
    double gap = (away - 1) / grid->axes[a].inverse * (1 - 1e-5);
    sum += gap * gap;
  }
  return sum;
}

/* How many cells of the last axis, to each side, may hold candidates of a row. It follows from the part of the limit, a
 * sum of squares, that the gap of the row leaves. ADJI_NO_REACH: none. */
static uint32_t reach_of_row(const adji_grid *grid, uint32_t row, double limit) {
  const adji_axis *last = &grid->axes[grid->axis_count - 1];
  if (!(limit > 1e-30) || last->breaks || last->period > 0) return last->reach;
  double remaining = limit * 1.001 - gap_of_row(grid, row);
  if (remaining < 0) return ADJI_NO_REACH;
  double cells = ceil(sqrt(remaining) * last->inverse * (1 + 1e-5) + 1e-3);
  return cells < last->reach ? static_cast<uint32_t>(cells) : last->reach;
}

/* Lists all combinations of slabs within reach along every axis but the last, as offsets in rows of cells,
 * ascending. */
static void list_offsets(const adji_grid *grid, int64_t *offsets) {
  uint32_t count = 1;
  offsets[0] = 0;
  for (uint32_t a = grid->axis_count ? grid->axis_count - 1 : 0; a--;) {
    int64_t stride = static_cast<int64_t>(grid->axes[a].stride / grid->axes[grid->axis_count - 2].stride);
    uint32_t slabs = 2 * grid->axes[a].reach + 1;
    for (uint32_t s = slabs; s--;)
      for (uint32_t i = 0; i < count; i++)
        offsets[s * count + i] = offsets[i] + (static_cast<int64_t>(s) - grid->axes[a].reach) * stride;
    count *= slabs;
  }
}

/* The combination of slabs of each row, for the first axes and for the rest. The first axis is the most significant. */
static void list_parts(uint32_t axes, uint32_t first_axes, uint32_t rows, adji_gpu_parts *parts) {
  uint32_t rest = 1;
  for (uint32_t a = first_axes; a < axes; a++)
    rest *= 3;
  for (uint32_t i = 0; i < rows; i++)
    parts[i] = adji_gpu_parts{static_cast<uint16_t>(i / rest), static_cast<uint16_t>(i % rest)};
}

/* Only for slabs of equal width that are not periodic: find_gaps() in tiles_high_dim.cuh proves it for no others. */
static void find_near(const adji_grid *grid, adji_gpu_near *near) {
  uint32_t axes = grid->axis_count ? grid->axis_count - 1 : 0;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *axis = &grid->axes[a];
    if (axis->breaks || axis->period > 0 || (a < axes && axis->reach > 1)) return;
    double width = 1 / axis->inverse;
    if (!(width < 1e18 && width > 1e-18)) return; /* its square does not fit an f32 */
    near->dim[a] = axis->dim;
    near->low[a] = axis->low;
    near->inverse[a] = axis->inverse;
    if (a < axes) near->width[a] = static_cast<float>(width * (1 - 1e-5));
    near->scale = static_cast<float>(axis->inverse * (1 + 1e-5));
    near->last_slab = static_cast<float>(axis->slabs - 1);
  }
  if (axes > ADJI_NEAR_AXES) return; /* too many combinations */
  near->axes = axes;
  near->first_axes = (axes + 1) / 2;
}

static adj_status copy_tables(adji_gpu *gpu, const adji_grid *grid, double limit, char *packed, adji_gpu_grid *out) {
  uint64_t bytes = out->row_count * sizeof(int64_t);
  list_offsets(grid, reinterpret_cast<int64_t *>(packed));
  uint32_t *reaches = reinterpret_cast<uint32_t *>(packed + bytes);
  for (uint32_t i = 0; i < out->row_count; i++) {
    reaches[i] = grid->axis_count ? reach_of_row(grid, i, limit) : 0;
    if (reaches[i] != out->reach) out->row_reach = reinterpret_cast<uint32_t *>(adji_at<char>(out->memory) + bytes);
  }
  bytes += (out->row_count * sizeof(uint32_t) + 7) / 8 * 8;
  find_near(grid, &out->near);
  list_parts(out->near.axes, out->near.first_axes, out->row_count, reinterpret_cast<adji_gpu_parts *>(packed + bytes));
  out->near.parts = reinterpret_cast<const adji_gpu_parts *>(adji_at<char>(out->memory) + bytes);
  bytes += (out->row_count * sizeof(adji_gpu_parts) + 7) / 8 * 8;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    if (!grid->axes[a].breaks) continue;
    uint64_t size = grid->axes[a].slabs * sizeof(double);
    memcpy(packed + bytes, grid->axes[a].breaks, size);
    out->axes[a].breaks = reinterpret_cast<double *>(adji_at<char>(out->memory) + bytes);
    bytes += size;
  }
  out->row_steps = adji_at<int64_t>(out->memory);
  ADJI_CUDA(gpu, cudaMemcpyAsync(out->memory.at, packed, bytes, cudaMemcpyHostToDevice, gpu->compute));
  return ADJ_OK;
}

adj_status adji_gpu_grid_make(adji_gpu *gpu, const adji_grid *grid, double limit, adji_gpu_grid *out) {
  *out = adji_gpu_grid{};
  out->axis_count = grid->axis_count;
  out->key_bits = grid->key_bits;
  out->keys = grid->axis_count ? grid->axes[0].slabs * grid->axes[0].stride : 1;
  out->reach = grid->axis_count ? grid->axes[grid->axis_count - 1].reach : 0;
  out->row_count = count_rows(grid);
  out->row_stride = grid->axis_count > 1 ? grid->axes[grid->axis_count - 2].stride : out->keys;
  uint64_t bytes = out->row_count * (sizeof(int64_t) + sizeof(uint32_t) + sizeof(adji_gpu_parts)) + 16;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    out->axes[a] = grid->axes[a];
    out->axes[a].breaks = NULL;
    if (grid->axes[a].breaks) bytes += grid->axes[a].slabs * sizeof(double);
  }
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "grid", &out->memory);
  if (status) return status;
  char *packed = static_cast<char *>(adji_alloc(&gpu->ctx->memory, bytes, 1, "grid"));
  status = packed ? copy_tables(gpu, grid, limit, packed, out) : ADJ_E_MEMORY;
  adji_free(&gpu->ctx->memory, packed); /* a copy from pageable memory has been read on return */
  if (status) adji_gpu_grid_clear(gpu, out);
  return status;
}

void adji_gpu_grid_clear(adji_gpu *gpu, adji_gpu_grid *grid) {
  adji_block_free(gpu, gpu->compute, &grid->memory);
}
