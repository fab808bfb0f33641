/* SPDX-License-Identifier: MIT
 *
 * HDF5 files: one dataset of numbers, either the one that the caller names or the only one in two dimensions. Values
 * are read in blocks of rows: adj_cancel is checked between blocks, and conversion needs little memory.
 */
#include "io/read.h"
#include "io/read_table.h"

#ifndef ADJI_HAVE_HDF5

adj_status adji_read_hdf5(adji_source *source, const adj_open_options *options, int variant,
                          adji_dataset_parts *parts) {
  (void)variant, (void)source, (void)options, (void)parts;
  return adji_fail(ADJ_E_UNSUPPORTED, "is an HDF5 file, and this build has no HDF5; save the points as .npy");
}

#else

#define H5_USE_110_API /* the same interface in every later version */
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 8 << 20, NAMES_ROOM = 600 };

/* The HDF5 library has global state and may be built without thread safety, so only one thread uses it at a time. */
static pthread_mutex_t hdf5_turn = PTHREAD_MUTEX_INITIALIZER;

typedef struct opened {
  hid_t file, dataset, space, stored_type;
  uint64_t count;
  uint32_t dim;
  int rank;
  adji_stored stored;
  hid_t memory_type; /* the HDF5 type of stored */
} opened;

/* ---- Which dataset ------------------------------------------------------------------------------------- */

typedef struct inventory {
  uint32_t tables;        /* datasets of numbers in two dimensions  */
  char only[256];         /* the first of them                      */
  char names[NAMES_ROOM]; /* all of them, as far as they fit         */
} inventory;

static herr_t note_dataset(hid_t file, const char *name, const H5O_info_t *info, void *user) {
  inventory *found = user;
  if (info->type != H5O_TYPE_DATASET) return 0;
  hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
  if (dataset < 0) return 0;
  hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
  H5T_class_t class = H5Tget_class(type);
  bool numbers = class == H5T_INTEGER || class == H5T_FLOAT;
  if (numbers && H5Sget_simple_extent_ndims(space) == 2) {
    size_t used = strlen(found->names);
    snprintf(found->names + used, sizeof found->names - used, "%s%s", used ? ", " : "", name);
    if (!found->tables++) snprintf(found->only, sizeof found->only, "%s", name);
  }
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(dataset);
  return 0;
}

static adj_status open_dataset(opened *o, const char *wanted) {
  inventory found = {0};
  if (H5Ovisit(o->file, H5_INDEX_NAME, H5_ITER_INC, note_dataset, &found) < 0)
    return adji_fail(ADJ_E_FORMAT, "hdf5: the list of datasets cannot be read");
  const char *list = found.tables ? found.names : "none";
  if (wanted) {
    o->dataset = H5Dopen2(o->file, wanted, H5P_DEFAULT);
    if (o->dataset >= 0) return ADJ_OK;
    return adji_fail(ADJ_E_ARGUMENT, "dataset: there is no \"%.80s\"; datasets of points here: %s", wanted, list);
  }
  if (found.tables != 1)
    return found.tables ? adji_fail(ADJ_E_ARGUMENT, "dataset: the file has several; name one of: %s", list)
                        : adji_fail(ADJ_E_FORMAT, "hdf5: there is no dataset of numbers in two dimensions");
  o->dataset = H5Dopen2(o->file, found.only, H5P_DEFAULT);
  return o->dataset >= 0 ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "hdf5: \"%s\" cannot be opened", found.only);
}

/* ---- Type and shape ---------------------------------------------------------------------------------------- */

static adj_status find_type(opened *o) {
  H5T_class_t class = H5Tget_class(o->stored_type);
  size_t size = H5Tget_size(o->stored_type);
  bool sign = class == H5T_INTEGER && H5Tget_sign(o->stored_type) == H5T_SGN_2;
  const struct {
    H5T_class_t class;
    size_t size;
    bool sign;
    adji_stored stored;
    hid_t memory_type;
  } known[] = {/* C has no half type: HDF5 converts halves to floats, which is exact. */
               {H5T_FLOAT, 2, false, ADJI_F32, H5T_NATIVE_FLOAT},    {H5T_FLOAT, 4, false, ADJI_F32, H5T_NATIVE_FLOAT},
               {H5T_FLOAT, 8, false, ADJI_F64, H5T_NATIVE_DOUBLE},   {H5T_INTEGER, 1, true, ADJI_I8, H5T_NATIVE_INT8},
               {H5T_INTEGER, 1, false, ADJI_U8, H5T_NATIVE_UINT8},   {H5T_INTEGER, 2, true, ADJI_I16, H5T_NATIVE_INT16},
               {H5T_INTEGER, 2, false, ADJI_U16, H5T_NATIVE_UINT16}, {H5T_INTEGER, 4, true, ADJI_I32, H5T_NATIVE_INT32},
               {H5T_INTEGER, 4, false, ADJI_U32, H5T_NATIVE_UINT32}, {H5T_INTEGER, 8, true, ADJI_I64, H5T_NATIVE_INT64},
               {H5T_INTEGER, 8, false, ADJI_U64, H5T_NATIVE_UINT64}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i].class == class && known[i].size == size && known[i].sign == sign) {
      o->stored = known[i].stored;
      o->memory_type = known[i].memory_type;
      return ADJ_OK;
    }
  return adji_fail(ADJ_E_FORMAT, "hdf5: the dataset does not hold integers or floats of 1 to 8 bytes");
}

