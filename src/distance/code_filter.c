/* SPDX-License-Identifier: MIT
 *
 * Chooses the prefilter of codes that this CPU can run.
 */
#include "distance/code_filter.h"

#include <string.h>

const adji_code_filter *adji_code_filter_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && __builtin_cpu_supports("avx512vnni")) return &adji_code_filter_vnni;
#endif
  (void)isa;
  return NULL;
}
