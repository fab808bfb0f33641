/* SPDX-License-Identifier: MIT
 *
 * Text tables. The first byte chooses the options; the rest is the file. It is read whole and in chunks
 * of a few bytes, which must not make a difference.
 */
#include "harness.h"

static const struct {
  const char *name, *columns, *id_column;
  adj_type type;
} choices[16] = {{"a.csv", NULL, NULL, 0},      {"a.csv", "1", NULL, 0},        {"a.csv", "x,y", NULL, ADJ_F64},
                 {"a.csv", "2-3,1", NULL, 0},   {"a.csv", NULL, "1", 0},        {"a.csv", NULL, "id", ADJ_F64},
                 {"a.csv", "x", "2", 0},        {"a.csv", "1-2", "3", ADJ_F64}, {"a.tsv", NULL, NULL, 0},
                 {"a.tsv", "1", NULL, ADJ_F64}, {"a.tsv", NULL, "2", 0},        {"a.txt", NULL, NULL, ADJ_F64},
                 {"a.txt", NULL, "1", 0},       {"a.txt", "2", NULL, 0},        {"a.unknown", NULL, NULL, 0},
                 {"a.csv", NULL, NULL, ADJ_F64}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.columns = choices[data[0] % 16].columns;
  options.id_column = choices[data[0] % 16].id_column;
  options.type = choices[data[0] % 16].type;
  options.metric = data[0] & 16 ? ADJ_HAVERSINE : 0;
  const char *name = choices[data[0] % 16].name;
  uint64_t whole = fuzz_read(name, &options, data + 1, size - 1, 0);
  for (uint64_t chunk = 1; chunk <= 16; chunk *= 4)
    require(fuzz_read(name, &options, data + 1, size - 1, chunk) == whole);
  return 0;
}
