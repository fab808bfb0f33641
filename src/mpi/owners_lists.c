/* SPDX-License-Identifier: MIT
 *
 * Sends the lists of a kNN join to the owners of their points, window by window. All lists have the same length, so the
 * rows of a window that go to one owner are sent from where they are, and no lengths are sent. A window has as many
 * rows of each owner as keep what a rank receives in a cache.
 *
 * The owner takes its rows in their order: the home region of the row's point tells whose message has the list, and the
 * lists of each message are in the same order. While the messages of a window are under way, those of the window before
 * are put into place. The result gets its memory window by window, while the memory of lists that were sent is
 * released.
 */
#include <string.h>

#include "mpi/owners_private.h"

/* Rows first .. end - 1. */
typedef struct stretch {
  uint64_t first, end;
} stretch;

/* The messages of the even windows, or of the odd ones. */
typedef struct list_window {
  stretch *to; /* by owner: the lists here that go there */
  char *ids;   /* received: those of rank 0, then those of rank 1, ...; the lists of this rank stay where they are */
  char *values;
  uint64_t *starts; /* by slice of the owner's rows and rank: its lists before that slice; one more slice for the end */
  uint64_t slices;
  adji_requests sends, receives;
} list_window;

typedef struct lists {
  adji_returning *r;
  const uint32_t *home;              /* of the rows of this round */
  uint64_t k, id_bytes, value_bytes; /* of a list */
  uint64_t count;                    /* of windows */
  uint64_t *first;                   /* by owner: the first list here that goes there */
  list_window slots[2];
  adji_growing growing;
  adj_status status; /* of claiming memory; after a failure messages are still exchanged */
} lists;

enum { SLICE_ROWS = 4096 };

static int rank_of(const lists *l) {
  return l->r->plan->group.rank;
}

/* The rows of a rank in a window, counted from the beginning of the round. */
static stretch rows_of(const lists *l, int rank, uint64_t window) {
  uint64_t begin, end;
  stretch rows;
  adji_round_rows(l->r->plan, rank, l->r->round, &begin, &end);
  adji_slice(end - begin, l->count, window, &rows.first, &rows.end);
  return rows;
}

static char *ids_of(const adji_rows *rows) {
  return rows->narrow ? (char *)rows->narrow : (char *)rows->ids;
}

/* ---- Which lists ------------------------------------------------------------------------------------------------- */

/* Sets the lists that go to each owner in a window. */
static void choose_lists(const lists *l, uint64_t window) {
  const adji_returning *r = l->r;
  for (int i = 0; i < r->plan->group.ranks; i++) {
    uint64_t begin, end;
    adji_round_rows(r->plan, i, r->round, &begin, &end);
    begin += r->plan->left_starts[i];
    stretch *to = &l->slots[window % 2].to[i];
    to->first = window ? l->slots[(window + 1) % 2].to[i].end : adji_find_query(&r->queries, 0, begin);
    to->end = adji_find_query(&r->queries, to->first, begin + rows_of(l, i, window).end);
    if (!window) l->first[i] = to->first;
  }
}

/* Counts the lists that come from each rank, by slices of the owner's rows. */
static void count_lists(lists *l, uint64_t window) {
  list_window *slot = &l->slots[window % 2];
  uint64_t ranks = (uint64_t)l->r->plan->group.ranks, begin, end;
  stretch rows = rows_of(l, rank_of(l), window);
  memset(slot->starts, 0, (slot->slices + 1) * ranks * sizeof *slot->starts);
  for (uint64_t s = 0; s < slot->slices; s++) {
    uint64_t *counts = slot->starts + (s + 1) * ranks;
    adji_slice(rows.end - rows.first, slot->slices, s, &begin, &end);
    for (uint64_t i = rows.first + begin; i < rows.first + end; i++)
      counts[l->home[i]]++;
    for (uint64_t i = 0; i < ranks; i++)
      counts[i] += slot->starts[s * ranks + i];
  }
}

static uint64_t coming(const lists *l, const list_window *slot, int rank) {
  return slot->starts[slot->slices * (uint64_t)l->r->plan->group.ranks + (uint64_t)rank];
}

/* ---- Lists into place -------------------------------------------------------------------------------------------- */

/* Copies lists of `bytes` bytes to consecutive places. from: by rank, its next list. */
static inline __attribute__((always_inline)) void gather(const uint32_t *home, uint64_t count, const char **from,
                                                         uint64_t bytes, char *to) {
  for (uint64_t i = 0; i < count; i++, to += bytes) {
    memcpy(to, from[home[i]], bytes);
    from[home[i]] += bytes;
  }
}

