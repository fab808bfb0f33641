/* SPDX-License-Identifier: MIT
 *
 * Chooses the prefilter of codes that this CPU can run.
 */
#include "distance/prefilter_codes.h"

#include <string.h>

const adji_prefilter_codes *adji_prefilter_codes_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && __builtin_cpu_supports("avx512vnni")) return &adji_prefilter_codes_vnni;
#endif
  (void)isa;
  return NULL;
}
