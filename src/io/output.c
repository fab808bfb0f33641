/* SPDX-License-Identifier: MIT
 *
 * Opens, appends, formats in parallel, closes. core/part.c makes files appear only when they are complete.
 */
#include "io/output.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/part.h"

/* Most bytes of one system call: adj_cancel is checked between calls. */
static const uint64_t WRITE_BYTES = (uint64_t)8 << 20, PIPE_BYTES = (uint64_t)64 << 10;

enum { POLL_MS = 100, READER_MS = 20 };

struct adji_output {
  adj_ctx *ctx;
  char *name; /* for messages */
  bool replaces;
  bool joined;    /* a part file made by another process */
  bool sync;      /* if joined: wait for the disk */
  bool measures;  /* only counts bytes, writes nothing */
  adji_part part; /* if `replaces`; otherwise the file is written in place */
  int fd;
  uint64_t size;     /* appended so far */
  adji_meter *meter; /* NULL: none */
  void *scratch;     /* the slots of adji_output_items(), reused by later calls */
};

const char *adji_output_name(const adji_output *output) {
  return output->name;
}

bool adji_output_seekable(const adji_output *output) {
  return output->replaces || output->joined || output->measures;
}

bool adji_output_syncs(const adji_output *output) {
  return output->replaces && !(output->part.flags & ADJ_NO_SYNC);
}

void adji_output_watch(adji_output *output, adji_meter *meter) {
  output->meter = meter;
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
  adji_part_discard(&output->part);
  if (output->joined && output->fd >= 0) close(output->fd);
  free(output->name);
  free(output);
}

