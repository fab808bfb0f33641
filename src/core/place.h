/* SPDX-License-Identifier: MIT
 *
 * Where a file that is to be written goes: an open folder and a name in it, after all links. Later operations on the
 * file are relative to that folder, so they are safe if the path leads elsewhere meanwhile.
 */
#ifndef ADJI_PLACE_H
#define ADJI_PLACE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/status.h"

/* fd: a descriptor that was just opened, or -1. If the process has closed standard input, output or error and fd took
 * that number, it is moved to a higher one: a printed message must not end up in the file. */
int adji_fd_above_standard(int fd);

/* Opens a text file for reading, with such a descriptor. NULL and errno if it cannot be opened. */
FILE *adji_open_text(const char *path);

typedef struct adji_place {
  int folder;        /* -1: no place for a new file, but something to write to directly, such as a pipe */
  bool listable;     /* the folder may be listed and synchronised, not only searched */
  char *name;        /* in the folder; not a link */
  bool exists;       /* there is a file, which will be replaced */
  struct stat about; /* of the existing file */
} adji_place;

/* Follows the links at the end of the path, even to a file that does not exist yet. ADJ_E_IO for a directory, for a
 * folder that does not exist, and for a link that another user put into a folder where everyone may create files. After
 * a failure there is nothing to clear. */
adj_status adji_place_find(const char *path, adji_place *place);
void adji_place_clear(adji_place *place);

/* Whether two places are the same file, even by two names, or by two paths to a file that does not exist yet. */
bool adji_place_same(const adji_place *a, const adji_place *b);

#endif
