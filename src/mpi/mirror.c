/* SPDX-License-Identifier: MIT
 *
 * One of two ranks joins their pair of blocks. It keeps the rows of its own points and sends the rows of the other
 * rank's points to that rank. The sum of a pair does not depend on which point comes first, so both get correct sums.
 *
 * A message has the number of rows, the length of each in 32 bits, their ids, and their distances if there are any.
 */
#include "mpi/mirror.h"

#include <string.h>

#include "mpi/rows.h"
#include "result/result.h"

/* Makes a result with `rows` rows, whose offsets are zero. */
static adj_status open_rows(adj_mpi_plan *plan, uint64_t rows, adji_mpi_part *out) {
  adj_result *result = adji_result_create(plan->ctx, rows, plan->type);
  if (!result) return ADJ_E_MEMORY;
  result->offsets = adji_alloc_zero(&plan->ctx->memory, rows + 1, sizeof *result->offsets, "offsets of rows");
  *out = (adji_mpi_part){.result = result, .row_count = rows, .whole = true};
  return result->offsets ? ADJ_OK : ADJ_E_MEMORY;
}

/* Turns the row lengths at offsets[1] .. offsets[rows] into offsets, and allocates the entries. */
static adj_status open_entries(adj_mpi_plan *plan, adj_result *result) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t size = adji_value_size(plan);
  for (uint64_t i = 0; i < result->rows; i++)
    result->offsets[i + 1] += result->offsets[i];
  result->pairs = result->offsets[result->rows];
  result->ids = adji_alloc(memory, result->pairs + 1, sizeof *result->ids, "ids of rows");
  if (size) result->distances = adji_alloc(memory, result->pairs + 1, size, "distances of rows");
  return result->ids && (!size || result->distances) ? ADJ_OK : ADJ_E_MEMORY;
}

/* Places the entries of `from` in the transposed rows. Rows of `from` are read in ascending order, so the ids of each
 * transposed row ascend. next: the place of each row's next entry. */
static void transpose_entries(const adj_result *from, uint64_t size, uint64_t *next, const adj_result *to) {
  const char *values = from->distances;
  char *placed = to->distances;
  for (uint64_t i = 0; i < from->rows; i++)
    for (uint64_t e = from->offsets[i]; e < from->offsets[i + 1]; e++) {
      uint64_t at = next[from->ids[e]]++;
      to->ids[at] = (uint32_t)i;
      if (size) memcpy(placed + at * size, values + e * size, size);
    }
}

adj_status adji_mirror_transpose(adj_mpi_plan *plan, const adji_mpi_part *from, uint64_t shift, adji_mpi_part *out) {
  uint64_t rows = plan->left->count;
  if (!from->result) return ADJ_OK;
  adj_status status = open_rows(plan, rows, out);
  uint64_t *next = adji_alloc(&plan->ctx->memory, rows + 1, sizeof *next, "offsets of rows");
  if (!next) status = ADJ_E_MEMORY;
  adj_result *to = out->result;
  for (uint64_t e = 0; e < from->result->offsets[from->result->rows] && !status; e++)
    to->offsets[shift + from->result->ids[e] + 1]++;
  if (!status) status = open_entries(plan, to);
  if (!status) {
    memcpy(next, to->offsets, rows * sizeof *next);
    transpose_entries(from->result, adji_value_size(plan), next + shift, to);
  }
  adji_free(&plan->ctx->memory, next);
  return status;
}

/* ---- Messages --------------------------------------------------------------------------------------------------- */

static uint64_t message_bytes(const adj_mpi_plan *plan, const adj_result *rows) {
  return rows ? 8 + 4 * rows->rows + rows->pairs * (4 + adji_value_size(plan)) : 0;
}

static void write_message(const adj_mpi_plan *plan, const adj_result *rows, uint64_t shift, char *to) {
  memcpy(to, &rows->rows, 8);
  to += 8;
  for (uint64_t i = 0; i < rows->rows; i++, to += 4) {
    uint32_t length = (uint32_t)(rows->offsets[i + 1] - rows->offsets[i]);
    memcpy(to, &length, 4);
  }
  for (uint64_t e = 0; e < rows->pairs; e++, to += 4) {
    uint32_t id = rows->ids[e] + (uint32_t)shift;
    memcpy(to, &id, 4);
  }
  if (adji_value_size(plan)) memcpy(to, rows->distances, rows->pairs * adji_value_size(plan));
}

static adj_status read_message(adj_mpi_plan *plan, const char *at, int rank, adji_mpi_part *out) {
  uint64_t rows;
  memcpy(&rows, at, 8);
  at += 8;
  adj_status status = open_rows(plan, rows, out);
  if (status) return status;
  adj_result *result = out->result;
  out->first = (int64_t)plan->right_starts[rank];
  for (uint64_t i = 0; i < rows; i++, at += 4) {
    uint32_t length;
    memcpy(&length, at, 4);
    result->offsets[i + 1] = length;
  }
  status = open_entries(plan, result);
  if (status) return status;
  memcpy(result->ids, at, 4 * result->pairs);
  at += 4 * result->pairs;
  if (result->distances) memcpy(result->distances, at, result->pairs * adji_value_size(plan));
  return ADJ_OK;
}

adj_status adji_mirror_exchange(adj_mpi_plan *plan, adj_status status, adji_mpi_part *found, const uint64_t *shifts,
                                adji_mpi_part *parts) {
  adji_group *group = &plan->group;
  adji_mail sent = {0}, received = {0};
  uint64_t before = group->bytes_sent;
  if (!status) status = adji_mail_open(group, &sent);
  for (int i = 0; i < group->ranks && !status; i++)
    sent.starts[i + 1] = sent.starts[i] + message_bytes(plan, found[i].result);
  if (!status) sent.bytes = adji_alloc(&plan->ctx->memory, sent.starts[group->ranks] + 1, 1, "rows on their way");
  if (!status && !sent.bytes) status = ADJ_E_MEMORY;
  for (int i = 0; i < group->ranks; i++) {
    if (!status && found[i].result) write_message(plan, found[i].result, shifts[i], sent.bytes + sent.starts[i]);
    adji_mpi_part_clear(plan, &found[i]);
  }
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  plan->stats.bytes_rows += group->bytes_sent - before;
  for (int i = 0; i < group->ranks && !status; i++) {
    adji_mpi_part *part = parts[i].result ? &parts[group->ranks] : &parts[i];
    if (received.starts[i + 1] > received.starts[i])
      status = read_message(plan, received.bytes + received.starts[i], i, part);
  }
  adji_mail_clear(group, &received);
  return adji_agree(group, status);
}
