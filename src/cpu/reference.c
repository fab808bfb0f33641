/* SPDX-License-Identifier: MIT
 *
 * The reference engine: every left point with every right point, one pair at a time. A batch takes long, so it checks
 * for adj_cancel after every row.
 */
#include "cpu/reference.h"

#include <stdlib.h>

typedef struct reference {
  adji_join join;
  adji_queue queue;
  /* Of the current pass. */
  uint32_t *degrees;
  const adji_window *window;
  const adji_table *table;
  adji_row_room *rooms; /* one per lane */
} reference;

static double sum_of(const adji_join *join, uint64_t i, uint64_t j) {
  const adj_dataset *l = join->left, *r = join->right;
  const char *a = l->data + i * l->row_stride, *b = r->data + j * r->row_stride;
  size_t size = adji_type_size(l->type);
  uint64_t a_stride = l->column_stride / size, b_stride = r->column_stride / size;
  if (l->type == ADJ_F64)
    return adji_sum_f64(join->style.measure, (const double *)a, a_stride, (const double *)b, b_stride, l->dim);
  return (double)adji_sum_f32(join->style.measure, (const float *)a, a_stride, (const float *)b, b_stride, l->dim);
}

/* Whether right point j is a neighbour of left point i in the result. */
static bool belongs(const adji_join *join, uint64_t i, uint64_t j, double *sum) {
  if (join->style.drop_self && i == j) return false;
  if (join->style.one_way && j < i) return false;
  *sum = sum_of(join, i, j);
  return *sum <= join->limit;
}

static adj_status count_batch(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  (void)lane;
  reference *r = user;
  double sum;
  adj_status status = ADJ_OK;
  for (uint64_t i = batch->begin; i < batch->end && !status; i++) {
    uint32_t many = 0;
    for (uint64_t j = 0; j < r->join.right->count; j++)
      many += belongs(&r->join, i, j, &sum);
    if (r->degrees) r->degrees[i] = many;
    tally->pairs += many;
    tally->candidates += r->join.right->count;
    status = adji_check_cancel(r->join.ctx);
  }
  return status;
}

/* Lists the neighbours of left point i in the first slot of the buffers; returns how many. */
static uint32_t list_row(reference *r, uint32_t i, adji_row_room *room) {
  uint32_t many = 0;
  double sum;
  const adji_row_style *style = &r->join.style;
  for (uint64_t j = 0; j < r->join.right->count; j++) {
    if (!belongs(&r->join, i, j, &sum)) continue;
    room->ids[0][many] = (uint32_t)j;
    if (room->sums[0]) {
      if (style->type == ADJ_F64)
        ((double *)room->sums[0])[many] = sum;
      else
        ((float *)room->sums[0])[many] = (float)sum;
    }
    many++;
  }
  return many;
}

static adj_status fill_row(reference *r, uint32_t i, adji_row_room *room) {
  const adji_row_style *style = &r->join.style;
  uint32_t many = adji_row_order(style, room, 0, i, list_row(r, i, room));
  adj_status status = adji_check_cancel(r->join.ctx);
  return status ? status : adji_row_place(style, room, 0, i, many, r->window);
}

static adj_status fill_batch(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  reference *r = user;
  const adji_window *w = r->window;
  adj_status status =
      adji_row_room_reserve(&r->rooms[lane], &r->join.ctx->memory, &r->join.style, r->join.right->count);
  for (uint64_t i = batch->begin; i < batch->end && !status; i++) {
    if (i < w->first_row || i >= w->end_row) continue;
    status = fill_row(r, (uint32_t)i, &r->rooms[lane]);
    tally->pairs += w->offsets[i + 1] - w->offsets[i];
    tally->candidates += r->join.right->count;
  }
  return status;
}

static adj_status reference_count(void *state, adji_run *run, uint32_t *degrees, uint64_t *total) {
  reference *r = state;
  r->degrees = degrees;
  adji_tally tally;
  adj_status status = adji_run_pass(run, &r->queue, &(adji_pass){"count", r, count_batch}, &tally);
  *total = tally.pairs;
  return status;
}

static adj_status run_with_rooms(reference *r, adji_run *run,
                                 adj_status (*process)(void *, const adji_batch *, uint32_t, adji_tally *)) {
  adj_ctx *ctx = r->join.ctx;
  r->rooms = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *r->rooms, "row buffers");
  if (!r->rooms) return ADJ_E_MEMORY;
  adj_status status = adji_run_pass(run, &r->queue, &(adji_pass){"join", r, process}, NULL);
  for (uint32_t lane = 0; lane < ctx->threads; lane++)
    adji_row_room_clear(&r->rooms[lane]);
  adji_free(&ctx->memory, r->rooms);
  return status;
}

static adj_status reference_fill(void *state, adji_run *run, const adji_window *window) {
  reference *r = state;
  r->window = window;
  return run_with_rooms(r, run, fill_batch);
}

/* ---- kNN ------------------------------------------------------------------------------------- */

static adj_status knn_row(reference *r, uint32_t i, adji_row_room *room, adji_tally *tally) {
  const adji_table *table = r->table;
  uint32_t many = list_row(r, i, room);
  adji_row_style style = r->join.style;
  style.order = ADJ_ORDER_DISTANCE;
  many = adji_row_order(&style, room, 0, i, many);
  if (many > table->k) many = table->k;
  adji_table_place(table, &style, i, room->ids[0], room->sums[0], many);
  tally->pairs += many;
  tally->candidates += r->join.right->count;
  return adji_check_cancel(r->join.ctx);
}

static adj_status knn_batch(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  reference *r = user;
  adji_row_style style = r->join.style;
  style.order = ADJ_ORDER_DISTANCE;
  adj_status status = adji_row_room_reserve(&r->rooms[lane], &r->join.ctx->memory, &style, r->join.right->count);
  for (uint64_t i = batch->begin; i < batch->end && !status; i++)
    if (i >= r->table->first_row && i < r->table->end_row) status = knn_row(r, (uint32_t)i, &r->rooms[lane], tally);
  return status;
}

static adj_status reference_knn(void *state, adji_run *run, const adji_table *table) {
  reference *r = state;
  r->table = table;
  return run_with_rooms(r, run, knn_batch);
}

static void reference_destroy(void *state) {
  reference *r = state;
  if (!r) return;
  adji_queue_clear(&r->queue);
  free(r);
}

adj_status adji_reference_create(const adji_join *join, adji_engine *out) {
  reference *r = calloc(1, sizeof *r);
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for the reference engine");
  r->join = *join;
  uint64_t count = join->left->count, each = 64;
  adj_status status = adji_queue_init(&r->queue, join->ctx, count / each + 1);
  for (uint64_t i = 0; i < count && !status; i += each) {
    uint64_t end = i + each < count ? i + each : count;
    double work = (double)(end - i) * (double)join->right->count;
    status = adji_queue_add(&r->queue, (adji_batch){(uint32_t)i, (uint32_t)end, work});
  }
  if (status) {
    reference_destroy(r);
    return status;
  }
  *out = (adji_engine){.state = r,
                       .count = reference_count,
                       .fill = reference_fill,
                       .nearest = reference_knn,
                       .destroy = reference_destroy};
  return ADJ_OK;
}
