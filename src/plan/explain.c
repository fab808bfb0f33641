/* SPDX-License-Identifier: MIT
 *
 * The plan in words: what is joined, how and why, the estimate and, after a run, what happened.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cpu/range.h"
#include "plan/plan.h"

/* length also counts text that does not fit the buffer. */
typedef struct text {
  char *buffer;
  size_t capacity, length;
} text;

static void __attribute__((format(printf, 2, 3))) say(text *t, const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  int many = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  size_t length = many < 0 ? 0 : (size_t)many < sizeof line ? (size_t)many : sizeof line - 1;
  if (t->length < t->capacity) {
    size_t room = t->capacity - t->length - 1, take = length < room ? length : room;
    memcpy(t->buffer + t->length, line, take);
    t->buffer[t->length + take] = 0;
  }
  t->length += length;
}

static void say_metric(text *t, const adj_plan *plan) {
  static const char *const metrics[] = {"", "L2", "L1", "Linf", "Lp", "cosine", "inner product", "great circle"};
  const adj_join_spec *spec = &plan->spec;
  say(t, ", %s", metrics[spec->metric]);
  if (spec->metric == ADJ_LP) say(t, " with p %g", spec->p);
  if (spec->metric == ADJ_HAVERSINE && spec->unit == ADJ_UNIT_METRES)
    say(t, " on a sphere of radius %.9g", plan->measure.unit);
  else if (spec->metric == ADJ_HAVERSINE)
    say(t, " in %s", spec->unit == ADJ_UNIT_DEGREES ? "degrees" : "radians");
  for (uint32_t j = 0; plan->measure.box && j < plan->left->dim && j < 8; j++) {
    double length = adji_box_length(&plan->measure, plan->left->type, j);
    say(t, j ? " x %g" : ", periodic box %g", length);
  }
  if (plan->measure.box && plan->left->dim > 8) say(t, " x ...");
}

static void say_what(text *t, const adj_plan *plan) {
  const char *type = plan->left->type == ADJ_F64 ? "f64" : "f32";
  if (plan->spec.kind == ADJ_RANGE)
    say(t, "range join");
  else
    say(t, "kNN join, k %u", plan->spec.k);
  if (plan->limits)
    say(t, ", a radius for each query");
  else if (!isinf(plan->spec.radius))
    say(t, ", radius %g", plan->spec.radius);
  say_metric(t, plan);
  say(t, ", %s, %u dimensions\n", type, plan->left->dim);
  if (plan->self_join)
    say(t, "  %llu points, joined with themselves\n", (unsigned long long)plan->left->count);
  else
    say(t, "  %llu left points, %llu right points\n", (unsigned long long)plan->left->count,
        (unsigned long long)plan->right->count);
}

/* The index that the cores search in a range join, if they take part. */
static const adji_range_index *index_of_cores(const adj_plan *plan) {
  bool cores = plan->choice.backend == ADJ_BACKEND_CPU || plan->choice.backend == ADJ_BACKEND_HYBRID;
  bool grid =
      plan->spec.kind == ADJ_RANGE && plan->choice.algorithm != ADJI_ALGORITHM_KDTREE && !adji_plan_is_dual(plan);
  return cores && grid ? adji_range_index_of(&plan->engine) : NULL;
}

/* GPU-Join's estimate (section 5.6) for every number of axes, and ours. */
static void say_memory_operations(text *t, const adji_grid_choice *grid) {
  if (!grid->memory_count) return;
  say(t, "  memory operations by the number of indexed dimensions, fewest with %u:\n",
      adji_fewest_memory_operations(grid));
  for (uint32_t k = 1; k <= grid->memory_count; k++)
    say(t, "    %2u: %.3g to search cells, %.3g to compare; by our own estimate %.2g s\n", k, grid->memory[k].search,
        grid->memory[k].compare, grid->memory[k].cost_s);
}

