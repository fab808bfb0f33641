/* SPDX-License-Identifier: MIT
 *
 * Open, append, and rename at the end. A program that is killed leaves at most the temporary file NAME.part-PID. A
 * file under the name itself is always complete.
 */
#include "io/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Most bytes of one system call: adj_cancel is checked between two of them. */
static const uint64_t WRITE_BYTES = (uint64_t)8 << 20, PIPE_BYTES = (uint64_t)64 << 10;

enum { POLL_MS = 100 };

struct adji_output {
  adj_ctx *ctx;
  char *name;   /* for messages                                           */
  char *target; /* the final name; NULL: written in place                 */
  char *part;   /* the temporary file; NULL if target is                  */
  int fd;
  uint64_t size; /* appended so far                                        */
  void *scratch; /* the slots of adji_output_items(), reused by later calls */
};

const char *adji_output_name(const adji_output *output) {
  return output->name;
}

bool adji_output_seekable(const adji_output *output) {
  return output->part != NULL;
}

static adj_status fail_errno(const adji_output *output, const char *doing, int error) {
  return adji_fail(ADJ_E_IO, "%s: %s: %s", output->name, doing, strerror(error));
}

const char *adji_path_ending(const char *path, char *buffer) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  size_t length = dot && (!slash || dot > slash) ? strlen(dot + 1) : 0;
  if (length > 15) length = 0;
  for (size_t i = 0; i < length; i++)
    buffer[i] = (char)tolower((unsigned char)dot[1 + i]);
  buffer[length] = 0;
  return buffer;
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static void free_output(adji_output *output) {
  if (!output) return;
  adji_free(&output->ctx->memory, output->scratch);
  free(output->name);
  free(output->target);
  free(output->part);
  free(output);
}

