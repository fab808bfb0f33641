/* SPDX-License-Identifier: MIT
 *
 * Finds, checks and reads a dataset of an HDF5 file.
 *
 * A file can name other files: through external links, external storage and virtual datasets. A malicious file could in
 * this way reveal files that only its reader may see, so none of these is followed unless the caller allows it. Before
 * that is known, a virtual dataset is not queried: even its extent may depend on other files.
 *
 * A compressed chunk is unpacked as a whole. Therefore a block of rows holds whole chunks. Chunks with too many rows
 * for that stay in the library's cache while the blocks of their rows are read.
 */
#include "io/hdf5_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_ROOM = 600, MOST_BLOCK_BYTES = 4 << 20, LEAST_BLOCK_BYTES = 64 << 10 };

/* The library keeps some kilobytes for each chunk of a block. */
enum { MOST_BLOCK_CHUNKS = 4096 };

/* The memory to unpack a chunk, in chunks: the result, which grows by doubling, and the input of a filter. */
enum { CHUNKS_TO_UNPACK = 3 };

/* How a dataset's values are stored. */
typedef struct storage {
  bool virtual, external;
  bool contiguous, filtered;
  uint64_t chunk_rows, chunk_columns; /* 0: no chunks */
} storage;

/* ---- Refusals ---------------------------------------------------------------------------------------- */

typedef struct link_guard {
  bool found_link;
  char file[256];
} link_guard;

/* The library asks this before it follows a link into another file. */
static adji_herr refuse_link(const char *from_file, const char *from_group, const char *to_file, const char *to_object,
                             unsigned *access, adji_hid file_access, void *user) {
  (void)from_file, (void)from_group, (void)to_object, (void)access, (void)file_access;
  link_guard *guard = user;
  guard->found_link = true;
  snprintf(guard->file, sizeof guard->file, "%s", to_file);
  return -1;
}

static adj_status refuse_external(const char *name, const storage *s) {
  return adji_fail(ADJ_E_UNSUPPORTED, "allow_external: is needed for dataset \"%.200s\", which %s", name,
                   s->virtual ? "is virtual: its values are in other datasets and files"
                              : "has external storage: its values are in other files");
}

/* Finds out how the values are stored, without a call that would open another file. */
static adj_status find_storage(const adji_hdf5 *h5, adji_hid dataset, storage *s) {
  *s = (storage){0};
  adji_hid properties = h5->Dget_create_plist(dataset);
  int layout = properties < 0 ? -1 : h5->Pget_layout(properties);
  adji_hsize chunk[2] = {0, 1};
  if (layout == ADJI_H5_CHUNKED) {
    int rank = h5->Pget_chunk(properties, 2, chunk);
    if (rank < 1 || !chunk[0] || !chunk[1]) layout = -1;
    s->filtered = h5->Pget_nfilters(properties) > 0;
    s->chunk_rows = chunk[0];
    s->chunk_columns = rank > 1 ? chunk[1] : 1;
  }
  s->contiguous = layout == ADJI_H5_CONTIGUOUS;
  s->virtual = layout == ADJI_H5_VIRTUAL;
  s->external = layout >= 0 && !s->virtual && h5->Pget_external_count(properties) > 0;
  if (properties >= 0) h5->Pclose(properties);
  return layout >= 0 ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "hdf5: how the dataset is stored cannot be read");
}

/* Plug-ins are not loaded, so every filter must be part of the library. */
static adj_status check_filters(const adji_hdf5 *h5, adji_hid dataset) {
  adji_hid properties = h5->Dget_create_plist(dataset);
  int count = properties < 0 ? 0 : h5->Pget_nfilters(properties);
  adj_status status = ADJ_OK;
  for (int i = 0; !status && i < count; i++) {
    char name[64] = "";
    unsigned flags = 0, config = 0, values[1];
    size_t value_count = 0;
    int filter = h5->Pget_filter2(properties, (unsigned)i, &flags, &value_count, values, sizeof name, name, &config);
    name[sizeof name - 1] = 0;
    if (filter >= 0 && h5->Zfilter_avail(filter) <= 0)
      status =
          adji_fail(ADJ_E_UNSUPPORTED,
                    "hdf5: the dataset is compressed by filter %d (%s), which this HDF5 library lacks; plug-ins are "
                    "not loaded. h5repack -f GZIP=4 rewrites such a file",
                    filter, *name ? name : "no name");
  }
  if (properties >= 0) h5->Pclose(properties);
  return status;
}

