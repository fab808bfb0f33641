/* SPDX-License-Identifier: MIT
 *
 * Sends points between ranks. A message has its numbers of points, their coordinates, their radii if they have any, and
 * their rows or ids as differences in base 128, which mostly take one or two bytes; the lowest bit tells visitors from
 * points that are at home there. The receiver takes the message of rank 0 first, then that of rank 1, and so on. Rows
 * ascend in each message. So do the global ids of all, but for points that are not the caller's.
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

/* Copies of a fixed size take no call. */
static inline void copy_packed(const char *from, uint64_t width, char *to) {
  if (width == 12)
    memcpy(to, from, 12);
  else if (width == 8)
    memcpy(to, from, 8);
  else
    memcpy(to, from, width);
}

void adji_points_copy(const adj_dataset *set, uint64_t row, char *to) {
  size_t size = adji_type_size(set->type);
  const char *from = set->data + row * set->row_stride;
  if (set->column_stride == size) {
    copy_packed(from, set->dim * size, to);
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

typedef struct header {
  uint64_t count, own; /* points; those of them that are at home, or all if only visits are sent */
} header;

/* What goes to one rank: first it is measured, then written. */
typedef struct destination {
  uint64_t count, own, code_bytes; /* measured */
  uint64_t before;                 /* the last row or id */
  char *point, *radius, *code;     /* where the next ones are written */
} destination;

typedef struct writing {
  const adj_mpi_plan *plan;
  const adji_parcel *parcel;
  destination *to;
} writing;

/* The code of the next row for a destination: twice the difference to the row before, or of ids, and a bit. */
static inline uint64_t next_code(const writing *w, destination *d, uint64_t row, bool around) {
  uint64_t name = w->parcel->named ? (uint64_t)adji_point_id(w->parcel->named, row) : row;
  uint64_t code = (name - d->before) << 1 | around;
  d->before = name;
  return code;
}

static inline void measure_point(const writing *w, uint32_t rank, uint64_t row, bool around) {
  destination *d = &w->to[rank];
  d->count++;
  d->own += !around;
  for (uint64_t code = next_code(w, d, row, around); code >= 128; code >>= 7)
    d->code_bytes++;
  d->code_bytes++;
}

static inline void write_point(const writing *w, uint32_t rank, uint64_t row, bool around) {
  destination *d = &w->to[rank];
  const adj_dataset *set = w->parcel->set;
  adji_points_copy(set, row, d->point);
  d->point += set->dim * adji_type_size(set->type);
  uint64_t code = next_code(w, d, row, around);
  for (; code >= 128; code >>= 7)
    *d->code++ = (char)(code | 128);
  *d->code++ = (char)code;
  if (!w->parcel->radii) return;
  double radius = around ? 0 : w->parcel->radii[row];
  memcpy(d->radius, &radius, 8);
  d->radius += 8;
}

/* Calls fn for each point and each rank that it goes to, in ascending order of rows. */
static inline void each_point(const writing *w,
                              void (*fn)(const writing *w, uint32_t rank, uint64_t row, bool around)) {
  const adji_parcel *p = w->parcel;
  const adji_visit *visit = p->visits, *end = visit + p->visit_count;
  for (uint64_t row = 0; p->home && row < p->set->count; row++) {
    fn(w, p->home[row], row, false);
    for (; visit < end && visit->row == row; visit++)
      fn(w, visit->region, row, true);
  }
  for (; visit < end; visit++)
    fn(w, visit->region, visit->row, false);
}

/* Lays the messages out, one after the other. */
static void lay_out(adj_mpi_plan *plan, const writing *w, adji_mail *mail) {
  uint64_t width = plan->dim * adji_type_size(plan->type);
  for (int i = 0; i < plan->group.ranks; i++) {
    destination *d = &w->to[i];
    uint64_t bytes = sizeof(header) + d->count * (width + (w->parcel->radii ? 8 : 0)) + d->code_bytes;
    mail->starts[i + 1] = mail->starts[i] + (d->count ? bytes : 0);
    if (i != plan->group.rank) plan->stats.bytes_least += d->count * width;
  }
}

static void begin_messages(const writing *w, const adji_mail *mail) {
  uint64_t width = w->plan->dim * adji_type_size(w->plan->type);
  for (int i = 0; i < w->plan->group.ranks; i++) {
    destination *d = &w->to[i];
    header h = {d->count, d->own};
    char *at = mail->bytes + mail->starts[i];
    if (!d->count) continue;
    memcpy(at, &h, sizeof h);
    d->before = 0;
    d->point = at + sizeof h;
    d->radius = d->point + d->count * width;
    d->code = d->radius + (w->parcel->radii ? d->count * 8 : 0);
  }
}

static adj_status write_mail(adj_mpi_plan *plan, const adji_parcel *parcel, adji_mail *mail) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)plan->group.ranks;
  adj_status status = adji_mail_open(&plan->group, mail);
  writing w = {plan, parcel, adji_alloc_zero(memory, ranks, sizeof *w.to, "points on their way")};
  if (!status && !w.to) status = ADJ_E_MEMORY;
  if (!status) {
    each_point(&w, measure_point);
    lay_out(plan, &w, mail);
    mail->bytes = adji_alloc(memory, mail->starts[ranks] + 1, 1, "points on their way");
    status = mail->bytes ? ADJ_OK : ADJ_E_MEMORY;
  }
  if (!status) begin_messages(&w, mail);
  if (!status) each_point(&w, write_point);
  adji_free(memory, w.to);
  return status;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* The points received so far. */
typedef struct reading {
  adji_points *out;
  char *block;
  uint32_t *own; /* or NULL */
  uint64_t done, own_done, width;
} reading;

/* Reads a message. first: the global id of the sender's row 0; 0 if it has ids. */
static void read_parcel(reading *r, const char *at, int64_t first) {
  header h;
  memcpy(&h, at, sizeof h);
  at += sizeof h;
  memcpy(r->block + r->done * r->width, at, h.count * r->width);
  at += h.count * r->width;
  if (r->out->radii) memcpy(r->out->radii + r->done, at, h.count * 8);
  if (r->out->radii) at += h.count * 8;
  uint64_t end = r->done + h.count, row = (uint64_t)first;
  for (; r->done < end; r->done++) {
    uint64_t code = 0;
    for (int shift = 0;; shift += 7) {
      unsigned char byte = (unsigned char)*at++;
      code |= (uint64_t)(byte & 127) << shift;
      if (byte < 128) break;
    }
    row += code >> 1;
    adji_points_set_id(r->out, r->done, (int64_t)row);
    if (!r->own) continue;
    r->own[r->own_done] = (uint32_t)r->done;
    r->own_done += !(code & 1);
  }
}

/* Adds up the numbers of points in all messages. */
static header read_headers(const adj_mpi_plan *plan, const adji_mail *mail, uint64_t *received) {
  header all = {0};
  for (int i = 0; i < plan->group.ranks; i++) {
    header h = {0};
    if (mail->starts[i + 1] > mail->starts[i]) memcpy(&h, mail->bytes + mail->starts[i], sizeof h);
    if (received) received[i] = h.count;
    all.count += h.count;
    all.own += h.own;
  }
  return all;
}

/* starts: first global id of each rank, in the set that the points are from. */
static adj_status read_mail(adj_mpi_plan *plan, const adji_mail *mail, const uint64_t *starts,
                            const adji_parcel *parcel, adji_points *out) {
  adji_memory *memory = &plan->ctx->memory;
  int ranks = plan->group.ranks;
  header all = read_headers(plan, mail, parcel->received);
  reading r = {.out = out, .width = plan->dim * adji_type_size(plan->type)};
  *out = (adji_points){0};
  r.block = adji_alloc(memory, adji_mul(all.count + 1, r.width), 1, "points of this region");
  adj_status status = adji_points_open_ids(plan, all.count, starts[ranks], out);
  if (parcel->radii) out->radii = adji_alloc(memory, all.count + 1, sizeof *out->radii, "radii");
  if (parcel->own) *parcel->own = r.own = adji_alloc(memory, all.own + 1, sizeof *r.own, "points of this region");
  if (parcel->own) *parcel->own_count = all.own;
  if (!r.block || (parcel->radii && !out->radii) || (parcel->own && !r.own)) status = ADJ_E_MEMORY;
  for (int i = 0; i < ranks && !status; i++)
    if (mail->starts[i + 1] > mail->starts[i])
      read_parcel(&r, mail->bytes + mail->starts[i], parcel->named ? 0 : (int64_t)starts[i]);
  if (!status)
    status = adji_points_adopt(plan, r.block, all.count, &out->owned);
  else
    adji_free(memory, r.block);
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
