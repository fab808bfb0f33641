/* SPDX-License-Identifier: MIT
 *
 * Rows on their way from the rank that found them to the rank that owns their points. Three messages: the lengths of
 * the rows, as numbers in base 128; the ids, in 32 bits if all right points have such; and what is reported with them.
 * The queries of a region ascend by id, so what goes to a rank is one stretch of each. The owner knows the home of each
 * of its points, and rows come in the order of its points, so nothing else is needed.
 */
#include <string.h>

#include "mpi/plan.h"

void adji_round_rows(const adj_mpi_plan *plan, int rank, adji_round round, uint64_t *begin, uint64_t *end) {
  adji_slice(plan->left_starts[rank + 1] - plan->left_starts[rank], round.of, round.number, begin, end);
}

static uint64_t number_bytes(uint64_t x) {
  uint64_t bytes = 1;
  while (x >>= 7)
    bytes++;
  return bytes;
}

static char *write_number(char *to, uint64_t x) {
  for (; x >= 128; x >>= 7)
    *to++ = (char)(x | 128);
  *to++ = (char)x;
  return to;
}

static uint64_t read_number(const char **at) {
  uint64_t x = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = (unsigned char)*(*at)++;
    x |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return x;
  }
}

/* The row at which the queries of each owner begin. */
static void find_owners(const adj_mpi_plan *plan, const adji_points *queries, uint64_t *rows) {
  uint64_t at = 0;
  for (int i = 0; i < plan->group.ranks; i++) {
    rows[i] = at;
    while (at < queries->set->count && (uint64_t)adji_point_id(queries, at) < plan->left_starts[i + 1])
      at++;
  }
  rows[plan->group.ranks] = at;
}

/* At the sender: the rows of each owner. At the receiver: rows of a round, by the rank that sends them. */
typedef struct returning {
  adj_mpi_plan *plan;
  adji_rows *out;
  uint64_t *rows;   /* of the sender: where each owner's begin, ranks + 1 */
  uint64_t begin;   /* of the receiver: first row of the round */
  uint32_t *order;  /* its rows by home, ascending */
  uint64_t *starts; /* of each home in it, ranks + 1 */
  uint64_t *cursor; /* where the next entries of each row go */
} returning;

/* The rows of the round by home: a counting sort. */
static adj_status sort_rows(returning *r) {
  adji_memory *memory = &r->plan->ctx->memory;
  uint64_t ranks = (uint64_t)r->plan->group.ranks, count = r->out->count;
  const uint32_t *home = r->plan->home + r->begin;
  r->rows = adji_alloc_zero(memory, ranks + 1, sizeof *r->rows, "messages");
  r->starts = adji_alloc_zero(memory, ranks + 2, sizeof *r->starts, "messages");
  r->order = adji_alloc(memory, count + 1, sizeof *r->order, "rows by region");
  r->cursor = adji_alloc(memory, count + 1, sizeof *r->cursor, "rows by region");
  r->out->offsets = adji_alloc_zero(memory, count + 1, sizeof *r->out->offsets, "offsets of rows");
  if (!r->rows || !r->starts || !r->order || !r->cursor || !r->out->offsets) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    r->starts[home[i] + 2]++;
  for (uint64_t i = 0; i < ranks; i++)
    r->starts[i + 2] += r->starts[i + 1];
  for (uint64_t i = 0; i < count; i++)
    r->order[r->starts[home[i] + 1]++] = (uint32_t)i;
  return ADJ_OK;
}

