/* SPDX-License-Identifier: MIT
 *
 * The names of algorithms and backends.
 */
#include "core/names.h"

#include <stdio.h>
#include <string.h>

static const char *const algorithms[] = {[ADJI_ALGORITHM_AUTO] = "auto",
                                         [ADJI_ALGORITHM_GRID] = "grid",
                                         [ADJI_ALGORITHM_EGO] = "ego",
                                         [ADJI_ALGORITHM_KDTREE] = "kdtree",
                                         [ADJI_ALGORITHM_BRUTE] = "brute"};
static const char *const backends[] = {[ADJ_BACKEND_AUTO] = "auto",
                                       [ADJ_BACKEND_CPU] = "cpu",
                                       [ADJ_BACKEND_GPU] = "gpu",
                                       [ADJ_BACKEND_HYBRID] = "hybrid",
                                       [ADJ_BACKEND_REFERENCE] = "reference"};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms, BACKENDS = sizeof backends / sizeof *backends };

uint32_t adji_algorithms_of(adj_join_kind kind) {
  uint32_t both = ADJI_BIT(ADJI_ALGORITHM_KDTREE) | ADJI_BIT(ADJI_ALGORITHM_GRID) | ADJI_BIT(ADJI_ALGORITHM_BRUTE);
  return both | (kind == ADJ_KNN ? 0 : ADJI_BIT(ADJI_ALGORITHM_EGO));
}

const char *adji_algorithm_name(adji_algorithm algorithm) {
  return algorithms[algorithm];
}

const char *adji_backend_name(adj_backend backend) {
  return backends[backend];
}

bool adji_algorithm_find(const char *name, adji_algorithm *out) {
  *out = ADJI_ALGORITHM_AUTO;
  if (!name) return true;
  for (int i = 0; i < ALGORITHMS; i++)
    if (!strcmp(name, algorithms[i])) {
      *out = (adji_algorithm)i;
      return true;
    }
  return false;
}

static const char *list(const char *const *names, int count, uint32_t set, const char *last, char *text,
                        size_t capacity) {
  size_t used = 0;
  text[0] = 0;
  for (int i = 0; i < count && used < capacity; i++) {
    if (!(set & ADJI_BIT(i))) continue;
    const char *before = !used ? "" : set >> i > 1 ? ", " : last;
    used += (size_t)snprintf(text + used, capacity - used, "%s%s", before, names[i]);
  }
  return text;
}

const char *adji_algorithms_text(uint32_t set, const char *last, char *text, size_t capacity) {
  return list(algorithms, ALGORITHMS, set, last, text, capacity);
}

const char *adji_backends_text(uint32_t set, const char *last, char *text, size_t capacity) {
  return list(backends, BACKENDS, set, last, text, capacity);
}