static void say_how(text *t, const adj_plan *plan) {
  say(t, "backend %s, algorithm %s, %u threads, %s\n", adji_backend_name(plan->choice.backend),
      adji_algorithm_name(plan->choice.algorithm), plan->ctx->threads, plan->ctx->isa);
  say(t, "  reason: %s\n", plan->choice.reason[0] ? plan->choice.reason : "no dimension is worth an index");
  if (plan->choice.division[0]) say(t, "  GPUs: %s\n", plan->choice.division);
  if (plan->choice.structures[0]) say(t, "  kept index: %s\n", plan->choice.structures);
  const adji_range_index *index = index_of_cores(plan);
  const adji_grid *beside = &plan->device.grid.grid, *grid = index ? &index->grid : beside;
  for (uint32_t a = 0; a < grid->axis_count; a++) {
    const adji_axis *axis = &grid->axes[a];
    say(t, "  axis %u: dimension %u, %llu slabs%s, candidates up to %u slab%s away\n", a + 1, axis->dim + 1,
        (unsigned long long)axis->slabs, axis->breaks ? " of unequal width" : "", axis->reach,
        axis->reach == 1 ? "" : "s");
  }
  if (plan->choice.backend != ADJ_BACKEND_CPU) say_memory_operations(t, &plan->device.grid);
  if (index && beside->axis_count)
    say(t, "  grid of the GPU: %u axes, the last along dimension %u with %llu slabs\n", beside->axis_count,
        beside->axes[beside->axis_count - 1].dim + 1, (unsigned long long)beside->axes[beside->axis_count - 1].slabs);
  if (index)
    say(t, "  index: %llu cells, at most %u points in one%s\n", (unsigned long long)index->right.cell_count,
        index->right.largest_cell, index->boxes.levels ? ", bounding boxes of blocks of points" : "");
  if (!index && plan->cells) say(t, "  index: %llu cells, on the GPU\n", (unsigned long long)plan->cells);
  if (plan->device_chunk)
    say(t, "  chunks: %llu points of a set at a time fit into the memory of the GPU\n",
        (unsigned long long)plan->device_chunk);
  if (index && index->right.view.count > plan->right->count)
    say(t, "  periodic box: %llu images of points near its faces\n",
        (unsigned long long)index->right.view.count - plan->right->count);
  if (index && index->prefilter.filter)
    say(t, "  prefilter: 8-bit codes; exact distances of the candidates that pass\n");
  if (plan->spec.kind == ADJ_KNN) return;
  say(t, "  passes: %s\n",
      plan->choice.staged   ? "one, rows are staged, then copied to their places"
      : plan->choice.single ? "one, each candidate compared once, then moved to its rows"
                            : "two, count the pairs and then fill their rows");
}

static void say_expected(text *t, const adj_plan *plan) {
  if (!plan->sampled) return;
  char bytes[32];
  double entries = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan);
  say(t, "estimate from %llu sampled queries: %.4g pairs (%.1f per point), %.4g candidates\n",
      (unsigned long long)plan->sampled, plan->estimated_pairs,
      plan->left->count ? plan->estimated_pairs / (double)plan->left->count : 0, plan->estimated_candidates);
  say(t, "  memory of the result %s, time of the join about %.2g s",
      adji_bytes_text(entries + 8 * ((double)plan->left->count + 1), bytes), plan->estimated_seconds);
  if (plan->estimated_count_seconds > 0) say(t, ", of a count %.2g s", plan->estimated_count_seconds);
  say(t, "\n");
}

static void say_device(text *t, const adj_stats *s) {
  char up[32], down[32];
  if (!s->bytes_up) return;
  say(t,
      "  GPU: kernels %.4f s, %.0f %% of lanes compared; threads waited %.4f s to send %s and %.4f s to receive %s, ",
      s->kernel_s, 100 * s->warp_efficiency, s->upload_s, adji_bytes_text((double)s->bytes_up, up), s->download_s,
      adji_bytes_text((double)s->bytes_down, down));
  say(t, "and placed the results in %.4f s\n", s->place_s);
}

