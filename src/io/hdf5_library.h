/* SPDX-License-Identifier: MIT
 *
 * The HDF5 library, loaded when the first HDF5 file is read: a program that reads none does not load it, and a build
 * needs neither its headers nor the library.
 *
 * The declarations below are those of HDF5 1.10.3 to 1.14: these functions have not changed in between, and the version
 * is checked after loading. tests/readers/test_hdf5_headers.c compares them with the headers if these are installed.
 */
#ifndef ADJI_HDF5_LIBRARY_H
#define ADJI_HDF5_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef int64_t adji_hid; /* hid_t; negative: none, or failed */
typedef uint64_t adji_hsize;
typedef int adji_herr; /* herr_t; negative: failed */

typedef adji_herr (*adji_h5_print)(adji_hid stack, void *user);                                    /* H5E_auto2_t */
typedef adji_herr (*adji_h5_visit)(adji_hid root, const char *name, const void *info, void *user); /* H5O_iterate_t */
/* H5L_elink_traverse_t */
typedef adji_herr (*adji_h5_follow)(const char *from_file, const char *from_group, const char *to_file,
                                    const char *to_object, unsigned *access, adji_hid file_access, void *user);

enum {
  ADJI_H5_DEFAULT = 0, /* H5P_DEFAULT, H5E_DEFAULT */
  ADJI_H5_READ_ONLY = 0,
  ADJI_H5_BY_NAME = 0,   /* H5_INDEX_NAME */
  ADJI_H5_ASCENDING = 0, /* H5_ITER_INC */
  ADJI_H5_INFO_BASIC = 1,
  ADJI_H5_IS_DATASET = 5, /* H5I_DATASET */
  ADJI_H5_INTEGER = 0,
  ADJI_H5_FLOAT = 1,
  ADJI_H5_SIGNED = 1, /* H5T_SGN_2 */
  ADJI_H5_CONTIGUOUS = 1,
  ADJI_H5_CHUNKED = 2,
  ADJI_H5_VIRTUAL = 3,
  ADJI_H5_SELECT_SET = 0
};

