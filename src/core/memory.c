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
  uint64_t bytes;  /* as charged                  */
  uint64_t mapped; /* length of the mapping, or 0 */
  void *base;      /* of the mapping              */
} prefix;

_Static_assert(sizeof(prefix) <= PREFIX, "the prefix must fit in front of a block");

void adji_memory_init(adji_memory *memory, uint64_t limit) {
  atomic_init(&memory->used, 0);
  atomic_init(&memory->peak, 0);
  atomic_init(&memory->fail_at, -1);
  memory->limit = limit;
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

bool adji_charge(adji_memory *memory, uint64_t bytes, const char *what) {
  if (atomic_load_explicit(&memory->fail_at, memory_order_relaxed) >= 0 && atomic_fetch_sub(&memory->fail_at, 1) == 0) {
    adji_fail(ADJ_E_MEMORY, "%s: out of memory (simulated by a test)", what);
    return false;
  }
  uint64_t before = atomic_fetch_add(&memory->used, bytes);
  if (before > memory->limit || bytes > memory->limit - before) {
    atomic_fetch_sub(&memory->used, bytes);
    char need[32], held[32], limit[32];
    adji_fail(ADJ_E_MEMORY, "%s: needs %s more, but %s of the limit of %s are in use", what,
              adji_bytes_text((double)bytes, need), adji_bytes_text((double)before, held),
              adji_bytes_text((double)memory->limit, limit));
    return false;
  }
  uint64_t now = before + bytes;
  uint64_t peak = atomic_load(&memory->peak);
  while (now > peak && !atomic_compare_exchange_weak(&memory->peak, &peak, now)) {
  }
  return true;
}

void adji_discharge(adji_memory *memory, uint64_t bytes) {
  atomic_fetch_sub(&memory->used, bytes);
}

/* A mapping. The block begins at a multiple of the huge page; the prefix is in the page before. */
static char *map_large(uint64_t bytes, prefix *head) {
  uint64_t length = bytes + 3 * (uint64_t)HUGE_PAGE;
  char *base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return NULL;
  uintptr_t start = ((uintptr_t)base + PREFIX + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
#ifdef MADV_HUGEPAGE
  /* Also for the last page if half of it is used. A hint: it may fail. */
  uint64_t pages = (bytes + HUGE_PAGE / 2) / HUGE_PAGE;
  if (pages) madvise((void *)start, pages * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  head->mapped = length;
  head->base = base;
  return (char *)start;
}

void *adji_alloc(adji_memory *memory, uint64_t count, size_t size, const char *what) {
  uint64_t bytes = adji_mul(count, size);
  if (bytes > (uint64_t)1 << 60) {
    adji_fail(ADJ_E_MEMORY, "%s: %llu entries of %zu bytes exceed any machine", what, (unsigned long long)count, size);
    return NULL;
  }
  if (!adji_charge(memory, bytes, what)) return NULL;
  prefix head = {bytes, 0, NULL};
  char *block = NULL;
  if (bytes >= LARGE) {
    block = map_large(bytes, &head);
  } else {
    char *raw = aligned_alloc(PREFIX, (bytes + (uint64_t)2 * PREFIX - 1) & ~(uint64_t)(PREFIX - 1));
    if (raw) block = raw + PREFIX;
  }
  if (!block) {
    adji_discharge(memory, bytes);
    char need[32];
    adji_fail(ADJ_E_MEMORY, "%s: the system cannot provide %s", what, adji_bytes_text((double)bytes, need));
    return NULL;
  }
  memcpy(block - PREFIX, &head, sizeof head);
  return block;
}

void *adji_alloc_zero(adji_memory *memory, uint64_t count, size_t size, const char *what) {
  void *block = adji_alloc(memory, count, size, what);
  if (block && adji_mul(count, size) < LARGE) memset(block, 0, count * size); /* mappings come zeroed */
  return block;
}

bool adji_grow(adji_memory *memory, void **block, uint64_t count, size_t size, uint64_t keep, const char *what) {
  void *larger = adji_alloc(memory, count, size, what);
  if (!larger) return false;
  if (keep) memcpy(larger, *block, keep);
  adji_free(memory, *block);
  *block = larger;
  return true;
}

void *adji_alloc_ahead(adji_memory *memory, uint64_t bytes, uint64_t room) {
  if (bytes < LARGE || bytes > room || room > (uint64_t)1 << 60 || !adji_fits(memory, bytes)) return NULL;
  prefix head = {bytes, 0, NULL};
  char *block = map_large(room, &head);
  if (!block) return NULL;
  if (!adji_charge(memory, bytes, "memory")) {
    munmap(head.base, head.mapped);
    return NULL;
  }
  memcpy(block - PREFIX, &head, sizeof head);
  return block;
}

bool adji_resize(adji_memory *memory, void *block, uint64_t bytes) {
  prefix head;
  memcpy(&head, (char *)block - PREFIX, sizeof head);
  if (!head.mapped) return false;
  char *start = block, *end = (char *)head.base + head.mapped;
  if (bytes > (uint64_t)(end - start)) return false;
  if (bytes > head.bytes && !adji_fits(memory, bytes - head.bytes)) return false;
  if (bytes > head.bytes && !adji_charge(memory, bytes - head.bytes, "memory")) return false;
  if (bytes < head.bytes) adji_discharge(memory, head.bytes - bytes);
  char *last = start + (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
  if (last < end) {
    munmap(last, (size_t)(end - last));
    head.mapped = (uint64_t)(last - (char *)head.base);
  }
  head.bytes = bytes;
  memcpy(start - PREFIX, &head, sizeof head);
  return true;
}

void adji_free(adji_memory *memory, void *block) {
  if (!block) return;
  prefix head;
  memcpy(&head, (char *)block - PREFIX, sizeof head);
  if (head.mapped)
    munmap(head.base, head.mapped);
  else
    free((char *)block - PREFIX);
  adji_discharge(memory, head.bytes);
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
