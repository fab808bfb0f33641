/* SPDX-License-Identifier: MIT
 *
 * Choosing the grid as GPU-Join does (Gowanlock and Karsin): dimensions by their variance (section 4.2), and how many
 * of them by the number of memory operations (section 5.6).
 */
#include <math.h>

#include "gpu/papers/access.h"
#include "plan/choose_grid_private.h"

/* ---- REORDER -------------------------------------------------------------------------------------------- */

/* The sample: 1 % of the points, but no fewer than this. */
enum { LEAST_VARIANCE_SAMPLE = 256 };
static const double VARIANCE_PART = 0.01;

/* Variance over evenly spaced points. */
double adji_sample_variance(const adji_chooser *c, uint32_t dim) {
  uint64_t all = c->set->count, count = (uint64_t)(VARIANCE_PART * (double)c->population);
  if (count < LEAST_VARIANCE_SAMPLE) count = LEAST_VARIANCE_SAMPLE;
  if (count > all) count = all;
  double mean = 0, squares = 0, m = (double)count;
  for (uint64_t pass = 0; pass < 2; pass++)
    for (uint64_t i = 0; i < count; i++) {
      uint64_t begin, end;
      adji_slice(all, count, i, &begin, &end);
      double x = adji_dataset_at(c->set, begin, dim);
      if (pass)
        squares += (x - mean) * ((x - mean) / m);
      else
        mean += x / m;
    }
  return squares;
}

/* SHORTC adds up dimensions in this order. Those that cannot be indexed come last. */
adj_status adji_list_reordered(adji_chooser *c) {
  const adji_tuning *t = c->ask->tuning;
  uint32_t dim = c->set->dim, count = 0;
  if (!c->gpu || t->reorder != ADJI_ON || t->shortc != ADJI_ON) return ADJ_OK;
  uint32_t *dims = adji_alloc(&c->ctx->memory, dim, sizeof *dims, "order of the dimensions");
  if (!dims) return ADJ_E_MEMORY;
  for (uint32_t a = 0; a < c->view_count; a++)
    dims[count++] = c->views[a].dim;
  for (uint32_t j = 0; j < dim && count < dim; j++) {
    bool listed = false;
    for (uint32_t a = 0; a < c->view_count; a++)
      listed = listed || c->views[a].dim == j;
    if (!listed) dims[count++] = j;
  }
  c->out->dims = dims;
  return ADJ_OK;
}

/* ---- Memory operations ---------------------------------------------------------------------------------- */

/* About the number of non-empty cells: at least those that hold a row of the sample. */
static double count_cells(const adji_chooser *c) {
  double population = adji_cells_population(c, adji_cells_collide(c)), occupied = 0;
  for (uint64_t i = 0; i < c->room; i++)
    occupied += c->table[i].count > 0;
  return fmax(occupied, (double)c->population / (1 + population));
}

/* For every number of axes: a query looks for 3^k cells, each by a binary search among all that are not empty, and is
 * compared with its candidates. Next to it the cost of the join by our own estimate. */
void adji_list_memory_operations(adji_chooser *c, uint32_t most) {
  double candidates[ADJI_MAX_AXES + 1], n = (double)c->population, ranges = 1, uneven = 0;
  if (!c->gpu || !adji_access_by_point((adji_access)c->ask->tuning->access)) return;
  adji_sample_candidates(c, most, candidates);
  adji_cells_begin(c);
  for (uint32_t k = 1; k <= most; k++) {
    adji_cells_split(c, k - 1, 1);
    uneven += adji_sample_unevenness(c, k - 1);
    double population = adji_cells_population(c, adji_cells_collide(c));
    adji_memory_operations *out = &c->out->memory[k];
    out->search = n * pow(3, k) * log2(fmax(count_cells(c), 2));
    out->compare = n * candidates[k];
    out->cost_s = adji_grid_device_cost(c, population * exp(-uneven), ranges, candidates[k]) *
                  adji_grid_step_factor(c) / c->ctx->costs.warp_rate;
    ranges *= 3;
  }
  c->out->memory_count = most;
}

uint32_t adji_fewest_memory_operations(const adji_grid_choice *choice) {
  uint32_t best = 1;
  for (uint32_t k = 2; k <= choice->memory_count; k++) {
    const adji_memory_operations *at = &choice->memory[k], *least = &choice->memory[best];
    if (at->search + at->compare < least->search + least->compare) best = k;
  }
  return best;
}
