/* SPDX-License-Identifier: MIT
 *
 * A file that appears under its name only when it is complete. All writers use it. The bytes go to a part file in the
 * same folder (core/part.h), which is renamed at the end, or removed after a failure.
 */
#ifndef ADJI_OUTPUT_H
#define ADJI_OUTPUT_H

#include "core/context.h"
#include "io/meter.h"

typedef struct adji_output adji_output;

/* Path "-" is standard output. A device or a pipe is written in place; a directory is an error. flags: adj_write_flags.
 * Waits until a named pipe has a reader; adj_cancel ends the wait. */
adj_status adji_output_open(adj_ctx *ctx, const char *path, uint32_t flags, adji_output **out);

/* Opens the part file of another process (adji_output_part), to write at other offsets. Closing it neither renames nor
 * removes the file. path: for messages. */
adj_status adji_output_join(adj_ctx *ctx, const char *path, const char *part, uint32_t flags, adji_output **out);

/* An output that only counts: adji_output_size returns how many bytes were appended. */
adj_status adji_output_measure(adj_ctx *ctx, const char *path, adji_output **out);
uint64_t adji_output_size(const adji_output *output);

/* The absolute path of the part file, to be freed; NULL if there is none, or no memory. */
char *adji_output_part(const adji_output *output);

/* Later bytes are appended from this offset on. */
void adji_output_seek(adji_output *output, uint64_t offset);

/* From now on bytes that are written and synchronised count as progress. */
void adji_output_watch(adji_output *output, adji_meter *meter);

/* Whether closing the output waits for the disk. */
bool adji_output_syncs(const adji_output *output);

/* Fails if the outputs certainly do not fit the file systems they are on: output i has at least bytes[i]. If the file
 * system may compress, this is only a warning. outputs may be NULL. */
adj_status adji_outputs_check_room(adji_output *const *outputs, const uint64_t *bytes, uint32_t count);

/* The path as it was given, or "standard output": for messages. */
const char *adji_output_name(const adji_output *output);

/* Whether adji_output_write_at works: not for standard output, a pipe or a terminal. */
bool adji_output_seekable(const adji_output *output);

/* Appends. A full disk or a closed pipe is ADJ_E_IO, with the path and the system's message. */
adj_status adji_output_write(adji_output *output, const void *bytes, uint64_t count);

/* Writes at an offset from the start, from any number of threads. Appending is not affected. */
adj_status adji_output_write_at(adji_output *output, uint64_t offset, const void *bytes, uint64_t count);

/* Writes items first .. first + count - 1 to the buffer, and returns their bytes. Called from any thread. */
typedef uint64_t (*adji_format_fn)(const void *user, uint64_t first, uint64_t count, char *to);

/* Items to format and append in order, each at most bytes_each long. */
typedef struct adji_items {
  uint64_t count;
  uint64_t bytes_each;
  adji_format_fn format;
  const void *user;
} adji_items;

/* Formats on all threads, writes in order. */
adj_status adji_output_items(adji_output *output, const adji_items *items);

/* The steps of closing that may fail: after them only the renaming remains. Does nothing if outcome is not ADJ_OK.
 * Returns outcome, or the error. output may be NULL. */
adj_status adji_output_finish(adji_output *output, adj_status outcome);

/* adji_output_appear finishes the file and renames it. adji_output_take_back undoes the renaming if possible, for when
 * a second output fails. output may be NULL. */
adj_status adji_output_appear(adji_output *output, adj_status outcome);
void adji_output_take_back(adji_output *output);

/* Closes and frees the output. If outcome is ADJ_OK the file is finished and gets its name, otherwise it is removed,
 * unless it has its name already. Returns outcome, or the error of this last step. output may be NULL. */
adj_status adji_output_close(adji_output *output, adj_status outcome);

/* The part of the path after its last dot, in lower case, in a buffer of 16 characters; "" if there is none or it is
 * too long to name a format. */
const char *adji_path_ending(const char *path, char *buffer);

#endif
