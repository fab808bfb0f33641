/* SPDX-License-Identifier: MIT
 *
 * Sends rows from the rank that found them to the rank that owns their points: first the lengths of the rows, as
 * numbers in base 128, then their entries, window by window (owners_windows.c). The queries of a region ascend by id,
 * so the rows that go to one rank are consecutive. The owner knows the home region of each of its points, and rows
 * arrive in the order of its points, so messages need no ids of queries. kNN lists need no lengths (owners_lists.c).
 */
#include <string.h>

#include "mpi/owners_private.h"

void adji_round_rows(const adj_mpi_plan *plan, int rank, adji_round round, uint64_t *begin, uint64_t *end) {
  if (round.of == 1) {
    *begin = 0;
    *end = plan->left_starts[rank + 1] - plan->left_starts[rank];
    return;
  }
  const uint64_t *starts = plan->rounds + (uint64_t)rank * (round.of + 1);
  *begin = starts[round.number];
  *end = starts[round.number + 1];
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

uint64_t adji_find_query(const adji_queries *queries, uint64_t low, uint64_t id) {
  uint64_t high = queries->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (adji_query_id(queries, middle) < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* A rank sends and receives about WINDOW bytes at a time; less if there is little to send, and in tests with short
 * messages. */
uint64_t adji_owners_windows(const adj_mpi_plan *plan, uint64_t bytes) {
  enum { WINDOW = 1 << 20, LEAST_WINDOW = 1 << 17 };
  uint64_t most = bytes / 64;
  most = most < LEAST_WINDOW ? LEAST_WINDOW : most > WINDOW ? WINDOW : most;
  if (plan->group.chunk < LEAST_WINDOW && most > bytes / 8 + 1) most = bytes / 8 + 1;
  return bytes / most + 1;
}

/* Groups the rows of the round by home region, by a counting sort. */
static adj_status sort_rows(adji_returning *r, uint64_t begin) {
  adji_memory *memory = &r->plan->ctx->memory;
  uint64_t ranks = (uint64_t)r->plan->group.ranks, count = r->out->count;
  const uint32_t *home = r->plan->home + begin;
  r->starts = adji_alloc_zero(memory, ranks + 2, sizeof *r->starts, "messages");
  r->order = adji_alloc(memory, count + 1, sizeof *r->order, "rows by region");
  r->out->offsets = adji_alloc_zero(memory, count + 1, sizeof *r->out->offsets, "offsets of rows");
  if (!r->starts || !r->order || !r->out->offsets) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    r->starts[home[i] + 2]++;
  for (uint64_t i = 0; i < ranks; i++)
    r->starts[i + 2] += r->starts[i + 1];
  for (uint64_t i = 0; i < count; i++)
    r->order[r->starts[home[i] + 1]++] = (uint32_t)i;
  return ADJ_OK;
}

static uint64_t length_of(const adji_rows *rows, uint64_t row) {
  return row < rows->count ? rows->offsets[row + 1] - rows->offsets[row] : 0;
}

static adj_status write_lengths(const adji_returning *r, adji_mail *mail) {
  adji_group *group = &r->plan->group;
  adj_status status = adji_mail_open(group, mail);
  for (int writing = 0; writing < 2 && !status; writing++) {
    uint64_t row = 0, bytes = 0;
    char *to = mail->bytes;
    for (int i = 0; i < group->ranks; i++) {
      for (; row < r->queries.count && adji_query_id(&r->queries, row) < r->plan->left_starts[i + 1]; row++) {
        uint64_t many = length_of(r->in, row);
        if (writing)
          to = write_number(to, many);
        else
          bytes += number_bytes(many);
      }
      if (!writing) mail->starts[i + 1] = bytes;
    }
    if (!writing) mail->bytes = adji_alloc(&r->plan->ctx->memory, bytes + 1, 1, "rows on their way");
    status = mail->bytes ? ADJ_OK : ADJ_E_MEMORY;
  }
  return status;
}

/* Sends the lengths. The owners turn them into offsets. Agreed on. */
static adj_status send_lengths(const adji_returning *r, adj_status status) {
  adji_group *group = &r->plan->group;
  adji_mail sent = {0}, received = {0};
  uint64_t *offsets = r->out->offsets;
  if (!status) status = write_lengths(r, &sent);
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  for (int i = 0; i < group->ranks && !status; i++) {
    const char *at = received.bytes + received.starts[i];
    for (uint64_t j = r->starts[i]; j < r->starts[i + 1]; j++)
      offsets[r->order[j] + 1] = read_number(&at);
  }
  for (uint64_t i = 0; i < r->out->count && !status; i++)
    offsets[i + 1] += offsets[i];
  adji_mail_clear(group, &received);
  return status;
}

/* Range joins: sends the lengths and, unless only these are wanted, the entries. */
static adj_status send_rows(adji_returning *r, adj_status status, adji_mode mode, uint64_t begin) {
  adji_group *group = &r->plan->group;
  if (!status) status = sort_rows(r, begin);
  status = send_lengths(r, status);
  if (!status && mode == ADJI_ROWS) status = adji_owners_send_entries(r);
  status = adji_agree(group, status);
  adji_group_free(group, r->starts);
  adji_group_free(group, r->order);
  return status;
}

adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, adji_mode mode, const adji_points *queries,
                            adji_rows *in, adji_round round, adji_rows *out) {
  adji_group *group = &plan->group;
  uint64_t begin, end, before = group->bytes_sent;
  adji_returning r = {.plan = plan, .in = in, .round = round, .out = out};
  if (!status) r.queries = adji_queries_of(plan, queries);
  adji_round_rows(plan, group->rank, round, &begin, &end);
  *out = (adji_rows){.count = end - begin};
  if (!status && plan->fits_32) adji_rows_narrow(plan, in);
  if (plan->spec.kind == ADJ_KNN && mode == ADJI_ROWS)
    status = adji_agree(group, adji_owners_send_lists(&r, status));
  else
    status = send_rows(&r, status, mode, begin);
  plan->stats.bytes_rows += group->bytes_sent - before;
  if (!group->broken.broken) adji_rows_clear(plan, in);
  if (status) adji_rows_clear(plan, out);
  return status;
}

/* ---- Memory of a result ------------------------------------------------------------------------------------------ */

static void *get_block(const adji_growing *g, uint64_t size, bool *ahead, const char *what) {
  enum { LEAST = 8 << 20, BEGIN = 1 << 20 };
  adji_memory *memory = &g->plan->ctx->memory;
  uint64_t bytes = adji_mul(g->out->offsets[g->out->count] + 1, size);
  void *block = bytes > LEAST ? adji_alloc_ahead(memory, BEGIN, bytes) : NULL;
  *ahead = block != NULL;
  return block ? block : adji_alloc(memory, bytes, 1, what);
}

void adji_release_sent(adji_memory *memory, void *array, uint64_t first, uint64_t from, uint64_t to) {
  uint64_t page = from / ADJI_HUGE_PAGE * ADJI_HUGE_PAGE;
  if (array) adji_release(memory, array, page > first ? page : first, to);
}

adj_status adji_growing_open(adji_growing *g) {
  adji_rows *out = g->out;
  bool narrow = g->plan->narrow;
  void *ids = get_block(g, narrow ? 4 : 8, &g->ids_ahead, "ids of the result");
  if (narrow)
    out->narrow = ids;
  else
    out->ids = ids;
  if (g->value_size) out->values = get_block(g, g->value_size, &g->values_ahead, "distances of the result");
  return ids && (!g->value_size || out->values) ? ADJ_OK : ADJ_E_MEMORY;
}

adj_status adji_growing_claim(const adji_growing *g, uint64_t entries) {
  adji_memory *memory = &g->plan->ctx->memory;
  const adji_rows *out = g->out;
  void *ids = out->narrow ? (void *)out->narrow : (void *)out->ids;
  if (g->ids_ahead && !adji_claim(memory, ids, (entries + 1) * (out->narrow ? 4 : 8), "ids of the result"))
    return ADJ_E_MEMORY;
  if (g->values_ahead && !adji_claim(memory, out->values, (entries + 1) * g->value_size, "distances of the result"))
    return ADJ_E_MEMORY;
  return ADJ_OK;
}