/* ---- Which dataset ------------------------------------------------------------------------------------- */

typedef struct inventory {
  const adji_hdf5 *h5;
  bool allow_external;
  uint32_t tables;        /* datasets of numbers in two dimensions */
  char *only;             /* the first of them */
  char names[NAMES_ROOM]; /* all of them, as far as they fit */
  uint32_t refused;       /* datasets that may be tables, but lie in other files */
  char *refused_name;     /* the first of them */
  storage refused_storage;
  bool no_memory;
} inventory;

static bool is_table(const adji_hdf5 *h5, adji_hid dataset) {
  adji_hid space = h5->Dget_space(dataset), type = h5->Dget_type(dataset);
  int class = type < 0 ? -1 : h5->Tget_class(type);
  bool numbers = class == ADJI_H5_INTEGER || class == ADJI_H5_FLOAT;
  bool table = numbers && space >= 0 && h5->Sget_simple_extent_ndims(space) == 2;
  if (type >= 0) h5->Tclose(type);
  if (space >= 0) h5->Sclose(space);
  return table;
}

static void list_name(char *names, const char *name) {
  size_t used = strlen(names);
  if (used + strlen(name) + sizeof ", ..." < NAMES_ROOM)
    snprintf(names + used, NAMES_ROOM - used, "%s%s", used ? ", " : "", name);
  else if (used < 3 || strcmp(names + used - 3, "...") != 0)
    snprintf(names + used, NAMES_ROOM - used, "%s...", used ? ", " : "");
}

static void note_dataset(inventory *found, adji_hid dataset, const char *name) {
  storage s;
  if (find_storage(found->h5, dataset, &s)) return;
  char **first = NULL;
  if ((s.virtual || s.external) && !found->allow_external) {
    if (!found->refused++) {
      first = &found->refused_name;
      found->refused_storage = s;
    }
  } else if (is_table(found->h5, dataset)) {
    if (!found->tables++) first = &found->only;
    list_name(found->names, name);
  }
  if (!first) return;
  *first = strdup(name);
  found->no_memory |= !*first;
}

static adji_herr note_object(adji_hid file, const char *name, const void *info, void *user) {
  (void)info;
  inventory *found = user;
  adji_hid object = found->h5->Oopen(file, name, ADJI_H5_DEFAULT);
  if (object < 0) return 0;
  if (found->h5->Iget_type(object) == ADJI_H5_IS_DATASET) note_dataset(found, object, name);
  found->h5->Oclose(object);
  return found->no_memory ? -1 : 0;
}

/* The name of the only table, for the caller to free. */
static adj_status only_table(const inventory *found, char **name) {
  if (found->tables > 1)
    return adji_fail(ADJ_E_ARGUMENT, "dataset: the file has several; name one of: %s", found->names);
  if (!found->tables && found->refused) return refuse_external(found->refused_name, &found->refused_storage);
  if (!found->tables) return adji_fail(ADJ_E_FORMAT, "hdf5: there is no dataset of numbers in two dimensions");
  *name = strdup(found->only);
  return *name ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for the name of a dataset");
}

/* Visits every object, but follows no soft or external links. missing: the requested dataset, which does not exist; or
 * NULL, and then *name receives the one to read. */
