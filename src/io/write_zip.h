/* SPDX-License-Identifier: MIT
 *
 * A zip file whose members are not compressed and whose sizes are known from the start. So all members can be written
 * at the same time, each at its own place, and the headers last. Zip64 is used if needed.
 */
#ifndef ADJI_WRITE_ZIP_H
#define ADJI_WRITE_ZIP_H

#include "io/output.h"

/* CRC-32 as zip files use it (polynomial 0xedb88320). The CRCs of parts, computed in parallel, can be joined. */
typedef struct adji_crc_tables {
  uint32_t byte[8][256]; /* byte[k][b]: the remainder of b followed by k zero bytes */
} adji_crc_tables;

void adji_crc_init(adji_crc_tables *tables);

/* The CRC of count bytes; 0 if there are none. */
uint32_t adji_crc(const adji_crc_tables *tables, const void *bytes, size_t count);

/* The CRC of a text from the CRCs of its first part and of its second, second_bytes long. */
uint32_t adji_crc_join(uint32_t first, uint32_t second, uint64_t second_bytes);

typedef struct adji_zip_member {
  const char *name; /* at most ADJI_ZIP_NAME bytes   */
  uint64_t bytes;
  uint32_t crc;
  uint64_t header_at, data_at; /* set by adji_zip_place         */
} adji_zip_member;

enum { ADJI_ZIP_NAME = 64 };

/* Sets the place of every member from its name and size. */
void adji_zip_place(adji_zip_member *members, uint32_t count);

/* Writes the headers and the directory, after the data of all members is written and their crcs are set. */
adj_status adji_zip_finish(adji_output *output, const adji_zip_member *members, uint32_t count);

#endif
