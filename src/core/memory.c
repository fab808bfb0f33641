/* SPDX-License-Identifier: MIT
 *
 * Checked memory with a limit. The size of a block is in the 64 bytes in front of it. Blocks of a megabyte and more are
 * mappings of their own, aligned to huge pages.
 */
#define _GNU_SOURCE
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PREFIX = 64, HUGE_PAGE = ADJI_HUGE_PAGE, PAGE = 4096 };
static const uint64_t LARGE = (uint64_t)1 << 20;

typedef struct prefix {
  uint64_t bytes;  /* bytes charged               */
  uint64_t mapped; /* length of the mapping, or 0 */
  void *base;      /* start of the mapping        */
  uint64_t filled; /* of a block with room: bytes for which spare pages were already tried */
} prefix;

_Static_assert(sizeof(prefix) <= PREFIX, "the prefix must fit in front of a block");

void adji_memory_init(adji_memory *memory, uint64_t limit) {
  atomic_init(&memory->used, 0);
  atomic_init(&memory->peak, 0);
  atomic_init(&memory->fail_at, -1);
  memory->limit = limit;
  pthread_mutex_init(&memory->spare.lock, NULL);
  memory->spare.keepers = memory->spare.hoarders = memory->spare.count = 0;
  atomic_init(&memory->spare.bytes, 0);
}

void adji_memory_reset_peak(adji_memory *memory) {
  atomic_store(&memory->peak, atomic_load(&memory->used));
}

uint64_t adji_memory_available(const adji_memory *memory) {
  uint64_t used = atomic_load(&memory->used);
  return used < memory->limit ? memory->limit - used : 0;
}

bool adji_fits(const adji_memory *memory, uint64_t bytes) {
  return bytes <= adji_memory_available(memory);
}

const char *adji_bytes_text(double bytes, char *buffer) {
  static const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 6) {
    bytes /= 1024;
    unit++;
  }
  snprintf(buffer, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return buffer;
}

/* ---- Spare blocks ------------------------------------------------------------------------------------------- */

static const uint64_t MOST_SPARE_BYTES = (uint64_t)64 << 20;

static prefix prefix_of(const void *block) {
  prefix head;
  memcpy(&head, (const char *)block - PREFIX, sizeof head);
  return head;
}

/* Takes spare block i out of the list. The lock is held. */
static void *take_out(adji_spare *spare, uint32_t i) {
  void *block = spare->blocks[i];
  memmove(spare->blocks + i, spare->blocks + i + 1, (--spare->count - i) * sizeof *spare->blocks);
  atomic_fetch_sub(&spare->bytes, prefix_of(block).mapped);
  return block;
}

/* Unmaps the oldest until at most `most` bytes remain. The lock is held. */
static void shrink_spare(adji_spare *spare, uint64_t most) {
  while (spare->count && atomic_load(&spare->bytes) > most) {
    prefix head = prefix_of(take_out(spare, 0));
    munmap(head.base, head.mapped);
  }
}

/* Keeps a freed block as a spare one, if used and spare bytes together stay within the limit. Returns whether it
 * did. */
static bool keep_spare(adji_memory *memory, void *block, uint64_t mapped) {
  adji_spare *spare = &memory->spare;
  uint64_t available = adji_memory_available(memory);
  pthread_mutex_lock(&spare->lock);
  uint64_t most = spare->hoarders || available < MOST_SPARE_BYTES ? available : MOST_SPARE_BYTES;
  bool kept = spare->keepers && mapped <= most;
  if (kept) {
    shrink_spare(spare, most - mapped);
    if (spare->count == ADJI_MOST_SPARE) shrink_spare(spare, atomic_load(&spare->bytes) - 1);
    spare->blocks[spare->count++] = block;
    atomic_fetch_add(&spare->bytes, mapped);
    shrink_spare(spare, adji_memory_available(memory)); /* in case another thread has charged more since */
  }
  pthread_mutex_unlock(&spare->lock);
  return kept;
}

