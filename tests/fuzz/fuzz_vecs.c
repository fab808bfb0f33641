/* SPDX-License-Identifier: MIT
 *
 * Rows of floats or bytes, each after its dimension.
 */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_read("a.fvecs", NULL, data, size, 0);
  fuzz_read("a.bvecs", NULL, data, size, 0);
  return 0;
}
