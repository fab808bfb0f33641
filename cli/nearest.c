/* SPDX-License-Identifier: MIT
 *
 * The name that a user probably meant: the only one that begins with the text typed, or the one with the fewest typing
 * errors.
 */
#include <stdint.h>
#include <string.h>

#include "options.h"

enum { LONGEST = 32 };

static unsigned least(unsigned a, unsigned b) {
  return a < b ? a : b;
}

/* The number of letters that are added, dropped, changed or swapped with their neighbour; LONGEST for long words. */
static unsigned typing_errors(const char *a, const char *b) {
  size_t m = strlen(a), n = strlen(b);
  unsigned d[LONGEST][LONGEST];
  if (m >= LONGEST || n >= LONGEST) return LONGEST;
  for (size_t i = 0; i <= m; i++)
    d[i][0] = (unsigned)i;
  for (size_t j = 0; j <= n; j++)
    d[0][j] = (unsigned)j;
  for (size_t i = 1; i <= m; i++)
    for (size_t j = 1; j <= n; j++) {
      unsigned best = least(d[i - 1][j], d[i][j - 1]) + 1;
      best = least(best, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) best = least(best, d[i - 2][j - 2] + 1);
      d[i][j] = best;
    }
  return d[m][n];
}

/* The only name that begins with the text; NULL if there is none, or several. */
static const char *completed(const char *typed, const char *const *names) {
  const char *found = NULL;
  for (; *names; names++) {
    if (strncmp(*names, typed, strlen(typed))) continue;
    if (found) return NULL;
    found = *names;
  }
  return found;
}

const char *nearest_name(const char *typed, const char *const *names) {
  const char *nearest = *typed ? completed(typed, names) : NULL;
  if (nearest) return nearest;
  unsigned fewest = ((unsigned)strlen(typed) + 1) / 3 + 1; /* with this many errors it is another word */
  for (; *names; names++) {
    unsigned errors = typing_errors(typed, *names);
    if (errors < fewest) {
      fewest = errors;
      nearest = *names;
    }
  }
  return nearest;
}
