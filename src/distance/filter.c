/* SPDX-License-Identifier: MIT
 *
 * Which filter of codes this CPU can run.
 */
#include "distance/filter.h"

#include <string.h>

const adji_filter *adji_filter_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && __builtin_cpu_supports("avx512vnni")) return &adji_filter_vnni;
#endif
  (void)isa;
  return NULL;
}
