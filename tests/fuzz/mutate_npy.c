/* SPDX-License-Identifier: MIT
 *
 * Changes arrays of numpy by their structure: the shape, the type and the order in the header. The length of the header
 * stays correct, so that the file is not refused for that. Now and then changes bytes anywhere.
 */
#include <stdio.h>
#include <string.h>

#include "harness.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static const char *const EXTENTS[] = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "4",
                                      "255",
                                      "4294967294",
                                      "4294967295",
                                      "4294967296",
                                      "16777216",
                                      "16777217",
                                      "2147483648",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "4611686018427387904",
                                      "-1",
                                      "+2",
                                      " 2",
                                      "2L",
                                      "0x2",
                                      "1e3",
                                      ""};
static const char *const TYPES[] = {"'<f4'", "'<f8'", "'<f2'",  "'>f8'", "'>f4'",          "'|u1'", "'<i8'", "'<u8'",
                                    "'|b1'", "'=f4'", "'<f16'", "'|O'",  "[('x', '<f4')]", "'<f4",  "''",    "None"};

#define PICK(list, number) (list)[(number) % (sizeof(list) / sizeof *(list))]

/* Puts a random header in front of the values. */
static size_t with_header(uint8_t *data, size_t size, size_t most, unsigned seed) {
  char header[512];
  uint8_t values[4096];
  size_t used = size >= 10 ? 10 + (size_t)(data[8] | data[9] << 8) : size;
  size_t kept = used < size ? size - used : 0;
  if (kept > sizeof values) kept = sizeof values;
  memcpy(values, data + size - kept, kept);
  const char *first = PICK(EXTENTS, seed >> 4), *second = PICK(EXTENTS, seed >> 10);
  int length = snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': %s, 'shape': (%s%s%s%s), }",
                        PICK(TYPES, seed >> 16), seed >> 21 & 1 ? "True" : "False", first, ", ",
                        seed >> 22 & 3 ? second : "", seed >> 24 & 15 ? "" : ", 3");
  while ((10 + length + 1) % 64 && length + 2 < (int)sizeof header)
    header[length++] = ' ';
  header[length++] = '\n';
  if (10 + (size_t)length + kept > most) return LLVMFuzzerMutate(data, size, most);
  memcpy(data, "\x93NUMPY\1", 8);
  data[8] = (uint8_t)length;
  data[9] = (uint8_t)(length >> 8);
  memcpy(data + 10, header, (size_t)length);
  memcpy(data + 10 + length, values, kept);
  return 10 + (size_t)length + kept;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  if (seed % 4) return LLVMFuzzerMutate(data, size, most);
  return with_header(data, size, most, seed);
}
