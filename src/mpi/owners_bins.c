/* SPDX-License-Identifier: MIT
 *
 * Sends the rows of a range join to the owners of their points in the bins in which the join left them. An owner puts
 * rows into place as a join in one process does (cpu/staged.c), so each entry is written twice in all, and is copied
 * between ranks in between.
 *
 *   1. The rows of all ranks have consecutive numbers, with a gap after each rank so that its rows begin with a bin.
 *      The bins of a rank's rows are its windows. The join of a region leaves its rows in bins (cpu/bins.h); if it has
 *      made a result instead, its rows are copied to bins here.
 *   2. A piece is a chunk of a bin. Every rank tells the owners the lengths of all pieces. An owner then knows the size
 *      of its result.
 *   3. Window by window, the pieces are sent as they are. The owner takes the lengths of rows from their records and
 *      copies the entries.
 *
 * While the pieces of a window are under way, those of the window before are put into place. Bins are in groups of
 * consecutive windows, and are freed when the windows of their group were sent. The result gets its memory window by
 * window.
 */
#include <string.h>

#include "mpi/owners_private.h"
#include "result/result.h"

/* ---- Windows ---------------------------------------------------------------------------------------------------- */

/* Few rows a window make its part of the result fit a cache. Many bins make filling them slow, and many or small groups
 * make their memory consist of small pages. */
enum { WINDOW_ROWS = 1 << 16, LEAST_WINDOW_ROWS = 1 << 12, LEAST_WINDOWS = 8, MOST_BINS = 1 << 11 };
enum { GROUPS = 16, GROUP_ROWS = 1 << 16 };

static uint64_t rows_of(const adj_mpi_plan *plan, int rank) {
  return plan->left_starts[rank + 1] - plan->left_starts[rank];
}

static uint64_t windows_of(const adj_mpi_plan *plan, int rank, uint32_t shift) {
  return (rows_of(plan, rank) + (UINT64_C(1) << shift) - 1) >> shift;
}

static uint64_t count_bins(const adj_mpi_plan *plan, uint32_t shift) {
  uint64_t bins = 0;
  for (int i = 0; i < plan->group.ranks; i++)
    bins += windows_of(plan, i, shift);
  return bins;
}

static uint32_t choose_shift(const adj_mpi_plan *plan) {
  uint64_t most = 0, wanted = WINDOW_ROWS, least = LEAST_WINDOW_ROWS;
  uint32_t shift = 0;
  for (int i = 0; i < plan->group.ranks; i++)
    if (rows_of(plan, i) > most) most = rows_of(plan, i);
  if (most / LEAST_WINDOWS < wanted) wanted = most / LEAST_WINDOWS;
  if (plan->group.chunk < least) least = 4; /* tests with short messages have small sets */
  if (wanted < least) wanted = least;
  while ((UINT64_C(2) << shift) <= wanted)
    shift++;
  while (count_bins(plan, shift) > MOST_BINS && (UINT64_C(1) << shift) < most)
    shift++;
  return shift;
}

bool adji_row_bins_fit(const adj_mpi_plan *plan) {
  uint32_t shift = choose_shift(plan);
  return count_bins(plan, shift) << shift <= UINT32_MAX;
}

adj_status adji_row_bins_open(adj_mpi_plan *plan, adji_row_bins *bins) {
  adji_memory *memory = &plan->ctx->memory;
  const adji_points *rows = plan->own ? &plan->region : &plan->queries;
  uint64_t count = rows->set->count, at = 0, next = 0;
  *bins = (adji_row_bins){.shift = choose_shift(plan)};
  bins->count = count_bins(plan, bins->shift);
  bins->first = adji_alloc(memory, (uint64_t)plan->group.ranks + 1, sizeof *bins->first, "bins of rows");
  bins->groups = adji_alloc(memory, bins->count + 1, sizeof *bins->groups, "bins of rows");
  bins->names = adji_alloc(memory, count + 1, sizeof *bins->names, "numbers of rows");
  if (!bins->first || !bins->groups || !bins->names) return ADJ_E_MEMORY;
  for (int i = 0; i < plan->group.ranks; i++) {
    uint64_t many = windows_of(plan, i, bins->shift);
    bins->first[i] = at;
    at += many;
    if (many > bins->windows) bins->windows = many;
  }
  bins->first[plan->group.ranks] = at;
  bins->group_windows = bins->windows / GROUPS + 1;
  if (bins->group_windows << bins->shift < GROUP_ROWS) bins->group_windows = GROUP_ROWS >> bins->shift;
  for (int i = 0; i < plan->group.ranks; i++)
    for (uint64_t bin = bins->first[i]; bin < bins->first[i + 1]; bin++)
      bins->groups[bin] = (uint32_t)((bin - bins->first[i]) / bins->group_windows);
  int owner = 0;
  for (uint64_t i = 0; i < count; i++) { /* ids ascend */
    uint64_t id = (uint64_t)adji_point_id(rows, i);
    bins->names[i] = ADJI_NO_NAME;
    if (plan->own && (next == plan->own_count || plan->own[next] != i)) continue;
    next++;
    while (id >= plan->left_starts[owner + 1])
      owner++;
    bins->names[i] = (uint32_t)((bins->first[owner] << bins->shift) + id - plan->left_starts[owner]);
  }
  return ADJ_OK;
}

