/* SPDX-License-Identifier: MIT
 *
 * The number of neighbours of each left point: as a NumPy array, or as lines "id,count".
 */
#include <stdio.h>
#include <string.h>

#include "io/write.h"
#include "io/write_arrays.h"
#include "io/write_text.h"

/* No point has more neighbours than there are right points. */
static size_t bytes_of_count(const adji_pair_writer *writer) {
  return writer->right_count <= UINT32_MAX ? sizeof(uint32_t) : sizeof(uint64_t);
}

static char separator_of(const adji_pair_writer *writer) {
  return writer->format == &adji_format_tsv ? '\t' : ',';
}

static uint64_t count_of(const adji_counts *counts, uint64_t i) {
  return counts->wide ? counts->wide[i] : counts->narrow[i];
}

static uint64_t format_binary(const void *user, uint64_t first, uint64_t many, char *to) {
  const adji_counts *counts = user;
  size_t size = bytes_of_count(counts->writer);
  for (uint64_t i = 0; i < many; i++) {
    uint64_t count = count_of(counts, first + i);
    memcpy(to + i * size, &count, size); /* little-endian: the low bytes come first */
  }
  return many * size;
}

static uint64_t format_text(const void *user, uint64_t first, uint64_t many, char *to) {
  const adji_counts *counts = user;
  char separator = separator_of(counts->writer);
  const char *begin = to;
  for (uint64_t i = first; i < first + many; i++) {
    to = adji_put_row_name(counts->writer->left, counts->first_row + i, separator, to);
    *to++ = separator;
    to = adji_put_count(count_of(counts, i), to);
    *to++ = '\n';
  }
  return (uint64_t)(to - begin);
}

/* A line of text has at least four characters. */
uint64_t adji_counts_bytes(const adji_pair_writer *writer) {
  return writer->format == &adji_format_npy ? bytes_of_count(writer) : sizeof(uint32_t);
}

adj_status adji_counts_begin(adji_pair_writer *writer) {
  char header[ADJI_NPY_HEADER], shape[32];
  if (writer->format == &adji_format_npy) {
    size_t size = bytes_of_count(writer);
    snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)writer->rows);
    return adji_write_header(writer, header, adji_npy_header(header, size == 4 ? "'<u4'" : "'<u8'", shape),
                             writer->share.rows_before * size);
  }
  int length = snprintf(header, sizeof header, "id%ccount\n", separator_of(writer));
  return adji_write_header(writer, header, (uint64_t)length, writer->share.bytes_before);
}

adj_status adji_counts_rows(const adji_counts *counts) {
  const adji_pair_writer *writer = counts->writer;
  bool binary = writer->format == &adji_format_npy;
  adji_items items = {.count = counts->many, .user = counts, .format = binary ? format_binary : format_text};
  items.bytes_each = binary ? bytes_of_count(writer) : adji_row_name_bytes(writer->left) + ADJI_COUNT_TEXT + 2;
  return adji_output_items(writer->output, &items);
}
