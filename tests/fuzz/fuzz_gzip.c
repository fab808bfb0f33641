/* SPDX-License-Identifier: MIT
 *
 * Compressed files. The reader detects the format of their content.
 */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_read("a.gz", NULL, data, size, 0);
  return 0;
}
