/* SPDX-License-Identifier: MIT
 *
 * Gzip files, with one member or several, are unpacked into memory before a reader sees them. The output is bounded by
 * the memory limit, which is checked whenever the block grows, and by a ratio that files of points do not reach.
 */
#include "io/source.h"

#ifdef ADJI_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif

/* Method 8 is the only one defined, and the upper three flags are always clear. */
static bool begins_member(const unsigned char *b, uint64_t bytes) {
  return bytes >= 18 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 && !(b[3] & 0xe0);
}

bool adji_source_is_gzip(const adji_source *source) {
  size_t bytes;
  const unsigned char *head = adji_source_head(source, &bytes);
  return begins_member(head, bytes);
}

#ifndef ADJI_HAVE_ZLIB

adj_status adji_source_gunzip(adji_source *source) {
  (void)source;
  return adji_fail(ADJ_E_UNSUPPORTED, "is compressed, and this build has no zlib; unpack it with gunzip first");
}

#else

/* Bytes unpacked between two checks of adj_cancel and of the ratio. */
static const uint64_t STEP_BYTES = 1 << 22;

/* Deflate reaches a ratio of 1032. Coordinates stay far below this, and small results do no harm. */
static const uint64_t MOST_RATIO = 250, HARMLESS_BYTES = (uint64_t)64 << 20;

typedef struct unpacking {
  adji_source *source;
  z_stream stream;
  uint64_t taken; /* input handed to zlib so far */
  void *block;
  uint64_t held, room;
} unpacking;

/* The most bytes that a file may become. */
static uint64_t most_unpacked(const adji_source *source) {
  uint64_t most = adji_mul(source->size, MOST_RATIO);
  return most < HARMLESS_BYTES ? HARMLESS_BYTES : most;
}

/* The last four bytes of the file are the unpacked size modulo 2^32. This is only a first guess: it is wrong for
 * several members or a damaged file. So it is bounded, and the block grows if needed. */
static uint64_t guess_size(const adji_source *source) {
  uint64_t stated = adji_little_u32(source->bytes + source->size - 4);
  uint64_t most = adji_mul(source->size, MOST_RATIO);
  uint64_t least = source->size + 64;
  return stated < least ? least : stated < most ? stated + 64 : most;
}

static adj_status make_room(unpacking *job) {
  if (job->held > most_unpacked(job->source))
    return adji_fail(
        ADJ_E_FORMAT,
        "its %llu bytes unpack to more than %llu, as only a file made to fill the memory does; if the file "
        "is what you expect, unpack it with gunzip first",
        (unsigned long long)job->source->size, (unsigned long long)most_unpacked(job->source));
  if (job->held < job->room) return ADJ_OK;
  uint64_t room = job->room + job->room / 2;
  if (!adji_grow(&job->source->ctx->memory, &job->block, room, 1, job->held, "the unpacked input")) return ADJ_E_MEMORY;
  job->room = room;
  return ADJ_OK;
}

static adj_status unpack_step(unpacking *job, int *code) {
  uint64_t remaining = job->source->size - job->taken;
  job->stream.next_in = job->source->bytes + job->taken;
  job->stream.avail_in = (uInt)(remaining < STEP_BYTES ? remaining : STEP_BYTES);
  uint64_t room = job->room - job->held;
  job->stream.next_out = (Bytef *)job->block + job->held;
  job->stream.avail_out = (uInt)(room < STEP_BYTES ? room : STEP_BYTES);
  uInt in = job->stream.avail_in, out = job->stream.avail_out;
  *code = inflate(&job->stream, Z_NO_FLUSH);
  job->taken += in - job->stream.avail_in;
  job->held += out - job->stream.avail_out;
  if (*code == Z_MEM_ERROR) return adji_fail(ADJ_E_MEMORY, "no memory to unpack the input");
  if (*code == Z_OK || *code == Z_STREAM_END) return ADJ_OK;
  if (*code == Z_BUF_ERROR && job->taken == job->source->size)
    return adji_fail(ADJ_E_FORMAT, "the compressed data ends early, after %llu bytes",
                     (unsigned long long)job->source->size);
  if (*code == Z_BUF_ERROR) return ADJ_OK; /* the block is full; it grows in the next step */
  return adji_fail(ADJ_E_FORMAT, "the compressed data is damaged near byte %llu: %s", (unsigned long long)job->taken,
                   job->stream.msg ? job->stream.msg : "not deflate");
}

static adj_status unpack_members(unpacking *job) {
  for (;;) {
    adj_status status = adji_check_cancel(job->source->ctx);
    if (!status) status = make_room(job);
    int code = Z_OK;
    if (!status) status = unpack_step(job, &code);
    if (status) return status;
    if (code != Z_STREAM_END) continue;
    if (job->taken == job->source->size) return ADJ_OK;
    uint64_t rest = job->source->size - job->taken;
    if (!begins_member(job->source->bytes + job->taken, rest))
      return adji_fail(ADJ_E_FORMAT, "%llu bytes follow the compressed data", (unsigned long long)rest);
    inflateReset(&job->stream);
  }
}

adj_status adji_source_gunzip(adji_source *source) {
  if (!adji_source_is_gzip(source)) return adji_fail(ADJ_E_FORMAT, "does not begin like a gzip file");
  adji_memory *memory = &source->ctx->memory;
  unpacking job = {.source = source, .room = guess_size(source)};
  job.block = adji_alloc(memory, job.room, 1, "the unpacked input");
  if (!job.block) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  if (inflateInit2(&job.stream, 15 + 16) != Z_OK)
    status = adji_fail(ADJ_E_MEMORY, "no memory to unpack the input");
  else
    status = unpack_members(&job);
  inflateEnd(&job.stream);
  if (status) {
    adji_free(memory, job.block);
    return status;
  }
  adji_resize(memory, job.block, job.held); /* returns the unused part of a large block */
  adji_source_close(source);
  source->block = job.block;
  source->bytes = job.block;
  source->size = job.held;
  source->plain_file = false;
  return ADJ_OK;
}

#endif