void adji_row_bins_close(adj_mpi_plan *plan, adji_row_bins *bins) {
  adji_free(&plan->ctx->memory, bins->first);
  adji_free(&plan->ctx->memory, bins->groups);
  adji_free(&plan->ctx->memory, bins->names);
  *bins = (adji_row_bins){0};
}

void adji_row_bins_offer(adj_mpi_plan *plan, const adji_row_bins *bins, adji_mpi_part *part) {
  adji_binned *binned = &part->binned;
  binned->names = bins->names;
  binned->bins = (adji_bins){.ctx = plan->ctx, .shift = bins->shift, .count = bins->count};
  binned->bins.groups = bins->groups;
  binned->bins.group_count = bins->windows / bins->group_windows + 1;
}

/* ---- From a result to bins -------------------------------------------------------------------------------------- */

typedef struct binning {
  adji_mpi_part *part;
  uint64_t first, end, slices; /* rows */
  uint64_t value_words;
} binning;

static adj_status bin_slice(void *user, uint64_t slice, uint32_t lane) {
  const binning *b = user;
  const adj_result *result = b->part->result;
  const adji_points *right = b->part->right;
  uint64_t begin, end, size = b->value_words * 4;
  adji_slice(b->end - b->first, b->slices, slice, &begin, &end);
  for (uint64_t row = b->first + begin; row < b->first + end; row++) {
    uint64_t from = result->offsets[row], many = result->offsets[row + 1] - from;
    uint32_t name = b->part->binned.names[row];
    if (!many || name == ADJI_NO_NAME) continue;
    uint64_t words = ADJI_RECORD + many * (1 + b->value_words);
    adji_bin *bin = adji_bins_reserve(&b->part->binned.bins, lane, name, words);
    if (!bin) return ADJ_E_MEMORY;
    bin->at[0] = name;
    bin->at[1] = (uint32_t)many;
    for (uint64_t e = 0; e < many; e++) {
      uint32_t id = result->ids[from + e];
      bin->at[ADJI_RECORD + e] = result->labelled ? id : (uint32_t)adji_point_id(right, id);
    }
    if (size) memcpy(bin->at + ADJI_RECORD + many, (const char *)result->distances + from * size, many * size);
    bin->at += words;
    bin->entries += many;
  }
  return ADJ_OK;
}

/* Gives back the part of an array of the result that has been copied. */
static void release_copied(adji_memory *memory, void *block, uint64_t from, uint64_t to) {
  if (block) adji_release(memory, block, from / ADJI_HUGE_PAGE * ADJI_HUGE_PAGE, to);
}

/* Copies the rows of a result to bins, and gives back the memory of the result on the way. */
static adj_status bin_result(adj_mpi_plan *plan, adji_mpi_part *part) {
  enum { STRETCHES = 16, SLICE = 4096 };
  if (!part->result || part->binned.filled) return ADJ_OK;
  adj_result *result = part->result;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t size = adji_value_size(plan), entries = result->offsets[result->rows];
  adj_status status =
      adji_bins_open(&part->binned.bins, (double)entries * (4.0 + (double)size) + 8.0 * (double)result->rows);
  binning b = {.part = part, .value_words = size / 4};
  for (uint64_t i = 0; i < STRETCHES && !status; i++) {
    adji_slice(result->rows, STRETCHES, i, &b.first, &b.end);
    b.slices = (b.end - b.first) / SLICE + 1;
    status = adji_loop(plan->ctx, b.slices, bin_slice, &b);
    uint64_t from = result->offsets[b.first], to = result->offsets[b.end];
    release_copied(memory, result->ids, from * 4, to * 4);
    release_copied(memory, result->distances, from * size, to * size);
  }
  adj_result_destroy(result);
  part->result = NULL;
  part->binned.filled = !status;
  return status;
}

