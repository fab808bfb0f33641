/* SPDX-License-Identifier: MIT
 *
 * The k best of a query, and the functions on keys in plain C.
 */
#include "result/kbest.h"

#include <math.h>
#include <string.h>

/* ---- Keys in plain C ---------------------------------------------------------------------------------- */

enum { SHORT = 24 };

/* Has no branch on the comparison, which would be unpredictable. */
#define PLAIN_PARTITION(name, key_type)                                         \
  static inline uint64_t name(key_type *keys, uint64_t count, key_type pivot) { \
    uint64_t below = 0;                                                         \
    for (uint64_t i = 0; i < count; i++) {                                      \
      key_type key = keys[i];                                                   \
      keys[i] = keys[below];                                                    \
      keys[below] = key;                                                        \
      below += key < pivot;                                                     \
    }                                                                           \
    return below;                                                               \
  }
#define PLAIN_INSERTION(name, key_type)                     \
  static inline void name(key_type *keys, uint64_t count) { \
    for (uint64_t i = 1; i < count; i++) {                  \
      key_type key = keys[i];                               \
      uint64_t j = i;                                       \
      for (; j && key < keys[j - 1]; j--)                   \
        keys[j] = keys[j - 1];                              \
      keys[j] = key;                                        \
    }                                                       \
  }

PLAIN_PARTITION(partition_f32, uint64_t)
PLAIN_INSERTION(insert_f32, uint64_t)
#define KEY uint64_t
#define SELECT select_f32
#define SORT sort_f32
#define PARTITION partition_f32
#define SORT_SHORT insert_f32
#include "result/select_body.h"

PLAIN_PARTITION(partition_f64, adji_key_wide)
PLAIN_INSERTION(insert_f64, adji_key_wide)
#define KEY adji_key_wide
#define SELECT select_f64
#define SORT sort_f64
#define PARTITION partition_f64
#define SORT_SHORT insert_f64
#include "result/select_body.h"

static uint64_t pack_f32(const float *sums, const uint32_t *ids, uint64_t count, uint64_t last, uint64_t *keys) {
  uint64_t packed = 0;
  for (uint64_t i = 0; i < count; i++) {
    keys[packed] = adji_key_f32(sums[i], ids[i]);
    packed += keys[packed] <= last;
  }
  return packed;
}

static const adji_key_kernels key_kernels_portable = {select_f32, sort_f32, pack_f32};

const adji_key_kernels *adji_key_kernels_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return &adji_key_kernels_avx512;
#endif
  (void)isa;
  return &key_kernels_portable;
}

void adji_sort_keys_f64(adji_key_wide *keys, uint64_t count) {
  sort_f64(keys, count);
}

static uint64_t pack_f64(const double *sums, const uint32_t *ids, uint64_t count, adji_key_wide last,
                         adji_key_wide *keys) {
  uint64_t packed = 0;
  for (uint64_t i = 0; i < count; i++) {
    keys[packed] = adji_key_f64(sums[i], ids[i]);
    packed += keys[packed] <= last;
  }
  return packed;
}

/* ---- The k best ------------------------------------------------------------------------------------------ */

/* surplus: keys beyond k that are collected before the next selection. PIECE: keys that are added at once. */
static uint64_t surplus(uint64_t k) {
  return k + 32;
}
enum { PIECE = 256 };

static size_t key_size(adj_type type) {
  return type == ADJ_F64 ? sizeof(adji_key_wide) : sizeof(uint64_t);
}

static uint64_t whole_lines(uint64_t bytes) {
  return (bytes + 63) & ~UINT64_C(63);
}

static uint64_t key_bytes(adj_type type, uint64_t k) {
  return whole_lines((k + surplus(k) + PIECE + ADJI_KEY_PAD) * key_size(type));
}

uint64_t adji_kbest_bytes(adj_type type, uint64_t k, uint64_t count) {
  return adji_mul(count, whole_lines(sizeof(adji_kbest)) + key_bytes(type, k));
}

