/* SPDX-License-Identifier: MIT
 *
 * Sends points between ranks. A message has the number of points, their coordinates, their radii if they have any, and
 * their rows as differences in base 128, which mostly take one or two bytes. The receiver takes the message of rank 0
 * first, then that of rank 1, and so on. Rows ascend in each message, so the global ids ascend.
 */
#include <string.h>

#include "mpi/points.h"

void adji_points_clear(adj_mpi_plan *plan, adji_points *points) {
  adj_dataset_destroy(points->owned);
  adji_free(&plan->ctx->memory, points->narrow);
  adji_free(&plan->ctx->memory, points->ids);
  adji_free(&plan->ctx->memory, points->radii);
  *points = (adji_points){0};
}

adj_status adji_points_open_ids(adj_mpi_plan *plan, uint64_t count, uint64_t all, adji_points *points) {
  bool narrow = all < UINT32_MAX;
  void *ids = adji_alloc(&plan->ctx->memory, count + 1, narrow ? 4 : 8, "ids of points");
  if (narrow)
    points->narrow = ids;
  else
    points->ids = ids;
  return ids ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_points_copy(const adj_dataset *set, uint64_t row, char *to) {
  size_t size = adji_type_size(set->type);
  const char *from = set->data + row * set->row_stride;
  if (set->column_stride == size) {
    memcpy(to, from, set->dim * size);
    return;
  }
  for (uint32_t j = 0; j < set->dim; j++)
    memcpy(to + j * size, from + j * set->column_stride, size);
}

adj_status adji_points_adopt(adj_mpi_plan *plan, char *block, uint64_t count, adj_dataset **out) {
  adji_dataset_parts parts = {.type = plan->type,
                              .dim = plan->dim,
                              .count = count,
                              .data = block,
                              .release = adji_release_block,
                              .owner = block};
  adj_status status = count > ADJ_MAX_COUNT ? adji_fail(ADJ_E_LIMIT, "%llu points for one rank; use more ranks",
                                                        (unsigned long long)count)
                                            : adji_dataset_adopt(plan->ctx, &parts, out);
  if (status) adji_free(&plan->ctx->memory, block);
  return status;
}

adj_status adji_points_pick(adj_mpi_plan *plan, const adji_points *from, const uint32_t *rows, uint64_t first,
                            uint64_t count, adji_points *out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t width = plan->dim * adji_type_size(plan->type);
  *out = (adji_points){0};
  char *block = adji_alloc(memory, adji_mul(count + 1, width), 1, "points of a block");
  uint64_t ranks = (uint64_t)plan->group.ranks, lefts = plan->left_starts[ranks], rights = plan->right_starts[ranks];
  adj_status status = adji_points_open_ids(plan, count, lefts > rights ? lefts : rights, out);
  out->radii = from->radii ? adji_alloc(memory, count + 1, sizeof *out->radii, "radii") : NULL;
  if (!block || (from->radii && !out->radii)) status = ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count && !status; i++) {
    uint64_t row = rows ? rows[i] : first + i;
    adji_points_copy(from->set, row, block + i * width);
    adji_points_set_id(out, i, adji_point_id(from, row));
    if (out->radii) out->radii[i] = from->radii[row];
  }
  if (!status)
    status = adji_points_adopt(plan, block, count, &out->owned);
  else
    adji_free(memory, block);
  out->set = out->owned;
  if (status) adji_points_clear(plan, out);
  return status;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

static uint64_t difference_bytes(uint64_t x) {
  uint64_t bytes = 1;
  while (x >>= 7)
    bytes++;
  return bytes;
}

static uint64_t fixed_bytes(const adj_mpi_plan *plan, bool radii, uint64_t count) {
  return 8 + count * (plan->dim * adji_type_size(plan->type) + (radii ? 8 : 0));
}

static void write_parcel(const adj_mpi_plan *plan, const adji_parcel *parcel, uint64_t first, uint64_t count,
                         char *to) {
  uint64_t width = plan->dim * adji_type_size(plan->type), before = 0;
  const uint32_t *rows = parcel->rows + first;
  memcpy(to, &count, 8);
  to += 8;
  for (uint64_t i = 0; i < count; i++, to += width)
    adji_points_copy(parcel->set, rows[i], to);
  for (uint64_t i = 0; parcel->radii && i < count; i++, to += 8)
    memcpy(to, &parcel->radii[rows[i]], 8);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t x = rows[i] - before;
    before = rows[i];
    for (; x >= 128; x >>= 7)
      *to++ = (char)(x | 128);
    *to++ = (char)x;
  }
}