/* ---- Pieces ------------------------------------------------------------------------------------------------------ */

typedef struct piece {
  const uint32_t *words, *end;
} piece;

/* The pieces of the even windows, or of the odd ones. */
typedef struct window_pieces {
  uint32_t *buffer; /* for pieces of other ranks */
  piece *pieces;    /* of all ranks */
  uint64_t count;
  adji_requests sends, receives;
} window_pieces;

typedef struct sending {
  adj_mpi_plan *plan;
  const adji_row_bins *bins;
  const adji_bins *from; /* the bins of this rank; lanes NULL: there are none */
  adji_rows *out;
  adji_growing growing;
  uint64_t value_size;
  uint64_t windows;      /* of this rank */
  adji_mail told;        /* by other ranks, of each window: its entries, its pieces, and the words of each piece */
  const uint64_t **next; /* by rank: what it told of the next window */
  window_pieces slots[2];
  uint64_t at;       /* entries of the windows before */
  adj_status status; /* of making room; after a failure pieces are still exchanged */
} sending;

typedef void (*piece_fn)(void *user, piece p);

/* Calls fn with the pieces of a bin. Returns their number. */
static uint64_t each_piece(const sending *s, uint64_t bin, piece_fn fn, void *user) {
  uint64_t pieces = 0;
  for (uint32_t l = 0; s->from->lanes && l < s->plan->ctx->threads; l++) {
    const adji_bin *b = &s->from->lanes[l].bins[bin];
    for (const adji_chunk *c = b->chunks; c; c = c->next) {
      piece p = {c->words, adji_bin_end(b, c)};
      if (p.words == p.end) continue;
      if (fn) fn(user, p);
      pieces++;
    }
  }
  return pieces;
}

static uint64_t entries_of(const sending *s, uint64_t bin) {
  uint64_t entries = 0;
  for (uint32_t l = 0; s->from->lanes && l < s->plan->ctx->threads; l++)
    entries += s->from->lanes[l].bins[bin].entries;
  return entries;
}

static void write_words(void *user, piece p) {
  uint64_t **to = user;
  *(*to)++ = (uint64_t)(p.end - p.words);
}

static adj_status tell_pieces(sending *s) {
  adji_group *group = &s->plan->group;
  adji_mail mail = {0};
  adj_status status = adji_mail_open(group, &mail);
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t numbers = 0;
    for (uint64_t bin = s->bins->first[i]; bin < s->bins->first[i + 1] && i != group->rank; bin++)
      numbers += 2 + each_piece(s, bin, NULL, NULL);
    mail.starts[i + 1] = mail.starts[i] + numbers * sizeof numbers;
  }
  if (!status) mail.bytes = adji_alloc(&s->plan->ctx->memory, mail.starts[group->ranks] + 1, 1, "lengths of pieces");
  if (!status && !mail.bytes) status = ADJ_E_MEMORY;
  uint64_t *to = (uint64_t *)(void *)mail.bytes;
  for (int i = 0; i < group->ranks && !status; i++)
    for (uint64_t bin = s->bins->first[i]; bin < s->bins->first[i + 1] && i != group->rank; bin++) {
      *to++ = entries_of(s, bin);
      uint64_t *count = to++;
      *count = each_piece(s, bin, write_words, &to);
    }
  status = adji_exchange(group, status, &mail, &s->told);
  adji_mail_clear(group, &mail);
  return status;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static void rewind_told(const sending *s) {
  for (int i = 0; i < s->plan->group.ranks; i++)
    s->next[i] = (const uint64_t *)(const void *)(s->told.bytes + s->told.starts[i]);
}

