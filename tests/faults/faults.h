/* SPDX-License-Identifier: MIT
 *
 * System calls and allocations that fail. A program that is linked with faults.c and adjoin_wrap_system()
 * (CMakeLists.txt here) calls the wrappers of faults.c instead of malloc, open, pthread_create and so on. This holds
 * for its own objects and those of the static library, but not for other libraries. Works under every sanitizer.
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
  /* Not failures, but results that the caller must handle. */
  FAULT_READ_SHORT = FAULT_KINDS, /* every read returns at most 7 bytes                */
  FAULT_READ_INTERRUPTED,         /* every second read or write is interrupted (EINTR) */
  FAULT_WRITE_SHORT,              /* every write takes at most 7 bytes                 */
  FAULT_HARMLESS_END
} fault_kind;

const char *fault_name(fault_kind kind);

/* Makes the n-th call of a kind from now on fail, once. n counts from 0. */
void fault_begin(fault_kind kind, int64_t n);

/* Ends the failures. Returns the number of calls of the kind since fault_begin. */
int64_t fault_end(void);

/* The number of blocks and mappings that were not freed yet. */
int64_t fault_blocks(void);

/* The numbers of threads and open descriptors of this process. */
int fault_threads(void);
int fault_descriptors(void);

#endif
