/* SPDX-License-Identifier: MIT
 *
 * Where a file that is to be written goes: an open folder and a name in it, after all links. What happens to the file
 * later is relative to that folder, so it does not matter if the path comes to mean something else meanwhile.
 */
#ifndef ADJI_PLACE_H
#define ADJI_PLACE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/status.h"

/* A descriptor that was just opened, or -1. If it is that of standard input, output or error, which the process has
 * closed, it is moved above these: a message that something prints must not end up in the file. */
int adji_fd_above_standard(int fd);

/* A text file to read, above these. NULL and errno if it cannot be opened. */
FILE *adji_open_text(const char *path);

typedef struct adji_place {
  int folder;        /* -1: not a place for a new file, but something to write to as it is, such as a pipe */
  bool listable;     /* the folder may be read and synchronised, not only searched */
  char *name;        /* in the folder; not a link */
  bool exists;       /* a file, which is replaced */
  struct stat about; /* of what exists */
} adji_place;

/* Follows the links at the end of the path, also to a file that does not exist yet. ADJ_E_IO for a directory, for a
 * folder that does not exist, and for a link that another user put into a folder where everyone may create files. After
 * a failure there is nothing to clear. */
adj_status adji_place_find(const char *path, adji_place *place);
void adji_place_clear(adji_place *place);

/* Whether two places are one file: also by two names for it, or by two paths to one that does not exist yet. */
bool adji_place_same(const adji_place *a, const adji_place *b);

#endif