static adj_status search_tables(const adji_hdf5_table *table, const adji_hdf5_input *input, const char *missing,
                                char **name) {
  inventory found = {.h5 = table->h5, .allow_external = input->allow_external};
  adj_status status = ADJ_OK;
  if (table->h5->Ovisit(table->file, ADJI_H5_BY_NAME, ADJI_H5_ASCENDING, note_object, &found, ADJI_H5_INFO_BASIC) < 0)
    status = found.no_memory ? adji_fail(ADJ_E_MEMORY, "no memory for the names of datasets")
                             : adji_fail(ADJ_E_FORMAT, "hdf5: the list of datasets cannot be read");
  else if (missing)
    status = adji_fail(ADJ_E_ARGUMENT, "dataset: there is no \"%.80s\"; datasets of points here: %s", missing,
                       found.tables ? found.names : "none");
  else
    status = only_table(&found, name);
  free(found.only);
  free(found.refused_name);
  return status;
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

static adj_status open_file(const adji_hdf5_input *input, adji_hdf5_table *table) {
  const adji_hdf5 *h5 = table->h5;
  adji_hid access = h5->Pcreate(h5->P_CLS_FILE_ACCESS_ID);
  if (input->path) {
    h5->Pset_fapl_sec2(access);
  } else {
    h5->Pset_fapl_core(access, 1 << 20, 0);
    h5->Pset_file_image(access, (void *)(uintptr_t)input->bytes, input->size);
  }
  table->file = h5->Fopen(input->path ? input->path : "memory", ADJI_H5_READ_ONLY, access);
  h5->Pclose(access);
  return table->file >= 0 ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "hdf5: cannot be opened as an HDF5 file");
}

/* cache_bytes: the size of the library's cache of unpacked chunks; 0: its default, one megabyte. */
static adj_status open_dataset(const adji_hdf5_input *input, const char *name, uint64_t cache_bytes,
                               uint64_t cache_chunks, adji_hdf5_table *table) {
  const adji_hdf5 *h5 = table->h5;
  link_guard guard = {0};
  adji_hid access = h5->Pcreate(h5->P_CLS_DATASET_ACCESS_ID);
  bool ready = access >= 0 && (input->allow_external || h5->Pset_elink_cb(access, refuse_link, &guard) >= 0);
  /* Several slots for each chunk, so that two chunks rarely share one. Chunks that have been read completely are
   * dropped first. */
  uint64_t slots = cache_chunks < (1 << 18) ? 4 * cache_chunks + 521 : 1 << 20;
  if (cache_bytes) ready = ready && h5->Pset_chunk_cache(access, slots, cache_bytes, 1.0) >= 0;
  table->dataset = ready ? h5->Dopen2(table->file, name, access) : -1;
  if (access >= 0) h5->Pclose(access);
  if (table->dataset >= 0) return ADJ_OK;
  if (guard.found_link)
    return adji_fail(ADJ_E_UNSUPPORTED, "allow_external: is needed for dataset \"%.200s\", a link into file \"%.200s\"",
                     name, guard.file);
  if (input->dataset) return search_tables(table, input, name, NULL);
  return adji_fail(ADJ_E_FORMAT, "hdf5: \"%.200s\" cannot be opened", name);
}

/* ---- Type and shape ---------------------------------------------------------------------------------------- */

static adj_status find_type(adji_hdf5_table *table) {
  const adji_hdf5 *h5 = table->h5;
  adji_hid type = h5->Dget_type(table->dataset);
  int class = type < 0 ? -1 : h5->Tget_class(type);
  size_t size = type < 0 ? 0 : h5->Tget_size(type);
  bool sign = class == ADJI_H5_INTEGER && h5->Tget_sign(type) == ADJI_H5_SIGNED;
  if (type >= 0) h5->Tclose(type);
  const struct {
    int class;
    size_t size;
    bool sign;
    adji_stored stored;
    adji_hid memory_type;
  } known[] = {/* C has no half type: HDF5 converts halves to floats, which is exact. */
               {ADJI_H5_FLOAT, 2, false, ADJI_F32, h5->T_NATIVE_FLOAT},
               {ADJI_H5_FLOAT, 4, false, ADJI_F32, h5->T_NATIVE_FLOAT},
               {ADJI_H5_FLOAT, 8, false, ADJI_F64, h5->T_NATIVE_DOUBLE},
               {ADJI_H5_INTEGER, 1, true, ADJI_I8, h5->T_NATIVE_INT8},
               {ADJI_H5_INTEGER, 1, false, ADJI_U8, h5->T_NATIVE_UINT8},
               {ADJI_H5_INTEGER, 2, true, ADJI_I16, h5->T_NATIVE_INT16},
               {ADJI_H5_INTEGER, 2, false, ADJI_U16, h5->T_NATIVE_UINT16},
               {ADJI_H5_INTEGER, 4, true, ADJI_I32, h5->T_NATIVE_INT32},
               {ADJI_H5_INTEGER, 4, false, ADJI_U32, h5->T_NATIVE_UINT32},
               {ADJI_H5_INTEGER, 8, true, ADJI_I64, h5->T_NATIVE_INT64},
               {ADJI_H5_INTEGER, 8, false, ADJI_U64, h5->T_NATIVE_UINT64}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i].class == class && known[i].size == size && known[i].sign == sign) {
      table->shape.stored = known[i].stored;
      table->memory_type = known[i].memory_type;
      return ADJ_OK;
    }
  return adji_fail(ADJ_E_FORMAT, "hdf5: the dataset does not hold integers or floats of 1 to 8 bytes");
}

