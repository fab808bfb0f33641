/* SPDX-License-Identifier: MIT
 *
 * Checked memory: alignment, zeroing, growing; the limit and the peak; messages that say what is too large, and how
 * large it is.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mremap */
#endif
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "core/memory.h"

/* How mremap behaves. HERE: as in this kernel. OLDER: as in older kernels, which unmap the destination and then refuse
 * more than one mapping (here: more than a page). FAILS: it unmaps the destination and always fails. */
static enum { HERE, OLDER, FAILS } mremap_is;

void *move(void *from, size_t length, size_t new_length, int flags, ...) __asm__("mremap");
void *move(void *from, size_t length, size_t new_length, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void *to = va_arg(rest, void *);
  va_end(rest);
  if (mremap_is == FAILS || (mremap_is == OLDER && length > ADJI_HUGE_PAGE)) {
    munmap(to, new_length);
    errno = EFAULT;
    return MAP_FAILED;
  }
  return (void *)syscall(SYS_mremap, from, length, new_length, flags, to);
}

static void blocks_are_aligned_and_counted(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, (uint64_t)1 << 30);
  static const uint64_t sizes[] = {0, 1, 63, 64, 65, 4095, 1 << 20, (4 << 20) - 1, 4 << 20, (4 << 20) + 1, 9 << 20};
  uint64_t used = 0;
  void *blocks[11];
  for (int i = 0; i < 11; i++) {
    blocks[i] = adji_alloc(&memory, sizes[i], 1, "block");
    assert_non_null(blocks[i]);
    assert_int_equal((uintptr_t)blocks[i] % 64, 0);
    memset(blocks[i], 0xaa, sizes[i]);
    used += sizes[i];
    assert_int_equal(atomic_load(&memory.used), used);
  }
  assert_int_equal(atomic_load(&memory.peak), used);
  for (int i = 0; i < 11; i++)
    adji_free(&memory, blocks[i]);
  adji_free(&memory, NULL);
  assert_int_equal(atomic_load(&memory.used), 0);
  assert_int_equal(atomic_load(&memory.peak), used);
  adji_memory_reset_peak(&memory);
  assert_int_equal(atomic_load(&memory.peak), 0);
}

static void zeroed_blocks_are_zero(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, (uint64_t)1 << 30);
  static const uint64_t sizes[] = {1, 1000, 1 << 20, 5 << 20};
  for (int again = 0; again < 2; again++) /* the second time on used blocks */
    for (int i = 0; i < 4; i++) {
      unsigned char *block = adji_alloc_zero(&memory, sizes[i], 1, "block");
      for (uint64_t b = 0; b < sizes[i]; b++)
        assert_int_equal(block[b], 0);
      memset(block, 0xff, sizes[i]);
      adji_free(&memory, block);
    }
}

/* Spare blocks are used again, are zeroed on request, do not count as used, and are freed when memory is needed. */
static void freed_blocks_are_used_again(void **state) {
  (void)state;
  const uint64_t size = 5 << 20;
  adji_memory memory;
  adji_memory_init(&memory, (uint64_t)32 << 20);
  adji_memory_keep(&memory);
  void *first = adji_alloc(&memory, size, 1, "block");
  memset(first, 0xff, size);
  adji_free(&memory, first);
  assert_int_equal(atomic_load(&memory.used), 0);
  assert_true(atomic_load(&memory.spare.bytes) >= size);
  unsigned char *again = adji_alloc_zero(&memory, size - 100, 1, "block");
  assert_ptr_equal(again, first);
  for (uint64_t b = 0; b < size - 100; b++)
    assert_int_equal(again[b], 0);
  adji_free(&memory, again);
  void *small = adji_alloc(&memory, 1 << 20, 1, "block"); /* the rest of the block is freed */
  assert_ptr_equal(small, first);
  assert_false(adji_resize(&memory, small, 4 << 20));
  assert_int_equal(atomic_load(&memory.spare.bytes), 0);
  adji_free(&memory, small);
  void *large = adji_alloc(&memory, 30 << 20, 1, "block"); /* together they would exceed the limit */
  assert_non_null(large);
  assert_int_equal(atomic_load(&memory.spare.bytes), 0);
  adji_free(&memory, large);
  for (int i = 0; i < 2 * ADJI_MOST_SPARE; i++) { /* more blocks than can be kept */
    void *blocks[2] = {adji_alloc(&memory, (1 << 20) + i, 1, "block"), adji_alloc(&memory, size, 1, "block")};
    adji_free(&memory, blocks[0]);
    adji_free(&memory, blocks[1]);
    assert_true(atomic_load(&memory.spare.bytes) <= memory.limit);
  }
  adji_memory_drop(&memory);
  assert_int_equal(atomic_load(&memory.spare.bytes), 0);
  void *fresh = adji_alloc(&memory, size, 1, "block");
  adji_free(&memory, fresh);
  assert_int_equal(atomic_load(&memory.spare.bytes), 0);
}

