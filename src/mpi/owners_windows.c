/* SPDX-License-Identifier: MIT
 *
 * Sends the entries of a range join's rows to the owners of their points, window by window. A window has as many rows
 * of each owner as keep the messages that a rank sends and receives in a cache. A message has the ids of its rows, in
 * 32 bits if those of all right points fit, then their sums or distances. While the messages of a window are under way,
 * those of the window before are put into place.
 *
 * Each entry is read once and written once: local ids become global ones when the message is packed. The result gets
 * its memory window by window, while the memory of rows that were sent is released.
 */
#include <string.h>

#include "mpi/owners_private.h"

/* The rows that go to one owner in this window: row .. end - 1. */
typedef struct stretch {
  uint64_t row, end;
  uint64_t first; /* row at which the owner's first window begins */
  uint64_t at;    /* start of the message in the buffer */
} stretch;

/* The rows that come from one rank in this window: order[next] .. order[end - 1]. */
typedef struct arrival {
  uint64_t next, end;
  uint64_t at; /* start of the message in the buffer */
} arrival;

/* Buffers and pending messages of the even windows, or of the odd ones. */
typedef struct window_buffers {
  char *sent, *received;
  arrival *from; /* of each rank */
  adji_requests sends, receives;
} window_buffers;

typedef struct windows {
  adji_returning *r;
  bool narrow; /* ids in messages have 32 bits */
  uint64_t id_size, value_size;
  uint64_t count; /* of windows */
  stretch *to;    /* of each owner */
  uint64_t own;   /* place in r->order of the next row that stays here */
  window_buffers slots[2];
  adji_growing growing;
  adj_status status; /* of claiming memory; after a failure messages are still exchanged */
} windows;

/* ---- Which rows ----------------------------------------------------------------------------------------------- */

/* The row at which a window of a rank ends, counted from *first, where the round of that rank begins. */
static uint64_t window_end(const windows *v, int rank, uint64_t window, uint64_t *first) {
  uint64_t begin, end, from, to;
  adji_round_rows(v->r->plan, rank, v->r->round, &begin, &end);
  adji_slice(end - begin, v->count, window, &from, &to);
  *first = begin;
  return to;
}

/* Sets the rows that go to each owner in this window. They follow those of the window before. */
static void next_rows(const windows *v, uint64_t window) {
  const adji_returning *r = v->r;
  for (int i = 0; i < r->plan->group.ranks; i++) {
    stretch *s = &v->to[i];
    uint64_t begin, rows = window_end(v, i, window, &begin);
    s->row = window ? s->end : adji_find_query(&r->queries, 0, r->plan->left_starts[i] + begin);
    if (!window) s->first = s->row;
    s->end = adji_find_query(&r->queries, s->row, r->plan->left_starts[i] + begin + rows);
  }
}

static uint64_t entry_at(const adji_rows *rows, uint64_t row) {
  return rows && rows->count ? rows->offsets[row < rows->count ? row : rows->count] : 0;
}

static uint64_t stretch_entries(const windows *v, const stretch *s) {
  return entry_at(v->r->in, s->end) - entry_at(v->r->in, s->row);
}

/* Sets the places in r->order of the rows that come from each rank in this window, after those of the window before. */
static void next_places(windows *v, uint64_t window) {
  const adji_returning *r = v->r;
  uint64_t begin, rows = window_end(v, r->plan->group.rank, window, &begin);
  const arrival *before = v->slots[(window + 1) % 2].from;
  arrival *from = v->slots[window % 2].from;
  for (int i = 0; i < r->plan->group.ranks; i++) {
    uint64_t at = window ? before[i].end : r->starts[i];
    from[i].next = at;
    while (at < r->starts[i + 1] && r->order[at] < rows)
      at++;
    from[i].end = at;
  }
}

static uint64_t arrival_entries(const windows *v, const arrival *from) {
  const adji_returning *r = v->r;
  const uint64_t *offsets = r->out->offsets;
  uint64_t entries = 0;
  for (uint64_t j = from->next; j < from->end; j++)
    entries += offsets[r->order[j] + 1] - offsets[r->order[j]];
  return entries;
}

