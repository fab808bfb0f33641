/* SPDX-License-Identifier: MIT
 *
 * CRC-32 as zip files use it (polynomial 0xedb88320). The CRCs of parts, computed in parallel, can be joined.
 */
#ifndef ADJI_WRITE_CRC_H
#define ADJI_WRITE_CRC_H

#include <stddef.h>
#include <stdint.h>

typedef struct adji_crc_tables {
  uint32_t byte[8][256]; /* byte[k][b]: the remainder of b followed by k zero bytes */
} adji_crc_tables;

void adji_crc_init(adji_crc_tables *tables);

/* The CRC of count bytes; 0 if there are none. */
uint32_t adji_crc(const adji_crc_tables *tables, const void *bytes, size_t count);

/* The CRC of a text from the CRCs of its first part and of its second, second_bytes long. */
uint32_t adji_crc_join(uint32_t first, uint32_t second, uint64_t second_bytes);

#endif
