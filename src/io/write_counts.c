/* SPDX-License-Identifier: MIT
 *
 * The number of neighbours of each left point.
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_field.h"

typedef struct counts {
  const adj_dataset *left;
  const uint32_t *degrees;
  char separator;
} counts;

static uint64_t format_binary(const void *user, uint64_t first, uint64_t many, char *to) {
  const counts *job = user;
  memcpy(to, job->degrees + first, many * sizeof *job->degrees);
  return many * sizeof *job->degrees;
}

static uint64_t format_text(const void *user, uint64_t first, uint64_t many, char *to) {
  const counts *job = user;
  const char *begin = to;
  for (uint64_t row = first; row < first + many; row++) {
    to = adji_put_row_name(job->left, row, job->separator, to);
    *to++ = job->separator;
    to = adji_put_count(job->degrees[row], to);
    *to++ = '\n';
  }
  return (uint64_t)(to - begin);
}

adj_status adji_write_counts(adji_output *output, const char *format, const adj_dataset *left,
                             const uint32_t *degrees) {
  bool binary = !strcmp(format, "npy");
  counts job = {left, degrees, strcmp(format, "tsv") ? ',' : '\t'};
  adji_items items = {.count = left->count, .user = &job};
  char header[ADJI_NPY_HEADER];
  size_t bytes;
  if (binary) {
    char shape[32];
    snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)left->count);
    bytes = adji_npy_header(header, "'<u4'", shape);
    items.bytes_each = sizeof *degrees;
    items.format = format_binary;
  } else {
    bytes = (size_t)snprintf(header, sizeof header, "id%ccount\n", job.separator);
    items.bytes_each = adji_row_name_bytes(left) + ADJI_COUNT_TEXT + 2;
    items.format = format_text;
  }
  adj_status status = adji_output_write(output, header, bytes);
  return status ? status : adji_output_items(output, &items);
}
