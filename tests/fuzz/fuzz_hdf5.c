/* SPDX-License-Identifier: MIT
 *
 * HDF5 files: the only dataset there is, or one by name, as stored and as either type.
 */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {NULL, "large", "group/f64be"};
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  for (int i = 0; i < 3; i++) {
    options.dataset = names[i];
    options.type = (adj_type)(i % 2 ? ADJ_F64 : 0);
    fuzz_read("a.h5", &options, data, size, 0);
  }
  return 0;
}