static adj_status find_shape(adji_hdf5_table *table) {
  const adji_hdf5 *h5 = table->h5;
  table->space = h5->Dget_space(table->dataset);
  table->rank = table->space < 0 ? -1 : h5->Sget_simple_extent_ndims(table->space);
  if (table->rank < 0) return adji_fail(ADJ_E_FORMAT, "hdf5: the shape of the dataset cannot be read");
  if (table->rank < 1 || table->rank > 2)
    return adji_fail(ADJ_E_FORMAT, "hdf5: the dataset has %d dimensions; points are read from 1 or 2", table->rank);
  adji_hsize sizes[2] = {0, 1};
  h5->Sget_simple_extent_dims(table->space, sizes, NULL);
  if (sizes[1] < 1 || sizes[1] > UINT32_MAX || sizes[0] > INT64_MAX)
    return adji_fail(ADJ_E_FORMAT, "hdf5: %llu rows of %llu values are not a set of points",
                     (unsigned long long)sizes[0], (unsigned long long)sizes[1]);
  table->shape.count = sizes[0];
  table->shape.dim = (uint32_t)sizes[1];
  return find_type(table);
}

/* Contiguous little-endian floats can be read directly from the file, by all threads at once. Not if external files are
 * allowed, as the dataset may be in another file. */
static void find_offset(const adji_hdf5_input *input, adji_hdf5_table *table, const storage *s) {
  const adji_hdf5 *h5 = table->h5;
  table->shape.offset = ADJI_HDF5_NO_OFFSET;
  if (!s->contiguous || input->allow_external) return;
  adji_hid type = h5->Dget_type(table->dataset);
  if (type < 0) return;
  if (h5->Tequal(type, h5->T_IEEE_F32LE) > 0 || h5->Tequal(type, h5->T_IEEE_F64LE) > 0)
    table->shape.offset = h5->Dget_offset(table->dataset); /* NO_OFFSET if nothing was ever written */
  h5->Tclose(type);
}

/* ---- Blocks of rows ------------------------------------------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* The number of rows read at once: about as many as a block has room for, in not too many chunks, and whole chunks
 * unless these have very many rows. */
static uint64_t choose_rows(const storage *s, uint64_t row_bytes, uint64_t across, uint64_t target) {
  uint64_t rows = target / row_bytes + !(target / row_bytes);
  if (!s->chunk_rows) return rows;
  uint64_t bands = MOST_BLOCK_CHUNKS / across + !(MOST_BLOCK_CHUNKS / across);
  rows = least(rows, adji_mul(bands, s->chunk_rows));
  if (adji_mul(s->chunk_rows, row_bytes) > 2 * target) return rows;
  return rows < s->chunk_rows ? s->chunk_rows : rows / s->chunk_rows * s->chunk_rows;
}