static uint64_t room_of(const void *block, const prefix *head) {
  return (uint64_t)((const char *)head->base + head->mapped - (const char *)block);
}

/* Unmaps the huge pages after the first `bytes` bytes of a block. */
static void unmap_rest(char *block, uint64_t bytes, prefix *head) {
  char *end = (char *)head->base + head->mapped, *last = block + (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if (last >= end) return;
  munmap(last, (size_t)(end - last));
  head->mapped = (uint64_t)(last - (char *)head->base);
}

/* Takes the smallest spare block with room for this many bytes, and unmaps the rest, so that no uncharged memory is
 * held; NULL: there is none. Much larger blocks are left for other requests. */
static char *use_spare(adji_memory *memory, uint64_t bytes, prefix *head) {
  adji_spare *spare = &memory->spare;
  if (!atomic_load_explicit(&spare->bytes, memory_order_relaxed)) return NULL;
  uint64_t best_room = 8 * bytes;
  uint32_t best = ADJI_MOST_SPARE;
  pthread_mutex_lock(&spare->lock);
  for (uint32_t i = 0; i < spare->count; i++) {
    prefix has = prefix_of(spare->blocks[i]);
    uint64_t room = room_of(spare->blocks[i], &has);
    if (room < bytes || room >= best_room) continue;
    best_room = room;
    best = i;
  }
  char *block = best < ADJI_MOST_SPARE ? take_out(spare, best) : NULL;
  pthread_mutex_unlock(&spare->lock);
  if (!block) return NULL;
  *head = prefix_of(block);
  head->bytes = bytes;
  head->filled = 0;
  unmap_rest(block, bytes, head);
  return block;
}

/* ---- Pages of spare blocks ----------------------------------------------------------------------------------- */

#ifdef MREMAP_FIXED
/* Moves one huge page to where another one is mapped. Pages are moved one at a time: a block may consist of several
 * mappings, which end at huge pages, and older kernels can only move within one mapping. They also unmap the
 * destination before they refuse, so after a failure it is mapped again if it is gone. */
static bool move_page(char *from, char *to, int flags) {
  if (mremap(from, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) != MAP_FAILED) return true;
#ifdef MAP_FIXED_NOREPLACE
  const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  char *again = mmap(to, HUGE_PAGE, PROT_READ | PROT_WRITE, how, -1, 0);
  if (again != MAP_FAILED && again != to) munmap(again, HUGE_PAGE);
#endif
  return false;
}
#endif

/* Moves up to `wanted` huge pages from the end of spare block i to `to`. Returns their number; a page that cannot be
 * moved is a fresh one there. The lock is held. */
static uint64_t move_pages(adji_spare *spare, uint32_t i, char *to, uint64_t wanted) {
#ifdef MREMAP_FIXED
  char *block = spare->blocks[i];
  prefix head = prefix_of(block);
  uint64_t pages = (head.bytes + HUGE_PAGE - 1) / HUGE_PAGE, whole = room_of(block, &head) / HUGE_PAGE;
  if (pages > whole) pages = whole;
  uint64_t many = pages < wanted ? pages : wanted, length = many * HUGE_PAGE;
  char *from = block + (pages - many) * HUGE_PAGE, *end = (char *)head.base + head.mapped;
  for (uint64_t at = 0; at < length; at += HUGE_PAGE) /* a moved page is gone: others may map something there */
    if (!move_page(from + at, to + at, 0)) munmap(from + at, HUGE_PAGE);
  if (from + length < end) munmap(from + length, (size_t)(end - from) - length);
  atomic_fetch_sub(&spare->bytes, (uint64_t)(end - from));
  head.mapped = (uint64_t)(from - (char *)head.base);
  head.bytes = (pages - many) * HUGE_PAGE;
  memcpy(block - PREFIX, &head, sizeof head);
  if (!head.bytes) {
    (void)take_out(spare, i);
    munmap(head.base, head.mapped);
  }
  return many;
#else
  (void)spare, (void)i, (void)to, (void)wanted;
  return 0;
#endif
}

/* Fills bytes [from, to) of a fresh block with pages of spare blocks, the newest first; from is a multiple of the huge
 * page. The contents are lost. Returns whether there was any spare page. */
static bool fill_block(adji_memory *memory, char *block, uint64_t from, uint64_t to) {
  adji_spare *spare = &memory->spare;
  if (!atomic_load_explicit(&spare->bytes, memory_order_relaxed)) return false;
  bool some = false;
  pthread_mutex_lock(&spare->lock);
  for (uint32_t i = spare->count; spare->hoarders && i-- && from < to;) {
    uint64_t many = move_pages(spare, i, block + from, (to - from + HUGE_PAGE - 1) / HUGE_PAGE);
    from += many * HUGE_PAGE;
    some = some || many;
  }
  pthread_mutex_unlock(&spare->lock);
  return some;
}

/* ---- Keeping ---------------------------------------------------------------------------------------------------- */

void adji_memory_keep(adji_memory *memory) {
  pthread_mutex_lock(&memory->spare.lock);
  memory->spare.keepers++;
  pthread_mutex_unlock(&memory->spare.lock);
}

void adji_memory_drop(adji_memory *memory) {
  pthread_mutex_lock(&memory->spare.lock);
  if (!--memory->spare.keepers) shrink_spare(&memory->spare, 0);
  pthread_mutex_unlock(&memory->spare.lock);
}

void adji_memory_hoard(adji_memory *memory) {
  adji_memory_keep(memory);
  pthread_mutex_lock(&memory->spare.lock);
  memory->spare.hoarders++;
  pthread_mutex_unlock(&memory->spare.lock);
}

void adji_memory_hoard_end(adji_memory *memory) {
  pthread_mutex_lock(&memory->spare.lock);
  if (!--memory->spare.hoarders) shrink_spare(&memory->spare, MOST_SPARE_BYTES);
  pthread_mutex_unlock(&memory->spare.lock);
  adji_memory_drop(memory);
}

/* Unmaps all spare blocks, when the system has no more memory. */
static void drop_spare(adji_memory *memory) {
  pthread_mutex_lock(&memory->spare.lock);
  shrink_spare(&memory->spare, 0);
  pthread_mutex_unlock(&memory->spare.lock);
}

/* Unmaps spare blocks that would exceed the limit together with the used ones. */
static void limit_spare(adji_memory *memory) {
  adji_spare *spare = &memory->spare;
  if (atomic_load_explicit(&spare->bytes, memory_order_relaxed) <= adji_memory_available(memory)) return;
  pthread_mutex_lock(&spare->lock);
  shrink_spare(spare, adji_memory_available(memory));
  pthread_mutex_unlock(&spare->lock);
}

/* ---- Counting ----------------------------------------------------------------------------------------------- */

bool adji_charge(adji_memory *memory, uint64_t bytes, const char *name) {
  if (atomic_load_explicit(&memory->fail_at, memory_order_relaxed) >= 0 && atomic_fetch_sub(&memory->fail_at, 1) == 0) {
    adji_fail(ADJ_E_MEMORY, "%s: out of memory (simulated by a test)", name);
    return false;
  }
  uint64_t before = atomic_fetch_add(&memory->used, bytes);
  if (before > memory->limit || bytes > memory->limit - before) {
    atomic_fetch_sub(&memory->used, bytes);
    char need[32], held[32], limit[32];
    adji_bytes_text((double)bytes, need);
    adji_bytes_text((double)memory->limit, limit);
    if (before)
      adji_fail(ADJ_E_MEMORY, "%s: needs %s more, but %s of the limit of %s are in use", name, need,
                adji_bytes_text((double)before, held), limit);
    else
      adji_fail(ADJ_E_MEMORY, "%s: needs %s, but the limit is %s", name, need, limit);
    return false;
  }
  uint64_t now = before + bytes;
  uint64_t peak = atomic_load(&memory->peak);
  while (now > peak && !atomic_compare_exchange_weak(&memory->peak, &peak, now)) {
  }
  limit_spare(memory);
  return true;
}

void adji_discharge(adji_memory *memory, uint64_t bytes) {
  atomic_fetch_sub(&memory->used, bytes);
}

/* ---- Blocks --------------------------------------------------------------------------------------------------- */

/* Maps a large block. It begins at a multiple of the huge page; the prefix is in the page before. */
static char *map_large(uint64_t bytes, prefix *head) {
  uint64_t length = bytes + 3 * (uint64_t)HUGE_PAGE;
  char *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return NULL;
  uintptr_t start = ((uintptr_t)base + PREFIX + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
#ifdef MADV_HUGEPAGE
  /* A huge page also for the last part if half of it is used. This is a hint: it may fail. */
  uint64_t pages = (bytes + HUGE_PAGE / 2) / HUGE_PAGE;
  if (pages) madvise((void *)start, pages * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  head->mapped = length;
  head->base = base;
  return (char *)start;
}

/* zeroed: whether the block is full of zeros, as fresh mappings are. */
static void *allocate(adji_memory *memory, uint64_t count, size_t size, const char *name, bool *zeroed) {
  uint64_t bytes = adji_mul(count, size);
  if (bytes > (uint64_t)1 << 60) {
    adji_fail(ADJ_E_MEMORY, "%s: %llu entries of %zu bytes exceed any machine", name, (unsigned long long)count, size);
    return NULL;
  }
  if (!adji_charge(memory, bytes, name)) return NULL;
  prefix head = {.bytes = bytes};
  char *block = NULL;
  *zeroed = false;
  if (bytes >= LARGE) {
    block = use_spare(memory, bytes, &head);
    if (!block) {
      block = map_large(bytes, &head);
      *zeroed = block && !fill_block(memory, block, 0, bytes);
    }
    if (!block) {
      drop_spare(memory);
      block = map_large(bytes, &head);
      *zeroed = true;
    }
  } else {
    char *raw = aligned_alloc(PREFIX, (bytes + (uint64_t)2 * PREFIX - 1) & ~(uint64_t)(PREFIX - 1));
    if (raw) block = raw + PREFIX;
  }
  if (!block) {
    adji_discharge(memory, bytes);
    char need[32];
    adji_fail(ADJ_E_MEMORY, "%s: the system cannot provide %s", name, adji_bytes_text((double)bytes, need));
    return NULL;
  }
  memcpy(block - PREFIX, &head, sizeof head);
  return block;
}

void *adji_alloc(adji_memory *memory, uint64_t count, size_t size, const char *name) {
  bool zeroed;
  return allocate(memory, count, size, name, &zeroed);
}

void *adji_alloc_zero(adji_memory *memory, uint64_t count, size_t size, const char *name) {
  bool zeroed;
  void *block = allocate(memory, count, size, name, &zeroed);
  if (block && !zeroed) memset(block, 0, count * size);
  return block;
}

bool adji_grow(adji_memory *memory, void **block, uint64_t count, size_t size, uint64_t keep, const char *name) {
  void *larger = adji_alloc(memory, count, size, name);
  if (!larger) return false;
  if (keep) memcpy(larger, *block, keep);
  adji_free(memory, *block);
  *block = larger;
  return true;
}

void *adji_alloc_ahead(adji_memory *memory, uint64_t bytes, uint64_t room) {
  if (bytes < LARGE || bytes > room || room > (uint64_t)1 << 60 || !adji_fits(memory, bytes)) return NULL;
  prefix head = {.bytes = bytes};
  char *block = map_large(room, &head);
  if (!block) return NULL;
  if (!adji_charge(memory, bytes, "memory")) {
    munmap(head.base, head.mapped);
    return NULL;
  }
  (void)fill_block(memory, block, 0, bytes);
  head.filled = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  memcpy(block - PREFIX, &head, sizeof head);
  return block;
}

bool adji_resize(adji_memory *memory, void *block, uint64_t bytes) {
  prefix head = prefix_of(block);
  if (!head.mapped) return false;
  char *start = block, *end = (char *)head.base + head.mapped;
  if (bytes > (uint64_t)(end - start)) return false;
  if (bytes > head.bytes && !adji_fits(memory, bytes - head.bytes)) return false;
  if (bytes > head.bytes && !adji_charge(memory, bytes - head.bytes, "memory")) return false;
  if (bytes < head.bytes) adji_discharge(memory, head.bytes - bytes);
  unmap_rest(start, bytes, &head);
  head.bytes = bytes;
  head.filled = 0; /* the block can no longer be claimed */
  memcpy(start - PREFIX, &head, sizeof head);
  return true;
}

bool adji_claim(adji_memory *memory, void *block, uint64_t bytes, const char *name) {
  prefix head = prefix_of(block);
  if (bytes <= head.bytes) return true;
  if (!head.filled || bytes > room_of(block, &head)) {
    adji_fail(ADJ_E_INTERNAL, "%s: a block without room for %llu bytes", name, (unsigned long long)bytes);
    return false;
  }
  if (!adji_charge(memory, bytes - head.bytes, name)) return false;
  head.bytes = bytes;
  if (bytes > head.filled) {
    (void)fill_block(memory, block, head.filled, bytes);
    head.filled = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  }
  memcpy((char *)block - PREFIX, &head, sizeof head);
  return true;
}

/* Makes a spare block of some pages of a block, which keeps its addresses. */
static bool hoard_pages(adji_memory *memory, char *from, uint64_t bytes) {
#ifdef MREMAP_DONTUNMAP
  pthread_mutex_lock(&memory->spare.lock);
  bool hoards = memory->spare.hoarders;
  pthread_mutex_unlock(&memory->spare.lock);
  if (!hoards) return false;
  prefix head = {.bytes = bytes};
  char *block = map_large(bytes, &head);
  if (!block) return false;
  if (!move_page(from, block, MREMAP_DONTUNMAP)) {
    munmap(head.base, head.mapped);
    return false;
  }
  for (uint64_t at = HUGE_PAGE; at < bytes; at += HUGE_PAGE)
    if (!move_page(from + at, block + at, MREMAP_DONTUNMAP)) (void)madvise(from + at, HUGE_PAGE, MADV_DONTNEED);
  memcpy(block - PREFIX, &head, sizeof head);
  if (!keep_spare(memory, block, head.mapped)) munmap(head.base, head.mapped);
  return true;
#else
  (void)memory, (void)from, (void)bytes;
  return false;
#endif
}

void adji_release(adji_memory *memory, void *block, uint64_t from, uint64_t to) {
  prefix head = prefix_of(block);
  uint64_t first = (from + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, end = to / HUGE_PAGE * HUGE_PAGE;
  if (!head.mapped || first >= end) return;
  adji_discharge(memory, end - first);
  head.bytes -= end - first;
  memcpy((char *)block - PREFIX, &head, sizeof head);
  if (!hoard_pages(memory, (char *)block + first, end - first))
    (void)madvise((char *)block + first, end - first, MADV_DONTNEED);
}

void adji_free(adji_memory *memory, void *block) {
  if (!block) return;
  prefix head = prefix_of(block);
  adji_discharge(memory, head.bytes);
  if (!head.mapped)
    free((char *)block - PREFIX);
  else if (!keep_spare(memory, block, head.mapped))
    munmap(head.base, head.mapped);
}

void adji_prefault(void *at, uint64_t bytes) {
  char *first = at;
#ifdef MADV_POPULATE_WRITE
  uintptr_t before = (uintptr_t)at % PAGE; /* the kernel wants whole pages; this keeps their contents */
  if (bytes && !madvise(first - before, bytes + before, MADV_POPULATE_WRITE)) return;
#endif
  for (uint64_t i = 0; i < bytes; i += PAGE)
    *(volatile char *)(first + i) = 0;
}
