/* SPDX-License-Identifier: MIT
 *
 * Shared by the fuzz targets.
 */
#include "harness.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/read.h"

_Noreturn void fuzz_stop(const char *file, int line, const char *condition) {
  fprintf(stderr, "%s:%d: %s does not hold; last message: %s\n", file, line, condition, adj_last_error());
  abort();
}

adj_ctx *fuzz_context(void) {
  static adj_ctx *ctx; /* lives as long as the process */
  if (!ctx) {
    adj_ctx_options options;
    adj_ctx_options_init(&options, sizeof options);
    options.threads = 1;
    options.memory_limit = (uint64_t)64 << 20;
    require(adj_ctx_create(&options, &ctx) == ADJ_OK);
  }
  return ctx;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
  const unsigned char *b = bytes;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static uint64_t look_at(const adj_dataset *set, uint64_t hash) {
  uint64_t count = adj_dataset_count(set);
  uint32_t dim = adj_dataset_dim(set);
  size_t size = adj_dataset_type(set) == ADJ_F64 ? 8 : 4;
  hash = mix(mix(hash, &count, sizeof count), &dim, sizeof dim);
  void *row = malloc(dim * size);
  require(row != NULL);
  for (uint64_t i = 0; i < count; i++) {
    require(adj_dataset_row(set, i, row) == ADJ_OK);
    for (uint32_t j = 0; j < dim; j++)
      require(isfinite(size == 8 ? ((double *)row)[j] : (double)((float *)row)[j]));
    hash = mix(hash, row, dim * size);
    size_t length = 0;
    const char *label = adj_dataset_label(set, i, &length);
    if (label) hash = mix(mix(hash, label, length), &length, sizeof length);
  }
  free(row);
  return hash;
}

uint64_t fuzz_read(const char *name, const adj_open_options *options, const void *bytes, size_t size,
                   uint64_t chunk_bytes) {
  adj_ctx *ctx = fuzz_context();
  adj_open_options defaults;
  adj_open_options_init(&defaults, sizeof defaults);
  adji_source source;
  adji_source_borrow(ctx, name, bytes, size, &source);
  source.chunk_bytes = chunk_bytes;
  adj_dataset *set = NULL;
  adj_status status = adji_read_source(&source, options ? options : &defaults, &set);
  adji_source_close(&source);
  uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), &status, sizeof status);
  if (status) {
    require(set == NULL);
    require(!strncmp(adj_last_error(), name, strlen(name)));
    require(status != ADJ_E_INTERNAL);
    hash = mix(hash, adj_last_error(), strlen(adj_last_error()));
  } else {
    hash = look_at(set, hash);
    adj_dataset_destroy(set);
  }
  require(adj_ctx_memory_used(ctx) == 0);
  return hash;
}

/* ---- The scratch folder ---------------------------------------------------------------------------------- */

static char scratch[256];
static pid_t scratch_owner;

static void remove_name(const char *name, void *user) {
  (void)user;
  unlink(name);
}

/* Only the process that made the folder removes it, not one that was forked from it. */
static void remove_scratch(void) {
  if (getpid() != scratch_owner || chdir(scratch)) return;
  fuzz_visit_scratch(remove_name, NULL);
  if (!chdir("/")) rmdir(scratch);
}

/* The folder is in memory if possible, because outputs are synced to the disk before they get their name. */
void fuzz_enter_scratch(void) {
  if (scratch[0]) return;
  const char *parent = getenv("TMPDIR");
  if (!parent) parent = access("/dev/shm", W_OK) ? P_tmpdir : "/dev/shm";
  int length = snprintf(scratch, sizeof scratch, "%s/adjoin-fuzz-XXXXXX", parent);
  require(length > 0 && (size_t)length < sizeof scratch);
  require(mkdtemp(scratch) && !chdir(scratch));
  scratch_owner = getpid();
  require(!atexit(remove_scratch));
}

void fuzz_save(const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(name, "wb");
  require(file != NULL);
  require(fwrite(bytes, 1, size, file) == size);
  require(!fclose(file));
}

char *fuzz_load(const char *name, size_t *size) {
  FILE *file = fopen(name, "rb");
  if (!file) return NULL;
  require(!fseek(file, 0, SEEK_END));
  long length = ftell(file);
  require(length >= 0);
  rewind(file);
  char *bytes = malloc((size_t)length + 1);
  require(bytes != NULL);
  require(fread(bytes, 1, (size_t)length, file) == (size_t)length);
  bytes[length] = 0;
  *size = (size_t)length;
  fclose(file);
  return bytes;
}

void fuzz_visit_scratch(void (*visit)(const char *name, void *user), void *user) {
  DIR *folder = opendir(".");
  require(folder != NULL);
  for (struct dirent *entry; (entry = readdir(folder));)
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) visit(entry->d_name, user);
  closedir(folder);
}