static adj_status write_mail(adj_mpi_plan *plan, const adji_parcel *parcel, adji_mail *mail) {
  adji_group *group = &plan->group;
  adj_status status = adji_mail_open(group, mail);
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t count = parcel->starts[i + 1] - parcel->starts[i], before = 0, bytes = 0;
    for (uint64_t at = parcel->starts[i]; at < parcel->starts[i + 1]; at++) {
      bytes += difference_bytes(parcel->rows[at] - before);
      before = parcel->rows[at];
    }
    if (count) bytes += fixed_bytes(plan, parcel->radii, count);
    mail->starts[i + 1] = mail->starts[i] + bytes;
    if (i != group->rank) plan->stats.bytes_least += count * plan->dim * adji_type_size(plan->type);
  }
  if (status) return status;
  mail->bytes = adji_alloc(&plan->ctx->memory, mail->starts[group->ranks] + 1, 1, "points on their way");
  if (!mail->bytes) return ADJ_E_MEMORY;
  for (int i = 0; i < group->ranks; i++)
    if (mail->starts[i + 1] > mail->starts[i])
      write_parcel(plan, parcel, parcel->starts[i], parcel->starts[i + 1] - parcel->starts[i],
                   mail->bytes + mail->starts[i]);
  return ADJ_OK;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* Reads the ids of `count` points; the first of them is point `done` of the output. */
static void read_rows(const char *at, uint64_t count, int64_t first, const adji_points *out, uint64_t done) {
  int64_t row = first;
  for (uint64_t i = done; i < done + count; i++) {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
      unsigned char byte = (unsigned char)*at++;
      x |= (uint64_t)(byte & 127) << shift;
      if (byte < 128) break;
    }
    row += (int64_t)x;
    adji_points_set_id(out, i, row);
  }
}

/* starts: first global id of each rank, in the set that the points are from. */
static adj_status read_mail(adj_mpi_plan *plan, const adji_mail *mail, const uint64_t *starts,
                            const adji_parcel *parcel, adji_points *out) {
  adji_memory *memory = &plan->ctx->memory;
  int ranks = plan->group.ranks;
  bool radii = parcel->radii;
  uint64_t width = plan->dim * adji_type_size(plan->type), all = 0, count = 0, done = 0;
  for (int i = 0; i < ranks; i++) {
    count = 0;
    if (mail->starts[i + 1] > mail->starts[i]) memcpy(&count, mail->bytes + mail->starts[i], 8);
    if (parcel->received) parcel->received[i] = count;
    all += count;
  }
  *out = (adji_points){0};
  char *block = adji_alloc(memory, adji_mul(all + 1, width), 1, "points of this region");
  adj_status status = adji_points_open_ids(plan, all, starts[ranks], out);
  out->radii = radii ? adji_alloc(memory, all + 1, sizeof *out->radii, "radii") : NULL;
  if (!block || (radii && !out->radii)) status = ADJ_E_MEMORY;
  for (int i = 0; i < ranks && !status; i++) {
    if (mail->starts[i + 1] == mail->starts[i]) continue;
    const char *at = mail->bytes + mail->starts[i];
    memcpy(&count, at, 8);
    memcpy(block + done * width, at + 8, count * width);
    at += 8 + count * width;
    if (radii) memcpy(out->radii + done, at, count * 8);
    read_rows(at + (radii ? count * 8 : 0), count, (int64_t)starts[i], out, done);
    done += count;
  }
  if (!status)
    status = adji_points_adopt(plan, block, all, &out->owned);
  else
    adji_free(memory, block);
  out->set = out->owned;
  if (status) adji_points_clear(plan, out);
  return status;
}

adj_status adji_points_exchange(adj_mpi_plan *plan, adj_status status, const adji_parcel *parcel, adji_points *out) {
  adji_group *group = &plan->group;
  adji_mail sent = {0}, received = {0};
  *out = (adji_points){0};
  bool left = parcel->set == plan->left;
  if (!status) status = write_mail(plan, parcel, &sent);
  uint64_t before = group->bytes_sent;
  status = adji_exchange(group, status, &sent, &received);
  plan->stats.bytes_points += group->bytes_sent - before;
  adji_mail_clear(group, &sent);
  if (!status) {
    status = read_mail(plan, &received, left ? plan->left_starts : plan->right_starts, parcel, out);
    adji_mail_clear(group, &received);
    status = adji_agree(group, status);
  }
  if (status) adji_points_clear(plan, out);
  return status;
}
