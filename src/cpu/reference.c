/* SPDX-License-Identifier: MIT
 *
 * The reference: every left point with every right point, one pair at a time. A batch takes long, so adj_cancel is
 * checked after every row.
 */
#include "cpu/reference.h"

#include <stdlib.h>

typedef struct reference {
  adji_join join;
  /* The current pass. */
  uint32_t *degrees;
  const adji_window *window;
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

/* Whether right point j is a neighbour of left point i in the join's result. */
static bool belongs(const adji_join *join, uint64_t i, uint64_t j, double *sum) {
  if (join->style.drop_self && i == j) return false;
  if (join->style.one_way && j < i) return false;
  *sum = sum_of(join, i, j);
  return *sum <= adji_join_limit(join, i);
}

static adj_status count_row(reference *r, uint32_t i, adji_tally *tally) {
  uint32_t many = 0;
  double sum;
  for (uint64_t j = 0; j < r->join.right->count; j++)
    many += belongs(&r->join, i, j, &sum);
  if (r->degrees) r->degrees[i] = many;
  tally->pairs += many;
  return ADJ_OK;
}

/* Lists the neighbours of left point i in the room's first slot, and returns their number. */
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

static adj_status fill_row(reference *r, uint32_t i, adji_row_room *room, adji_tally *tally) {
  adji_row_style style = r->join.style;
  uint32_t k = r->window->k;
  if (k) style.order = ADJ_ORDER_DISTANCE;
  adj_status status = adji_row_room_reserve(room, &r->join.ctx->memory, &style, r->join.right->count);
  if (status) return status;
  uint32_t many = adji_row_order(&style, room, 0, i, list_row(r, i, room));
  if (k && many > k) many = k;
  tally->pairs += many;
  if (!k) return adji_row_place(&style, room, 0, i, many, r->window);
  adji_row_place_padded(r->window, &style, i, room->ids[0], room->sums[0], many);
  return ADJ_OK;
}

static adj_status process(void *state, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  reference *r = state;
  adj_status status = ADJ_OK;
  for (uint32_t i = batch->begin; i < batch->end && !status; i++) {
    if (r->window && !adji_window_has(r->window, i)) continue;
    status = r->window ? fill_row(r, i, &r->rooms[lane], tally) : count_row(r, i, tally);
    tally->candidates += r->join.right->count;
    if (!status) status = adji_check_cancel(r->join.ctx);
  }
  return status;
}

/* ---- The worker -------------------------------------------------------------------------------------- */

static adj_status fill_queue(void *state, bool shared, adji_queue *queue) {
  (void)shared;
  const adji_join *join = &((const reference *)state)->join;
  uint64_t count = join->left->count, each = 64;
  adj_status status = adji_queue_init(queue, join->ctx, count / each + 1);
  for (uint64_t i = 0; i < count && !status; i += each) {
    uint64_t end = i + each < count ? i + each : count;
    double work = (double)(end - i) * (double)join->right->count;
    status = adji_queue_add(queue, (adji_batch){(uint32_t)i, (uint32_t)end, work});
  }
  return status;
}

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  reference *r = state;
  r->degrees = pass->degrees;
  r->window = pass->window;
  r->rooms = adji_alloc_zero(&run->ctx->memory, run->ctx->threads, sizeof *r->rooms, "row buffers");
  return r->rooms ? ADJ_OK : ADJ_E_MEMORY;
}

static void end(void *state, adji_run *run) {
  reference *r = state;
  for (uint32_t lane = 0; lane < run->ctx->threads; lane++)
    adji_row_room_clear(&r->rooms[lane]);
  adji_free(&run->ctx->memory, r->rooms);
  r->rooms = NULL;
}

adj_status adji_reference_create(const adji_join *join, adji_engine *out) {
  reference *r = calloc(1, sizeof *r);
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  r->join = *join;
  adji_engine_init(out, join,
                   &(adji_worker){.state = r,
                                  .name = "reference",
                                  .fill_queue = fill_queue,
                                  .begin = begin,
                                  .process = process,
                                  .end = end,
                                  .destroy = free});
  return ADJ_OK;
}
