/* SPDX-License-Identifier: MIT
 *
 * The k best of a query: the k smallest candidates by (sum, id), for any k, without a heap.
 *
 * A candidate becomes a key: one number whose order is that of (sum, id). Keys are collected in a buffer. Once it holds
 * about 2 k keys, a selection keeps the k smallest, and the largest of these is the new limit. A candidate above the
 * limit costs one comparison. One below it costs a store as well, and a few operations in the selection.
 *
 * Use: reset; add, any number of times, where candidates above the limit may be skipped; finish.
 */
#ifndef ADJI_KBEST_H
#define ADJI_KBEST_H

#include "core/context.h"

/* Keys of f32: the bits of the sum, mapped so that they order as the sums do (negative ones too), followed by the bits
 * of the id. A zero loses its sign. */
static inline uint64_t adji_key_f32(float sum, uint32_t id) {
  union {
    float value;
    uint32_t bits;
  } s = {.value = sum + 0.0f}; /* -0 + 0 is 0 */
  uint32_t negative = 0 - (s.bits >> 31);
  return (uint64_t)(s.bits ^ (negative | UINT32_C(0x80000000))) << 32 | id;
}

static inline float adji_key_sum_f32(uint64_t key) {
  uint32_t order = (uint32_t)(key >> 32), positive = 0 - (order >> 31);
  union {
    uint32_t bits;
    float value;
  } s = {.bits = order ^ (~positive | UINT32_C(0x80000000))};
  return s.value;
}

/* Keys of f64: the same, in 96 bits. */
__extension__ typedef unsigned __int128 adji_key_wide;

static inline adji_key_wide adji_key_f64(double sum, uint32_t id) {
  union {
    double value;
    uint64_t bits;
  } s = {.value = sum + 0.0};
  uint64_t negative = 0 - (s.bits >> 63);
  return (adji_key_wide)(s.bits ^ (negative | UINT64_C(1) << 63)) << 32 | id;
}

static inline double adji_key_sum_f64(adji_key_wide key) {
  uint64_t order = (uint64_t)(key >> 32), positive = 0 - (order >> 63);
  union {
    uint64_t bits;
    double value;
  } s = {.bits = order ^ (~positive | UINT64_C(1) << 63)};
  return s.value;
}

/* Functions on 64-bit keys, for each instruction set. All keys must be different. */
typedef struct adji_key_kernels {
  /* Moves the k smallest to the front, 1 <= k <= count: the largest of them last, the others in any order. */
  void (*select)(uint64_t *keys, uint64_t count, uint64_t k);
  void (*sort)(uint64_t *keys, uint64_t count); /* ascending */
  /* Appends to keys the candidates' keys that are at most `last`; returns their number. May write ADJI_KEY_PAD entries
   * past count. */
  uint64_t (*pack)(const float *sums, const uint32_t *ids, uint64_t count, uint64_t last, uint64_t *keys);
} adji_key_kernels;

enum { ADJI_KEY_PAD = 8 };

const adji_key_kernels *adji_key_kernels_for(const char *isa); /* of adj_isa_name() */
void adji_sort_keys_f64(adji_key_wide *keys, uint64_t count);

#if defined(__x86_64__)
extern const adji_key_kernels adji_key_kernels_avx512;
#endif

typedef struct adji_kbest {
  double limit;  /* a candidate with a larger sum is not among the k best, and need not be added */
  uint64_t held; /* keys, unsorted; k or more once there were k candidates                       */
  uint64_t k;
  /* The rest is private. */
  const adji_key_kernels *kernels;
  adj_type type;
  void *keys;
  uint64_t last_f32; /* no larger key is among the k best; by type */
  adji_key_wide last_f64;
} adji_kbest;

/* Initialises `count` of these, k >= 1, in a block of adji_kbest_bytes bytes, which holds the structs first and then
 * their keys: about 16 k bytes each (f64: 32 k). Only the block has to be freed. */
uint64_t adji_kbest_bytes(adj_type type, uint64_t k, uint64_t count);
void adji_kbest_init(adji_kbest *block, const char *isa, adj_type type, uint64_t k, uint64_t count);

/* Begins a query. Candidates with a sum above limit are ignored; limit is a value of the data's type, or infinite. */
void adji_kbest_reset(adji_kbest *best, double limit);

/* Adds candidates; no two of a query may have the same id. Drops those above the limit. sums are of the data's type.
 * Afterwards best->limit is the largest sum of the k best so far, or a little above. */
void adji_kbest_add(adji_kbest *best, const uint32_t *ids, const void *sums, uint64_t count);

/* Removes a query's own id from its candidates, if it is among them; the last candidate takes its place. Returns their
 * number. */
uint32_t adji_drop_id(adj_type type, uint32_t *ids, void *sums, uint32_t count, uint32_t id);

/* Adds the candidates of another adji_kbest. */
void adji_kbest_merge(adji_kbest *best, const adji_kbest *other);

/* Writes the best, at most k, to ids and sums (may be NULL): ascending by (sum, id) with `sort`, otherwise in any
 * order. Returns their number. More candidates may be added afterwards. */
uint64_t adji_kbest_finish(adji_kbest *best, bool sort, uint32_t *ids, void *sums);

#endif
