/* SPDX-License-Identifier: MIT
 *
 * The texts of --columns and --id. The first line is --columns and the second is --id; an empty line means that the
 * option is not given. The rest is the table. It is read whole and in chunks of one byte, as either type.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* The line at *at as a string, which the caller frees; moves *at past it. */
static char *take_line(const uint8_t **at, const uint8_t *end) {
  const uint8_t *feed = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
  const uint8_t *stop = feed ? feed : end;
  char *line = calloc((size_t)(stop - *at) + 1, 1);
  require(line != NULL);
  if (stop > *at) memcpy(line, *at, (size_t)(stop - *at));
  *at = feed ? feed + 1 : end;
  return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *at = data, *end = size ? data + size : data;
  char *columns = take_line(&at, end), *id = take_line(&at, end);
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.columns = *columns ? columns : NULL;
  options.id_column = *id ? id : NULL;
  for (int type = ADJ_F32; type <= ADJ_F64; type++) {
    options.type = (adj_type)type;
    uint64_t whole = fuzz_read("a.csv", &options, at, (size_t)(end - at), 0);
    require(fuzz_read("a.csv", &options, at, (size_t)(end - at), 1) == whole);
  }
  free(columns);
  free(id);
  return 0;
}
