/* SPDX-License-Identifier: MIT
 *
 * The files of a checkpoint: pieces of finished blocks, and which blocks are finished.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../message.h"
#include "checkpoint.h"

enum { PATH_ROOM = 4096 };

/* The header of a piece. Offsets, ids and distances follow. */
typedef struct piece_head {
  char magic[8];
  uint64_t first, count, entries, pairs, value_bytes;
  uint64_t checksum; /* of everything after the header */
} piece_head;

static const char MAGIC[8] = "adjpiece";

void checkpoint_rows_free(checkpoint_rows *rows) {
  free(rows->offsets);
  free(rows->ids);
  free(rows->distances);
  *rows = (checkpoint_rows){0};
}

static void piece_path(const checkpoint *c, uint64_t block, uint64_t first, uint64_t count, char *path) {
  snprintf(path, PATH_ROOM, "%s/block-%05" PRIu64 ".rows-%" PRIu64 "-%" PRIu64, c->folder, block, first, count);
}

static void done_path(const checkpoint *c, uint64_t block, char *path) {
  snprintf(path, PATH_ROOM, "%s/block-%05" PRIu64 ".done", c->folder, block);
}

static adj_status fail(char *message, const char *path, const char *what, int error) {
  snprintf(message, MESSAGE_ROOM, "%.900s: %s%s%s", path, what, error ? ": " : "", error ? strerror(error) : "");
  return ADJ_E_IO;
}

static size_t value_bytes(const checkpoint *c) {
  if (!c->job->request->distance) return 0;
  return adj_dataset_type(c->job->left.set) == ADJ_F64 ? 8 : 4;
}

/* FNV-1a over words of eight bytes, the last one filled up with zeros. */
static uint64_t add_checksum(uint64_t sum, const void *bytes, uint64_t count) {
  for (uint64_t at = 0; at < count; at += 8) {
    uint64_t word = 0;
    memcpy(&word, (const char *)bytes + at, count - at < 8 ? count - at : 8);
    sum = (sum ^ word) * UINT64_C(0x100000001b3);
  }
  return sum;
}

static uint64_t checksum_of(const checkpoint_rows *rows, size_t size) {
  uint64_t sum = add_checksum(UINT64_C(0xcbf29ce484222325), rows->offsets, (rows->count + 1) * 8);
  sum = add_checksum(sum, rows->ids, rows->entries * 8);
  return size ? add_checksum(sum, rows->distances, rows->entries * size) : sum;
}

/* ---- Writing -------------------------------------------------------------------------------------------- */

static bool put(FILE *file, const void *bytes, uint64_t size, uint64_t count) {
  return !count || !size || fwrite(bytes, size, count, file) == count;
}

/* The file is renamed when it is on the disk. */
adj_status checkpoint_save(const checkpoint *c, uint64_t block, const checkpoint_rows *rows, char *message) {
  char path[PATH_ROOM], part[PATH_ROOM + 8];
  size_t size = value_bytes(c);
  if (!rows->count) return ADJ_OK;
  piece_head head = {.first = rows->first, .count = rows->count, .entries = rows->entries, .pairs = rows->pairs};
  memcpy(head.magic, MAGIC, sizeof head.magic);
  head.value_bytes = size;
  head.checksum = checksum_of(rows, size);
  piece_path(c, block, rows->first, rows->count, path);
  snprintf(part, sizeof part, "%s.part", path);
  FILE *file = fopen(part, "wb");
  if (!file) return fail(message, path, "cannot be created", errno);
  bool good = put(file, &head, sizeof head, 1) && put(file, rows->offsets, 8, rows->count + 1) &&
              put(file, rows->ids, 8, rows->entries) && put(file, rows->distances, size, rows->entries);
  good = good && !fflush(file) && (c->job->request->no_sync || !fsync(fileno(file)));
  int error = errno;
  if (fclose(file) && good) {
    good = false;
    error = errno;
  }
  if (good && rename(part, path)) {
    good = false;
    error = errno;
  }
  if (!good) unlink(part);
  return good ? ADJ_OK : fail(message, path, "cannot be written", error);
}

adj_status checkpoint_finish(const checkpoint *c, uint64_t block, const char *list) {
  char path[PATH_ROOM];
  done_path(c, block, path);
  return adj_text_save(c->job->ctx, path, list, strlen(list), c->job->request->no_sync ? ADJ_NO_SYNC : 0);
}

bool checkpoint_is_done(const checkpoint *c, uint64_t block) {
  char path[PATH_ROOM];
  done_path(c, block, path);
  return !access(path, R_OK);
}

/* ---- Reading ----------------------------------------------------------------------------------------------- */

static bool get(FILE *file, void *bytes, uint64_t size, uint64_t count) {
  return !count || !size || fread(bytes, size, count, file) == count;
}

