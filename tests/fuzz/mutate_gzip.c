/* SPDX-License-Identifier: MIT
 *
 * Changes the content of compressed files: unpacks it, changes it, and packs it again. Now and then it is packed twice,
 * or a long run of one byte is added, or the file itself is changed.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "harness.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { ROOM = 1 << 16, BOMB = 2 << 20, WINDOW = 15 + 16 };

/* Unpacks the first member. Returns the size of its content; 0: there is none. */
static size_t unpack(const uint8_t *data, size_t size, uint8_t *to, size_t room) {
  z_stream stream = {.next_in = (Bytef *)data, .avail_in = (uInt)size, .next_out = to, .avail_out = (uInt)room};
  if (inflateInit2(&stream, WINDOW) != Z_OK) return 0;
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return room - stream.avail_out;
}

/* Packs content with `zeros` bytes of 0 after it. Returns the size; 0: it is too long. */
static size_t pack(const uint8_t *content, size_t size, size_t zeros, uint8_t *to, size_t room) {
  static uint8_t nothing[1 << 16];
  z_stream stream = {.next_in = (Bytef *)content, .avail_in = (uInt)size, .next_out = to, .avail_out = (uInt)room};
  if (deflateInit2(&stream, 9, Z_DEFLATED, WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
  while (zeros && deflate(&stream, Z_NO_FLUSH) == Z_OK && stream.avail_out) {
    size_t some = zeros < sizeof nothing ? zeros : sizeof nothing;
    stream.next_in = nothing;
    stream.avail_in = (uInt)some;
    zeros -= some;
  }
  int code = deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  return code == Z_STREAM_END ? room - stream.avail_out : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  static uint8_t content[ROOM], packed[ROOM];
  size_t length = seed % 8 ? unpack(data, size, content, sizeof content / 2) : 0;
  if (!length) return LLVMFuzzerMutate(data, size, most);
  if (seed % 16 != 1) length = LLVMFuzzerMutate(content, length, sizeof content / 2);
  size_t done = pack(content, length, seed % 64 == 2 ? BOMB : 0, packed, sizeof packed);
  if (done && seed % 16 == 3) {
    memcpy(content, packed, done);
    done = pack(content, done, 0, packed, sizeof packed);
  }
  if (!done || done > most) return LLVMFuzzerMutate(data, size, most);
  memcpy(data, packed, done);
  return done;
}