static adj_status find_shape(opened *o) {
  o->space = H5Dget_space(o->dataset);
  o->stored_type = H5Dget_type(o->dataset);
  o->rank = H5Sget_simple_extent_ndims(o->space);
  if (o->rank < 1 || o->rank > 2)
    return adji_fail(ADJ_E_FORMAT, "hdf5: the dataset has %d dimensions; points are read from 1 or 2", o->rank);
  hsize_t sizes[2] = {0, 1};
  H5Sget_simple_extent_dims(o->space, sizes, NULL);
  if (sizes[1] < 1 || sizes[1] > UINT32_MAX || sizes[0] > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_FORMAT, "hdf5: %llu rows of %llu values are not a set of points",
                     (unsigned long long)sizes[0], (unsigned long long)sizes[1]);
  o->count = sizes[0];
  o->dim = (uint32_t)sizes[1];
  return find_type(o);
}

/* ---- Reading --------------------------------------------------------------------------------------------------- */

static adj_status read_rows(const opened *o, uint64_t first, uint64_t rows, void *to) {
  hsize_t start[2] = {first, 0}, many[2] = {rows, o->dim};
  hid_t memory_space = H5Screate_simple(o->rank, many, NULL);
  bool done = memory_space >= 0 && H5Sselect_hyperslab(o->space, H5S_SELECT_SET, start, NULL, many, NULL) >= 0 &&
              H5Dread(o->dataset, o->memory_type, memory_space, o->space, H5P_DEFAULT, to) >= 0;
  if (memory_space >= 0) H5Sclose(memory_space);
  if (done) return ADJ_OK;
  return adji_fail(ADJ_E_FORMAT, "hdf5: rows %llu to %llu cannot be read; the file may be damaged",
                   (unsigned long long)first + 1, (unsigned long long)(first + rows));
}

/* Reads blocks of rows, directly into the points if the type is the same, otherwise through staging. */
static adj_status read_points(adji_source *source, const opened *o, adj_type asked, adji_dataset_parts *parts) {
  adji_memory *memory = &source->ctx->memory;
  adj_type type = adji_table_type(source, o->stored, asked);
  bool direct = o->stored == (type == ADJ_F64 ? ADJI_F64 : ADJI_F32);
  uint64_t row_bytes = (uint64_t)o->dim * adji_stored_size(o->stored), block_rows = BLOCK_BYTES / row_bytes + 1;
  if (block_rows > o->count) block_rows = o->count;
  char *points = adji_alloc(memory, adji_mul(o->count, o->dim), adji_type_size(type), "points");
  void *staging = points && !direct ? adji_alloc(memory, block_rows, row_bytes, "rows of an HDF5 file") : NULL;
  adj_status status = points && (direct || staging) ? ADJ_OK : ADJ_E_MEMORY;
  for (uint64_t first = 0; !status && first < o->count; first += block_rows) {
    adji_table block = {.stored = o->stored, .dim = o->dim};
    block.count = o->count - first < block_rows ? o->count - first : block_rows;
    char *to = points + first * o->dim * adji_type_size(type);
    adji_conversion conversion = {&block, staging, to, type, !asked, first};
    status = adji_check_cancel(source->ctx);
    if (!status) status = read_rows(o, first, block.count, direct ? to : staging);
    if (!status && !direct) status = adji_convert(source->ctx, &conversion);
  }
  adji_free(memory, staging);
  if (status) {
    adji_free(memory, points);
    return status;
  }
  *parts = (adji_dataset_parts){.type = type, .dim = o->dim, .count = o->count, .data = points, .owner = points};
  parts->release = adji_release_block;
  return ADJ_OK;
}

/* Opens the path, or the bytes in memory if they came through a pipe or gzip. HDF5 copies such bytes, and the copies
 * count against the memory limit. */
static adj_status open_file(adji_source *source, opened *o, uint64_t *charged) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  const char *name = source->path;
  if (!source->plain_file) {
    if (!adji_charge(&source->ctx->memory, 2 * source->size, "HDF5's copies of the input")) {
      H5Pclose(access);
      return ADJ_E_MEMORY;
    }
    *charged = 2 * source->size;
    name = "memory";
    H5Pset_fapl_core(access, 1 << 20, 0);
    H5Pset_file_image(access, (void *)(uintptr_t)source->bytes, source->size);
  }
  o->file = H5Fopen(name, H5F_ACC_RDONLY, access);
  H5Pclose(access);
  return o->file >= 0 ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "hdf5: cannot be opened as an HDF5 file");
}

adj_status adji_read_hdf5(adji_source *source, const adj_open_options *options, int variant,
                          adji_dataset_parts *parts) {
  (void)variant;
  uint64_t charged = 0;
  opened o = {.file = -1, .dataset = -1, .space = -1, .stored_type = -1};
  pthread_mutex_lock(&hdf5_turn);
  H5E_auto2_t print;
  void *print_data;
  H5Eget_auto2(H5E_DEFAULT, &print, &print_data);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* this library never prints */
  adj_status status = open_file(source, &o, &charged);
  if (!status) status = open_dataset(&o, options->dataset);
  if (!status) status = find_shape(&o);
  if (!status) status = read_points(source, &o, options->type, parts);
  if (o.stored_type >= 0) H5Tclose(o.stored_type);
  if (o.space >= 0) H5Sclose(o.space);
  if (o.dataset >= 0) H5Dclose(o.dataset);
  if (o.file >= 0) H5Fclose(o.file);
  H5Eset_auto2(H5E_DEFAULT, print, print_data);
  pthread_mutex_unlock(&hdf5_turn);
  adji_discharge(&source->ctx->memory, charged);
  return status;
}

#endif
