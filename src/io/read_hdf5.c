/* SPDX-License-Identifier: MIT
 *
 * HDF5 files: one dataset of numbers, either the one that the caller names or the only one in two dimensions. They are
 * read in this process, or by a helper process if the caller names one, in both cases in blocks of rows: adj_cancel is
 * checked between blocks, and conversion needs little memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "io/hdf5_helper.h"
#include "io/hdf5_table.h"
#include "io/read.h"

enum { PIECE_BYTES = 4 << 20 };

/* The points while they are being read. */
typedef struct filling {
  adji_source *source;
  const adji_hdf5_shape *shape;
  adji_row_range rows; /* those that are read */
  adj_type type;
  bool direct; /* rows are stored in that type */
  bool exact;  /* an integer must not be rounded */
  char *points;
  char *staging; /* rows that are converted next */
} filling;

static uint64_t row_bytes(const filling *f) {
  return (uint64_t)f->shape->dim * adji_stored_size(f->shape->stored);
}

static adj_status begin_points(adji_source *source, const adji_hdf5_shape *shape, const adj_open_options *options,
                               filling *f) {
  adji_memory *memory = &source->ctx->memory;
  *f = (filling){.source = source, .shape = shape, .exact = !options->type};
  f->rows = adji_rows_of_part(options, shape->count);
  f->type = adji_table_type(source, shape->stored, options->type);
  f->direct = shape->stored == (f->type == ADJ_F64 ? ADJI_F64 : ADJI_F32);
  f->points = adji_alloc(memory, adji_mul(f->rows.count, shape->dim), adji_type_size(f->type), "points");
  return f->points ? ADJ_OK : ADJ_E_MEMORY;
}

static char *row_of(const filling *f, uint64_t row) {
  return f->points + (row - f->rows.first) * f->shape->dim * adji_type_size(f->type);
}

/* Converts from staging, or from memory that a helper may still write. If a helper changes a value meanwhile, only that
 * value is wrong. */
static adj_status convert_rows(const filling *f, const void *from, uint64_t first, uint64_t rows) {
  adji_table block = {.stored = f->shape->stored, .dim = f->shape->dim, .count = rows};
  char *to = row_of(f, first);
  adji_conversion conversion = {&block, from, to, f->type, f->exact, first};
  return adji_convert(f->source->ctx, &conversion);
}

static void finish_points(const filling *f, adj_status status, adji_dataset_parts *parts) {
  adji_memory *memory = &f->source->ctx->memory;
  adji_free(memory, f->staging);
  if (status) {
    adji_free(memory, f->points);
    return;
  }
  *parts = (adji_dataset_parts){.type = f->type, .dim = f->shape->dim, .count = f->rows.count};
  parts->first_row = f->rows.first;
  parts->all_rows = f->shape->count;
  parts->data = parts->owner = f->points;
  parts->release = adji_release_block;
}

/* ---- Without the library ------------------------------------------------------------------------------ */

/* Whether the rows can be read from the file as they are. */
static bool can_read_directly(const filling *f) {
  return f->source->plain_file && f->direct && f->shape->offset != ADJI_HDF5_NO_OFFSET;
}

typedef struct pieces {
  const filling *filling;
  int file;
} pieces;

static adj_status read_piece(void *user, uint64_t piece, uint32_t lane) {
  (void)lane;
  const pieces *job = user;
  const filling *f = job->filling;
  uint64_t bytes = f->rows.count * row_bytes(f), at = piece * PIECE_BYTES;
  uint64_t begin = f->shape->offset + f->rows.first * row_bytes(f);
  uint64_t end = bytes - at < PIECE_BYTES ? bytes : at + PIECE_BYTES;
  while (at < end) {
    uint64_t from = begin + at;
    ssize_t got = from > INT64_MAX ? 0 : pread(job->file, f->points + at, end - at, (off_t)from);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return adji_fail(ADJ_E_IO, "cannot be read: %s", strerror(errno));
    if (!got)
      return adji_fail(ADJ_E_FORMAT, "hdf5: the file ends before row %llu of %llu",
                       (unsigned long long)(f->rows.first + at / row_bytes(f) + 1),
                       (unsigned long long)f->shape->count);
    at += (uint64_t)got;
  }
  return ADJ_OK;
}

