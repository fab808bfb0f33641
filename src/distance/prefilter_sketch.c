/* SPDX-License-Identifier: MIT
 *
 * Chooses the prefilter of sketches that this CPU can run; and the one in plain C.
 */
#include "distance/prefilter_sketch.h"

#include <string.h>

#include "distance/prefilter_sketch_plain.h"

void adji_prefilter_sketch_plain(const adji_prefilter_sketch_task *task) {
  sketch_plain(task);
}

static const adji_prefilter_sketch gemm_plain = {"gemm", false, adji_prefilter_sketch_plain};
#if defined(__x86_64__)
static const adji_prefilter_sketch gemm_avx2 = {"gemm", false, adji_prefilter_sketch_avx2};
static const adji_prefilter_sketch gemm_avx512 = {"gemm", false, adji_prefilter_sketch_avx512};
static const adji_prefilter_sketch vnni = {"vnni", true, adji_prefilter_sketch_vnni};
static const adji_prefilter_sketch amx = {"amx", true, adji_prefilter_sketch_amx};
#endif

const adji_prefilter_sketch *adji_prefilter_sketch_for(const char *isa, const char *name) {
#if defined(__x86_64__)
  bool avx512 = !strcmp(isa, "avx512");
  if (!strcmp(name, "amx")) return avx512 && adji_amx_usable() ? &amx : NULL;
  if (!strcmp(name, "vnni")) return avx512 && __builtin_cpu_supports("avx512vnni") ? &vnni : NULL;
  if (!strcmp(name, "gemm") && avx512) return &gemm_avx512;
  if (!strcmp(name, "gemm") && !strcmp(isa, "avx2")) return &gemm_avx2;
#endif
  (void)isa;
  return strcmp(name, "gemm") ? NULL : &gemm_plain;
}

/* An AMX tile takes up to 16 words, the same number each time. */
uint32_t adji_sketch_groups(bool codes, uint32_t dim) {
  if (!codes) return dim;
  uint32_t groups = (dim + 3) / 4, times = (groups + 15) / 16;
  return (groups + times - 1) / times * times;
}
