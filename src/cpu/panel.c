/* SPDX-License-Identifier: MIT
 *
 * Panels of candidates: see panel.h.
 */
#include "cpu/panel.h"

#include <string.h>

/* Bytes of a panel without and with a copy. LEAST_DIM: the fewest dimensions in which a panel is copied. */
enum { PANEL_BYTES = 1 << 20, COPY_BYTES = 3 << 16, LEAST_DIM = 16, SMALLEST = 64 };

uint32_t adji_panel_size(uint32_t dim, size_t size) {
  uint64_t most = (dim < LEAST_DIM ? PANEL_BYTES : COPY_BYTES) / (dim * size) / SMALLEST * SMALLEST;
  return most > SMALLEST ? (uint32_t)most : SMALLEST;
}

/* Entries between two dimensions: an odd number of cache lines, which spreads them over all sets of a cache. */
static uint64_t stride_of(uint64_t many) {
  return (many / 16 | 1) * 16;
}

adj_status adji_panel_init(adji_panel *panel, adji_memory *memory, uint32_t dim, size_t size) {
  *panel = (adji_panel){.memory = memory, .size = size, .most = adji_panel_size(dim, size)};
  if (dim < LEAST_DIM) return ADJ_OK;
  panel->coords = adji_alloc(memory, adji_mul(stride_of(panel->most), dim) + ADJI_PAD, size, "candidates");
  return panel->coords ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_panel_clear(adji_panel *panel) {
  if (panel->memory) adji_free(panel->memory, panel->coords);
  *panel = (adji_panel){0};
}

/* Copies whole vectors: the index may be read past its last point. */
static void copy(adji_panel *panel, const adji_view *from, adji_range range) {
  uint64_t many = ((uint64_t)range.end - range.begin + 15) / 16 * 16, stride = stride_of(many);
  for (uint32_t j = 0; j < from->dim; j++)
    memcpy((char *)panel->coords + j * stride * panel->size,
           (const char *)from->coords + (j * from->stride + range.begin) * panel->size, many * panel->size);
  panel->view = (adji_view){.coords = panel->coords,
                            .stride = stride,
                            .ids = from->ids + range.begin,
                            .dim = from->dim,
                            .count = range.end - range.begin};
  panel->range = range;
}

/* If candidates are among the queries, the kernel compares positions, which the copy does not preserve. */
void adji_panel_use(adji_panel *panel, adji_task *task, adji_range *range) {
  adji_range wanted = task->ranges[0];
  if (!panel->coords || task->range_count != 1 || wanted.end - wanted.begin > panel->most) return;
  if (task->forward && wanted.begin <= task->queries[task->query_count - 1]) return;
  if (wanted.begin != panel->range.begin || wanted.end != panel->range.end) copy(panel, task->right, wanted);
  *range = (adji_range){0, wanted.end - wanted.begin};
  task->right = &panel->view;
  task->ranges = range;
  task->forward = false;
}
