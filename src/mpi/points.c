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

typedef struct header {
  uint64_t count, own; /* points; those of them that are at home, or all if only visits are sent */
} header;

/* What goes to one rank. */
typedef struct destination {
  uint64_t count, own;         /* of points */
  uint64_t before;             /* the last row or id */
  char *point, *radius, *code; /* where the next ones are written */
} destination;

typedef struct writing {
  const adj_mpi_plan *plan;
  const adji_parcel *parcel;
  destination *to;
} writing;

static void count_points(const writing *w) {
  const adji_parcel *p = w->parcel;
  for (uint64_t row = 0; p->home && row < p->set->count; row++)
    w->to[p->home[row]].own++;
  for (int i = 0; i < w->plan->group.ranks; i++)
    w->to[i].count = w->to[i].own;
  for (uint64_t i = 0; i < p->visit_count; i++) {
    w->to[p->visits[i].region].count++;
    w->to[p->visits[i].region].own += !p->home;
  }
}

/* Room for the codes of `count` ascending numbers below `end`. A code takes one byte more for each of the differences
 * 2^6, 2^13, 2^20, ... that it reaches, and the differences add up to less than `end`. */
static uint64_t code_room(uint64_t count, uint64_t end) {
  uint64_t bytes = count;
  for (uint32_t shift = 6; shift < 64; shift += 7)
    bytes += end >> shift < count ? end >> shift : count;
  return bytes;
}

/* Lays the messages out, one after the other. */
static void lay_out(adj_mpi_plan *plan, const writing *w, adji_mail *mail) {
  const adji_parcel *p = w->parcel;
  uint64_t width = plan->dim * adji_type_size(plan->type), rows = p->set->count;
  uint64_t end = p->named && rows ? (uint64_t)adji_point_id(p->named, rows - 1) + 1 : rows;
  for (int i = 0; i < plan->group.ranks; i++) {
    const destination *d = &w->to[i];
    uint64_t bytes = sizeof(header) + d->count * (width + (p->radii ? 8 : 0)) + code_room(d->count, end);
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
    d->point = at + sizeof h;
    d->radius = d->point + d->count * width;
    d->code = d->radius + (w->parcel->radii ? d->count * 8 : 0);
  }
}

/* The code of a point is twice the difference to the row or id before, and a bit. */
static inline void write_code(destination *d, uint64_t name, bool around) {
  uint64_t code = (name - d->before) << 1 | around;
  char *to = d->code;
  d->before = name;
  for (; code >= 128; code >>= 7)
    *to++ = (char)(code | 128);
  *to++ = (char)code;
  d->code = to;
}

static void write_radius(const adji_parcel *p, destination *d, uint64_t row, bool around) {
  double radius = around ? 0 : p->radii[row];
  memcpy(d->radius, &radius, 8);
  d->radius += 8;
}

/* Copies of a fixed size take no call, so these functions are compiled for each size. */
#define FOR_EACH_SIZE static inline __attribute__((always_inline))

/* packed: bytes of a point whose coordinates lie together; 0: they do not. */
FOR_EACH_SIZE void write_point(const writing *w, uint32_t rank, uint64_t row, bool around, uint64_t packed) {
  const adji_parcel *p = w->parcel;
  const adj_dataset *set = p->set;
  destination *d = &w->to[rank];
  uint64_t width = packed ? packed : set->dim * adji_type_size(set->type);
  if (packed)
    memcpy(d->point, set->data + row * set->row_stride, packed);
  else
    adji_points_copy(set, row, d->point);
  d->point += width;
  write_code(d, p->named ? (uint64_t)adji_point_id(p->named, row) : row, around);
  if (p->radii) write_radius(p, d, row, around);
}

/* Writes rows first .. end - 1, which go home only. The usual case, so nothing is read twice. */
FOR_EACH_SIZE void write_home(const writing *w, uint64_t first, uint64_t end, uint64_t packed) {
  const adj_dataset *set = w->parcel->set;
  const uint32_t *restrict home = w->parcel->home;
  const char *restrict from = set->data + first * set->row_stride;
  uint64_t stride = set->row_stride;
  destination *to = w->to;
  for (uint64_t row = first; row < end; row++, from += stride) {
    destination *d = &to[home[row]];
    char *at = d->point;
    memcpy(at, from, packed);
    d->point = at + packed;
    write_code(d, row, false);
  }
}

