/* SPDX-License-Identifier: MIT
 *
 * Checked memory with a limit. Everything the library holds that grows with the data comes from
 * here, so that peak_bytes is true and memory_limit is kept.
 */
#ifndef ADJI_MEMORY_H
#define ADJI_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/atomic.h"
#include "core/status.h"

typedef struct adji_memory {
  ADJI_ATOMIC(uint64_t) used, peak;
  uint64_t limit;
  ADJI_ATOMIC(int64_t) fail_at; /* tests: the fail_at-th allocation from now fails; negative: none */
} adji_memory;

void adji_memory_init(adji_memory *memory, uint64_t limit);

/* count * size bytes, aligned to 64, not zeroed (zeroed with _zero). Large blocks are backed by huge
 * pages where the system allows and are first touched by whoever writes them. what names the block
 * in the message. Returns NULL with the message set (ADJ_E_MEMORY is the status to return). */
void *adji_alloc(adji_memory *memory, uint64_t count, size_t size, const char *what);
void *adji_alloc_zero(adji_memory *memory, uint64_t count, size_t size, const char *what);

/* Grows a block to at least count * size bytes, keeping its first keep bytes. *block may be NULL. */
bool adji_grow(adji_memory *memory, void **block, uint64_t count, size_t size, uint64_t keep, const char *what);

/* For what is about to be written and whose size is but guessed: large blocks of so many bytes, which may become up to
 * room without moving. NULL, which is no failure, where there are none to be had. Resizing says whether the block has
 * so many bytes now; the limit counts those. */
void *adji_alloc_ahead(adji_memory *memory, uint64_t bytes, uint64_t room);
bool adji_resize(adji_memory *memory, void *block, uint64_t bytes);

void adji_free(adji_memory *memory, void *block); /* NULL is fine */

/* Has the system find the pages of fresh memory, bytes from `at` on, which takes it as long as a copy to there does;
 * what is in them already is lost. A huge page wants a single thread, for each that meets a missing one clears one. */
enum { ADJI_HUGE_PAGE = 2 << 20 };
void adji_prefault(void *at, uint64_t bytes);

/* For memory that others own on our behalf, such as a library's buffers. */
bool adji_charge(adji_memory *memory, uint64_t bytes, const char *what);
void adji_discharge(adji_memory *memory, uint64_t bytes);

/* Starts a new peak measurement. */
void adji_memory_reset_peak(adji_memory *memory);

/* Bytes that may still be allocated. 0 when the limit is passed for a moment: threads that share a context charge
 * first and look at the limit then. */
uint64_t adji_memory_available(const adji_memory *memory);

/* Whether this many bytes may still be allocated. */
bool adji_fits(const adji_memory *memory, uint64_t bytes);

/* Bytes as people read them, "1.5 GiB"; buffer of at least 32 characters. */
const char *adji_bytes_text(double bytes, char *buffer);

/* a * b, or UINT64_MAX when that overflows. */
static inline uint64_t adji_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
