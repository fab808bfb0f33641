/* SPDX-License-Identifier: MIT
 *
 * Plain values. The first line is the shape, the rest the file.
 */
#include <string.h>

#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char shape[64];
  const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
  if (!line || (size_t)(line - data) >= sizeof shape) return 0;
  memcpy(shape, data, (size_t)(line - data));
  shape[line - data] = 0;
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.shape = shape;
  size_t used = (size_t)(line - data) + 1;
  for (int type = 0; type <= ADJ_F64; type++) {
    options.type = (adj_type)type;
    fuzz_read("a.raw", &options, data + used, size - used, 0);
  }
  return 0;
}
