/* SPDX-License-Identifier: MIT
 *
 * The first step of reading: gets the bytes of a file, read in parallel or mapped, of a pipe, read to its end, or of
 * borrowed memory.
 */
#define _GNU_SOURCE
#include "io/source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/place.h"

enum { FIRST_BLOCK = 1 << 16, POLL_MS = 100 };

void adji_source_borrow(adj_ctx *ctx, const char *path, const void *bytes, uint64_t size, adji_source *source) {
  *source = (adji_source){.ctx = ctx, .path = path, .bytes = bytes, .size = size, .file = {.descriptor = -1}};
  source->name = strcmp(path, "-") ? path : "standard input";
}

const unsigned char *adji_source_head(const adji_source *source, size_t *bytes) {
  const size_t most = sizeof source->file.head;
  bool open = source->file.descriptor >= 0;
  *bytes = open ? source->file.head_bytes : source->size < most ? source->size : most;
  return open ? source->file.head : source->bytes;
}

bool adji_source_begins(const adji_source *source, const char *magic, size_t length) {
  size_t bytes;
  const unsigned char *head = adji_source_head(source, &bytes);
  return bytes >= length && !memcmp(head, magic, length);
}

static void take_block(adji_source *source, void *block, uint64_t size) {
  source->block = block;
  source->bytes = block;
  source->size = size;
}

/* ---- Opening ------------------------------------------------------------------------------------ */

/* Opens without waiting, so a FIFO is opened before it has a writer; the wait comes with reading, and can be cancelled.
 * A file with a lease cannot be opened at once: the kernel asks the holder to release it, which this function waits
 * for. */