static adj_status read_directly(const filling *f) {
  pieces job = {f, open(f->source->path, O_RDONLY | O_CLOEXEC)};
  if (job.file < 0) return adji_fail(ADJ_E_IO, "cannot be opened: %s", strerror(errno));
  uint64_t bytes = f->rows.count * row_bytes(f);
  adj_status status = adji_loop(f->source->ctx, (bytes + PIECE_BYTES - 1) / PIECE_BYTES, read_piece, &job);
  close(job.file);
  return status;
}

/* ---- In this process ---------------------------------------------------------------------------------- */

static adj_status read_table(adji_source *source, const adji_hdf5_table *table, const adj_open_options *options,
                             adji_dataset_parts *parts) {
  const adji_hdf5_shape *shape = &table->shape;
  filling f;
  adj_status status = begin_points(source, shape, options, &f);
  bool direct_read = can_read_directly(&f);
  if (!status && !f.direct) {
    f.staging = adji_alloc(&source->ctx->memory, shape->block_rows, row_bytes(&f), "rows of an HDF5 file");
    if (!f.staging) status = ADJ_E_MEMORY;
  }
  if (!status && direct_read) status = read_directly(&f);
  uint64_t end = f.rows.first + f.rows.count, rows;
  for (uint64_t first = f.rows.first; !status && !direct_read && first < end; first += rows) {
    rows = adji_hdf5_block(shape, f.rows, first);
    status = adji_check_cancel(source->ctx);
    if (!status) status = adji_hdf5_rows(table, first, rows, f.direct ? row_of(&f, first) : f.staging);
    if (!status && !f.direct) status = convert_rows(&f, f.staging, first, rows);
  }
  finish_points(&f, status, parts);
  return status;
}

/* Opens the path, or the bytes in memory if they came through a pipe or gzip. HDF5 copies such bytes, and the copies
 * count against the memory limit, as does what it unpacks. */
static adj_status read_here(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  adji_memory *memory = &source->ctx->memory;
  uint64_t charged = source->plain_file ? 0 : adji_mul(2, source->size);
  if (!adji_charge(memory, charged, "HDF5's copies of the input")) return ADJ_E_MEMORY;
  adji_hdf5_input input = {.path = source->plain_file ? source->path : NULL,
                           .bytes = source->bytes,
                           .size = source->size,
                           .dataset = options->dataset,
                           .allow_external = options->allow_external,
                           .memory = adji_memory_available(memory)};
  adji_hdf5_table table;
  adj_status status = adji_hdf5_open(&input, &table);
  if (!status) {
    uint64_t work = table.shape.work_bytes;
    status = adji_charge(memory, work, "chunks of an HDF5 file") ? ADJ_OK : ADJ_E_MEMORY;
    if (!status) {
      status = read_table(source, &table, options, parts);
      adji_discharge(memory, work);
    }
    adji_hdf5_close(&table);
  }
  adji_discharge(memory, charged);
  return status;
}

/* ---- By a helper ---------------------------------------------------------------------------------------- */

static adj_status fetch_blocks(adji_helper *helper, const filling *f) {
  adj_status status = ADJ_OK;
  uint64_t block = 0, end = f->rows.first + f->rows.count, rows;
  for (uint64_t first = f->rows.first; !status && first < end; first += rows, block++) {
    rows = adji_hdf5_block(f->shape, f->rows, first);
    const void *bytes = NULL;
    status = adji_helper_block(helper, block, &bytes);
    if (status) return status;
    if (f->direct)
      memcpy(row_of(f, first), bytes, rows * row_bytes(f));
    else
      status = convert_rows(f, bytes, first, rows);
    if (!status && first + rows < end) status = adji_helper_done(helper, block);
  }
  return status;
}

static adj_status read_there(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  adji_helper helper;
  adji_hdf5_shape shape;
  adj_status status = adji_helper_start(source, options, &helper, &shape);
  if (status) return status;
  filling f;
  status = begin_points(source, &shape, options, &f);
  if (!status && can_read_directly(&f)) {
    adji_helper_stop(&helper);
    status = read_directly(&f);
  } else if (!status && f.rows.count) {
    status = adji_helper_begin(&helper, &shape, f.rows);
    if (!status) status = fetch_blocks(&helper, &f);
  }
  finish_points(&f, status, parts);
  adji_helper_stop(&helper);
  return status;
}

adj_status adji_read_hdf5(adji_source *source, const adj_open_options *options, int variant,
                          adji_dataset_parts *parts) {
  (void)variant;
  return options->helper ? read_there(source, options, parts) : read_here(source, options, parts);
}
