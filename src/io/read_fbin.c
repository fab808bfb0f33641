/* SPDX-License-Identifier: MIT
 *
 * The .fbin, .u8bin and .i8bin files of the billion-scale benchmarks: count and dimension, two
 * little-endian uint32, then the values row by row.
 */
#include "io/read.h"
#include "io/read_table.h"

static uint32_t little_u32(const unsigned char *b) {
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static adj_status read_bin(adji_source *source, adj_type asked, adji_stored stored, adji_dataset_parts *parts) {
  if (source->size < 8)
    return adji_fail(ADJ_E_FORMAT, "the file has %llu bytes, and count and dimension alone take 8",
                     (unsigned long long)source->size);
  bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  adji_table table = {.stored = stored, .swapped = big, .offset = 8};
  table.count = little_u32(source->bytes);
  table.dim = little_u32(source->bytes + 4);
  if (!table.dim)
    return adji_fail(ADJ_E_FORMAT, "the header promises %llu rows of dimension 0", (unsigned long long)table.count);
  adj_status status = adji_check_length(source, 8, table.count, table.dim * adji_stored_size(stored));
  return status ? status : adji_read_table(source, asked, &table, parts);
}

adj_status adji_read_fbin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_bin(source, options->type, ADJI_F32, parts);
}

adj_status adji_read_u8bin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_bin(source, options->type, ADJI_U8, parts);
}

adj_status adji_read_i8bin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  return read_bin(source, options->type, ADJI_I8, parts);
}