/* *cache_chunks: chunks that must stay in the cache from block to block, or 0. */
static void choose_blocks(const adji_hdf5_input *input, const storage *s, adji_hdf5_shape *shape,
                          uint64_t *cache_chunks) {
  uint64_t size = adji_stored_size(shape->stored), row_bytes = shape->dim * size;
  uint64_t across = s->chunk_rows ? shape->dim / s->chunk_columns + (shape->dim % s->chunk_columns != 0) : 1;
  uint64_t target = least(input->memory / 16, MOST_BLOCK_BYTES);
  if (target < LEAST_BLOCK_BYTES) target = LEAST_BLOCK_BYTES;
  shape->block_rows = least(choose_rows(s, row_bytes, across, target), shape->count);
  *cache_chunks = 0;
  if (!s->filtered) return;
  bool cut = shape->block_rows < s->chunk_rows && shape->block_rows < shape->count;
  if (cut) *cache_chunks = across;
  uint64_t chunk_bytes = adji_mul(adji_mul(s->chunk_rows, s->chunk_columns), size);
  shape->work_bytes = least(adji_mul(chunk_bytes, CHUNKS_TO_UNPACK + *cache_chunks), UINT64_MAX / 4);
}

/* Opens the dataset a second time if its chunks need a larger cache, which can be set only then. */
static adj_status prepare_blocks(const adji_hdf5_input *input, const char *name, const storage *s,
                                 adji_hdf5_table *table) {
  uint64_t cache_chunks;
  choose_blocks(input, s, &table->shape, &cache_chunks);
  table->filtered = s->filtered;
  if (!cache_chunks || table->shape.work_bytes > input->memory) return ADJ_OK; /* then the caller refuses it */
  uint64_t chunk_bytes = table->shape.work_bytes / (CHUNKS_TO_UNPACK + cache_chunks);
  table->h5->Dclose(table->dataset);
  table->dataset = -1;
  return open_dataset(input, name, cache_chunks * chunk_bytes, cache_chunks, table);
}

/* ---- The whole table ------------------------------------------------------------------------------------------ */

static adj_status open_table(const adji_hdf5_input *input, adji_hdf5_table *table) {
  char *found = NULL;
  storage s;
  adj_status status = open_file(input, table);
  if (!status && !input->dataset) status = search_tables(table, input, NULL, &found);
  const char *name = input->dataset ? input->dataset : found;
  if (!status) status = open_dataset(input, name, 0, 0, table);
  if (!status) status = find_storage(table->h5, table->dataset, &s);
  if (!status && (s.virtual || s.external) && !input->allow_external) status = refuse_external(name, &s);
  if (!status) status = find_shape(table);
  if (!status) status = check_filters(table->h5, table->dataset);
  if (!status) status = prepare_blocks(input, name, &s, table);
  if (!status) find_offset(input, table, &s);
  free(found);
  return status;
}

adj_status adji_hdf5_open(const adji_hdf5_input *input, adji_hdf5_table *table) {
  *table = (adji_hdf5_table){.file = -1, .dataset = -1, .space = -1};
  adj_status status = adji_hdf5_enter(&table->h5);
  if (status) return status;
  status = open_table(input, table);
  if (status) adji_hdf5_close(table);
  return status;
}

adj_status adji_hdf5_rows(const adji_hdf5_table *table, uint64_t first, uint64_t rows, void *to) {
  const adji_hdf5 *h5 = table->h5;
  adji_hsize start[2] = {first, 0}, many[2] = {rows, table->shape.dim};
  adji_hid memory_space = h5->Screate_simple(table->rank, many, NULL);
  bool done = memory_space >= 0 &&
              h5->Sselect_hyperslab(table->space, ADJI_H5_SELECT_SET, start, NULL, many, NULL) >= 0 &&
              h5->Dread(table->dataset, table->memory_type, memory_space, table->space, ADJI_H5_DEFAULT, to) >= 0;
  if (memory_space >= 0) h5->Sclose(memory_space);
  if (done) return ADJ_OK;
  return adji_fail(ADJ_E_FORMAT, "hdf5: rows %llu to %llu cannot be read; the file may be damaged%s",
                   (unsigned long long)first + 1, (unsigned long long)(first + rows),
                   table->filtered ? ", or unpacks to more than it states" : "");
}

void adji_hdf5_close(adji_hdf5_table *table) {
  const adji_hdf5 *h5 = table->h5;
  if (table->space >= 0) h5->Sclose(table->space);
  if (table->dataset >= 0) h5->Dclose(table->dataset);
  if (table->file >= 0) h5->Fclose(table->file);
  h5->garbage_collect(); /* the library keeps freed chunks for itself */
  adji_hdf5_leave();
}
