/* SPDX-License-Identifier: MIT
 *
 * Reading points: what adj_dataset_open and the readers, one per format, share.
 *
 * A source holds the bytes of a file. A reader turns them into the parts of a dataset. Readers never see paths or file
 * descriptors, so tests can run them on bytes in memory. Their messages name the line or row and the column;
 * adji_read_source adds the file.
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

/* Fills parts, which are zero before the call. A reader that fails frees what it allocated. */
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

/* Chooses and runs the reader and makes the dataset. The caller closes the source. */
adj_status adji_read_source(adji_source *source, const adj_open_options *options, adj_dataset **out);

/* Text from a file, for a message: at most 40 characters, control characters shown as '?'. buffer
 * has room for 48. */
const char *adji_excerpt(const char *begin, const char *end, char *buffer);

#endif
