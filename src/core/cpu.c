/* SPDX-License-Identifier: MIT
 *
 * Which instruction sets this build holds and this CPU runs, best first.
 */
#include "core/cpu.h"

#include <string.h>

#include "adjoin.h"

static const char *const known[] = {"avx512", "avx2", "neon", "scalar"};
enum { KNOWN = sizeof known / sizeof *known };

bool adji_isa_usable(const char *name) {
  if (!strcmp(name, "scalar")) return true;
#if defined(__x86_64__)
  if (!strcmp(name, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!strcmp(name, "avx512"))
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
  if (!strcmp(name, "neon")) return true;
#endif
  return false;
}

const char *adj_isa_name(uint32_t i) {
  for (uint32_t j = 0; j < KNOWN; j++)
    if (adji_isa_usable(known[j]) && i-- == 0) return known[j];
  return NULL;
}

const char *adji_isa_best(void) {
  return adj_isa_name(0);
}
