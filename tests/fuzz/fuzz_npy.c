/* SPDX-License-Identifier: MIT
 *
 * Arrays of numpy, as stored and as either type.
 */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  for (int type = 0; type <= ADJ_F64; type++) {
    options.type = (adj_type)type;
    fuzz_read("a.npy", &options, data, size, 0);
  }
  return 0;
}