static void say_grid(text *t, const adj_stats *s) {
  if (s->grid_order_s > 0) say(t, "  queue: ordered by cells in %.4f s\n", s->grid_order_s);
  if (!s->grid_queries) return;
  say(t, "  grid: first radius %g, chosen in %.4f s; %llu of %llu queries failed; indexed again %llu times in %.4f s\n",
      s->grid_epsilon, s->grid_epsilon_s, (unsigned long long)s->grid_failed, (unsigned long long)s->grid_queries,
      (unsigned long long)s->grid_reindexed, s->grid_reindex_s);
}

static void say_prefilter(text *t, const adj_stats *s) {
  if (!s->prefilter_queries) return;
  say(t,
      "  prefilter on tensor cores: %.1f exact distances per query; %llu of %llu queries needed longer lists, %llu all "
      "distances\n",
      (double)s->prefilter_sums / (double)s->prefilter_queries, (unsigned long long)s->prefilter_again,
      (unsigned long long)s->prefilter_queries, (unsigned long long)s->prefilter_failed);
  if (s->prefilter_tiles)
    say(t, "  points in tree order: %.2f %% of the tiles were near enough to be looked at\n",
        100 * (double)s->prefilter_tiles_scanned / (double)s->prefilter_tiles);
}

static void say_workers(text *t, const adj_plan *plan) {
  const adj_stats *s = &plan->last;
  for (uint32_t w = 0; w < s->worker_count; w++) {
    const adj_worker *it = &plan->last_workers[w];
    if (!w && !it->queries && plan->choice.division[0]) continue; /* the cores only placed rows */
    say(t, "  %s: %llu queries in %llu batches, busy %.4f s, %.4g queries/s", it->name, (unsigned long long)it->queries,
        (unsigned long long)it->batches, it->busy_s, it->rate);
    if (it->failed) say(t, "; %llu failed and went to other workers", (unsigned long long)it->failed);
    say(t, "\n");
  }
  if (s->worker_count)
    say(t, "  the workers finished within %.1f %% of the time of the join\n", 100 * s->worker_imbalance);
}

static void say_happened(text *t, const adj_plan *plan) {
  if (!plan->ran) return;
  const adj_stats *s = &plan->last;
  char bytes[32];
  say(t, "run: %llu pairs, %llu candidates, %llu batches\n", (unsigned long long)s->pairs,
      (unsigned long long)s->candidates, (unsigned long long)s->batches);
  if (plan->sampled && s->pairs)
    say(t, "  the estimate of the pairs was off by %+.1f %%\n", 100 * (plan->estimated_pairs / (double)s->pairs - 1));
  say(t, "  seconds: plan %.4f, index %.4f, join %.4f; peak memory %s, imbalance of the threads %.1f %%\n", s->plan_s,
      s->index_s, s->join_s, adji_bytes_text((double)s->peak_bytes, bytes), 100 * s->imbalance);
  if (s->ego_sort_s > 0)
    say(t, "  EGO: dimensions reordered in %.4f s, points sorted in %.4f s, queries by workload in %.4f s\n",
        s->ego_reorder_s, s->ego_sort_s, s->ego_workload_s);
  say_device(t, s);
  say_grid(t, s);
  say_prefilter(t, s);
  say_workers(t, plan);
}

adj_status adj_plan_explain(const adj_plan *plan, char *buffer, size_t capacity, size_t *needed) {
  if (!plan || (!buffer && capacity)) return adji_fail(ADJ_E_ARGUMENT, "plan and buffer: neither may be NULL");
  text t = {buffer, capacity, 0};
  if (capacity) buffer[0] = 0;
  adji_call outer = adji_call_begin(&plan->ctx->cancels);
  say_what(&t, plan);
  say_how(&t, plan);
  say_expected(&t, plan);
  say_happened(&t, plan);
  adji_call_set(outer);
  if (needed) *needed = t.length + 1;
  return ADJ_OK;
}
