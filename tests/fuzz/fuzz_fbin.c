/* SPDX-License-Identifier: MIT
 *
 * Count, dimension and values: floats, bytes and signed bytes.
 */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_read("a.fbin", NULL, data, size, 0);
  fuzz_read("a.u8bin", NULL, data, size, 0);
  fuzz_read("a.i8bin", NULL, data, size, 0);
  return 0;
}