/* Adds the lengths of some rows to those of the owners, which are kept in offsets, behind each row. Agreed on. */
static adj_status send_lengths(returning *r, adj_status status, const adji_rows *in) {
  adji_group *group = &r->plan->group;
  adji_mail sent = {0}, received = {0};
  if (!status) status = adji_mail_open(group, &sent);
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t bytes = 0;
    for (uint64_t row = r->rows[i]; row < r->rows[i + 1]; row++)
      bytes += number_bytes(in->offsets[row + 1] - in->offsets[row]);
    sent.starts[i + 1] = sent.starts[i] + bytes;
  }
  if (!status) sent.bytes = adji_alloc(&r->plan->ctx->memory, sent.starts[group->ranks] + 1, 1, "rows on their way");
  if (!status && !sent.bytes) status = ADJ_E_MEMORY;
  char *to = sent.bytes;
  for (uint64_t row = 0; !status && row < r->rows[group->ranks]; row++)
    to = write_number(to, in->offsets[row + 1] - in->offsets[row]);
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  for (int i = 0; i < group->ranks && !status; i++) {
    const char *at = received.bytes + received.starts[i];
    for (uint64_t j = r->starts[i]; j < r->starts[i + 1]; j++) {
      r->cursor[r->order[j]] = read_number(&at);
      r->out->offsets[r->order[j] + 1] += r->cursor[r->order[j]];
    }
  }
  adji_mail_clear(group, &received);
  return status;
}

/* An array with an entry for each pair: at the sender and, perhaps wider, at the receiver. */
typedef struct column {
  const char *from;
  uint64_t size;
  bool widen; /* from 32 bits to 64; the largest number becomes -1, the padding */
  char *to;
  const uint64_t *first, *lengths; /* of each row of the receiver: where its entries go, and how many there are */
} column;

static void place_entries(const returning *r, const column *c, int rank, const char *source) {
  for (uint64_t j = r->starts[rank]; j < r->starts[rank + 1]; j++) {
    uint32_t row = r->order[j];
    uint64_t first = c->first[row], many = c->lengths[row];
    if (!many) continue;
    if (!c->widen) memcpy(c->to + first * c->size, source, many * c->size);
    for (uint64_t e = 0; c->widen && e < many; e++) {
      uint32_t id;
      memcpy(&id, source + 4 * e, 4);
      ((int64_t *)(void *)c->to)[first + e] = id == UINT32_MAX ? -1 : (int64_t)id;
    }
    source += many * c->size;
  }
}

static uint64_t bytes_from(const returning *r, const column *c, int rank) {
  uint64_t entries = 0;
  for (uint64_t j = r->starts[rank]; j < r->starts[rank + 1]; j++)
    entries += c->lengths[r->order[j]];
  return entries * c->size;
}

/* Rank by rank, so that one buffer serves all messages: in step i to the i-th rank above, from the i-th below. */
static adj_status send_column(const returning *r, adj_status status, const uint64_t *offsets, const column *c) {
  adji_group *group = &r->plan->group;
  int ranks = group->ranks, rank = group->rank;
  uint64_t most = 0;
  for (int i = 0; i < ranks && !status; i++) {
    uint64_t bytes = i == rank ? 0 : bytes_from(r, c, i);
    most = bytes > most ? bytes : most;
  }
  char *buffer = status ? NULL : adji_alloc(&r->plan->ctx->memory, most + 1, 1, "rows of other ranks");
  status = adji_agree(group, status ? status : buffer ? ADJ_OK : ADJ_E_MEMORY);
  if (!status) place_entries(r, c, rank, c->from + offsets[r->rows[rank]] * c->size);
  for (int i = 1; i < ranks && !status; i++) {
    int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
    uint64_t first = offsets[r->rows[to]] * c->size, end = offsets[r->rows[to + 1]] * c->size;
    adji_requests list = {0};
    status = adji_post_receive(group, &list, buffer, bytes_from(r, c, from), from);
    if (!status) status = adji_post_send(group, &list, c->from + first, end - first, to);
    if (!status) status = adji_wait(group, list.count, list.items);
    if (!status) place_entries(r, c, from, buffer);
    if (!group->broken.broken) adji_requests_clear(&list);
  }
  adji_group_free(group, buffer);
  return status;
}

/* Ids and values of some rows. first, lengths: as in a column. */
static adj_status send_part(const returning *r, adj_status status, const adji_rows *in, const uint64_t *first,
                            const uint64_t *lengths) {
  bool narrow = in->narrow != NULL, knn = r->plan->spec.kind == ADJ_KNN;
  column ids = {.from = narrow ? (char *)in->narrow : (char *)in->ids,
                .size = narrow ? 4 : 8,
                .widen = narrow,
                .to = (char *)r->out->ids,
                .first = first,
                .lengths = lengths};
  column values = {.from = in->values,
                   .size = knn ? adji_reported_size(r->plan) : adji_value_size(r->plan),
                   .to = r->out->values,
                   .first = first,
                   .lengths = lengths};
  status = send_column(r, status, in->offsets, &ids);
  return status || !values.size ? status : send_column(r, status, in->offsets, &values);
}

