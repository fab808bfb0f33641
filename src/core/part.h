/* SPDX-License-Identifier: MIT
 *
 * A file that appears under its name only when it is complete: until then it is a part file, NAME.part-adjoin-..., in
 * the same folder. It is written through its descriptor, then finished (access rights, everything on the disk), then
 * committed (renamed). A crash of the program, or of the machine, leaves either the old file or the new one under the
 * name, complete.
 *
 * The process that writes a part file holds a lock on it (flock), which ends with the process, however it ends. So a
 * part file without a lock is garbage, and is removed when the next part is created in the folder.
 */
#ifndef ADJI_PART_H
#define ADJI_PART_H

#include <stdint.h>

#include "core/place.h"

typedef struct adji_part {
  const char *path; /* for messages */
  adji_place place;
  char *name; /* of the part file, in the folder of the place; NULL: there is none (any more) */
  int fd;     /* to write to; -1: closed */
  int held;   /* a copy that keeps the lock when fd is closed */
  uint32_t flags;
  bool appeared; /* the new file has its name */
  bool swapped;  /* the old file has the name of the part file, until the part is discarded */
  bool lost;     /* the old file is gone */
} adji_part;

/* Takes over the place, even on failure. flags: adj_write_flags. path must outlive the part. */
adj_status adji_part_create(const char *path, adji_place *place, uint32_t flags, adji_part *part);

/* Reports how far synchronising is, for progress; a failure ends it. */
typedef adj_status (*adji_synced_fn)(void *user, uint64_t bytes);

/* Gives the file the access rights of the one it replaces, waits until all of it is on the disk, and closes it.
 * adj_cancel ends it. synced may be NULL. */
adj_status adji_part_finish(adji_part *part, adji_synced_fn synced, void *user);

/* Gives a finished file its name. After a failure everything is as before, if the file system can exchange two
 * names. */
adj_status adji_part_commit(adji_part *part);

/* Undoes a commit. False if that is not possible. */
bool adji_part_take_back(adji_part *part);

/* Removes the part file, or the old one after a commit, and frees everything. For a part that is all zero, does
 * nothing. */
void adji_part_discard(adji_part *part);

#endif