/* Allocates the result, and buffers for the largest window. */
static adj_status get_memory(sending *s) {
  adji_group *group = &s->plan->group;
  adji_memory *memory = &s->plan->ctx->memory;
  uint64_t all = 0, most_words = 0, most = 0;
  s->next = adji_alloc(memory, (uint64_t)group->ranks, sizeof *s->next, "bins of rows");
  if (!s->next) return ADJ_E_MEMORY;
  rewind_told(s);
  for (uint64_t w = 0; w < s->windows; w++) {
    uint64_t words = 0, count = each_piece(s, s->bins->first[group->rank] + w, NULL, NULL);
    all += entries_of(s, s->bins->first[group->rank] + w);
    for (int i = 0; i < group->ranks; i++) {
      if (i == group->rank) continue;
      all += *s->next[i]++;
      uint64_t many = *s->next[i]++;
      count += many;
      while (many--)
        words += *s->next[i]++;
    }
    most_words = words > most_words ? words : most_words;
    most = count > most ? count : most;
  }
  rewind_told(s);
  for (int i = 0; i < 2; i++) {
    window_pieces *slot = &s->slots[i];
    slot->buffer = adji_alloc(memory, most_words + 1, sizeof *slot->buffer, "rows of other ranks");
    slot->pieces = adji_alloc(memory, most + 1, sizeof *slot->pieces, "rows of other ranks");
    if (!slot->buffer || !slot->pieces) return ADJ_E_MEMORY;
  }
  s->out->offsets = adji_alloc_zero(memory, s->out->count + 1, sizeof *s->out->offsets, "offsets of rows");
  if (!s->out->offsets) return ADJ_E_MEMORY;
  s->out->offsets[s->out->count] = all;
  s->growing = (adji_growing){.plan = s->plan, .out = s->out, .value_size = s->value_size};
  return adji_growing_open(&s->growing);
}

/* ---- Rows into place --------------------------------------------------------------------------------------------- */

typedef struct placing {
  const sending *s;
  const window_pieces *slot;
} placing;

static uint64_t row_of(const sending *s, const uint32_t *record) {
  return record[0] - (s->bins->first[s->plan->group.rank] << s->bins->shift);
}

static const uint32_t *next_record(const sending *s, const uint32_t *record) {
  return record + ADJI_RECORD + record[1] * (1 + s->value_size / 4);
}

/* Words of a cache line, and how far ahead pieces are fetched. */
enum { LINE = 16, AHEAD = 512 };

static adj_status note_lengths(void *user, uint64_t number, uint32_t lane) {
  (void)lane;
  const placing *p = user;
  const piece *from = &p->slot->pieces[number];
  const uint32_t *ahead = from->words;
  for (const uint32_t *r = from->words; r < from->end; r = next_record(p->s, r)) {
    for (; ahead < r + AHEAD && ahead < from->end; ahead += LINE) /* the next record is known only after this one */
      __builtin_prefetch(ahead);
    p->s->out->offsets[row_of(p->s, r)] = r[1];
  }
  return ADJ_OK;
}

/* Copies a row to `at`. */
static void copy_record(const sending *s, const uint32_t *record, uint64_t at) {
  uint64_t many = record[1], size = s->value_size;
  const uint32_t *ids = record + ADJI_RECORD;
  if (s->out->narrow) {
    memcpy(s->out->narrow + at, ids, many * sizeof *ids);
  } else {
    int64_t *to = s->out->ids + at;
    for (uint64_t e = 0; e < many; e++)
      to[e] = ids[e];
  }
  if (size) memcpy(s->out->values + at * size, ids + many, many * size);
}

static adj_status copy_records(void *user, uint64_t number, uint32_t lane) {
  (void)lane;
  const placing *p = user;
  const piece *from = &p->slot->pieces[number];
  for (const uint32_t *r = from->words; r < from->end; r = next_record(p->s, r))
    copy_record(p->s, r, p->s->out->offsets[row_of(p->s, r)]);
  return ADJ_OK;
}

static adj_status place_window(sending *s, const window_pieces *slot, uint64_t window) {
  uint64_t *offsets = s->out->offsets, row = window << s->bins->shift, end = (window + 1) << s->bins->shift;
  placing p = {.s = s, .slot = slot};
  if (end > s->out->count) end = s->out->count;
  offsets[row] = 0; /* the window before ended here */
  adj_status status = adji_parallel(s->plan->ctx->team, slot->count, note_lengths, &p, false);
  for (; row < end; row++) {
    uint64_t length = offsets[row];
    offsets[row] = s->at;
    s->at += length;
  }
  if (end == s->out->count && offsets[end] != s->at)
    return adji_fail(ADJ_E_INTERNAL, "the lengths of rows do not add up");
  offsets[end] = s->at;
  if (!status) status = adji_growing_claim(&s->growing, s->at);
  return status ? status : adji_parallel(s->plan->ctx->team, slot->count, copy_records, &p, false);
}

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

static void add_piece(void *user, piece p) {
  window_pieces *slot = user;
  slot->pieces[slot->count++] = p;
}

