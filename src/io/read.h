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

#include "io/source.h"

/* Fills parts, which arrive zeroed. On failure nothing is left allocated in them. */
typedef adj_status (*adji_read_fn)(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);

adj_status adji_read_npy(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_fvecs(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_bvecs(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_fbin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_u8bin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_i8bin(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_raw(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);
adj_status adji_read_hdf5(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts);

/* Chooses the reader, runs it and adopts what it read. The source stays the caller's to close. */
adj_status adji_read_source(adji_source *source, const adj_open_options *options, adj_dataset **out);

#endif