/* A named pipe cannot be opened before it has a reader. A wait for that inside the kernel could not be cancelled. */
static adj_status open_special(adji_output *output, const char *path, bool pipe) {
  struct stat about;
  for (;;) {
    adj_status status = adji_check_cancel(output->ctx);
    if (status) return status;
    output->fd = adji_fd_above_standard(open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (output->fd >= 0) break;
    if (errno != EINTR && !(pipe && errno == ENXIO)) return fail_errno(output, "cannot be written", errno);
    poll(NULL, 0, READER_MS);
  }
  /* A file that was created meanwhile must not be overwritten. */
  if (fstat(output->fd, &about)) return fail_errno(output, "cannot be written", errno);
  if (S_ISREG(about.st_mode)) return fail_errno(output, "cannot be written", ESTALE);
  int flags = fcntl(output->fd, F_GETFL);
  if (flags < 0 || fcntl(output->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
    return fail_errno(output, "cannot be written", errno);
  return ADJ_OK;
}

/* A regular file, or the target of a link, is replaced. Anything else that exists at the path is written in place. */
static adj_status open_path(adji_output *output, const char *path, uint32_t flags) {
  adji_place place;
  adj_status status = adji_place_find(path, &place);
  if (status) return status;
  if (place.folder < 0) return open_special(output, path, S_ISFIFO(place.about.st_mode));
  status = adji_part_create(output->name, &place, flags, &output->part);
  output->replaces = !status;
  output->fd = output->part.fd;
  return status;
}

adj_status adji_output_open(adj_ctx *ctx, const char *path, uint32_t flags, adji_output **out) {
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
    status = open_path(output, path, flags);
  if (status) {
    if (output->fd > STDERR_FILENO && !output->replaces) close(output->fd);
    free_output(output);
    return status;
  }
  *out = output;
  return ADJ_OK;
}

adj_status adji_output_measure(adj_ctx *ctx, const char *path, adji_output **out) {
  adji_output *output = calloc(1, sizeof *output);
  if (output) output->name = strdup(path);
  if (!output || !output->name) {
    free(output);
    return adji_fail(ADJ_E_MEMORY, "%s: no memory for an output", path);
  }
  output->ctx = ctx;
  output->fd = -1;
  output->measures = true;
  *out = output;
  return ADJ_OK;
}

adj_status adji_output_join(adj_ctx *ctx, const char *path, const char *part, uint32_t flags, adji_output **out) {
  adji_output *output = NULL;
  adj_status status = adji_output_measure(ctx, path, &output);
  if (status) return status;
  output->measures = false;
  output->joined = true;
  output->sync = !(flags & ADJ_NO_SYNC);
  output->fd = adji_fd_above_standard(open(part, O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (output->fd < 0) {
    status = adji_fail(ADJ_E_IO, "%s: its part file %s cannot be opened here: %s", path, part, strerror(errno));
    free_output(output);
    return status;
  }
  *out = output;
  return ADJ_OK;
}

uint64_t adji_output_size(const adji_output *output) {
  return output->size;
}

void adji_output_seek(adji_output *output, uint64_t offset) {
  output->size = offset;
}

char *adji_output_part(const adji_output *output) {
  char link[64], folder[PATH_MAX];
  if (!output || !output->part.name) return NULL;
  snprintf(link, sizeof link, "/proc/self/fd/%d", output->part.place.folder);
  ssize_t length = readlink(link, folder, sizeof folder - 1);
  if (length < 0) return NULL;
  size_t room = (size_t)length + strlen(output->part.name) + 2;
  char *path = malloc(room);
  if (path) snprintf(path, room, "%.*s/%s", (int)length, folder, output->part.name);
  return path;
}

/* ---- Room on the disk ------------------------------------------------------------------------- */

/* File systems that store files uncompressed. Others may compress them, or pass them on to one that does. */
static bool stores_plainly(const struct statfs *system) {
  const unsigned long plain[] = {0xef53 /* ext2 to ext4 */, 0x58465342 /* XFS */, 0x01021994 /* tmpfs */};
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if ((unsigned long)system->f_type == plain[i]) return true;
  return false;
}

static adj_status check_room(const adji_output *output, uint64_t bytes) {
  struct statfs system;
  if (fstatfs(output->fd, &system) || !system.f_blocks) return ADJ_OK;
  /* Some blocks are reserved for the superuser. */
  uint64_t blocks = geteuid() ? system.f_bavail : system.f_bfree, room = adji_mul(blocks, (uint64_t)system.f_bsize);
  if (bytes <= room) return ADJ_OK;
  char text[160], needed[32], has[32];
  snprintf(text, sizeof text, "at least %llu bytes (%s) are to be written, and its disk has %llu (%s) free",
           (unsigned long long)bytes, adji_bytes_text((double)bytes, needed), (unsigned long long)room,
           adji_bytes_text((double)room, has));
  if (stores_plainly(&system)) return adji_fail(ADJ_E_IO, "%s: cannot be written: %s", output->name, text);
  adji_log(output->ctx, ADJ_LOG_WARN, "%s: %s", output->name, text);
  return ADJ_OK;
}

adj_status adji_outputs_check_room(adji_output *const *outputs, const uint64_t *bytes, uint32_t count) {
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; !status && i < count; i++) {
    struct stat own, other;
    if (!outputs[i] || !outputs[i]->replaces || fstat(outputs[i]->fd, &own)) continue;
    uint64_t sum = 0;
    for (uint32_t j = 0; j <= i; j++)
      if (outputs[j] && outputs[j]->replaces && !fstat(outputs[j]->fd, &other) && other.st_dev == own.st_dev)
        sum += bytes[j] < UINT64_MAX - sum ? bytes[j] : 0;
    status = check_room(outputs[i], sum);
  }
  return status;
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

/* Writes all bytes; offset NULL: at the current position. */
static adj_status write_all(adji_output *output, const uint64_t *offset, const char *bytes, uint64_t count) {
  uint64_t done = 0;
  if (output->measures) return ADJ_OK;
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
    if (output->meter) status = adji_meter_wrote(output->meter, (uint64_t)written);
    if (status) return status;
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

static adj_status finish_joined(adji_output *output) {
  int fd = output->fd;
  output->fd = -1;
  int error = output->sync && fsync(fd) ? errno : 0;
  if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP) error = 0; /* some file systems cannot synchronise */
  if (close(fd) && !error) error = errno;
  return error ? fail_errno(output, "cannot be written", error) : ADJ_OK;
}

adj_status adji_output_finish(adji_output *output, adj_status outcome) {
  if (output && !outcome && output->joined && output->fd >= 0) return finish_joined(output);
  if (!output || outcome || !output->replaces || output->fd < 0) return outcome;
  output->fd = -1;
  return adji_part_finish(&output->part, output->meter ? adji_meter_synced : NULL, output->meter);
}

adj_status adji_output_appear(adji_output *output, adj_status outcome) {
  outcome = adji_output_finish(output, outcome);
  if (!output || outcome || !output->replaces || output->part.appeared) return outcome;
  return adji_part_commit(&output->part);
}

void adji_output_take_back(adji_output *output) {
  if (output && output->replaces) (void)adji_part_take_back(&output->part);
}

adj_status adji_output_close(adji_output *output, adj_status outcome) {
  if (!output) return outcome;
  outcome = adji_output_appear(output, outcome);
  bool in_place = !output->replaces && !output->joined && !output->measures;
  if (in_place && output->fd != STDOUT_FILENO && close(output->fd) && !outcome)
    outcome = fail_errno(output, "cannot be written", errno);
  free_output(output);
  return outcome;
}