void adji_kbest_init(adji_kbest *block, const char *isa, adj_type type, uint64_t k, uint64_t count) {
  char *keys = (char *)block + count * whole_lines(sizeof *block);
  for (uint64_t i = 0; i < count; i++) {
    block[i] = (adji_kbest){.type = type, .k = k, .kernels = adji_key_kernels_for(isa)};
    block[i].keys = keys + i * key_bytes(type, k);
    adji_kbest_reset(&block[i], INFINITY);
  }
}

void adji_kbest_reset(adji_kbest *best, double limit) {
  best->held = 0;
  best->limit = limit;
  best->last_f32 = adji_key_f32((float)limit, UINT32_MAX);
  best->last_f64 = adji_key_f64(limit, UINT32_MAX);
}

/* Selects the k best so far, and sets the limit to the largest of them. */
static void tighten(adji_kbest *best) {
  if (best->held < best->k) return;
  if (best->type == ADJ_F64) {
    adji_key_wide *keys = best->keys;
    select_f64(keys, best->held, best->k);
    best->last_f64 = keys[best->k - 1];
    best->limit = adji_key_sum_f64(best->last_f64);
  } else {
    uint64_t *keys = best->keys;
    best->kernels->select(keys, best->held, best->k);
    best->last_f32 = keys[best->k - 1];
    best->limit = (double)adji_key_sum_f32(best->last_f32);
  }
  best->held = best->k;
}

/* After keys were added: makes room for the next piece, and sets the first limit once there are k keys. */
static void after_add(adji_kbest *best, uint64_t before) {
  bool first = before < best->k && best->held >= best->k;
  if (first || best->held > best->k + surplus(best->k)) tighten(best);
}

void adji_kbest_add(adji_kbest *best, const uint32_t *ids, const void *sums, uint64_t count) {
  for (uint64_t i = 0; i < count; i += PIECE) {
    uint64_t piece = count - i < PIECE ? count - i : PIECE, before = best->held;
    if (best->type == ADJ_F64)
      best->held +=
          pack_f64((const double *)sums + i, ids + i, piece, best->last_f64, (adji_key_wide *)best->keys + best->held);
    else
      best->held += best->kernels->pack((const float *)sums + i, ids + i, piece, best->last_f32,
                                        (uint64_t *)best->keys + best->held);
    after_add(best, before);
  }
}

uint32_t adji_drop_id(adj_type type, uint32_t *ids, void *sums, uint32_t count, uint32_t id) {
  for (uint32_t i = 0; i < count; i++) {
    if (ids[i] != id) continue;
    ids[i] = ids[--count];
    if (type == ADJ_F64)
      ((double *)sums)[i] = ((double *)sums)[count];
    else
      ((float *)sums)[i] = ((float *)sums)[count];
    break;
  }
  return count;
}

void adji_kbest_merge(adji_kbest *best, const adji_kbest *other) {
  size_t size = key_size(best->type);
  for (uint64_t i = 0; i < other->held; i += PIECE) {
    uint64_t piece = other->held - i < PIECE ? other->held - i : PIECE, before = best->held;
    memcpy((char *)best->keys + best->held * size, (const char *)other->keys + i * size, piece * size);
    best->held += piece;
    after_add(best, before);
  }
}

uint64_t adji_kbest_finish(adji_kbest *best, bool sort, uint32_t *ids, void *sums) {
  tighten(best);
  const uint64_t *narrow = best->keys;
  const adji_key_wide *wide = best->keys;
  if (sort && best->type == ADJ_F64)
    sort_f64(best->keys, best->held);
  else if (sort)
    best->kernels->sort(best->keys, best->held);
  for (uint64_t i = 0; i < best->held; i++)
    ids[i] = (uint32_t)(best->type == ADJ_F64 ? (uint64_t)wide[i] : narrow[i]);
  for (uint64_t i = 0; sums && i < best->held; i++) {
    if (best->type == ADJ_F64)
      ((double *)sums)[i] = adji_key_sum_f64(wide[i]);
    else
      ((float *)sums)[i] = adji_key_sum_f32(narrow[i]);
  }
  return best->held;
}
