/* SPDX-License-Identifier: MIT
 *
 * Reading points: between adj_dataset_open and the readers, one per format.
 *
 * A source holds the bytes of a file, wherever they came from; a reader turns them into the parts of
 * a dataset. Readers never see paths or file descriptors, so that each runs on a piece of memory too.
 * Their messages name line or row and column; the file is put in front by adji_read_source.
 */
#ifndef ADJI_READ_H
#define ADJI_READ_H

#include "data/dataset.h"

/* The bytes of a file: mapped, in a block of the context's memory, or borrowed. */
typedef struct adji_source {
  adj_ctx *ctx;
  const char *path; /* as the caller gave it */
  const char *name; /* for messages: the path, or "standard input" */
  const unsigned char *bytes;
  uint64_t size;
  bool plain_file;        /* bytes are what path holds: a library may open path itself */
  uint64_t chunk_bytes;   /* of text, read by one thread at a time; 0: the usual. Tests cut finer */
  void *mapping;          /* to unmap, or NULL */
  uint64_t mapping_bytes; /* of the mapping */
  void *block;            /* to free, or NULL */
} adji_source;

/* Path "-" is standard input. Regular files are mapped; pipes and the like are read into memory. */
adj_status adji_source_open(adj_ctx *ctx, const char *path, adji_source *source);

/* A source of bytes that the caller keeps: they must outlive it, and a dataset made from it. */
void adji_source_borrow(adj_ctx *ctx, const char *path, const void *bytes, uint64_t size, adji_source *source);

/* Whether the bytes begin as a gzip file does; and their replacement by what they hold. */
bool adji_source_is_gzip(const adji_source *source);
adj_status adji_source_gunzip(adji_source *source);

/* Passes the ownership of the bytes on to parts, whose data points into them. */
void adji_source_give(adji_source *source, adji_dataset_parts *parts);

/* Frees what the source still owns; fine for one that owns nothing. */
void adji_source_close(adji_source *source);

/* Fills parts, which arrive zeroed. On failure nothing is left allocated in them. */
typedef adj_status (*adji_read_fn)(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);

adj_status adji_read_npy(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_csv(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_tsv(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_fvecs(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_bvecs(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_fbin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_u8bin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_i8bin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_raw(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_hdf5(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);

/* Chooses the reader, runs it and adopts what it read. The source stays the caller's to close. */
adj_status adji_read_source(adji_source *source, const adj_open_options *options, adj_dataset **out);

/* Text from a file, for a message: at most 40 characters, control characters shown as '?'. buffer
 * has room for 48. */
const char *adji_excerpt(const char *begin, const char *end, char *buffer);

#endif
