/* SPDX-License-Identifier: MIT
 *
 * Readable numbers, the clock, and small text files.
 */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *text_count(uint64_t value, char *buffer) {
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
  char *to = buffer;
  for (int i = 0; i < length; i++) {
    if (i && (length - i) % 3 == 0) *to++ = ',';
    *to++ = digits[i];
  }
  *to = 0;
  return buffer;
}

const char *text_short(double value, char *buffer) {
  static const char *const units[] = {"", " k", " M", " G", " T", " P"};
  int unit = 0;
  for (; value >= 999.5 && unit < 5; unit++)
    value /= 1000;
  int decimals = !unit || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  snprintf(buffer, 32, "%.*f%s", decimals, value, units[unit]);
  return buffer;
}

const char *text_bytes(double bytes, char *buffer) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; unit++)
    bytes /= 1024;
  snprintf(buffer, 32, "%.*f %s", unit ? 1 : 0, bytes, units[unit]);
  return buffer;
}

const char *text_duration(double seconds, char *buffer) {
  if (seconds < 10) {
    snprintf(buffer, 24, "%.*f s", seconds < 1 ? 3 : 2, seconds);
  } else if (seconds < 60) {
    snprintf(buffer, 24, "%.0f s", seconds);
  } else {
    unsigned long whole = seconds < 1e9 ? (unsigned long)seconds : 1000000000UL;
    if (whole < 3600)
      snprintf(buffer, 24, "%lu:%02lu", whole / 60, whole % 60);
    else
      snprintf(buffer, 24, "%lu:%02lu:%02lu", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return buffer;
}

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool save_to(FILE *file, const char *text, size_t length) {
  bool good = file && fwrite(text, 1, length, file) == length;
  int error = errno;
  if (file && file != stdout && fclose(file) && good) {
    error = errno;
    good = false;
  }
  if (file == stdout && good && fflush(stdout)) {
    error = errno;
    good = false;
  }
  errno = error;
  return good;
}

/* A device or a pipe is written in place, not replaced by a file. */
static bool is_special(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

bool text_save(const char *path, const char *text, size_t length) {
  if (!strcmp(path, "-") || is_special(path)) {
    bool good = save_to(strcmp(path, "-") ? fopen(path, "w") : stdout, text, length);
    if (!good) fprintf(stderr, "adjoin: %s: cannot be written: %s\n", path, strerror(errno));
    return good;
  }
  size_t room = strlen(path) + 32;
  char *part = malloc(room);
  if (!part) {
    fprintf(stderr, "adjoin: %s: no memory for its name\n", path);
    return false;
  }
  snprintf(part, room, "%s.part-%ld", path, (long)getpid());
  bool good = save_to(fopen(part, "w"), text, length) && !rename(part, path);
  if (!good) {
    fprintf(stderr, "adjoin: %s: cannot be written: %s\n", path, strerror(errno));
    unlink(part);
  }
  free(part);
  return good;
}

bool text_can_save(const char *path) {
  struct stat info;
  bool exists = stat(path, &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    fprintf(stderr, "adjoin: %s: cannot be written: %s\n", path, strerror(EISDIR));
    return false;
  }
  if (!strcmp(path, "-") || (exists && !S_ISREG(info.st_mode))) return true;
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  bool good = !folder || !access(folder, W_OK | X_OK);
  if (!good) fprintf(stderr, "adjoin: %s: cannot be written: %s\n", path, strerror(errno));
  free(folder);
  return good;
}