static void fill(char *block, uint64_t bytes, int value) {
  memset(block, value, bytes);
  for (uint64_t at = 0; at < bytes; at += 4096)
    assert_int_equal(block[at], value);
}

/* In a run of several steps, pages of freed blocks go into blocks of other sizes, whatever the kernel supports. */
static void pages_are_used_again(void **state) {
  (void)state;
  const uint64_t page = ADJI_HUGE_PAGE;
  for (mremap_is = HERE; mremap_is <= FAILS; mremap_is++) {
    adji_memory memory;
    adji_memory_init(&memory, 400 * page);
    adji_memory_hoard(&memory);
    char *parts[3]; /* the last page of each is not a huge page */
    for (int i = 0; i < 3; i++) {
      parts[i] = adji_alloc(&memory, (5 + (uint64_t)i) * page + page / 4, 1, "part");
      fill(parts[i], (5 + (uint64_t)i) * page + page / 4, 1 + i);
    }
    char *ahead = adji_alloc_ahead(&memory, page, 60 * page);
    fill(ahead, page, 7);
    adji_release(&memory, parts[2], page / 2, 4 * page); /* pages 1 to 3 */
    assert_int_equal(parts[2][0], 3);
    assert_int_equal(parts[2][4 * page], 3);
    for (int i = 0; i < 3; i++)
      adji_free(&memory, parts[i]);
    char *large = adji_alloc_zero(&memory, 12 * page + 5, 1, "large");
    for (uint64_t at = 0; at < 12 * page + 5; at++)
      assert_int_equal(large[at], 0);
    fill(large, 12 * page + 5, 9);
    assert_true(adji_claim(&memory, ahead, 9 * page + 1, "ahead"));
    assert_int_equal(ahead[page - 1], 7);
    fill(ahead + page, 8 * page + 1, 8);
    assert_int_equal(ahead[page - 1], 7);
    assert_int_equal(large[12 * page + 4], 9);
    assert_false(adji_claim(&memory, ahead, 100 * page, "ahead"));
    assert_false(adji_claim(&memory, large, 13 * page, "large")); /* no room for that */
    adji_free(&memory, large);
    adji_free(&memory, ahead);
    assert_int_equal(atomic_load(&memory.used), 0);
    adji_memory_hoard_end(&memory);
    assert_int_equal(atomic_load(&memory.spare.bytes), 0);
  }
  mremap_is = HERE;
}