static adj_status open_file(adji_source *source, int *file) {
  for (;;) {
    *file = adji_fd_above_standard(open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (*file >= 0) return ADJ_OK;
    if (errno != EINTR && errno != EAGAIN) return adji_fail(ADJ_E_IO, "cannot be opened: %s", strerror(errno));
    adj_status status = adji_check_cancel(source->ctx);
    if (status) return status;
    poll(NULL, 0, POLL_MS);
  }
}

/* A plain read may block for ever on a pipe, so this waits in short steps, between which adj_cancel is checked. A FIFO
 * that never had a writer is not ready; once its last writer has gone it is, and the read finds its end. */
static adj_status read_some(adji_source *source, int file, char *to, uint64_t room, uint64_t *got) {
  for (;;) {
    adj_status status = adji_check_cancel(source->ctx);
    if (status) return status;
    struct pollfd wait = {.fd = file, .events = POLLIN};
    int ready = poll(&wait, 1, POLL_MS);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    ssize_t bytes = read(file, to, room < (1u << 30) ? room : 1u << 30);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
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
  adji_resize(memory, block, held); /* returns the unused part of a large block */
  take_block(source, block, held);
  return ADJ_OK;
}

static adj_status file_changed(const adji_source *source, uint64_t size) {
  return adji_fail(ADJ_E_IO, "was changed while it was read: it had %llu bytes when it was opened, and has %llu now",
                   (unsigned long long)source->size, (unsigned long long)size);
}

/* Called at the end of the file before all bytes are read. */
static adj_status file_ends(const adji_source *source, uint64_t at) {
  struct stat now;
  bool known = !fstat(source->file.descriptor, &now) && (uint64_t)now.st_size < source->size;
  return file_changed(source, known ? (uint64_t)now.st_size : at);
}

/* Keeps a regular file open until it is loaded, and reads others to their end. */
static adj_status take_file(adji_source *source, int file, bool own) {
  struct stat about;
  if (fstat(file, &about)) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
  if (S_ISDIR(about.st_mode)) return adji_fail(ADJ_E_IO, "is a directory, not a file of points");
  /* A regular file of size 0 may produce its content when it is read, as in /proc, and part of a redirected standard
   * input may have been read already: these are read to their end. */
  bool whole = own || lseek(file, 0, SEEK_CUR) == 0;
  if (!S_ISREG(about.st_mode) || about.st_size == 0 || !whole) return read_to_end(source, file);
  const size_t most = sizeof source->file.head;
  size_t head = 0;
  while (head < most) {
    ssize_t bytes = pread(file, source->file.head + head, most - head, (off_t)head);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
    if (!bytes) break;
    head += (size_t)bytes;
  }
  source->file.descriptor = file;
  source->file.own = own;
  source->file.changed = about.st_mtim;
  source->file.head_bytes = (uint32_t)head;
  source->size = (uint64_t)about.st_size;
  source->plain_file = own;
  return head == source->size || head == most ? ADJ_OK : file_ends(source, head);
}

adj_status adji_source_open(adj_ctx *ctx, const char *path, adji_source *source) {
  adji_source_borrow(ctx, path, NULL, 0, source);
  int file = STDIN_FILENO;
  bool own = strcmp(path, "-") != 0;
  adj_status status = own ? open_file(source, &file) : ADJ_OK;
  if (!status) {
    status = take_file(source, file, own);
    if (own && !adji_source_pending(source)) close(file);
  }
  if (!status) return ADJ_OK;
  adji_source_close(source);
  return status == ADJ_CANCELLED ? status : adji_fail_in(status, source->name);
}

/* ---- Loading ------------------------------------------------------------------------------------ */

/* A task reads one huge page of the block, so no two threads wait for the same page to be cleared. */
enum { LOAD_BYTES = ADJI_HUGE_PAGE };

/* Reads bytes of the file into place; offset counts from to_offset. */
static adj_status fetch(void *user, uint64_t offset, uint64_t bytes) {
  const adji_source *source = user;
  uint64_t at = source->to_offset + offset, end = at + bytes;
  while (at < end) {
    adj_status status = adji_check_cancel(source->ctx);
    if (status) return status;
    ssize_t got = pread(source->file.descriptor, source->to + (at - source->to_offset), end - at, (off_t)at);
    if (got < 0 && errno != EINTR) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
    if (got == 0) return file_ends(source, at);
    if (got > 0) at += (uint64_t)got;
  }
  return ADJ_OK;
}

typedef struct loading {
  adji_source *source;
  uint64_t bytes; /* from to_offset on */
} loading;

static adj_status load_chunk(void *user, uint64_t chunk, uint32_t lane) {
  (void)lane;
  const loading *job = user;
  uint64_t at = chunk * LOAD_BYTES;
  return fetch(job->source, at, job->bytes - at < LOAD_BYTES ? job->bytes - at : LOAD_BYTES);
}

/* Bytes that were appended do not matter. Any other change may have been read in part. */
static adj_status check_unchanged(const adji_source *source) {
  struct stat now;
  if (fstat(source->file.descriptor, &now)) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
  struct timespec before = source->file.changed;
  bool later = now.st_mtim.tv_sec != before.tv_sec || now.st_mtim.tv_nsec != before.tv_nsec;
  uint64_t size = (uint64_t)now.st_size;
  return size < source->size || (size == source->size && later) ? file_changed(source, size) : ADJ_OK;
}

static adj_status read_file(adji_source *source, uint64_t offset, uint64_t bytes) {
  adji_memory *memory = &source->ctx->memory;
  source->to = adji_alloc(memory, bytes, 1, "the input");
  if (!source->to) return ADJ_E_MEMORY;
  source->to_offset = offset;
  loading job = {source, bytes};
  uint64_t chunks = bytes / LOAD_BYTES + (bytes % LOAD_BYTES != 0);
  adj_status status = adji_loop(source->ctx, chunks, load_chunk, &job);
  if (!status) status = check_unchanged(source);
  if (status) {
    adji_free(memory, source->to);
    return status;
  }
  take_block(source, source->to, bytes);
  return ADJ_OK;
}

adj_status adji_source_defer(adji_source *source, uint64_t offset, uint64_t bytes, adji_dataset_parts *parts) {
  source->to = adji_alloc(&source->ctx->memory, bytes, 1, "the input");
  if (!source->to) return ADJ_E_MEMORY;
  source->to_offset = offset;
  parts->data = source->to;
  parts->owner = source->to;
  parts->release = adji_release_block;
  parts->fetch = fetch;
  parts->fetch_from = source;
  return ADJ_OK;
}

adj_status adji_source_check_file(adji_source *source) {
  return source->to && adji_source_pending(source) ? check_unchanged(source) : ADJ_OK;
}

static adj_status map_file(adji_source *source) {
  void *mapping = mmap(NULL, source->size, PROT_READ, MAP_PRIVATE, source->file.descriptor, 0);
  if (mapping == MAP_FAILED) return adji_fail(ADJ_E_IO, "cannot be mapped: %s", strerror(errno));
  madvise(mapping, source->size, MADV_WILLNEED); /* a hint: a failure does no harm */
  source->mapping = mapping;
  source->mapping_bytes = source->size;
  source->bytes = mapping;
  return ADJ_OK;
}

static void close_file(adji_source *source) {
  if (source->file.descriptor >= 0 && source->file.own) close(source->file.descriptor);
  source->file.descriptor = -1;
}

static adj_status load(adji_source *source, bool map, uint64_t offset, uint64_t bytes) {
  if (!adji_source_pending(source)) return ADJ_OK;
  uint64_t begin = adji_now_ns();
  adj_status status = map ? map_file(source) : read_file(source, offset, bytes);
  close_file(source);
  if (!status) adji_trace(source->ctx, "load", 0, begin, bytes);
  return status;
}

adj_status adji_source_load(adji_source *source, bool map) {
  return load(source, map, 0, source->size);
}

adj_status adji_source_load_part(adji_source *source, uint64_t offset, uint64_t bytes) {
  return load(source, false, offset, bytes);
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
  close_file(source);
  if (source->mapping) munmap(source->mapping, source->mapping_bytes);
  adji_free(&source->ctx->memory, source->block);
  source->mapping = source->block = NULL;
}

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
