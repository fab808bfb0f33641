/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target on files and on the files of folders, without a fuzzer.
 *
 *   replay_csv corpus/csv
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "harness.h"

/* Puts the bytes in a block of exactly their size, so that a sanitizer sees reads beyond it. */
static void replay_file(const char *path) {
  FILE *file = fopen(path, "rb");
  require(file != NULL);
  require(fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  require(size >= 0);
  rewind(file);
  uint8_t *bytes = malloc(size ? (size_t)size : 1);
  require(bytes != NULL);
  require(fread(bytes, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  LLVMFuzzerTestOneInput(bytes, (size_t)size);
  free(bytes);
}

static unsigned replay_folder(const char *folder) {
  DIR *dir = opendir(folder);
  require(dir != NULL);
  unsigned files = 0;
  for (struct dirent *entry; (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    replay_file(path);
    files++;
  }
  closedir(dir);
  return files;
}

int main(int argc, char **argv) {
  unsigned files = 0;
  for (int i = 1; i < argc; i++) {
    struct stat about;
    char *path = realpath(argv[i], NULL); /* a target may change the folder */
    require(path != NULL && stat(path, &about) == 0);
    if (S_ISDIR(about.st_mode)) {
      files += replay_folder(path);
    } else {
      replay_file(path);
      files++;
    }
    free(path);
  }
  printf("%u files replayed\n", files);
  return files ? 0 : 1; /* an empty corpus tests nothing */
}
