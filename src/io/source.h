/* SPDX-License-Identifier: MIT
 *
 * Where bytes come from: a mapped file, a pipe, or memory; unpacked if they are a gzip file.
 */
#ifndef ADJI_SOURCE_H
#define ADJI_SOURCE_H

#include "data/dataset.h"

/* Every binary format is little-endian, or says so if not, and values are read and written as they are in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "readers and writers need a little-endian machine");

/* The bytes of a file: mapped, in a block of the context's memory, or borrowed. */
typedef struct adji_source {
  adj_ctx *ctx;
  const char *path; /* as the caller gave it */
  const char *name; /* for messages: the path, or "standard input" */
  const unsigned char *bytes;
  uint64_t size;
  bool plain_file;        /* bytes are the file at path, so HDF5 may open it itself */
  uint64_t chunk_bytes;   /* of text that one task reads; 0: the default. Tests set less */
  void *mapping;          /* to unmap, or NULL */
  uint64_t mapping_bytes; /* of the mapping */
  void *block;            /* to free, or NULL */
} adji_source;

/* Path "-" is standard input. Regular files are mapped; pipes and the like are read into memory. */
adj_status adji_source_open(adj_ctx *ctx, const char *path, adji_source *source);

/* A source of bytes that the caller owns. They must outlive the source and a dataset made from it. */
void adji_source_borrow(adj_ctx *ctx, const char *path, const void *bytes, uint64_t size, adji_source *source);

/* Whether the bytes begin like a gzip file; and replacing them by their unpacked content. */
bool adji_source_is_gzip(const adji_source *source);
adj_status adji_source_gunzip(adji_source *source);

/* Gives the ownership of the bytes to parts, whose data points into them. */
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
