/* SPDX-License-Identifier: MIT
 *
 * What this process may use of the machine: memory and cores, less where a container or a job of a batch system has a
 * share only. Both come from control groups (cgroups), version 1 and 2: a group's limit holds for all groups inside it,
 * so the least on the way up counts.
 */
#ifndef ADJI_LIMITS_H
#define ADJI_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#include "core/exact.h"

enum { ADJI_LIMIT_FILE = 512 };

typedef struct adji_limits {
  uint64_t available;                /* bytes that can be had without swapping                           */
  uint64_t group_memory;             /* bytes that the limiting group may hold; 0: no group limits it    */
  char memory_file[ADJI_LIMIT_FILE]; /* which file says so; empty: none                                  */
  double quota;                      /* cores' worth of time that the limiting group may use; 0: no limit */
  char quota_file[ADJI_LIMIT_FILE];
} adji_limits;

/* Never fails: what cannot be read or understood limits nothing. root is put in front of /proc and /sys: "" but for
 * tests. */
void adji_limits_read(const char *root, adji_limits *out);

/* Threads that can run at once: of `cores`, as many as the quota pays for, rounded up. */
uint32_t adji_limits_threads(const adji_limits *limits, uint32_t cores);

#endif
