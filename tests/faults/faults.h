/* SPDX-License-Identifier: MIT
 *
 * System calls and allocations that fail. A program that is linked with faults.c and adjoin_wrap_system()
 * (CMakeLists.txt here) calls the wrappers of faults.c in the place of malloc, open, pthread_create and so on: its own
 * objects do, and those of the static library, but not other libraries. Works under every sanitizer.
 */
#ifndef ADJOIN_TEST_FAULTS_H
#define ADJOIN_TEST_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum fault_kind {
  FAULT_NONE,
  FAULT_MEMORY, /* malloc, calloc, realloc, aligned_alloc, strdup, strndup, realpath: ENOMEM */
  FAULT_MAP,    /* mmap: ENOMEM             */
  FAULT_THREAD, /* pthread_create: EAGAIN   */
  FAULT_OPEN,   /* open, fopen: EMFILE      */
  FAULT_STAT,   /* stat, fstat: EIO         */
  FAULT_READ,   /* read, pread: EIO         */
  FAULT_WRITE,  /* write, pwrite: ENOSPC    */
  FAULT_SYNC,   /* fsync, fdatasync: EIO    */
  FAULT_RENAME, /* rename: EACCES           */
  FAULT_CLOSE,  /* close: EIO, but the descriptor is closed */
  FAULT_KINDS,
  /* Not failures: what the caller must cope with. */
  FAULT_READ_SHORT = FAULT_KINDS, /* every read returns at most 7 bytes                */
  FAULT_READ_INTERRUPTED,         /* every second read or write is interrupted (EINTR) */
  FAULT_WRITE_SHORT,              /* every write takes at most 7 bytes                 */
  FAULT_HARMLESS_END
} fault_kind;

const char *fault_name(fault_kind kind);

/* From now on the n-th call of the kind fails, once; n from 0. */
void fault_begin(fault_kind kind, int64_t n);

/* Nothing fails any more. Returns the number of calls of that kind since fault_begin. */
int64_t fault_end(void);

/* Blocks and mappings that were made and not given back. */
int64_t fault_blocks(void);

/* Threads and open descriptors of this process. */
int fault_threads(void);
int fault_descriptors(void);

#endif
