/* SPDX-License-Identifier: MIT
 *
 * The wrappers. The linker calls __wrap_NAME for NAME, and the function itself is __real_NAME; here they are wrap_NAME
 * and real_NAME.
 */
#define _GNU_SOURCE
#include "faults/faults.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int armed;              /* the kind that fails */
static atomic_llong remaining, calls; /* calls until one fails; all calls of the kind */
static atomic_llong blocks;

const char *fault_name(fault_kind kind) {
  static const char *const names[] = {
      "none",   "memory", "map",        "thread",           "open",       "stat", "read", "write", "sync",
      "rename", "close",  "read short", "read interrupted", "write short"};
  return names[kind];
}

void fault_begin(fault_kind kind, int64_t n) {
  atomic_store(&calls, 0);
  atomic_store(&remaining, n);
  atomic_store(&armed, (int)kind);
}

int64_t fault_end(void) {
  atomic_store(&armed, FAULT_NONE);
  return atomic_load(&calls);
}

int64_t fault_blocks(void) {
  return atomic_load(&blocks);
}

static bool fails(fault_kind kind, int error) {
  if (atomic_load(&armed) != (int)kind) return false;
  atomic_fetch_add(&calls, 1);
  if (atomic_fetch_sub(&remaining, 1)) return false;
  errno = error;
  return true;
}

/* Whether this call is interrupted: every second one is. */
static bool is_interrupted(void) {
  if (atomic_load(&armed) != FAULT_READ_INTERRUPTED) return false;
  if (atomic_fetch_add(&calls, 1) % 2) return false;
  errno = EINTR;
  return true;
}

static size_t shortened(fault_kind kind, size_t bytes) {
  if (atomic_load(&armed) != (int)kind) return bytes;
  atomic_fetch_add(&calls, 1);
  return bytes < 7 ? bytes : 7;
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static void *counted(void *block) {
  if (block) atomic_fetch_add(&blocks, 1);
  return block;
}

void *real_malloc(size_t bytes) __asm__("__real_malloc");
void *wrap_malloc(size_t bytes) __asm__("__wrap_malloc");
void *wrap_malloc(size_t bytes) {
  return fails(FAULT_MEMORY, ENOMEM) ? NULL : counted(real_malloc(bytes));
}

void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
void *wrap_calloc(size_t count, size_t size) __asm__("__wrap_calloc");
void *wrap_calloc(size_t count, size_t size) {
  return fails(FAULT_MEMORY, ENOMEM) ? NULL : counted(real_calloc(count, size));
}

void *real_realloc(void *block, size_t bytes) __asm__("__real_realloc");
void *wrap_realloc(void *block, size_t bytes) __asm__("__wrap_realloc");
void *wrap_realloc(void *block, size_t bytes) {
  if (fails(FAULT_MEMORY, ENOMEM)) return NULL;
  return block ? real_realloc(block, bytes) : counted(real_realloc(NULL, bytes));
}

void *real_aligned_alloc(size_t alignment, size_t bytes) __asm__("__real_aligned_alloc");
void *wrap_aligned_alloc(size_t alignment, size_t bytes) __asm__("__wrap_aligned_alloc");
void *wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails(FAULT_MEMORY, ENOMEM) ? NULL : counted(real_aligned_alloc(alignment, bytes));
}

char *real_strdup(const char *text) __asm__("__real_strdup");
char *wrap_strdup(const char *text) __asm__("__wrap_strdup");
char *wrap_strdup(const char *text) {
  return fails(FAULT_MEMORY, ENOMEM) ? NULL : counted(real_strdup(text));
}

char *real_strndup(const char *text, size_t most) __asm__("__real_strndup");
char *wrap_strndup(const char *text, size_t most) __asm__("__wrap_strndup");
char *wrap_strndup(const char *text, size_t most) {
  return fails(FAULT_MEMORY, ENOMEM) ? NULL : counted(real_strndup(text, most));
}

char *real_realpath(const char *path, char *to) __asm__("__real_realpath");
char *wrap_realpath(const char *path, char *to) __asm__("__wrap_realpath");
char *wrap_realpath(const char *path, char *to) {
  if (fails(FAULT_MEMORY, ENOMEM)) return NULL;
  return to ? real_realpath(path, to) : counted(real_realpath(path, NULL));
}

void real_free(void *block) __asm__("__real_free");
void wrap_free(void *block) __asm__("__wrap_free");
void wrap_free(void *block) {
  if (block) atomic_fetch_sub(&blocks, 1);
  real_free(block);
}

void *real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) __asm__("__real_mmap");
void *wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) __asm__("__wrap_mmap");
void *wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
  return fails(FAULT_MAP, ENOMEM) ? MAP_FAILED : real_mmap(at, bytes, protection, flags, file, offset);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

int real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                        void *argument) __asm__("__real_pthread_create");
int wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *),
                        void *argument) __asm__("__wrap_pthread_create");
int wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*main)(void *), void *argument) {
  return fails(FAULT_THREAD, EAGAIN) ? EAGAIN : real_pthread_create(thread, attributes, main, argument);
}

/* ---- Files --------------------------------------------------------------------------------------------- */

int real_open(const char *path, int flags, ...) __asm__("__real_open");
int wrap_open(const char *path, int flags, ...) __asm__("__wrap_open");
int wrap_open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return fails(FAULT_OPEN, EMFILE) ? -1 : real_open(path, flags, mode);
}

