/* SPDX-License-Identifier: MIT
 *
 * The k best of a query: the k smallest candidates by (sum, id), for any k, without a heap. Candidates
 * are collected as keys, one number each whose order is that of (sum, id); when about k more than the
 * k wanted have come together, a selection throws the larger ones out, and the limit for those to
 * come is the largest one left. A candidate costs a comparison, one that is kept a store, and the
 * selection a few operations for each that was kept.
 *
 * Use: reset, then add again and again, skipping whatever is above the limit; finish.
 */
#ifndef ADJI_KBEST_H
#define ADJI_KBEST_H

#include "core/context.h"

/* Keys of f32: the bits of the sum, changed so that they order as the sums do (negative ones, too),
 * above the id. A zero loses its sign. */
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

/* Work on keys of 64 bits, which must all differ, per instruction set. */
typedef struct adji_key_kernels {
  /* The k <= count smallest to the front, k >= 1, the largest of them last; otherwise in no order. */
  void (*select)(uint64_t *keys, uint64_t count, uint64_t k);
  void (*sort)(uint64_t *keys, uint64_t count); /* ascending */
  /* Appends the keys of candidates that are at most `last` to keys; returns how many. May write
   * ADJI_KEY_PAD entries past count. */
  uint64_t (*pack)(const float *sums, const uint32_t *ids, uint64_t count, uint64_t last, uint64_t *keys);
} adji_key_kernels;

enum { ADJI_KEY_PAD = 8 };

const adji_key_kernels *adji_key_kernels_for(const char *isa); /* as core/cpu.h names it */

#if defined(__x86_64__)
extern const adji_key_kernels adji_key_kernels_avx512;
#endif

typedef struct adji_kbest {
  double limit;  /* a candidate with a larger sum is not among the k best: need not be added */
  uint64_t held; /* keys, unsorted; k or more once there were k candidates                   */
  uint64_t k;
  /* The rest is private. */
  adji_memory *memory; /* NULL: keys belong to the caller */
  const adji_key_kernels *kernels;
  adj_type type;
  void *keys;
  uint64_t last_f32; /* the largest key still of use, by type */
  adji_key_wide last_f64;
} adji_kbest;

/* k >= 1. Memory: about 16 bytes (f64: 32) for each of k. ADJ_E_MEMORY with the message set; then, too,
 * clear may be called. */
adj_status adji_kbest_init(adji_kbest *best, adj_ctx *ctx, adj_type type, uint64_t k);
void adji_kbest_clear(adji_kbest *best);

/* The same in the caller's memory of adji_kbest_bytes bytes, aligned to 16: nothing to clear. */
uint64_t adji_kbest_bytes(adj_type type, uint64_t k);
void adji_kbest_init_in(adji_kbest *best, const char *isa, adj_type type, uint64_t k, void *room);

/* Begins a query: no candidate yet, and none with a sum above limit (of the data's type; may be infinite)
 * is wanted. */
void adji_kbest_reset(adji_kbest *best, double limit);

/* Adds candidates, which no other may equal in id; those above the limit are dropped. sums are of the
 * data's type. The limit is tight after each call: it is that of the k best so far, or a little above. */
void adji_kbest_add(adji_kbest *best, const uint32_t *ids, const void *sums, uint64_t count);

/* Makes the limit as tight as what was added allows. */
void adji_kbest_tighten(adji_kbest *best);

/* Adds to one what another holds. */
void adji_kbest_merge(adji_kbest *best, const adji_kbest *other);

/* The best, at most k, to ids, and to sums when that is not NULL; in ascending order of (sum, id), or in
 * any. Returns how many. One can go on from there as after tighten. */
uint64_t adji_kbest_finish(adji_kbest *best, bool sort, uint32_t *ids, void *sums);

#endif
