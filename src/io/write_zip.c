/* SPDX-License-Identifier: MIT
 *
 * The records of a zip file, after PKWARE's APPNOTE 6.3, and its checksums. A size or an offset that does not fit 32
 * bits is written as 0xffffffff, and its value goes into a zip64 extra field.
 */
#include "io/write_zip.h"

#include <string.h>

enum {
  LOCAL_BYTES = 30,
  LOCAL_EXTRA = 20, /* both sizes                         */
  CENTRAL_BYTES = 46,
  CENTRAL_EXTRA = 28, /* both sizes and the offset        */
  END64_BYTES = 56,
  LOCATOR_BYTES = 20,
  END_BYTES = 22,
  VERSION_PLAIN = 20,
  VERSION_ZIP64 = 45,
  MADE_BY_UNIX = 3 << 8,
  MIDNIGHT_1980 = 0x21, /* the earliest date: the bytes must not depend on the clock */
};

static const uint64_t SMALL = 0xffffffffu; /* this and above need zip64 */

/* Little-endian fields appended to a buffer. */
typedef struct record {
  unsigned char bytes[CENTRAL_BYTES + CENTRAL_EXTRA + ADJI_ZIP_NAME + END64_BYTES + LOCATOR_BYTES + END_BYTES];
  size_t size;
} record;

static void put(record *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++)
    to->bytes[to->size++] = (unsigned char)(value >> 8 * i);
}

static void put_text(record *to, const char *text) {
  size_t length = strlen(text);
  memcpy(to->bytes + to->size, text, length);
  to->size += length;
}

static uint64_t small_or_all_ones(uint64_t value) {
  return value < SMALL ? value : SMALL;
}

static bool is_large(const adji_zip_member *member) {
  return member->bytes >= SMALL;
}

void adji_zip_place(adji_zip_member *members, uint32_t count) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    members[i].header_at = at;
    members[i].data_at = at + LOCAL_BYTES + strlen(members[i].name) + (is_large(&members[i]) ? LOCAL_EXTRA : 0);
    at = members[i].data_at + members[i].bytes;
  }
}

/* The fields that local and central header share, from "version needed" to the length of the name. */
static void put_shared(record *to, const adji_zip_member *member, bool zip64) {
  put(to, zip64 ? VERSION_ZIP64 : VERSION_PLAIN, 2);
  put(to, 0, 2); /* flags          */
  put(to, 0, 2); /* method: stored */
  put(to, 0, 2); /* time           */
  put(to, MIDNIGHT_1980, 2);
  put(to, member->crc, 4);
  put(to, small_or_all_ones(member->bytes), 4);
  put(to, small_or_all_ones(member->bytes), 4);
  put(to, strlen(member->name), 2);
}

static void put_local(record *to, const adji_zip_member *member) {
  bool zip64 = is_large(member);
  put(to, 0x04034b50, 4);
  put_shared(to, member, zip64);
  put(to, zip64 ? LOCAL_EXTRA : 0, 2);
  put_text(to, member->name);
  if (!zip64) return;
  put(to, 1, 2); /* the zip64 field */
  put(to, 16, 2);
  put(to, member->bytes, 8);
  put(to, member->bytes, 8);
}

static void put_central(record *to, const adji_zip_member *member) {
  bool far = member->header_at >= SMALL, zip64 = is_large(member) || far;
  int extra = (is_large(member) ? 16 : 0) + (far ? 8 : 0);
  put(to, 0x02014b50, 4);
  put(to, MADE_BY_UNIX | (zip64 ? VERSION_ZIP64 : VERSION_PLAIN), 2);
  put_shared(to, member, zip64);
  put(to, zip64 ? (uint64_t)extra + 4 : 0, 2);
  put(to, 0, 2);                       /* comment             */
  put(to, 0, 2);                       /* disk                */
  put(to, 0, 2);                       /* internal attributes */
  put(to, (uint64_t)0100644 << 16, 4); /* a regular file, rw-r--r-- */
  put(to, small_or_all_ones(member->header_at), 4);
  put_text(to, member->name);
  if (!zip64) return;
  put(to, 1, 2);
  put(to, (uint64_t)extra, 2);
  if (is_large(member)) {
    put(to, member->bytes, 8);
    put(to, member->bytes, 8);
  }
  if (far) put(to, member->header_at, 8);
}