/* X(result, name, parameters): the function H5name. */
#define ADJI_HDF5_FUNCTIONS(X)                                                                             \
  X(adji_herr, open, (void))                                                                               \
  X(adji_herr, get_libversion, (unsigned *, unsigned *, unsigned *))                                       \
  X(adji_herr, garbage_collect, (void))                                                                    \
  X(adji_hid, Dopen2, (adji_hid, const char *, adji_hid))                                                  \
  X(adji_herr, Dclose, (adji_hid))                                                                         \
  X(adji_hid, Dget_space, (adji_hid))                                                                      \
  X(adji_hid, Dget_type, (adji_hid))                                                                       \
  X(uint64_t, Dget_offset, (adji_hid))                                                                     \
  X(adji_hid, Dget_create_plist, (adji_hid))                                                               \
  X(adji_herr, Dread, (adji_hid, adji_hid, adji_hid, adji_hid, adji_hid, void *))                          \
  X(adji_herr, Eget_auto2, (adji_hid, adji_h5_print *, void **))                                           \
  X(adji_herr, Eset_auto2, (adji_hid, adji_h5_print, void *))                                              \
  X(adji_hid, Fopen, (const char *, unsigned, adji_hid))                                                   \
  X(adji_herr, Fclose, (adji_hid))                                                                         \
  X(int, Iget_type, (adji_hid))                                                                            \
  X(adji_hid, Oopen, (adji_hid, const char *, adji_hid))                                                   \
  X(adji_herr, Oclose, (adji_hid))                                                                         \
  X(adji_herr, PLget_loading_state, (unsigned *))                                                          \
  X(adji_herr, PLset_loading_state, (unsigned))                                                            \
  X(adji_hid, Pcreate, (adji_hid))                                                                         \
  X(adji_herr, Pclose, (adji_hid))                                                                         \
  X(int, Pget_chunk, (adji_hid, int, adji_hsize *))                                                        \
  X(int, Pget_external_count, (adji_hid))                                                                  \
  X(int, Pget_filter2, (adji_hid, unsigned, unsigned *, size_t *, unsigned *, size_t, char *, unsigned *)) \
  X(int, Pget_layout, (adji_hid))                                                                          \
  X(int, Pget_nfilters, (adji_hid))                                                                        \
  X(adji_herr, Pset_chunk_cache, (adji_hid, size_t, size_t, double))                                       \
  X(adji_herr, Pset_elink_cb, (adji_hid, adji_h5_follow, void *))                                          \
  X(adji_herr, Pset_fapl_core, (adji_hid, size_t, unsigned))                                               \
  X(adji_herr, Pset_fapl_sec2, (adji_hid))                                                                 \
  X(adji_herr, Pset_file_image, (adji_hid, void *, size_t))                                                \
  X(adji_hid, Screate_simple, (int, const adji_hsize *, const adji_hsize *))                               \
  X(adji_herr, Sclose, (adji_hid))                                                                         \
  X(int, Sget_simple_extent_ndims, (adji_hid))                                                             \
  X(int, Sget_simple_extent_dims, (adji_hid, adji_hsize *, adji_hsize *))                                  \
  X(adji_herr, Sselect_hyperslab,                                                                          \
    (adji_hid, int, const adji_hsize *, const adji_hsize *, const adji_hsize *, const adji_hsize *))       \
  X(adji_herr, Tclose, (adji_hid))                                                                         \
  X(int, Tequal, (adji_hid, adji_hid))                                                                     \
  X(int, Tget_class, (adji_hid))                                                                           \
  X(int, Tget_sign, (adji_hid))                                                                            \
  X(size_t, Tget_size, (adji_hid))                                                                         \
  X(int, Zfilter_avail, (int))

/* H5Ovisit of 1.12 and later, and of 1.10.3 and later, which differ in the type that info points to. It is not used
 * here. */
typedef adji_herr (*adji_h5_visit_objects)(adji_hid, int, int, adji_h5_visit, void *, unsigned);

/* X(name): the variable H5name_g, whose value is an id once the library is open. */
#define ADJI_HDF5_IDS(X)     \
  X(P_CLS_DATASET_ACCESS_ID) \
  X(P_CLS_FILE_ACCESS_ID)    \
  X(T_IEEE_F32LE)            \
  X(T_IEEE_F64LE)            \
  X(T_NATIVE_FLOAT)          \
  X(T_NATIVE_DOUBLE)         \
  X(T_NATIVE_INT8)           \
  X(T_NATIVE_UINT8)          \
  X(T_NATIVE_INT16)          \
  X(T_NATIVE_UINT16)         \
  X(T_NATIVE_INT32)          \
  X(T_NATIVE_UINT32)         \
  X(T_NATIVE_INT64)          \
  X(T_NATIVE_UINT64)

typedef struct adji_hdf5 {
  adji_h5_visit_objects Ovisit;
#define ADJI_DECLARE(result, name, parameters) result(*name) parameters;
  ADJI_HDF5_FUNCTIONS(ADJI_DECLARE)
#undef ADJI_DECLARE
#define ADJI_DECLARE(name) adji_hid name;
  ADJI_HDF5_IDS(ADJI_DECLARE)
#undef ADJI_DECLARE
} adji_hdf5;

/* Loads the library if it is not loaded, and takes the turn: the library has global state and may be built without
 * thread safety, so only one thread of adjoin uses it at a time. Until adji_hdf5_leave it prints nothing and loads no
 * plug-ins. After a failure the turn is not taken. */
adj_status adji_hdf5_enter(const adji_hdf5 **out);

/* Restores the process's settings for printing and plug-ins, and releases the turn. */
void adji_hdf5_leave(void);

#endif
