/* SPDX-License-Identifier: MIT
 *
 * The memory and cores that this process may use: less than the machine has if it runs in a container or a batch job.
 * Limits are those of control groups (cgroups), version 1 and 2. A group's limit applies to all groups inside it, so
 * the lowest limit on the way up counts.
 */
#ifndef ADJI_LIMITS_H
#define ADJI_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "core/exact.h"

enum { ADJI_LIMIT_FILE = 512 };

typedef struct adji_limits {
  uint64_t available;                /* bytes available without swapping                                 */
  uint64_t group_memory;             /* bytes that the limiting group may hold; 0: no group limits it    */
  char memory_file[ADJI_LIMIT_FILE]; /* the file with this limit; empty: none                            */
  double quota;                      /* cores' worth of time that the limiting group may use; 0: no limit */
  char quota_file[ADJI_LIMIT_FILE];
} adji_limits;

/* Never fails: files that cannot be read or parsed set no limit. root is put in front of /proc and /sys; it is ""
 * except in tests. */
void adji_limits_read(const char *root, adji_limits *out);

/* Threads that can run at once: the smaller of `cores` and the quota, rounded up. */
uint32_t adji_limits_threads(const adji_limits *limits, uint32_t cores);

#endif
