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

/* What goes on for a while: the rows of each owner at the sender; at the receiver rows of a round, and where they are.
 */
typedef struct returning {
  adj_mpi_plan *plan;
  adji_rows *in, *out;
  uint64_t *rows; /* ranks + 1 */
  uint64_t begin; /* first row of the round */
} returning;

static adj_status send_lengths(returning *r, adj_status status) {
  adji_group *group = &r->plan->group;
  adji_mail sent = {0}, received = {0};
  if (!status) status = adji_mail_open(group, &sent);
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t bytes = 0;
    for (uint64_t row = r->rows[i]; row < r->rows[i + 1]; row++)
      bytes += number_bytes(r->in->offsets[row + 1] - r->in->offsets[row]);
    sent.starts[i + 1] = sent.starts[i] + bytes;
  }
  if (!status) sent.bytes = adji_alloc(&r->plan->ctx->memory, sent.starts[group->ranks] + 1, 1, "rows on their way");
  if (!status && !sent.bytes) status = ADJ_E_MEMORY;
  char *to = sent.bytes;
  for (uint64_t row = 0; !status && row < r->rows[group->ranks]; row++)
    to = write_number(to, r->in->offsets[row + 1] - r->in->offsets[row]);
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  if (status) return status;
  const char **at = adji_alloc(&r->plan->ctx->memory, (uint64_t)group->ranks, sizeof *at, "messages of other ranks");
  r->out->offsets =
      adji_alloc_zero(&r->plan->ctx->memory, r->out->count + 1, sizeof *r->out->offsets, "offsets of rows");
  status = at && r->out->offsets ? ADJ_OK : ADJ_E_MEMORY;
  for (int i = 0; i < group->ranks && !status; i++)
    at[i] = received.bytes + received.starts[i];
  for (uint64_t i = 0; i < r->out->count && !status; i++) {
    uint32_t home = r->plan->home[r->begin + i];
    uint64_t many = read_number(&at[home]);
    r->out->offsets[i + 1] = r->out->offsets[i] + many;
  }
  adji_free(&r->plan->ctx->memory, at);
  adji_mail_clear(group, &received);
  return adji_agree(group, status);
}

/* Entries of `size` bytes: from an array of the sender to one of the receiver, where they are wider if `widen`. */
static adj_status send_entries(returning *r, adj_status status, char *from, uint64_t size, bool widen, char *to) {
  adji_group *group = &r->plan->group;
  adji_mail sent = {.bytes = from}, received = {0};
  sent.starts = adji_alloc_zero(&r->plan->ctx->memory, (uint64_t)group->ranks + 1, sizeof *sent.starts, "messages");
  if (!status && !sent.starts) status = ADJ_E_MEMORY;
  for (int i = 0; i <= group->ranks && !status; i++)
    sent.starts[i] = r->in->offsets[r->rows[i]] * size;
  status = adji_exchange(group, status, &sent, &received);
  adji_group_free(group, sent.starts);
  if (status) return status;
  for (uint64_t i = 0; i < r->out->count; i++) {
    uint32_t home = r->plan->home[r->begin + i];
    uint64_t first = r->out->offsets[i], many = r->out->offsets[i + 1] - first;
    const char *source = received.bytes + received.starts[home];
    received.starts[home] += many * size;
    if (!widen) memcpy(to + first * size, source, many * size);
    for (uint64_t e = 0; widen && e < many; e++) {
      uint32_t id;
      memcpy(&id, source + 4 * e, 4);
      ((int64_t *)(void *)to)[first + e] = id == UINT32_MAX ? -1 : (int64_t)id; /* padding */
    }
  }
  adji_mail_clear(group, &received);
  return ADJ_OK;
}

/* kNN lists have wide ids: narrowed in their own place. */
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

static adj_status return_rows(returning *r, adj_status status, bool entries) {
  adj_mpi_plan *plan = r->plan;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t size = adji_reported_size(plan);
  if (!status) narrow_ids(plan, r->in);
  status = send_lengths(r, status);
  if (status || !entries) return status;
  r->out->ids = adji_alloc(memory, r->out->offsets[r->out->count] + 1, sizeof *r->out->ids, "ids of the result");
  if (!r->out->ids) status = ADJ_E_MEMORY;
  bool narrow = r->in->narrow != NULL;
  status = send_entries(r, status, narrow ? (char *)r->in->narrow : (char *)r->in->ids, narrow ? 4 : 8, narrow,
                        (char *)r->out->ids);
  if (status || !size) return status;
  adji_group_free(&plan->group, r->in->narrow);
  adji_group_free(&plan->group, r->in->ids);
  r->in->narrow = NULL;
  r->in->ids = NULL;
  r->out->values = adji_alloc(memory, r->out->offsets[r->out->count] + 1, size, "distances of the result");
  return send_entries(r, r->out->values ? ADJ_OK : ADJ_E_MEMORY, r->in->values, size, false, r->out->values);
}

adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *in,
                            adji_round round, adji_rows *out) {
  adji_group *group = &plan->group;
  uint64_t end, before = group->bytes_sent, ranks = (uint64_t)group->ranks;
  bool entries = in->ids || in->narrow;
  returning r = {.plan = plan, .in = in, .out = out};
  adji_round_rows(plan, group->rank, round, &r.begin, &end);
  *out = (adji_rows){.count = end - r.begin};
  r.rows = adji_alloc_zero(&plan->ctx->memory, ranks + 1, sizeof *r.rows, "messages");
  if (!status && !r.rows) status = ADJ_E_MEMORY;
  if (!status) find_owners(plan, queries, r.rows);
  status = adji_agree(group, return_rows(&r, status, entries));
  plan->stats.bytes_rows += group->bytes_sent - before;
  adji_group_free(group, r.rows);
  if (!group->broken.broken) adji_rows_clear(plan, in);
  if (status) adji_rows_clear(plan, out);
  return status;
}