/* Copies of a fixed size take no call. */
static void gather_lists(const uint32_t *home, uint64_t count, const char **from, uint64_t bytes, char *to) {
  switch (bytes) {
    case 16:
      gather(home, count, from, 16, to);
      return;
    case 32:
      gather(home, count, from, 32, to);
      return;
    case 64:
      gather(home, count, from, 64, to);
      return;
    default:
      gather(home, count, from, bytes, to);
  }
}

/* Copies lists with ids of 32 bits to lists with ids of 64 bits. */
static void widen_lists(const uint32_t *home, uint64_t count, const char **from, uint64_t k, int64_t *to) {
  for (uint64_t i = 0; i < count; i++, to += k) {
    const uint32_t *ids = (const uint32_t *)(const void *)from[home[i]];
    for (uint64_t e = 0; e < k; e++)
      to[e] = ids[e] == ADJ_NO_ID ? -1 : (int64_t)ids[e];
    from[home[i]] += k * sizeof *ids;
  }
}

typedef struct placing {
  const lists *l;
  uint64_t window;
} placing;

/* Sets where the lists of each rank begin that belong to a slice. */
static void find_lists(const placing *p, uint64_t slice, bool values, const char **from) {
  const lists *l = p->l;
  const list_window *slot = &l->slots[p->window % 2];
  uint64_t bytes = values ? l->value_bytes : l->id_bytes, ranks = (uint64_t)l->r->plan->group.ranks;
  const char *at = values ? slot->values : slot->ids;
  const char *own = values ? l->r->in->values : ids_of(l->r->in);
  for (int i = 0; i < (int)ranks; i++) {
    uint64_t before = slot->starts[slice * ranks + (uint64_t)i] * bytes;
    from[i] = i == rank_of(l) ? own + slot->to[i].first * bytes + before : at + before;
    if (i != rank_of(l)) at += coming(l, slot, i) * bytes;
  }
}

static adj_status place_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const placing *p = user;
  const lists *l = p->l;
  const adji_rows *in = l->r->in, *out = l->r->out;
  uint64_t begin, end;
  stretch rows = rows_of(l, rank_of(l), p->window);
  adji_slice(rows.end - rows.first, l->slots[p->window % 2].slices, slice, &begin, &end);
  const char **from = adji_alloc(&l->r->plan->ctx->memory, (uint64_t)l->r->plan->group.ranks, sizeof *from, "lists");
  if (!from) return ADJ_E_MEMORY;
  uint64_t first = rows.first + begin, count = end - begin;
  find_lists(p, slice, false, from);
  if (in->narrow && out->ids)
    widen_lists(l->home + first, count, from, l->k, out->ids + first * l->k);
  else
    gather_lists(l->home + first, count, from, l->id_bytes, ids_of(out) + first * l->id_bytes);
  if (l->value_bytes) {
    find_lists(p, slice, true, from);
    gather_lists(l->home + first, count, from, l->value_bytes, out->values + first * l->value_bytes);
  }
  adji_free(&l->r->plan->ctx->memory, from);
  return ADJ_OK;
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static adj_status post_receives(const lists *l, list_window *slot) {
  adji_group *group = &l->r->plan->group;
  adj_status status = ADJ_OK;
  char *ids = slot->ids, *values = slot->values;
  slot->receives.count = 0;
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t many = coming(l, slot, i);
    if (i == group->rank || !many) continue;
    status = adji_post_receive(group, &slot->receives, ids, many * l->id_bytes, i);
    if (!status && l->value_bytes) status = adji_post_receive(group, &slot->receives, values, many * l->value_bytes, i);
    ids += many * l->id_bytes;
    values += many * l->value_bytes;
  }
  return status;
}

/* Each rank starts with its neighbour, which spreads the load over the ranks. */
static adj_status post_sends(const lists *l, list_window *slot) {
  adji_group *group = &l->r->plan->group;
  const adji_rows *in = l->r->in;
  adj_status status = ADJ_OK;
  slot->sends.count = 0;
  for (int i = 1; i < group->ranks && !status; i++) {
    int to = (group->rank + i) % group->ranks;
    const stretch *s = &slot->to[to];
    uint64_t many = s->end - s->first;
    if (!many) continue;
    status = adji_post_send(group, &slot->sends, ids_of(in) + s->first * l->id_bytes, many * l->id_bytes, to);
    if (!status && l->value_bytes)
      status = adji_post_send(group, &slot->sends, in->values + s->first * l->value_bytes, many * l->value_bytes, to);
  }
  return status;
}

static adj_status begin_window(lists *l, uint64_t window) {
  list_window *slot = &l->slots[window % 2];
  choose_lists(l, window);
  count_lists(l, window);
  adj_status status = post_receives(l, slot);
  return status ? status : post_sends(l, slot);
}