static void growing_keeps_what_was_there(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, (uint64_t)1 << 30);
  uint32_t *block = NULL;
  assert_true(adji_grow(&memory, (void **)&block, 10, sizeof *block, 0, "block"));
  for (uint32_t i = 0; i < 10; i++)
    block[i] = i;
  assert_true(adji_grow(&memory, (void **)&block, 3 << 20, sizeof *block, 10 * sizeof *block, "block"));
  for (uint32_t i = 0; i < 10; i++)
    assert_int_equal(block[i], i);
  assert_int_equal(atomic_load(&memory.used), (3 << 20) * sizeof *block);
  assert_false(adji_grow(&memory, (void **)&block, (uint64_t)1 << 40, sizeof *block, 40, "block"));
  assert_int_equal(block[9], 9); /* a failed growth leaves the block alone */
  adji_free(&memory, block);
  assert_int_equal(atomic_load(&memory.used), 0);
}

static void the_limit_is_kept(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, 1000);
  void *first = adji_alloc(&memory, 600, 1, "first");
  assert_non_null(first);
  assert_true(adji_fits(&memory, 400));
  assert_false(adji_fits(&memory, 401));
  assert_null(adji_alloc(&memory, 401, 1, "the second block"));
  assert_non_null(strstr(adj_last_error(), "the second block"));
  assert_non_null(strstr(adj_last_error(), "401 B"));
  assert_non_null(strstr(adj_last_error(), "600 B"));
  assert_non_null(strstr(adj_last_error(), "1000 B"));
  assert_int_equal(atomic_load(&memory.used), 600);
  void *second = adji_alloc(&memory, 400, 1, "second");
  assert_non_null(second);
  assert_false(adji_charge(&memory, 1, "one more"));
  adji_free(&memory, second);
  assert_true(adji_charge(&memory, 400, "of others"));
  adji_discharge(&memory, 400);
  adji_free(&memory, first);
  assert_int_equal(atomic_load(&memory.used), 0);
  assert_int_equal(atomic_load(&memory.peak), 1000);
}

/* While a thread charges too much and takes it back, usage is above the limit. */
static void available_memory_never_wraps(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, 1000);
  assert_int_equal(adji_memory_available(&memory), 1000);
  atomic_store(&memory.used, 1000);
  assert_int_equal(adji_memory_available(&memory), 0);
  assert_true(adji_fits(&memory, 0));
  atomic_store(&memory.used, 1400);
  assert_int_equal(adji_memory_available(&memory), 0);
  assert_false(adji_fits(&memory, 1));
  atomic_store(&memory.used, 300);
  assert_int_equal(adji_memory_available(&memory), 700);
}

static void sizes_that_overflow_are_refused(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, UINT64_MAX);
  assert_null(adji_alloc(&memory, UINT64_MAX, 8, "huge"));
  assert_null(adji_alloc(&memory, UINT64_C(0x2000000000000001), 8, "wraps to 8"));
  assert_non_null(strstr(adj_last_error(), "wraps to 8"));
  assert_null(adji_alloc_zero(&memory, (uint64_t)1 << 59, 1, "more than there is"));
  assert_int_equal(atomic_load(&memory.used), 0);
  assert_int_equal(adji_mul(UINT64_MAX, 2), UINT64_MAX);
  assert_int_equal(adji_mul((uint64_t)1 << 32, (uint64_t)1 << 31), (uint64_t)1 << 63);
  assert_int_equal(adji_mul((uint64_t)1 << 32, (uint64_t)1 << 32), UINT64_MAX);
}

static void the_nth_allocation_fails(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, 1 << 20);
  atomic_store(&memory.fail_at, 2);
  void *a = adji_alloc(&memory, 10, 1, "a"), *b = adji_alloc(&memory, 10, 1, "b");
  assert_non_null(a);
  assert_non_null(b);
  assert_null(adji_alloc(&memory, 10, 1, "c"));
  void *d = adji_alloc(&memory, 10, 1, "d");
  assert_non_null(d);
  adji_free(&memory, a);
  adji_free(&memory, b);
  adji_free(&memory, d);
  assert_int_equal(atomic_load(&memory.used), 0);
}

