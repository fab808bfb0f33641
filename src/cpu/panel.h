/* SPDX-License-Identifier: MIT
 *
 * Panels of candidates in many dimensions. All queries of a group pass over one panel before the next is fetched, so it
 * stays in a core's second cache. In the index the coordinates of a point are far apart, each in another page; a panel
 * is a copy in which they are not.
 */
#ifndef ADJI_PANEL_H
#define ADJI_PANEL_H

#include "core/memory.h"
#include "distance/kernels.h"

typedef struct adji_panel {
  adji_memory *memory;
  void *coords; /* NULL: none, there are few dimensions       */
  size_t size;  /* of a coordinate                            */
  uint32_t most;
  adji_range range; /* of the index, that is copied at the moment */
  adji_view view;
} adji_panel;

/* Candidates of a panel. */
uint32_t adji_panel_size(uint32_t dim, size_t size);

adj_status adji_panel_init(adji_panel *panel, adji_memory *memory, uint32_t dim, size_t size);
void adji_panel_clear(adji_panel *panel);

/* Makes the task one of the copy, if its candidates are a single range that fits and enough queries will share it. */
void adji_panel_use(adji_panel *panel, adji_task *task, adji_range *range);

#endif