static void put_end(record *to, uint32_t count, uint64_t directory_at, uint64_t directory_bytes) {
  if (directory_at >= SMALL) {
    put(to, 0x06064b50, 4);
    put(to, END64_BYTES - 12, 8); /* of this record, after this field */
    put(to, MADE_BY_UNIX | VERSION_ZIP64, 2);
    put(to, VERSION_ZIP64, 2);
    put(to, 0, 8); /* both disks */
    put(to, count, 8);
    put(to, count, 8);
    put(to, directory_bytes, 8);
    put(to, directory_at, 8);
    put(to, 0x07064b50, 4); /* the locator of the record above */
    put(to, 0, 4);
    put(to, directory_at + directory_bytes, 8);
    put(to, 1, 4);
  }
  put(to, 0x06054b50, 4);
  put(to, 0, 4); /* both disks */
  put(to, count, 2);
  put(to, count, 2);
  put(to, directory_bytes, 4);
  put(to, small_or_all_ones(directory_at), 4);
  put(to, 0, 2); /* comment */
}

adj_status adji_zip_finish(adji_output *output, const adji_zip_member *members, uint32_t count) {
  adj_status status = ADJ_OK;
  uint64_t directory_at = count ? members[count - 1].data_at + members[count - 1].bytes : 0, at = directory_at;
  for (uint32_t i = 0; !status && i < count; i++) {
    record local = {.size = 0}, central = {.size = 0};
    put_local(&local, &members[i]);
    put_central(&central, &members[i]);
    status = adji_output_write_at(output, members[i].header_at, local.bytes, local.size);
    if (!status) status = adji_output_write_at(output, at, central.bytes, central.size);
    at += central.size;
  }
  if (status) return status;
  record end = {.size = 0};
  put_end(&end, count, directory_at, at - directory_at);
  return adji_output_write_at(output, at, end.bytes, end.size);
}

/* ---- CRC-32, eight bytes per step ------------------------------------------------------------- */

/* The polynomials are bit-reversed: bit 31 is the coefficient of x^0. */
static const uint32_t POLYNOMIAL = 0xedb88320u;

void adji_crc_init(adji_crc_tables *tables) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t rest = b;
    for (int bit = 0; bit < 8; bit++)
      rest = rest >> 1 ^ (rest & 1 ? POLYNOMIAL : 0);
    tables->byte[0][b] = rest;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t b = 0; b < 256; b++) {
      uint32_t rest = tables->byte[k - 1][b];
      tables->byte[k][b] = rest >> 8 ^ tables->byte[0][rest & 255];
    }
}

uint32_t adji_crc(const adji_crc_tables *tables, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  uint32_t crc = UINT32_MAX;
  for (; count >= 8; count -= 8, at += 8) {
    uint32_t low, high;
    memcpy(&low, at, 4);
    memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = tables->byte[7][low & 255] ^ tables->byte[6][low >> 8 & 255] ^ tables->byte[5][low >> 16 & 255] ^
          tables->byte[4][low >> 24] ^ tables->byte[3][high & 255] ^ tables->byte[2][high >> 8 & 255] ^
          tables->byte[1][high >> 16 & 255] ^ tables->byte[0][high >> 24];
  }
  for (; count; count--, at++)
    crc = crc >> 8 ^ tables->byte[0][(crc ^ *at) & 255];
  return ~crc;
}

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a; a <<= 1) {
    if (a & 0x80000000u) product ^= b;
    b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
  }
  return product;
}

/* Appending n bytes multiplies the first part by x^(8n). The complements at the start and the end of a CRC cancel, so
 * the sum of the two is the CRC of the whole. */
uint32_t adji_crc_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
  uint32_t power = 0x00800000u; /* x^8 */
  for (; second_bytes; second_bytes >>= 1) {
    if (second_bytes & 1) first = multiply(power, first);
    power = multiply(power, power);
  }
  return first ^ second;
}