/* Writes each point to each rank that it goes to, in ascending order of rows. */
FOR_EACH_SIZE void write_points(const writing *w, uint64_t packed) {
  const adji_parcel *p = w->parcel;
  const adji_visit *visit = p->visits, *end = visit + p->visit_count;
  bool plain = packed && !p->radii && !p->named;
  for (uint64_t row = 0, rows = p->home ? p->set->count : 0; row < rows; row++) {
    uint64_t next = visit < end ? visit->row : rows;
    if (plain) write_home(w, row, next, packed);
    if (plain) row = next;
    if (row == rows) return;
    write_point(w, p->home[row], row, false, packed);
    for (; visit < end && visit->row == row; visit++)
      write_point(w, visit->region, row, true, packed);
  }
  for (; visit < end; visit++)
    write_point(w, visit->region, visit->row, false, packed);
}

static void write_all(const writing *w) {
  const adj_dataset *set = w->parcel->set;
  uint64_t size = adji_type_size(set->type);
  switch (set->column_stride == size ? set->dim * size : 0) {
    case 8:
      write_points(w, 8);
      return;
    case 12:
      write_points(w, 12);
      return;
    case 16:
      write_points(w, 16);
      return;
    case 24:
      write_points(w, 24);
      return;
    default:
      write_points(w, 0);
  }
}

static adj_status write_mail(adj_mpi_plan *plan, const adji_parcel *parcel, adji_mail *mail) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)plan->group.ranks;
  adj_status status = adji_mail_open(&plan->group, mail);
  writing w = {plan, parcel, adji_alloc_zero(memory, ranks, sizeof *w.to, "points on their way")};
  if (!status && !w.to) status = ADJ_E_MEMORY;
  if (!status) {
    count_points(&w);
    lay_out(plan, &w, mail);
    mail->bytes = adji_alloc(memory, mail->starts[ranks] + 1, 1, "points on their way");
    status = mail->bytes ? ADJ_OK : ADJ_E_MEMORY;
  }
  if (!status) {
    begin_messages(&w, mail);
    write_all(&w);
  }
  /* The room that codes have not used is sent too. */
  for (uint64_t i = 0; i < ranks && !status; i++)
    if (w.to[i].count) memset(w.to[i].code, 0, (uint64_t)(mail->bytes + mail->starts[i + 1] - w.to[i].code));
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

static inline const char *read_code(const char *at, uint64_t *code) {
  uint64_t x = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = (unsigned char)*at++;
    x |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) break;
  }
  *code = x;
  return at;
}

static void read_codes(reading *r, const char *at, uint64_t count, uint64_t name) {
  uint32_t *narrow = r->out->narrow, *own = r->own;
  int64_t *wide = r->out->ids;
  uint64_t own_done = r->own_done;
  for (uint64_t i = r->done; i < r->done + count; i++) {
    uint64_t code;
    at = read_code(at, &code);
    name += code >> 1;
    if (narrow)
      narrow[i] = (uint32_t)name;
    else
      wide[i] = (int64_t)name;
    if (!own) continue;
    own[own_done] = (uint32_t)i;
    own_done += !(code & 1);
  }
  r->done += count;
  r->own_done = own_done;
}

/* Reads a message. first: the global id of the sender's row 0; 0 if it has ids. */
static void read_parcel(reading *r, const char *at, uint64_t first) {
  header h;
  memcpy(&h, at, sizeof h);
  at += sizeof h;
  memcpy(r->block + r->done * r->width, at, h.count * r->width);
  at += h.count * r->width;
  if (r->out->radii) memcpy(r->out->radii + r->done, at, h.count * 8);
  if (r->out->radii) at += h.count * 8;
  read_codes(r, at, h.count, first);
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
      read_parcel(&r, mail->bytes + mail->starts[i], parcel->named ? 0 : starts[i]);
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
