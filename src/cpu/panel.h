/* SPDX-License-Identifier: MIT
 *
 * Panels of candidates in many dimensions. All queries of a group pass over one panel before the next is fetched, so it
 * stays in a core's second-level cache. In the index the coordinates of a point are far apart, each in another page. A
 * panel is a copy in which they are close together.
 */
#ifndef ADJI_PANEL_H
#define ADJI_PANEL_H

#include "core/memory.h"
#include "distance/kernels.h"

typedef struct adji_panel {
  adji_memory *memory;
  void *coords; /* NULL: nothing is copied, since there are few dimensions */
  size_t size;  /* bytes of a coordinate */
  uint32_t most;
  adji_range range; /* the range of the index that is copied at present */
  adji_view view;
} adji_panel;

/* The most candidates in a panel. */
uint32_t adji_panel_size(uint32_t dim, size_t size);

adj_status adji_panel_init(adji_panel *panel, adji_memory *memory, uint32_t dim, size_t size);
void adji_panel_clear(adji_panel *panel);

/* Replaces the candidates of the task by the copy, if they are a single range that fits. The caller checks that enough
 * queries share the copy. */
void adji_panel_use(adji_panel *panel, adji_task *task, adji_range *range);

#endif