/* A message has ids, padded to a multiple of eight bytes, then the sums or distances. */
static uint64_t id_bytes(const windows *v, uint64_t entries) {
  return (entries * v->id_size + 7) / 8 * 8;
}

static uint64_t message_bytes(const windows *v, uint64_t entries) {
  return id_bytes(v, entries) + entries * v->value_size;
}

static uint64_t padded(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static adji_rows open_message(const windows *v, char *bytes, uint64_t entries) {
  adji_rows message = {.values = bytes + id_bytes(v, entries)};
  if (v->narrow)
    message.narrow = (uint32_t *)(void *)bytes;
  else
    message.ids = (int64_t *)(void *)bytes;
  return message;
}

/* ---- Rows into messages, or into the result --------------------------------------------------------------- */

static void copy_ids(const adji_rows *from, uint64_t first, uint64_t many, const adji_rows *to, uint64_t at) {
  if (from->ids) memcpy(to->ids + at, from->ids + first, many * sizeof *to->ids);
  if (!from->narrow) return;
  const adji_points *right = from->right;
  const uint32_t *ids = from->narrow + first;
  if (right && right->narrow && to->narrow) {
    const uint32_t *restrict map = right->narrow;
    uint32_t *restrict global = to->narrow + at;
    for (uint64_t i = 0; i < many; i++)
      global[i] = map[ids[i]];
  } else if (right && to->narrow) {
    for (uint64_t i = 0; i < many; i++)
      to->narrow[at + i] = (uint32_t)adji_point_id(right, ids[i]);
  } else if (right) {
    for (uint64_t i = 0; i < many; i++)
      to->ids[at + i] = adji_point_id(right, ids[i]);
  } else if (to->narrow) {
    memcpy(to->narrow + at, ids, many * sizeof *ids);
  } else {
    for (uint64_t i = 0; i < many; i++)
      to->ids[at + i] = ids[i] == UINT32_MAX ? -1 : (int64_t)ids[i];
  }
}

/* Copies consecutive rows of this region. */
static void put_rows(const windows *v, uint64_t row, uint64_t end, const adji_rows *to, uint64_t at) {
  const adji_rows *from = v->r->in;
  uint64_t first = entry_at(from, row), many = entry_at(from, end) - first;
  copy_ids(from, first, many, to, at);
  if (v->value_size && many)
    memcpy(to->values + at * v->value_size, from->values + first * v->value_size, many * v->value_size);
}

/* Copies the rows of this region that this rank owns into the result. */
static void keep_rows(windows *v) {
  const adji_returning *r = v->r;
  const stretch *s = &v->to[r->plan->group.rank];
  for (uint64_t row = s->row; row < s->end; row++)
    put_rows(v, row, row + 1, r->out, r->out->offsets[r->order[v->own++]]);
}

typedef struct task {
  windows *v;
  window_buffers *slot;
} task;

/* Step 0 copies the rows that stay here; step i packs the message for rank + i. */
static adj_status pack_rows(void *user, uint64_t step, uint32_t lane) {
  (void)lane;
  const task *t = user;
  windows *v = t->v;
  const adji_group *group = &v->r->plan->group;
  if (!step) {
    if (!v->status) keep_rows(v);
    return ADJ_OK;
  }
  const stretch *s = &v->to[(group->rank + (int)step) % group->ranks];
  adji_rows message = open_message(v, t->slot->sent + s->at, stretch_entries(v, s));
  put_rows(v, s->row, s->end, &message, 0);
  return ADJ_OK;
}

static adj_status place_rows(void *user, uint64_t step, uint32_t lane) {
  (void)lane;
  const task *t = user;
  const windows *v = t->v;
  const adji_returning *r = v->r;
  const adji_group *group = &r->plan->group;
  const arrival *from = &t->slot->from[(group->rank + group->ranks - (int)step - 1) % group->ranks];
  adji_rows message = open_message(v, t->slot->received + from->at, arrival_entries(v, from));
  uint64_t at = 0, size = v->value_size;
  for (uint64_t j = from->next; j < from->end; j++) {
    uint64_t first = r->out->offsets[r->order[j]], many = r->out->offsets[r->order[j] + 1] - first;
    copy_ids(&message, at, many, r->out, first);
    if (size) memcpy(r->out->values + first * size, message.values + at * size, many * size);
    at += many;
  }
  return ADJ_OK;
}

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

static adj_status claim_window(const windows *v, uint64_t window) {
  uint64_t begin;
  return adji_growing_claim(&v->growing, v->r->out->offsets[window_end(v, v->r->plan->group.rank, window, &begin)]);
}

/* Releases rows that were sent. */
static void release_sent(const windows *v) {
  const adji_rows *in = v->r->in;
  adji_memory *memory = &v->r->plan->ctx->memory;
  void *ids = in->narrow ? (void *)in->narrow : (void *)in->ids;
  uint64_t id_size = in->narrow ? 4 : 8, size = v->value_size;
  for (int i = 0; i < v->r->plan->group.ranks; i++) {
    const stretch *s = &v->to[i];
    uint64_t first = entry_at(in, s->first), from = entry_at(in, s->row), to = entry_at(in, s->end);
    adji_release_sent(memory, ids, first * id_size, from * id_size, to * id_size);
    if (size) adji_release_sent(memory, in->values, first * size, from * size, to * size);
  }
}

static adj_status open_slots(windows *v, const uint64_t *most) {
  adji_memory *memory = &v->r->plan->ctx->memory;
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2; i++) {
    v->slots[i].sent = adji_alloc(memory, most[0] + 1, 1, "rows on their way");
    v->slots[i].received = adji_alloc(memory, most[1] + 1, 1, "rows of other ranks");
    if (!v->slots[i].sent || !v->slots[i].received) status = ADJ_E_MEMORY;
  }
  return status;
}