/* kNN lists may have wide ids: narrowed in their own place. */
static void narrow_ids(const adj_mpi_plan *plan, adji_rows *rows) {
  if (rows->narrow || !rows->ids || plan->right_starts[plan->group.ranks] >= UINT32_MAX) return;
  uint64_t entries = rows->offsets[rows->count];
  char *bytes = (char *)rows->ids;
  for (uint64_t i = 0; i < entries; i++) { /* entry i is read before its place is written: that is further in front */
    uint32_t id = (uint32_t)rows->ids[i];
    memcpy(bytes + 4 * i, &id, 4);
  }
  rows->narrow = (uint32_t *)(void *)bytes;
  rows->ids = NULL;
}

static adj_status get_entries(returning *r) {
  adji_memory *memory = &r->plan->ctx->memory;
  adji_rows *out = r->out;
  uint64_t size = r->plan->spec.kind == ADJ_KNN ? adji_reported_size(r->plan) : adji_value_size(r->plan);
  out->ids = adji_alloc(memory, out->offsets[out->count] + 1, sizeof *out->ids, "ids of the result");
  if (size) out->values = adji_alloc(memory, out->offsets[out->count] + 1, size, "distances of the result");
  return out->ids && (!size || out->values) ? ADJ_OK : ADJ_E_MEMORY;
}

/* A row is its entries of `in`, then those of `extra`, which are merged in the end. */
static adj_status return_rows(returning *r, adj_status status, adji_rows *in, adji_rows *extra) {
  adji_rows *out = r->out;
  bool entries = in->ids || in->narrow;
  if (!status) narrow_ids(r->plan, in);
  status = send_lengths(r, status, in);
  uint64_t *lengths = NULL;
  if (!status && extra) {
    lengths = adji_alloc(&r->plan->ctx->memory, out->count + 1, sizeof *lengths, "rows by region");
    if (lengths) memcpy(lengths, r->cursor, out->count * sizeof *lengths);
    status = adji_agree(&r->plan->group, lengths ? ADJ_OK : ADJ_E_MEMORY);
    if (!status) status = send_lengths(r, status, extra);
  }
  for (uint64_t i = 0; i < out->count && !status; i++)
    out->offsets[i + 1] += out->offsets[i];
  if (!status && entries) {
    status = get_entries(r);
    status = send_part(r, status, in, out->offsets, extra ? lengths : r->cursor);
    adji_rows_clear(r->plan, in);
  }
  if (!status && entries && extra) { /* lengths become places */
    for (uint64_t i = 0; i < out->count; i++)
      lengths[i] += out->offsets[i];
    status = send_part(r, status, extra, lengths, r->cursor);
    for (uint64_t i = 0; i < out->count && !status; i++)
      adji_rows_merge_runs(r->plan, out, out->offsets[i], lengths[i], out->offsets[i + 1]);
  }
  adji_group_free(&r->plan->group, lengths);
  return status;
}

adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *in,
                            adji_rows *extra, adji_round round, adji_rows *out) {
  adji_group *group = &plan->group;
  uint64_t end, before = group->bytes_sent;
  returning r = {.plan = plan, .out = out};
  adji_round_rows(plan, group->rank, round, &r.begin, &end);
  *out = (adji_rows){.count = end - r.begin};
  if (!status) status = sort_rows(&r);
  if (!status) find_owners(plan, queries, r.rows);
  status = adji_agree(group, return_rows(&r, status, in, extra));
  plan->stats.bytes_rows += group->bytes_sent - before;
  void *blocks[] = {r.rows, r.starts, r.order, r.cursor};
  for (int i = 0; i < 4; i++)
    adji_group_free(group, blocks[i]);
  if (!group->broken.broken) adji_rows_clear(plan, in);
  if (!group->broken.broken && extra) adji_rows_clear(plan, extra);
  if (status) adji_rows_clear(plan, out);
  return status;
}
