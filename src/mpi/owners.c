/* SPDX-License-Identifier: MIT
 *
 * Rows on their way from the rank that found them to the rank that owns their points. A message is: the lengths of the
 * rows, as numbers in base 128; the ids, in 32 bits if all right points have such; and the sums or distances. The owner
 * knows the home of each of its points, and rows come in the order of its points, so nothing else is needed.
 */
#include <string.h>

#include "mpi/plan.h"

void adji_round_rows(const adj_mpi_plan *plan, int rank, adji_round round, uint64_t *begin, uint64_t *end) {
  adji_slice(plan->left_starts[rank + 1] - plan->left_starts[rank], round.of, round.number, begin, end);
}

/* Bytes of an id in a message. */
static uint64_t id_size(const adj_mpi_plan *plan) {
  return plan->right_starts[plan->group.ranks] < UINT32_MAX ? 4 : 8;
}

/* ---- Writing
 * --------------------------------------------------------------------------------------------------------- */

static uint64_t number_bytes(uint64_t x) {
  uint64_t bytes = 1;
  while (x >>= 7)
    bytes++;
  return bytes;
}

/* The queries from `first` on that a rank owns end here. */
static uint64_t owned_until(const adj_mpi_plan *plan, const adji_points *queries, uint64_t first, int rank) {
  while (first < queries->set->count && (uint64_t)adji_point_id(queries, first) < plan->left_starts[rank + 1])
    first++;
  return first;
}

static void write_rows(const adj_mpi_plan *plan, const adji_rows *in, uint64_t first, uint64_t end, char *to) {
  uint64_t size = adji_value_size(plan), from = in->offsets[first], many = in->offsets[end] - from;
  for (uint64_t i = first; i < end; i++) {
    uint64_t x = in->offsets[i + 1] - in->offsets[i];
    for (; x >= 128; x >>= 7)
      *to++ = (char)(x | 128);
    *to++ = (char)x;
  }
  if (!in->ids || !many) return;
  if (id_size(plan) == 8) {
    memcpy(to, in->ids + from, many * 8);
    to += many * 8;
  } else {
    for (uint64_t i = 0; i < many; i++, to += 4) {
      uint32_t id = (uint32_t)in->ids[from + i]; /* -1 becomes the largest */
      memcpy(to, &id, 4);
    }
  }
  if (size) memcpy(to, in->values + from * size, many * size);
}

static adj_status write_mail(adj_mpi_plan *plan, const adji_points *queries, const adji_rows *in, adji_mail *mail) {
  adji_group *group = &plan->group;
  uint64_t entry = in->ids ? id_size(plan) + adji_value_size(plan) : 0;
  adj_status status = adji_mail_open(group, mail);
  for (uint64_t i = 0, first = 0; i < (uint64_t)group->ranks && !status; i++) {
    uint64_t end = owned_until(plan, queries, first, (int)i), bytes = 0;
    for (uint64_t row = first; row < end; row++)
      bytes += number_bytes(in->offsets[row + 1] - in->offsets[row]);
    mail->starts[i + 1] = mail->starts[i] + bytes + (in->offsets[end] - in->offsets[first]) * entry;
    first = end;
  }
  if (status) return status;
  mail->bytes = adji_alloc(&plan->ctx->memory, mail->starts[group->ranks] + 1, 1, "rows on their way");
  if (!mail->bytes) return ADJ_E_MEMORY;
  for (uint64_t i = 0, first = 0; i < (uint64_t)group->ranks; i++) {
    uint64_t end = owned_until(plan, queries, first, (int)i);
    write_rows(plan, in, first, end, mail->bytes + mail->starts[i]);
    first = end;
  }
  return ADJ_OK;
}

/* ---- Reading -------------------------------------------------------------------------------------------------------
 */

/* Where each rank's message is read from. */
typedef struct reader {
  const char *at, *values;
  uint64_t entries;
} reader;

static uint64_t read_number(const char **at) {
  uint64_t x = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = (unsigned char)*(*at)++;
    x |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return x;
  }
}

static void read_row(const adj_mpi_plan *plan, reader *from, uint64_t first, uint64_t end, adji_rows *out) {
  uint64_t size = adji_value_size(plan), many = end - first;
  if (id_size(plan) == 8) {
    memcpy(out->ids + first, from->at, many * 8);
  } else {
    for (uint64_t i = 0; i < many; i++) {
      uint32_t id;
      memcpy(&id, from->at + 4 * i, 4);
      out->ids[first + i] = id == UINT32_MAX ? -1 : (int64_t)id;
    }
  }
  from->at += many * id_size(plan);
  if (size) memcpy(out->values + first * size, from->values, many * size);
  from->values += many * size;
}

static adj_status read_entries(adj_mpi_plan *plan, reader *readers, uint64_t begin, adji_rows *out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t size = adji_value_size(plan), entries = out->offsets[out->count];
  out->ids = adji_alloc(memory, entries + 1, sizeof *out->ids, "ids of the result");
  if (size) out->values = adji_alloc(memory, entries + 1, size, "distances of the result");
  if (!out->ids || (size && !out->values)) return ADJ_E_MEMORY;
  for (int i = 0; i < plan->group.ranks; i++)
    readers[i].values = readers[i].at + readers[i].entries * id_size(plan);
  for (uint64_t i = 0; i < out->count; i++)
    read_row(plan, &readers[plan->home[begin + i]], out->offsets[i], out->offsets[i + 1], out);
  return ADJ_OK;
}

static adj_status read_mail(adj_mpi_plan *plan, const adji_mail *mail, adji_round round, bool entries, adji_rows *out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t begin, end;
  adji_round_rows(plan, plan->group.rank, round, &begin, &end);
  *out = (adji_rows){.count = end - begin};
  out->offsets = adji_alloc_zero(memory, out->count + 1, sizeof *out->offsets, "offsets of rows");
  reader *readers = adji_alloc_zero(memory, (uint64_t)plan->group.ranks, sizeof *readers, "messages of other ranks");
  adj_status status = out->offsets && readers ? ADJ_OK : ADJ_E_MEMORY;
  for (int i = 0; i < plan->group.ranks && !status; i++)
    readers[i].at = mail->bytes + mail->starts[i];
  for (uint64_t i = 0; i < out->count && !status; i++) {
    reader *from = &readers[plan->home[begin + i]];
    uint64_t many = read_number(&from->at);
    from->entries += many;
    out->offsets[i + 1] = out->offsets[i] + many;
  }
  if (!status && entries) status = read_entries(plan, readers, begin, out);
  adji_free(memory, readers);
  if (status) adji_rows_clear(plan, out);
  return status;
}

adj_status adji_owners_send(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *in,
                            adji_round round, adji_rows *out) {
  adji_group *group = &plan->group;
  adji_mail sent = {0}, received = {0};
  *out = (adji_rows){0};
  uint64_t before = group->bytes_sent;
  int entries = in->ids != NULL; /* also on a rank that has no queries */
  if (!status) status = write_mail(plan, queries, in, &sent);
  adji_rows_clear(plan, in);
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  plan->stats.bytes_rows += group->bytes_sent - before;
  if (status) return status;
  status = read_mail(plan, &received, round, entries, out);
  adji_mail_clear(group, &received);
  status = adji_agree(group, status);
  if (status) adji_rows_clear(plan, out);
  return status;
}
