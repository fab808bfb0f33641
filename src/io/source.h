/* SPDX-License-Identifier: MIT
 *
 * Where bytes come from: a file that is read or mapped, a pipe, or memory; unpacked if they are a gzip file.
 *
 * A regular file is read into memory, so that later changes of the file do not affect a join. The caller can choose a
 * mapping instead. Then another process can change the bytes between two reads, or end this process with SIGBUS. So
 * only tables of binary values are mapped: their readers read each byte once.
 */
#ifndef ADJI_SOURCE_H
#define ADJI_SOURCE_H

#include <time.h>

#include "data/dataset.h"

/* Every binary format is little-endian, unless its header says otherwise, and values are read and written as in
 * memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "readers and writers need a little-endian machine");

/* A regular file that is open but not loaded yet. */
typedef struct adji_source_file {
  int descriptor; /* -1: none */
  bool own;       /* to close */
  struct timespec changed;
  uint32_t head_bytes;
  unsigned char head[4096]; /* the first bytes */
} adji_source_file;

/* The bytes of a file: in a block of the context's memory, mapped, or borrowed. */
typedef struct adji_source {
  adj_ctx *ctx;
  const char *path; /* as the caller gave it */
  const char *name; /* for messages: the path, or "standard input" */
  const unsigned char *bytes;
  uint64_t size; /* also of a file that is not loaded yet */
  adji_source_file file;
  char *to; /* of adji_source_defer: where the byte at to_offset goes */
  uint64_t to_offset;
  bool plain_file;        /* bytes are the file at path, so HDF5 may open it itself */
  bool may_map;           /* the file is read but could be mapped: for a message */
  uint64_t chunk_bytes;   /* of text that one task reads; 0: the default. Tests set less */
  void *mapping;          /* to unmap, or NULL */
  uint64_t mapping_bytes; /* of the mapping */
  void *block;            /* to free, or NULL */
} adji_source;

/* Path "-" is standard input. A regular file is only opened; pipes and the like are read to their end. adj_cancel ends
 * the wait for the writer of a FIFO. */
adj_status adji_source_open(adj_ctx *ctx, const char *path, adji_source *source);

/* Gives parts memory for `bytes` of a regular file that is not loaded, from offset on. The bytes are read when the
 * dataset is made, each part just before it is checked. Afterwards adji_source_check_file fails if the file has changed
 * meanwhile; it does nothing for other sources. */
adj_status adji_source_defer(adji_source *source, uint64_t offset, uint64_t bytes, adji_dataset_parts *parts);
adj_status adji_source_check_file(adji_source *source);

/* Whether there is a regular file that is not loaded. */
static inline bool adji_source_pending(const adji_source *source) {
  return source->file.descriptor >= 0;
}

/* Gets the bytes of a regular file: as many as it had when it was opened, read in parallel, or mapped. A file that
 * became shorter, or changed and did not grow, is ADJ_E_IO. Does nothing if the bytes are loaded. */
adj_status adji_source_load(adji_source *source, bool map);

/* The same for `bytes` from offset on, which become the bytes of the source, if the file is not loaded yet. */
adj_status adji_source_load_part(adji_source *source, uint64_t offset, uint64_t bytes);

/* A source of bytes that the caller owns. They must outlive the source and a dataset made from it. */
void adji_source_borrow(adj_ctx *ctx, const char *path, const void *bytes, uint64_t size, adji_source *source);

/* adji_source_head: the first bytes, up to 4096; the file need not be loaded. adji_source_begins: whether they begin
 * with magic. */
const unsigned char *adji_source_head(const adji_source *source, size_t *bytes);
bool adji_source_begins(const adji_source *source, const char *magic, size_t length);

/* adji_source_is_gzip: whether the source begins like a gzip file. adji_source_gunzip: replaces its bytes by the
 * unpacked content. */
bool adji_source_is_gzip(const adji_source *source);
adj_status adji_source_gunzip(adji_source *source);

/* Transfers the ownership of the bytes to parts, whose data points into them. */
void adji_source_give(adji_source *source, adji_dataset_parts *parts);

/* Frees what the source still owns, if anything. */
void adji_source_close(adji_source *source);

static inline uint32_t adji_little_u32(const unsigned char *b) {
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* Reads the digits at *at and moves *at past them. False if there are none, or more than a uint64_t holds. */
bool adji_take_count(const char **at, const char *end, uint64_t *value);

/* Text from a file, for a message: at most 40 characters, control characters shown as '?'. buffer
 * has room for 48. */
const char *adji_excerpt(const char *begin, const char *end, char *buffer);

#endif
