/* SPDX-License-Identifier: MIT
 *
 * The first step of reading: the bytes of a mapped file, of a pipe read to its end, or of borrowed memory. Gzip files,
 * with one member or several, are unpacked into memory before a reader sees them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/source.h"

#ifdef ADJI_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>
#endif

enum { FIRST_BLOCK = 1 << 16, POLL_MS = 100 };

void adji_source_borrow(adj_ctx *ctx, const char *path, const void *bytes, uint64_t size, adji_source *source) {
  *source = (adji_source){.ctx = ctx, .path = path, .bytes = bytes, .size = size};
  source->name = strcmp(path, "-") ? path : "standard input";
}

/* A plain read may block for ever on a pipe, so this waits in short steps, between which adj_cancel is checked. */
static adj_status read_some(adji_source *source, int file, char *to, uint64_t room, uint64_t *got) {
  for (;;) {
    adj_status status = adji_check_cancel(source->ctx);
    if (status) return status;
    struct pollfd wait = {.fd = file, .events = POLLIN};
    int ready = poll(&wait, 1, POLL_MS);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    ssize_t bytes = read(file, to, room < (1u << 30) ? room : 1u << 30);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
    *got = (uint64_t)bytes;
    return ADJ_OK;
  }
}

static adj_status read_to_end(adji_source *source, int file) {
  adji_memory *memory = &source->ctx->memory;
  void *block = adji_alloc(memory, FIRST_BLOCK, 1, "the input");
  if (!block) return ADJ_E_MEMORY;
  uint64_t held = 0, room = FIRST_BLOCK, got = 1;
  adj_status status = ADJ_OK;
  while (!status && got) {
    if (held == room) {
      if (!adji_grow(memory, &block, 2 * room, 1, held, "the input")) {
        status = ADJ_E_MEMORY;
        break;
      }
      room *= 2;
    }
    status = read_some(source, file, (char *)block + held, room - held, &got);
    if (!status) held += got;
  }
  if (status) {
    adji_free(memory, block);
    return status;
  }
  source->block = block;
  source->bytes = block;
  source->size = held;
  return ADJ_OK;
}

static adj_status map_file(adji_source *source, int file, uint64_t size) {
  void *mapping = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapping == MAP_FAILED) return adji_fail(ADJ_E_IO, "cannot be mapped: %s", strerror(errno));
  madvise(mapping, size, MADV_WILLNEED); /* a hint: failing is fine */
  source->mapping = mapping;
  source->mapping_bytes = size;
  source->bytes = mapping;
  source->size = size;
  return ADJ_OK;
}

static adj_status take_file(adji_source *source, int file, bool own_path) {
  struct stat about;
  if (fstat(file, &about)) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
  if (S_ISDIR(about.st_mode)) return adji_fail(ADJ_E_IO, "is a directory, not a file of points");
  /* Only a regular file can be mapped. One of size 0 may produce its content when it is read, as in /proc, and part of
   * a redirected standard input may have been read already: these are read to their end instead. */
  bool whole = own_path || lseek(file, 0, SEEK_CUR) == 0;
  if (!S_ISREG(about.st_mode) || about.st_size == 0 || !whole) return read_to_end(source, file);
  source->plain_file = own_path;
  return map_file(source, file, (uint64_t)about.st_size);
}

adj_status adji_source_open(adj_ctx *ctx, const char *path, adji_source *source) {
  adji_source_borrow(ctx, path, NULL, 0, source);
  bool standard_input = !strcmp(path, "-");
  int file = standard_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    adji_fail(ADJ_E_IO, "cannot be opened: %s", strerror(errno));
    return adji_fail_in(ADJ_E_IO, source->name);
  }
  adj_status status = take_file(source, file, !standard_input);
  if (!standard_input) close(file);
  return status ? adji_fail_in(status, source->name) : ADJ_OK;
}

void adji_source_give(adji_source *source, adji_dataset_parts *parts) {
  if (source->mapping) {
    parts->owner = source->mapping;
    parts->owner_bytes = source->mapping_bytes;
    parts->release = adji_release_mapping;
  } else if (source->block) {
    parts->owner = source->block;
    parts->release = adji_release_block;
  }
  source->mapping = source->block = NULL;
}

void adji_source_close(adji_source *source) {
  if (source->mapping) munmap(source->mapping, source->mapping_bytes);
  adji_free(&source->ctx->memory, source->block);
  source->mapping = source->block = NULL;
}

/* ---- Gzip --------------------------------------------------------------------------------------- */

bool adji_source_is_gzip(const adji_source *source) {
  /* Method 8 is the only one defined, and the upper three flags are always clear. */
  const unsigned char *b = source->bytes;
  return source->size >= 18 && b[0] == 0x1f && b[1] == 0x8b && b[2] == 8 && !(b[3] & 0xe0);
}

#ifndef ADJI_HAVE_ZLIB

adj_status adji_source_gunzip(adji_source *source) {
  (void)source;
  return adji_fail(ADJ_E_UNSUPPORTED, "is compressed, and this build has no zlib; unpack it with gunzip first");
}

#else

/* Bytes unpacked between two checks of adj_cancel. */
static const uint64_t STEP_BYTES = 1 << 22;

typedef struct unpacking {
  adji_source *source;
  z_stream stream;
  uint64_t taken; /* input handed to zlib so far */
  void *block;
  uint64_t held, room;
} unpacking;

/* The last four bytes of the file are the unpacked size modulo 2^32. This is only a first guess: it is wrong for
 * several members or a damaged file. So it is bounded by the best possible compression, and the block grows if needed.
 */
static uint64_t guess_size(const adji_source *source) {
  uint64_t stated = adji_little_u32(source->bytes + source->size - 4);
  uint64_t most = adji_mul(source->size, 1032);
  uint64_t least = source->size + 64;
  return stated < least ? least : stated < most ? stated + 64 : most;
}

static adj_status make_room(unpacking *job) {
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
    adji_source rest = {.bytes = job->source->bytes + job->taken, .size = job->source->size - job->taken};
    if (!adji_source_is_gzip(&rest))
      return adji_fail(ADJ_E_FORMAT, "%llu bytes follow the compressed data", (unsigned long long)rest.size);
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
  adji_source_close(source);
  source->block = job.block;
  source->bytes = job.block;
  source->size = job.held;
  source->plain_file = false;
  return ADJ_OK;
}

#endif

/* ---- Text --------------------------------------------------------------------------------------- */

bool adji_take_count(const char **at, const char *end, uint64_t *value) {
  const char *begin = *at;
  *value = 0;
  for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
    if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, (uint64_t)(**at - '0'), value))
      return false;
  return *at > begin;
}

const char *adji_excerpt(const char *begin, const char *end, char *buffer) {
  size_t length = 0;
  for (; begin < end && length < 40; begin++, length++)
    buffer[length] = (unsigned char)*begin < ' ' || *begin == 0x7f ? '?' : *begin;
  const char *rest = begin < end ? "..." : "";
  memcpy(buffer + length, rest, strlen(rest) + 1);
  return buffer;
}