/* Sets where each message is in the buffer of a window. Returns the length of the buffer. */
static uint64_t lay_out_sent(const windows *v) {
  uint64_t at = 0;
  for (int i = 0; i < v->r->plan->group.ranks; i++) {
    v->to[i].at = at;
    if (i != v->r->plan->group.rank) at += padded(message_bytes(v, stretch_entries(v, &v->to[i])));
  }
  return at;
}

static uint64_t lay_out_received(const windows *v, const window_buffers *slot) {
  uint64_t at = 0;
  for (int i = 0; i < v->r->plan->group.ranks; i++) {
    slot->from[i].at = at;
    if (i != v->r->plan->group.rank) at += padded(message_bytes(v, arrival_entries(v, &slot->from[i])));
  }
  return at;
}

/* Allocates buffers for the largest window, and the result. */
static adj_status get_memory(windows *v) {
  uint64_t most[2] = {0, 0};
  for (uint64_t w = 0; w < v->count; w++) {
    next_rows(v, w);
    next_places(v, w);
    uint64_t sent = lay_out_sent(v), received = lay_out_received(v, &v->slots[w % 2]);
    most[0] = sent > most[0] ? sent : most[0];
    most[1] = received > most[1] ? received : most[1];
  }
  adj_status status = open_slots(v, most);
  v->growing = (adji_growing){.plan = v->r->plan, .out = v->r->out, .value_size = v->value_size};
  return status ? status : adji_growing_open(&v->growing);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* Each rank starts with its neighbour, which spreads the load over the ranks. */
static adj_status post_receives(const windows *v, window_buffers *slot) {
  adji_group *group = &v->r->plan->group;
  adj_status status = ADJ_OK;
  lay_out_received(v, slot);
  slot->receives.count = 0;
  for (int i = 1; i < group->ranks && !status; i++) {
    int from = (group->rank + group->ranks - i) % group->ranks;
    const arrival *a = &slot->from[from];
    status = adji_post_receive(group, &slot->receives, slot->received + a->at, message_bytes(v, arrival_entries(v, a)),
                               from);
  }
  return status;
}

static adj_status post_sends(const windows *v, window_buffers *slot) {
  adji_group *group = &v->r->plan->group;
  adj_status status = ADJ_OK;
  slot->sends.count = 0;
  for (int i = 1; i < group->ranks && !status; i++) {
    int to = (group->rank + i) % group->ranks;
    const stretch *s = &v->to[to];
    status = adji_post_send(group, &slot->sends, slot->sent + s->at, message_bytes(v, stretch_entries(v, s)), to);
  }
  return status;
}

/* Packs and sends a window, and posts its receives. */
static adj_status begin_window(windows *v, uint64_t window) {
  adj_mpi_plan *plan = v->r->plan;
  window_buffers *slot = &v->slots[window % 2];
  adj_status status = adji_wait(&plan->group, slot->sends.count, slot->sends.items); /* of two windows ago */
  next_places(v, window);
  if (!status) status = post_receives(v, slot);
  if (status) return status;
  next_rows(v, window);
  lay_out_sent(v);
  if (!v->status) v->status = claim_window(v, window);
  task t = {v, slot};
  (void)adji_parallel(plan->ctx->team, (uint64_t)plan->group.ranks, pack_rows, &t, false);
  status = post_sends(v, slot);
  release_sent(v);
  return status;
}

/* Waits for the messages of a window and puts their rows into place. */
static adj_status end_window(windows *v, uint64_t window) {
  adj_mpi_plan *plan = v->r->plan;
  window_buffers *slot = &v->slots[window % 2];
  adj_status status = adji_wait(&plan->group, slot->receives.count, slot->receives.items);
  if (status || v->status) return status;
  task t = {v, slot};
  return adji_parallel(plan->ctx->team, (uint64_t)plan->group.ranks - 1, place_rows, &t, false);
}

static adj_status send_windows(windows *v) {
  adji_group *group = &v->r->plan->group;
  adj_status status = ADJ_OK;
  for (uint64_t w = 0; w <= v->count && !status; w++) {
    if (w < v->count) status = begin_window(v, w);
    if (!status && w) status = end_window(v, w - 1);
  }
  for (int i = 0; i < 2 && !status; i++)
    status = adji_wait(group, v->slots[i].sends.count, v->slots[i].sends.items);
  return status;
}

/* The most windows that any rank wants. */
static adj_status count_windows(windows *v) {
  const adji_returning *r = v->r;
  uint64_t sent = entry_at(r->in, r->in->count), received = r->out->offsets[r->out->count];
  v->count = adji_owners_windows(r->plan, (sent > received ? sent : received) * (v->id_size + v->value_size));
  return adji_all_reduce(&r->plan->group, &v->count, 1, MPI_UINT64_T, MPI_MAX);
}

adj_status adji_owners_send_entries(adji_returning *r) {
  adj_mpi_plan *plan = r->plan;
  adji_group *group = &plan->group;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)group->ranks;
  windows v = {.r = r, .narrow = plan->fits_32};
  v.id_size = v.narrow ? 4 : 8;
  v.value_size = adji_value_size(plan);
  v.own = r->starts[group->rank];
  v.to = adji_alloc_zero(memory, ranks, sizeof *v.to, "messages");
  for (int i = 0; i < 2; i++)
    v.slots[i].from = adji_alloc(memory, ranks, sizeof(arrival), "messages");
  adj_status status = count_windows(&v);
  if (!status) status = v.to && v.slots[0].from && v.slots[1].from ? get_memory(&v) : ADJ_E_MEMORY;
  status = adji_agree(group, status);
  if (!status) status = send_windows(&v);
  if (!status) status = v.status;
  adji_group_free(group, v.to);
  for (int i = 0; i < 2; i++) {
    adji_group_free(group, v.slots[i].sent);
    adji_group_free(group, v.slots[i].received);
    adji_group_free(group, v.slots[i].from);
    adji_requests_clear(&v.slots[i].sends);
    adji_requests_clear(&v.slots[i].receives);
  }
  return status;
}
