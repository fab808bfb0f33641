/* SPDX-License-Identifier: MIT
 *
 * Checked memory with a limit. Everything that grows with the data is allocated here, so memory_limit is enforced and
 * peak_bytes is exact.
 */
#ifndef ADJI_MEMORY_H
#define ADJI_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/atomic.h"
#include "core/status.h"

/* Large blocks that were freed, the oldest first, and can be used again. */
enum { ADJI_MOST_SPARE = 128 };
typedef struct adji_spare {
  pthread_mutex_t lock;
  uint32_t keepers, hoarders, count;
  void *blocks[ADJI_MOST_SPARE];
  ADJI_ATOMIC(uint64_t) bytes;
} adji_spare;

typedef struct adji_memory {
  ADJI_ATOMIC(uint64_t) used, peak;
  uint64_t limit;
  ADJI_ATOMIC(int64_t) fail_at; /* tests: the fail_at-th allocation from now fails; negative: none */
  adji_spare spare;
} adji_memory;

void adji_memory_init(adji_memory *memory, uint64_t limit);

/* From the first call of adji_memory_keep to the matching one of adji_memory_drop, large blocks that are freed stay
 * mapped, up to 64 MiB of them, and are used again: otherwise questions of a kept index spend a tenth of their time on
 * pages that the system has to clear. These blocks do not count as used, and are unmapped when the limit requires
 * it. */
void adji_memory_keep(adji_memory *memory);
void adji_memory_drop(adji_memory *memory);

/* The same for a run of several steps, each of which frees about what the next one needs: all large blocks stay mapped,
 * and their pages are moved into new blocks of any size, instead of fresh pages that the system would have to clear. */
ADJI_SHARED void adji_memory_hoard(adji_memory *memory);
ADJI_SHARED void adji_memory_hoard_end(adji_memory *memory);

/* count * size bytes, aligned to 64; zeroed by _zero only. Large blocks use huge pages if the system has them; a page
 * gets its memory when it is first written. `name` names the block in the message. NULL: failed, the message is set,
 * and the status to return is ADJ_E_MEMORY. */
ADJI_SHARED void *adji_alloc(adji_memory *memory, uint64_t count, size_t size, const char *name);
ADJI_SHARED void *adji_alloc_zero(adji_memory *memory, uint64_t count, size_t size, const char *name);

/* Grows a block to at least count * size bytes and keeps its first `keep` bytes. *block may be NULL. False as above;
 * the block is then unchanged. */
ADJI_SHARED bool adji_grow(adji_memory *memory, void **block, uint64_t count, size_t size, uint64_t keep,
                           const char *name);

/* A large block whose size is an estimate: `bytes` now, and up to `room` later without moving. Only the bytes in use
 * count against the limit. NULL is not a failure: there is no such block, and no message. adji_resize returns whether
 * the block has the new size. */
ADJI_SHARED void *adji_alloc_ahead(adji_memory *memory, uint64_t bytes, uint64_t room);
bool adji_resize(adji_memory *memory, void *block, uint64_t bytes);
/* From now on at least this many bytes of such a block are in use; its room stays. False: failed, the message is
 * set. */
ADJI_SHARED bool adji_claim(adji_memory *memory, void *block, uint64_t bytes, const char *name);

/* Gives the huge pages that lie wholly in bytes [from, to) of a block back to the system: they no longer count as used,
 * and their contents are lost. A page may be released once only. Small blocks stay as they are. */
ADJI_SHARED void adji_release(adji_memory *memory, void *block, uint64_t from, uint64_t to);

ADJI_SHARED void adji_free(adji_memory *memory, void *block); /* NULL is fine */

/* Makes the system provide the pages of fresh memory, `bytes` from `at` on, which takes as long as copying that much.
 * The contents are lost. Use one thread for each huge page: every thread that meets a missing page clears all of it. */
enum { ADJI_HUGE_PAGE = 2 << 20 };
void adji_prefault(void *at, uint64_t bytes);

/* Counts memory that adji_alloc did not make, such as buffers of another library. */
bool adji_charge(adji_memory *memory, uint64_t bytes, const char *name);
void adji_discharge(adji_memory *memory, uint64_t bytes);

/* The peak is measured anew from this call on. */
ADJI_SHARED void adji_memory_reset_peak(adji_memory *memory);

/* Bytes that may still be allocated. 0 while the limit is briefly exceeded: threads that share a context charge first
 * and check the limit then. */
uint64_t adji_memory_available(const adji_memory *memory);

/* Whether this many bytes may still be allocated. */
bool adji_fits(const adji_memory *memory, uint64_t bytes);

/* A size for people: "1.5 GiB". buffer: at least 32 characters. */
ADJI_SHARED const char *adji_bytes_text(double bytes, char *buffer);

/* a * b, or UINT64_MAX when that overflows. */
static inline uint64_t adji_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
