/* SPDX-License-Identifier: MIT
 *
 * A zip file whose members are stored as they are and whose sizes are known from the start: so all
 * of them can be written at once, each at its own place, and the headers last. Zip64 where needed.
 */
#ifndef ADJI_WRITE_ZIP_H
#define ADJI_WRITE_ZIP_H

#include "io/output.h"

typedef struct adji_zip_member {
  const char *name; /* at most ADJI_ZIP_NAME bytes   */
  uint64_t bytes;
  uint32_t crc;
  uint64_t header_at, data_at; /* set by adji_zip_place         */
} adji_zip_member;

enum { ADJI_ZIP_NAME = 64 };

/* Gives every member its place, from its name and bytes. */
void adji_zip_place(adji_zip_member *members, uint32_t count);

/* Writes the headers and the directory: the data of all members is written, their crcs are set. */
adj_status adji_zip_finish(adji_output *output, const adji_zip_member *members, uint32_t count);

#endif