static adj_status post_receives(sending *s, window_pieces *slot, uint64_t window) {
  adji_group *group = &s->plan->group;
  adj_status status = ADJ_OK;
  uint32_t *to = slot->buffer;
  slot->receives.count = 0;
  slot->count = 0;
  if (window < s->windows) each_piece(s, s->bins->first[group->rank] + window, add_piece, slot);
  for (int i = 1; i < group->ranks && window < s->windows && !status; i++) {
    int from = (group->rank + group->ranks - i) % group->ranks;
    const uint64_t *told = s->next[from] + 1;
    for (uint64_t many = *told++; many && !status; many--) {
      uint64_t words = *told++;
      add_piece(slot, (piece){to, to + words});
      status = adji_post_receive(group, &slot->receives, (char *)to, words * sizeof *to, from);
      to += words;
    }
    s->next[from] = told;
  }
  return status;
}

typedef struct posting {
  const sending *s;
  window_pieces *slot;
  int to;
  adj_status status;
} posting;

static void post_piece(void *user, piece p) {
  posting *t = user;
  uint64_t bytes = (uint64_t)(p.end - p.words) * sizeof *p.words;
  if (!t->status) t->status = adji_post_send(&t->s->plan->group, &t->slot->sends, (const char *)p.words, bytes, t->to);
}

/* Each rank starts with its neighbour, which spreads the load over the ranks. */
static adj_status post_sends(const sending *s, window_pieces *slot, uint64_t window) {
  const adji_group *group = &s->plan->group;
  posting t = {.s = s, .slot = slot};
  slot->sends.count = 0;
  for (int i = 1; i < group->ranks && !t.status; i++) {
    t.to = (group->rank + i) % group->ranks;
    uint64_t bin = s->bins->first[t.to] + window;
    if (bin < s->bins->first[t.to + 1]) each_piece(s, bin, post_piece, &t);
  }
  return t.status;
}

/* Puts the rows of a window into place. Frees the bins of a group after its last window. */
static adj_status end_window(sending *s, uint64_t window) {
  adji_group *group = &s->plan->group;
  window_pieces *slot = &s->slots[window % 2];
  adj_status status = adji_wait(group, slot->receives.count, slot->receives.items);
  if (!status && !s->status && window < s->windows) s->status = place_window(s, slot, window);
  if (!status) status = adji_wait(group, slot->sends.count, slot->sends.items);
  if (!status && (window + 1) % s->bins->group_windows == 0 && s->from->lanes)
    adji_bins_drop(s->from, window / s->bins->group_windows);
  return status;
}

static adj_status send_windows(sending *s) {
  adj_status status = ADJ_OK;
  for (uint64_t w = 0; w <= s->bins->windows && !status; w++) {
    if (w < s->bins->windows) status = post_receives(s, &s->slots[w % 2], w);
    if (!status && w < s->bins->windows) status = post_sends(s, &s->slots[w % 2], w);
    if (!status && w) status = end_window(s, w - 1);
  }
  return status;
}

static void close_sending(sending *s) {
  adji_group *group = &s->plan->group;
  adji_mail_clear(group, &s->told);
  adji_free(&s->plan->ctx->memory, s->next);
  for (int i = 0; i < 2; i++) {
    window_pieces *slot = &s->slots[i];
    adji_group_free(group, slot->buffer);
    adji_free(&s->plan->ctx->memory, slot->pieces);
    adji_requests_clear(&slot->sends);
    adji_requests_clear(&slot->receives);
  }
}

adj_status adji_owners_send_bins(adj_mpi_plan *plan, const adji_row_bins *bins, adji_mpi_part *part, adji_rows *out) {
  adji_group *group = &plan->group;
  uint64_t before = group->bytes_sent;
  sending s = {.plan = plan, .bins = bins, .from = &part->binned.bins, .out = out, .value_size = adji_value_size(plan)};
  *out = (adji_rows){.count = rows_of(plan, group->rank)};
  s.windows = bins->first[group->rank + 1] - bins->first[group->rank];
  adj_status status = adji_agree(group, bin_result(plan, part));
  if (!status) status = tell_pieces(&s);
  if (!status) status = adji_agree(group, get_memory(&s));
  if (!status) status = send_windows(&s);
  if (!status) status = s.status;
  status = adji_agree(group, status);
  plan->stats.bytes_rows += group->bytes_sent - before;
  close_sending(&s);
  if (status) adji_rows_clear(plan, out);
  return status;
}