/* Memory for the rows of a piece; only_sizes: for its offsets alone. */
static bool allocate(checkpoint_rows *rows, size_t size, bool only_sizes) {
  rows->offsets = malloc((rows->count + 1) * sizeof *rows->offsets);
  if (only_sizes) return rows->offsets;
  rows->ids = malloc(rows->entries * sizeof *rows->ids + 1);
  if (size) rows->distances = malloc(rows->entries * size + 1);
  return rows->offsets && rows->ids && (!size || rows->distances);
}

static bool offsets_ascend(const checkpoint_rows *rows) {
  for (uint64_t i = 0; i < rows->count; i++)
    if (rows->offsets[i] > rows->offsets[i + 1]) return false;
  return !rows->offsets[0] && rows->offsets[rows->count] == rows->entries;
}

/* Reads a whole piece; only_sizes: without ids and distances, and so without checking the checksum. */
static adj_status read_piece(const char *path, size_t size, bool only_sizes, checkpoint_rows *rows, char *message) {
  piece_head head;
  const uint64_t most = UINT64_MAX / 32;
  FILE *file = fopen(path, "rb");
  if (!file) return fail(message, path, "cannot be opened", errno);
  bool good = get(file, &head, sizeof head, 1) && !memcmp(head.magic, MAGIC, sizeof head.magic) &&
              head.value_bytes == size && head.count < most && head.entries < most;
  bool memory = true;
  if (good) {
    *rows = (checkpoint_rows){.first = head.first, .count = head.count, .entries = head.entries, .pairs = head.pairs};
    memory = allocate(rows, size, only_sizes);
  }
  good = good && memory && get(file, rows->offsets, sizeof *rows->offsets, head.count + 1) && offsets_ascend(rows);
  if (good && !only_sizes)
    good = get(file, rows->ids, sizeof *rows->ids, head.entries) && get(file, rows->distances, size, head.entries) &&
           checksum_of(rows, size) == head.checksum;
  fclose(file);
  if (good) return ADJ_OK;
  checkpoint_rows_free(rows);
  if (memory) return fail(message, path, "is damaged; remove the checkpoint to begin again", 0);
  snprintf(message, MESSAGE_ROOM, "%.900s: no memory for its rows", path);
  return ADJ_E_MEMORY;
}

/* Passes on the rows of the piece that belong to this rank in this run. */
static adj_status pass_rows(const checkpoint *c, const checkpoint_rows *piece, checkpoint_fn fn, void *user) {
  uint64_t first = c->job->left.first, end = first + adj_dataset_count(c->job->left.set);
  uint64_t from = piece->first > first ? piece->first : first, to = piece->first + piece->count;
  if (to > end) to = end;
  uint64_t skipped = from - piece->first, begin = piece->offsets[skipped];
  checkpoint_rows own = {.first = from, .count = to - from, .offsets = piece->offsets + skipped};
  own.entries = own.offsets[own.count] - begin;
  own.ids = piece->ids;
  own.distances = piece->distances;
  return fn(user, &own);
}

static bool has_own_rows(const checkpoint *c, uint64_t first, uint64_t count) {
  uint64_t own = c->job->left.first, end = own + adj_dataset_count(c->job->left.set);
  return count && first < end && first + count > own;
}

adj_status checkpoint_load(const checkpoint *c, uint64_t block, bool only_sizes, checkpoint_fn fn, void *user,
                           char *message) {
  char path[PATH_ROOM], line[256];
  done_path(c, block, path);
  FILE *list = fopen(path, "r");
  if (!list) return fail(message, path, "cannot be opened", errno);
  adj_status status = ADJ_OK;
  while (!status && fgets(line, sizeof line, list)) {
    char *at = line;
    uint64_t first = strtoull(at, &at, 10), count = strtoull(at, &at, 10);
    checkpoint_rows piece = {0};
    if (!has_own_rows(c, first, count)) continue;
    piece_path(c, block, first, count, path);
    status = read_piece(path, value_bytes(c), only_sizes, &piece, message);
    if (!status && (piece.first != first || piece.count != count))
      status = fail(message, path, "has other rows than its name says", 0);
    if (!status) status = pass_rows(c, &piece, fn, user);
    checkpoint_rows_free(&piece);
  }
  fclose(list);
  return status;
}

/* ---- Removing ------------------------------------------------------------------------------------------------ */

void checkpoint_remove(const checkpoint *c) {
  DIR *folder = opendir(c->folder);
  if (!folder) return;
  for (const struct dirent *entry; (entry = readdir(folder));)
    if (!strncmp(entry->d_name, "block-", 6) || !strcmp(entry->d_name, "checkpoint"))
      unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
  rmdir(c->folder); /* fails if something else is in it */
}