/* Releases the lists of a window, which were sent or are in place. */
static void release_lists(const lists *l, const list_window *slot) {
  const adji_rows *in = l->r->in;
  adji_memory *memory = &l->r->plan->ctx->memory;
  for (int i = 0; i < l->r->plan->group.ranks; i++) {
    const stretch *s = &slot->to[i];
    uint64_t ids = l->id_bytes, values = l->value_bytes;
    adji_release_sent(memory, ids_of(in), l->first[i] * ids, s->first * ids, s->end * ids);
    if (values) adji_release_sent(memory, in->values, l->first[i] * values, s->first * values, s->end * values);
  }
}

/* Puts the lists of a window into place. */
static adj_status end_window(lists *l, uint64_t window) {
  adj_mpi_plan *plan = l->r->plan;
  list_window *slot = &l->slots[window % 2];
  placing p = {l, window};
  adj_status status = adji_wait(&plan->group, slot->receives.count, slot->receives.items);
  if (!status && !l->status) l->status = adji_growing_claim(&l->growing, rows_of(l, rank_of(l), window).end * l->k);
  if (!status && !l->status) l->status = adji_parallel(plan->ctx->team, slot->slices, place_slice, &p, false);
  if (!status) status = adji_wait(&plan->group, slot->sends.count, slot->sends.items);
  if (!status) release_lists(l, slot);
  return status;
}

static adj_status send_windows(lists *l) {
  adj_status status = ADJ_OK;
  for (uint64_t w = 0; w <= l->count && !status; w++) {
    if (w < l->count) status = begin_window(l, w);
    if (!status && w) status = end_window(l, w - 1);
  }
  return status;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Allocates buffers for the largest window, and the result. */
static adj_status get_memory(lists *l) {
  adji_memory *memory = &l->r->plan->ctx->memory;
  uint64_t most = 0, ranks = (uint64_t)l->r->plan->group.ranks, slices;
  for (uint64_t w = 0; w < l->count; w++) {
    stretch rows = rows_of(l, rank_of(l), w);
    most = rows.end - rows.first > most ? rows.end - rows.first : most;
  }
  slices = most / SLICE_ROWS + 1 < l->r->plan->ctx->threads ? most / SLICE_ROWS + 1 : l->r->plan->ctx->threads;
  l->first = adji_alloc(memory, ranks, sizeof *l->first, "messages");
  if (!l->first) return ADJ_E_MEMORY;
  for (int i = 0; i < 2; i++) {
    list_window *slot = &l->slots[i];
    slot->slices = slices;
    slot->to = adji_alloc_zero(memory, ranks, sizeof *slot->to, "messages");
    slot->starts = adji_alloc(memory, adji_mul(slices + 1, ranks), sizeof *slot->starts, "messages");
    slot->ids = adji_alloc(memory, adji_mul(most, l->id_bytes) + 1, 1, "rows of other ranks");
    slot->values = adji_alloc(memory, adji_mul(most, l->value_bytes) + 1, 1, "rows of other ranks");
    if (!slot->to || !slot->starts || !slot->ids || !slot->values) return ADJ_E_MEMORY;
  }
  l->growing = (adji_growing){.plan = l->r->plan, .out = l->r->out, .value_size = l->value_bytes / l->k};
  return adji_growing_open(&l->growing);
}

static void close_lists(lists *l) {
  adji_group *group = &l->r->plan->group;
  adji_group_free(group, l->first);
  for (int i = 0; i < 2; i++) {
    list_window *slot = &l->slots[i];
    adji_group_free(group, slot->to);
    adji_group_free(group, slot->starts);
    adji_group_free(group, slot->ids);
    adji_group_free(group, slot->values);
    adji_requests_clear(&slot->sends);
    adji_requests_clear(&slot->receives);
  }
}

adj_status adji_owners_send_lists(adji_returning *r, adj_status status) {
  adj_mpi_plan *plan = r->plan;
  uint64_t begin, end, k = plan->spec.k;
  adji_round_rows(plan, plan->group.rank, r->round, &begin, &end);
  lists l = {.r = r, .home = plan->home + begin, .k = k};
  l.id_bytes = k * (plan->fits_32 ? 4 : 8);
  l.value_bytes = k * adji_reported_size(plan);
  uint64_t sent = r->in->count, received = r->out->count;
  r->out->each = k;
  if (!status) status = adji_rows_number(plan, r->out);
  l.count = adji_owners_windows(plan, (sent > received ? sent : received) * (l.id_bytes + l.value_bytes));
  status = adji_agree(&plan->group, status);
  if (!status) status = adji_all_reduce(&plan->group, &l.count, 1, MPI_UINT64_T, MPI_MAX);
  if (!status) status = adji_agree(&plan->group, get_memory(&l));
  if (!status) status = send_windows(&l);
  if (!status) status = l.status;
  close_lists(&l);
  return status;
}
