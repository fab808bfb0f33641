/* SPDX-License-Identifier: MIT
 *
 * The first step of reading: the bytes of a mapped file, of a pipe read to its end, or of borrowed memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/source.h"

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

const char *adji_excerpt(const char *begin, const char *end, char *buffer) {
  size_t length = 0;
  for (; begin < end && length < 40; begin++, length++)
    buffer[length] = (unsigned char)*begin < ' ' || *begin == 0x7f ? '?' : *begin;
  const char *rest = begin < end ? "..." : "";
  memcpy(buffer + length, rest, strlen(rest) + 1);
  return buffer;
}
