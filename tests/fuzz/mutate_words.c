/* SPDX-License-Identifier: MIT
 *
 * For formats with binary counts. Now and then a word of 4 or 8 bytes becomes a value at which sums and products of
 * sizes overflow.
 */
#include <string.h>

#include "harness.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static const uint64_t WORDS[] = {0,
                                 1,
                                 0x7f,
                                 0xffff,
                                 0x1000000,
                                 0x1000001,
                                 0x3fffffff,
                                 0x40000000,
                                 0x7fffffff,
                                 0x80000000,
                                 0xfffffffe,
                                 0xffffffff,
                                 UINT64_C(0x100000000),
                                 UINT64_C(0x2000000000000000),
                                 UINT64_C(0x3fffffffffffffff),
                                 UINT64_C(0x4000000000000000),
                                 UINT64_C(0x7fffffffffffffff),
                                 UINT64_C(0x8000000000000000),
                                 UINT64_C(0xfffffffffffffffe),
                                 UINT64_C(0xffffffffffffffff)};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size_t width = seed >> 2 & 1 ? 8 : 4;
  if (seed % 4 || size < width) return LLVMFuzzerMutate(data, size, most);
  uint64_t word = WORDS[(seed >> 3) % (sizeof WORDS / sizeof *WORDS)];
  memcpy(data + (seed >> 8) % (size - width + 1), &word, width);
  return size;
}
