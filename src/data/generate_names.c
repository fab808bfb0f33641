/* SPDX-License-Identifier: MIT
 *
 * Names of published sets: kind, dimension and size in one word, "Unif2D2M", "Syn16D2M". The papers'
 * synthetic sets of 16 to 64 dimensions ("Syn") are exponential with lambda 40, as "Expo" is.
 */
#include <string.h>
#include <strings.h>

#include "data/generate.h"

/* The number at *at, which moves behind it; 0 when there is none or it passes limit. */
static uint64_t take_number(const char **at, uint64_t limit) {
  uint64_t value = 0;
  for (; **at >= '0' && **at <= '9'; ++*at) {
    value = value * 10 + (uint64_t)(**at - '0');
    if (value > limit) return 0;
  }
  return value;
}

static uint64_t take_unit(const char **at) {
  char unit = **at;
  if (unit == 'K' || unit == 'k') return ++*at, 1000;
  if (unit == 'M' || unit == 'm') return ++*at, 1000000;
  return 0;
}

bool adji_published_find(const char *name, adji_published_set *set) {
  static const struct {
    const char *prefix, *generator;
  } families[] = {{"Unif", "unif"},     {"Expo", "expo"},     {"Syn", "expo"},       {"Clusters", "clusters"},
                  {"Normal", "normal"}, {"Sphere", "sphere"}, {"Lattice", "lattice"}};
  for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
    size_t length = strlen(families[f].prefix);
    if (strncasecmp(name, families[f].prefix, length)) continue;
    const char *at = name + length;
    uint64_t dim = take_number(&at, 1u << 24);
    if (!dim || (*at != 'D' && *at != 'd')) return false;
    at++;
    uint64_t count = take_number(&at, ADJ_MAX_COUNT);
    count *= take_unit(&at);
    if (!count || *at) return false;
    set->generator = families[f].generator;
    set->dim = (uint32_t)dim;
    set->count = count;
    return true;
  }
  return false;
}
