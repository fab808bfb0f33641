/* SPDX-License-Identifier: MIT
 *
 * A parallel, stable radix sort, least significant digit first. In each pass every slice counts its digits, the counts
 * of all slices become starting positions, and every slice moves its items. Only the requested bits are sorted, in as
 * few and as equal digits as possible.
 */
#include "index/radix_sort.h"

#include <string.h>

/* The most bits of a digit. Many items take one bit more, since one pass less saves more than twice as many buckets
 * cost. For example, a hundred million cells of three dimensions have numbers of 34 to 36 bits. */
enum { FEW_BITS = 11, MAX_DIGIT = 12, MANY_ITEMS = 1 << 22, MIN_SLICE = 16384 };

typedef struct pass {
  adji_sorted *sorted; /* from items to spare */
  uint64_t count;
  uint32_t shift, buckets;
  uint64_t slices;
  uint32_t *places; /* per slice, one per bucket: first counts, then the place of the next item */
} pass;

static adj_status count_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  pass *p = user;
  uint64_t begin, end;
  adji_slice(p->count, p->slices, slice, &begin, &end);
  uint32_t *count = p->places + slice * p->buckets;
  memset(count, 0, p->buckets * sizeof *count);
  for (uint64_t i = begin; i < end; i++)
    count[p->sorted->items[i] >> p->shift & (p->buckets - 1)]++;
  return ADJ_OK;
}

static void move_items(const pass *p, uint64_t begin, uint64_t end, uint32_t *place) {
  const uint64_t *from = p->sorted->items;
  uint64_t *to = p->sorted->spare;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t item = from[i];
    to[place[item >> p->shift & (p->buckets - 1)]++] = item;
  }
}

static void move_with_ids(const pass *p, uint64_t begin, uint64_t end, uint32_t *place) {
  const adji_sorted *s = p->sorted;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t item = s->items[i];
    uint32_t to = place[item >> p->shift & (p->buckets - 1)]++;
    s->spare[to] = item;
    s->spare_ids[to] = s->ids[i];
  }
}

static adj_status move_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const pass *p = user;
  uint64_t begin, end;
  adji_slice(p->count, p->slices, slice, &begin, &end);
  (p->sorted->ids ? move_with_ids : move_items)(p, begin, end, p->places + slice * p->buckets);
  return ADJ_OK;
}

static void exchange(adji_sorted *s) {
  *s = (adji_sorted){s->spare, s->items, s->spare_ids, s->ids};
}

/* Turns counts into positions, in two sweeps over the rows of the slices. Adding up the column of each bucket instead
 * would read lines that all fall into one set of the cache. Returns true if all items share one digit, so that the pass
 * can be skipped. */
static bool place_buckets(pass *p) {
  uint32_t next[1 << MAX_DIGIT] = {0}, place = 0;
  for (uint64_t s = 0; s < p->slices; s++)
    for (uint32_t b = 0; b < p->buckets; b++)
      next[b] += p->places[s * p->buckets + b];
  for (uint32_t b = 0; b < p->buckets; b++) {
    uint32_t many = next[b];
    if (many == p->count) return true;
    next[b] = place;
    place += many;
  }
  for (uint64_t s = 0; s < p->slices; s++)
    for (uint32_t b = 0; b < p->buckets; b++) {
      uint32_t many = p->places[s * p->buckets + b];
      p->places[s * p->buckets + b] = next[b];
      next[b] += many;
    }
  return false;
}

adj_status adji_radix_sort(adj_ctx *ctx, adji_sorted *sorted, uint64_t count, uint32_t low_bit, uint32_t bits) {
  if (count < 2 || !bits) return ADJ_OK;
  uint32_t most = count < MANY_ITEMS ? FEW_BITS : MAX_DIGIT, passes = (bits + most - 1) / most;
  uint32_t digit = (bits + passes - 1) / passes;
  uint64_t slices = count / MIN_SLICE + 1 < ctx->threads ? count / MIN_SLICE + 1 : ctx->threads;
  pass p = {.sorted = sorted, .count = count, .buckets = 1u << digit, .slices = slices, .shift = low_bit};
  p.places = adji_alloc(&ctx->memory, slices * p.buckets, sizeof *p.places, "radix sort");
  if (!p.places) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < passes && !status; i++, p.shift += digit) {
    status = adji_loop(ctx, slices, count_slice, &p);
    if (status || place_buckets(&p)) continue;
    status = adji_loop(ctx, slices, move_slice, &p);
    exchange(sorted);
  }
  adji_free(&ctx->memory, p.places);
  return status;
}

/* The bits of a number as an integer that is larger for larger numbers; below, the inverse. */
static uint64_t to_key(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static double from_key(uint64_t key) {
  uint64_t bits = key >> 63 ? key & ~(UINT64_C(1) << 63) : ~key;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* single: a float has at most 23 bits after the point, also as a double. Its last 29 bits are the same for all numbers
 * of one sign. */
adj_status adji_radix_sort_values(adj_ctx *ctx, double *values, uint64_t count, bool single) {
  enum { UNUSED = 52 - 23 };
  uint32_t low_bit = single ? UNUSED : 0;
  adji_sorted s = {.items = adji_alloc(&ctx->memory, count, sizeof *s.items, "radix sort")};
  s.spare = adji_alloc(&ctx->memory, count, sizeof *s.spare, "radix sort");
  adj_status status = s.items && s.spare ? ADJ_OK : ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count && !status; i++)
    s.items[i] = to_key(values[i]);
  if (!status) status = adji_radix_sort(ctx, &s, count, low_bit, 64 - low_bit);
  for (uint64_t i = 0; i < count && !status; i++)
    values[i] = from_key(s.items[i]);
  adji_free(&ctx->memory, s.items);
  adji_free(&ctx->memory, s.spare);
  return status;
}