int real_openat(int folder, const char *path, int flags, ...) __asm__("__real_openat");
int wrap_openat(int folder, const char *path, int flags, ...) __asm__("__wrap_openat");
int wrap_openat(int folder, const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  int mode = flags & O_CREAT ? va_arg(arguments, int) : 0;
  va_end(arguments);
  return fails(FAULT_OPEN, EMFILE) ? -1 : real_openat(folder, path, flags, mode);
}

FILE *real_fopen(const char *path, const char *mode) __asm__("__real_fopen");
FILE *wrap_fopen(const char *path, const char *mode) __asm__("__wrap_fopen");
FILE *wrap_fopen(const char *path, const char *mode) {
  return fails(FAULT_OPEN, EMFILE) ? NULL : real_fopen(path, mode);
}

int real_fstat(int file, struct stat *about) __asm__("__real_fstat");
int wrap_fstat(int file, struct stat *about) __asm__("__wrap_fstat");
int wrap_fstat(int file, struct stat *about) {
  return fails(FAULT_STAT, EIO) ? -1 : real_fstat(file, about);
}

int real_stat(const char *path, struct stat *about) __asm__("__real_stat");
int wrap_stat(const char *path, struct stat *about) __asm__("__wrap_stat");
int wrap_stat(const char *path, struct stat *about) {
  return fails(FAULT_STAT, EIO) ? -1 : real_stat(path, about);
}

ssize_t real_read(int file, void *to, size_t bytes) __asm__("__real_read");
ssize_t wrap_read(int file, void *to, size_t bytes) __asm__("__wrap_read");
ssize_t wrap_read(int file, void *to, size_t bytes) {
  if (is_interrupted() || fails(FAULT_READ, EIO)) return -1;
  return real_read(file, to, shortened(FAULT_READ_SHORT, bytes));
}

ssize_t real_pread(int file, void *to, size_t bytes, off_t offset) __asm__("__real_pread");
ssize_t wrap_pread(int file, void *to, size_t bytes, off_t offset) __asm__("__wrap_pread");
ssize_t wrap_pread(int file, void *to, size_t bytes, off_t offset) {
  if (is_interrupted() || fails(FAULT_READ, EIO)) return -1;
  return real_pread(file, to, shortened(FAULT_READ_SHORT, bytes), offset);
}

ssize_t real_write(int file, const void *from, size_t bytes) __asm__("__real_write");
ssize_t wrap_write(int file, const void *from, size_t bytes) __asm__("__wrap_write");
ssize_t wrap_write(int file, const void *from, size_t bytes) {
  if (is_interrupted() || fails(FAULT_WRITE, ENOSPC)) return -1;
  return real_write(file, from, shortened(FAULT_WRITE_SHORT, bytes));
}

ssize_t real_pwrite(int file, const void *from, size_t bytes, off_t offset) __asm__("__real_pwrite");
ssize_t wrap_pwrite(int file, const void *from, size_t bytes, off_t offset) __asm__("__wrap_pwrite");
ssize_t wrap_pwrite(int file, const void *from, size_t bytes, off_t offset) {
  if (is_interrupted() || fails(FAULT_WRITE, ENOSPC)) return -1;
  return real_pwrite(file, from, shortened(FAULT_WRITE_SHORT, bytes), offset);
}

int real_fsync(int file) __asm__("__real_fsync");
int wrap_fsync(int file) __asm__("__wrap_fsync");
int wrap_fsync(int file) {
  return fails(FAULT_SYNC, EIO) ? -1 : real_fsync(file);
}

int real_fdatasync(int file) __asm__("__real_fdatasync");
int wrap_fdatasync(int file) __asm__("__wrap_fdatasync");
int wrap_fdatasync(int file) {
  return fails(FAULT_SYNC, EIO) ? -1 : real_fdatasync(file);
}

int real_renameat(int folder, const char *from, int into, const char *to) __asm__("__real_renameat");
int wrap_renameat(int folder, const char *from, int into, const char *to) __asm__("__wrap_renameat");
int wrap_renameat(int folder, const char *from, int into, const char *to) {
  return fails(FAULT_RENAME, EACCES) ? -1 : real_renameat(folder, from, into, to);
}

int real_renameat2(int folder, const char *from, int into, const char *to, unsigned how) __asm__("__real_renameat2");
int wrap_renameat2(int folder, const char *from, int into, const char *to, unsigned how) __asm__("__wrap_renameat2");
int wrap_renameat2(int folder, const char *from, int into, const char *to, unsigned how) {
  return fails(FAULT_RENAME, EACCES) ? -1 : real_renameat2(folder, from, into, to, how);
}

int real_close(int file) __asm__("__real_close");
int wrap_close(int file) __asm__("__wrap_close");
int wrap_close(int file) {
  bool broken = fails(FAULT_CLOSE, EIO);
  int failed = real_close(file);
  if (broken) errno = EIO;
  return broken ? -1 : failed;
}

/* ---- The process --------------------------------------------------------------------------------------- */

static int entries_of(const char *path) {
  DIR *folder = opendir(path);
  int count = 0;
  while (folder && readdir(folder))
    count++;
  if (folder) closedir(folder);
  return count;
}

/* A thread may be listed for a moment after it was joined, so this waits up to a second for them to go. */
int fault_threads(void) {
  int count = 0;
  for (int i = 0; i < 1000; i++) {
    count = entries_of("/proc/self/task") - 2; /* "." and ".." */
    if (count == 1) break;
    usleep(1000);
  }
  return count;
}

int fault_descriptors(void) {
  return entries_of("/proc/self/fd") - 3; /* ".", ".." and the descriptor of the folder itself */
}
