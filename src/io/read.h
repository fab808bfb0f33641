/* SPDX-License-Identifier: MIT
 *
 * Reads points: what adj_dataset_open and the readers, one per format, share.
 *
 * A source holds the bytes of a file. A reader turns them into the parts of a dataset. Readers never see paths or file
 * descriptors, so tests can run them on bytes in memory. Their messages name the line or row and the column;
 * adji_read_source adds the file.
 */
#ifndef ADJI_READ_H
#define ADJI_READ_H

#include "io/source.h"

/* Fills parts, which are zero before the call. A reader that fails frees what it allocated. variant is the adji_stored
 * of the values (bin, vecs) or the separator (csv). */
typedef adj_status (*adji_read_fn)(adji_source *source, const adj_open_options *options, int variant,
                                   adji_dataset_parts *parts);

adj_status adji_read_npy(adji_source *source, const adj_open_options *options, int variant, adji_dataset_parts *parts);
adj_status adji_read_vecs(adji_source *source, const adj_open_options *options, int stored, adji_dataset_parts *parts);
adj_status adji_read_bin(adji_source *source, const adj_open_options *options, int stored, adji_dataset_parts *parts);
adj_status adji_read_raw(adji_source *source, const adj_open_options *options, int variant, adji_dataset_parts *parts);
adj_status adji_read_hdf5(adji_source *source, const adj_open_options *options, int variant, adji_dataset_parts *parts);

/* Chooses and runs the reader and makes the dataset. The caller closes the source. */
adj_status adji_read_source(adji_source *source, const adj_open_options *options, adj_dataset **out);

#endif