static void *allocate_much(void *argument) {
  adji_memory *memory = argument;
  for (int i = 0; i < 2000; i++)
    adji_free(memory, adji_alloc(memory, 1 + (uint64_t)i % 300, 7, "block"));
  return NULL;
}

static void guessed_sizes_are_settled(void **state) {
  (void)state;
  const uint64_t MIB = 1 << 20;
  adji_memory memory;
  adji_memory_init(&memory, 40 * MIB);
  assert_null(adji_alloc_ahead(&memory, 1000, 4000)); /* not for small blocks */
  assert_null(adji_alloc_ahead(&memory, 41 * MIB, 80 * MIB));
  char *block = adji_alloc_ahead(&memory, 10 * MIB, 64 * MIB);
  assert_non_null(block);
  assert_int_equal(atomic_load(&memory.used), 10 * MIB);
  memset(block, 7, 10 * MIB);
  assert_false(adji_resize(&memory, block, 41 * MIB)); /* the limit */
  assert_true(adji_resize(&memory, block, 33 * MIB + 5));
  assert_int_equal(atomic_load(&memory.used), 33 * MIB + 5);
  memset(block + 10 * MIB, 8, 23 * MIB + 5);
  assert_int_equal(block[10 * MIB - 1], 7);
  assert_true(adji_resize(&memory, block, 3));
  assert_int_equal(atomic_load(&memory.used), 3);
  assert_int_equal(block[2], 7);
  assert_false(adji_resize(&memory, block, 8 * MIB)); /* released pages cannot be had back */
  adji_free(&memory, block);
  void *other = adji_alloc(&memory, 100, 1, "block");
  assert_false(adji_resize(&memory, other, 50));
  adji_free(&memory, other);
  assert_int_equal(atomic_load(&memory.used), 0);
}

static void threads_share_the_account(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, 1 << 20);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, allocate_much, &memory);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&memory.used), 0);
  assert_in_range(atomic_load(&memory.peak), 2100, 4 * 2100);
}

static void touched_memory_can_be_written(void **state) {
  (void)state;
  adji_memory memory;
  adji_memory_init(&memory, (uint64_t)1 << 30);
  uint64_t bytes = 5 * (uint64_t)ADJI_HUGE_PAGE + 12345;
  char *block = adji_alloc(&memory, bytes, 1, "block");
  assert_non_null(block);
  for (uint64_t at = 0; at < bytes; at += ADJI_HUGE_PAGE / 2 + 100)
    adji_prefault(block + at, bytes - at < 70000 ? bytes - at : 70000);
  adji_prefault(block, 0);
  memset(block, 1, bytes);
  assert_int_equal(block[bytes - 1], 1);
  adji_free(&memory, block);
}

static void bytes_read_well(void **state) {
  (void)state;
  char buffer[32];
  assert_string_equal(adji_bytes_text(0, buffer), "0 B");
  assert_string_equal(adji_bytes_text(1023, buffer), "1023 B");
  assert_string_equal(adji_bytes_text(1536, buffer), "1.5 KiB");
  assert_string_equal(adji_bytes_text(3.25 * 1073741824, buffer), "3.2 GiB");
  assert_string_equal(adji_bytes_text(1e30, buffer), "867361737988.4 EiB");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_aligned_and_counted),  cmocka_unit_test(zeroed_blocks_are_zero),
      cmocka_unit_test(freed_blocks_are_used_again),     cmocka_unit_test(pages_are_used_again),
      cmocka_unit_test(growing_keeps_what_was_there),    cmocka_unit_test(the_limit_is_kept),
      cmocka_unit_test(sizes_that_overflow_are_refused), cmocka_unit_test(the_nth_allocation_fails),
      cmocka_unit_test(threads_share_the_account),       cmocka_unit_test(bytes_read_well),
      cmocka_unit_test(touched_memory_can_be_written),   cmocka_unit_test(guessed_sizes_are_settled),
      cmocka_unit_test(available_memory_never_wraps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