/* Opens the temporary file. Its name has the process id, and a number if that name is taken. */
static adj_status open_part(adji_output *output) {
  size_t room = strlen(output->target) + 48;
  output->part = malloc(room);
  if (!output->part) return adji_fail(ADJ_E_MEMORY, "%s: no memory for its name", output->name);
  for (int attempt = 0; attempt < 100; attempt++) {
    int length = snprintf(output->part, room, "%s.part-%ld", output->target, (long)getpid());
    if (attempt) snprintf(output->part + length, room - (size_t)length, "-%d", attempt);
    output->fd = open(output->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (output->fd >= 0) return ADJ_OK;
    if (errno != EEXIST) break;
  }
  return fail_errno(output, "cannot be created", errno);
}

/* What exists at the path decides. A directory is an error. A regular file, or the one that a link points to, is
 * replaced. Anything else is written in place. */
static adj_status open_path(adji_output *output, const char *path) {
  struct stat info;
  if (!*path) return adji_fail(ADJ_E_ARGUMENT, "path: must not be empty");
  bool exists = stat(path, &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) return fail_errno(output, "cannot be written", EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    output->fd = open(path, O_WRONLY | O_CLOEXEC);
    return output->fd >= 0 ? ADJ_OK : fail_errno(output, "cannot be written", errno);
  }
  if (exists && access(path, W_OK)) return fail_errno(output, "cannot be written", errno);
  if (path[strlen(path) - 1] == '/') return fail_errno(output, "cannot be written", EISDIR);
  output->target = exists ? realpath(path, NULL) : strdup(path);
  if (!output->target) return fail_errno(output, "cannot be written", errno);
  return open_part(output);
}

adj_status adji_output_open(adj_ctx *ctx, const char *path, adji_output **out) {
  bool standard = !strcmp(path, "-");
  adji_output *output = calloc(1, sizeof *output);
  if (!output) return adji_fail(ADJ_E_MEMORY, "%s: no memory for an output", path);
  output->ctx = ctx;
  output->fd = -1;
  output->name = strdup(standard ? "standard output" : path);
  adj_status status = ADJ_OK;
  if (!output->name)
    status = adji_fail(ADJ_E_MEMORY, "%s: no memory for its name", path);
  else if (standard)
    output->fd = STDOUT_FILENO;
  else
    status = open_path(output, path);
  if (status) {
    free_output(output);
    return status;
  }
  *out = output;
  return ADJ_OK;
}

/* ---- Writing ---------------------------------------------------------------------------------- */

/* Writes some of the bytes at the current position. A plain write may block for ever if nothing reads the pipe, so
 * this waits in short steps, between which adj_cancel is checked. */
static ssize_t write_pipe(adji_output *output, const char *bytes, uint64_t count) {
  struct pollfd wait = {.fd = output->fd, .events = POLLOUT};
  int ready = poll(&wait, 1, POLL_MS);
  if (ready == 0) errno = EINTR;
  if (ready <= 0) return -1;
  return write(output->fd, bytes, (size_t)(count < PIPE_BYTES ? count : PIPE_BYTES));
}

/* offset NULL: at the current position. */
static adj_status write_all(adji_output *output, const uint64_t *offset, const char *bytes, uint64_t count) {
  uint64_t done = 0;
  while (done < count) {
    adj_status status = adji_check_cancel(output->ctx);
    if (status) return status;
    uint64_t some = count - done < WRITE_BYTES ? count - done : WRITE_BYTES;
    ssize_t written = offset ? pwrite(output->fd, bytes + done, some, (off_t)(*offset + done))
                             : write_pipe(output, bytes + done, count - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail_errno(output, "cannot be written", errno);
    if (written == 0) return fail_errno(output, "cannot be written", ENOSPC);
    done += (uint64_t)written;
  }
  return ADJ_OK;
}

/* A seekable file is always written by offset, so its current position does not matter. */
adj_status adji_output_write(adji_output *output, const void *bytes, uint64_t count) {
  uint64_t at = output->size;
  adj_status status = write_all(output, adji_output_seekable(output) ? &at : NULL, bytes, count);
  if (!status) output->size += count;
  return status;
}

adj_status adji_output_write_at(adji_output *output, uint64_t offset, const void *bytes, uint64_t count) {
  return write_all(output, &offset, bytes, count);
}

/* ---- Items formatted in parallel -------------------------------------------------------------- */

/* Each round fills a few slots of about a megabyte on all threads and then writes them. A seekable output is written on
 * all threads too, because copying into the page cache costs about as much as formatting. */
static const uint64_t SLOT_BYTES = (uint64_t)1 << 20;

typedef struct round {
  adji_output *output;
  const adji_items *items;
  uint64_t slot_bytes, slot_items; /* bytes of a slot, items that always fit */
  uint64_t first, end;             /* the items of this round                */
  char *slots;
  uint64_t *filled; /* bytes in each slot                     */
  uint64_t *at;     /* where each slot goes in the output     */
} round_state;

static adj_status fill_slot(void *user, uint64_t slot, uint32_t lane) {
  (void)lane;
  round_state *round = user;
  uint64_t first = round->first + slot * round->slot_items;
  uint64_t count = round->end - first < round->slot_items ? round->end - first : round->slot_items;
  char *to = round->slots + slot * round->slot_bytes;
  round->filled[slot] = round->items->format(round->items->user, first, count, to);
  return ADJ_OK;
}

static adj_status write_slot(void *user, uint64_t slot, uint32_t lane) {
  (void)lane;
  round_state *round = user;
  return adji_output_write_at(round->output, round->at[slot], round->slots + slot * round->slot_bytes,
                              round->filled[slot]);
}

static adj_status write_slots(round_state *round, uint64_t slots) {
  adji_output *output = round->output;
  adj_status status = ADJ_OK;
  if (!adji_output_seekable(output)) {
    for (uint64_t slot = 0; !status && slot < slots; slot++)
      status = adji_output_write(output, round->slots + slot * round->slot_bytes, round->filled[slot]);
    return status;
  }
  uint64_t end = output->size;
  for (uint64_t slot = 0; slot < slots; slot++) {
    round->at[slot] = end;
    end += round->filled[slot];
  }
  status = adji_loop(output->ctx, slots, write_slot, round);
  if (!status) output->size = end;
  return status;
}

adj_status adji_output_items(adji_output *output, const adji_items *items) {
  adj_ctx *ctx = output->ctx;
  if (!items->count) return ADJ_OK;
  uint64_t each = items->bytes_each ? items->bytes_each : 1;
  uint64_t slots = 2 * (uint64_t)ctx->threads;
  round_state round = {.output = output, .items = items};
  round.slot_bytes = each > SLOT_BYTES ? each : SLOT_BYTES;
  round.slot_items = round.slot_bytes / each;
  uint64_t tables = slots * 2 * sizeof(uint64_t);
  if (!adji_grow(&ctx->memory, &output->scratch, adji_mul(slots, round.slot_bytes) + tables, 1, 0, "write buffer"))
    return ADJ_E_MEMORY;
  round.filled = output->scratch;
  round.at = round.filled + slots;
  round.slots = (char *)(round.at + slots);

  uint64_t begin_ns = adji_now_ns();
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; !status && first < items->count; first = round.end) {
    uint64_t remaining = items->count - first;
    uint64_t used = remaining / round.slot_items + (remaining % round.slot_items != 0);
    if (used > slots) used = slots;
    round.first = first;
    round.end = remaining <= used * round.slot_items ? items->count : first + used * round.slot_items;
    status = adji_loop(ctx, used, fill_slot, &round);
    if (!status) status = write_slots(&round, used);
  }
  if (!status) adji_trace(ctx, "write", 0, begin_ns, items->count);
  return status;
}

/* ---- Closing ---------------------------------------------------------------------------------- */

adj_status adji_output_close(adji_output *output, adj_status outcome) {
  if (!output) return outcome;
  if (output->fd != STDOUT_FILENO || output->part) {
    if (close(output->fd) && !outcome) outcome = fail_errno(output, "cannot be written", errno);
  }
  if (output->part) {
    if (!outcome && rename(output->part, output->target)) outcome = fail_errno(output, "cannot be renamed", errno);
    if (outcome) unlink(output->part);
  }
  free_output(output);
  return outcome;
}
