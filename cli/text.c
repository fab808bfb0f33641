/* SPDX-License-Identifier: MIT
 *
 * Readable numbers, and the clock.
 */
#include "text.h"

#include <stdio.h>
#include <time.h>

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
