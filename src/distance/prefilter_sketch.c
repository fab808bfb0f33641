/* SPDX-License-Identifier: MIT
 *
 * The prefilter of f32 sketches in plain C, for the baseline and for AVX2; and the choice of a prefilter for this CPU.
 */
#include "distance/prefilter_sketch.h"

#include <string.h>

#define SKETCH_INLINE static inline __attribute__((always_inline))

/* ---- f32 in plain C, which compilers vectorise ----------------------------------------------- */

SKETCH_INLINE void keep_plain(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, const float *sum) {
  uint32_t valid = task->count - at < ADJI_SKETCH_BLOCK ? task->count - at : ADJI_SKETCH_BLOCK;
  float least = task->least[q].f32, base = task->base[q].f32;
  int any = 0;
  for (uint32_t i = 0; i < ADJI_SKETCH_BLOCK; i++)
    any |= sum[i] >= least;
  for (uint32_t i = 0; any && i < valid; i++) {
    if (!(sum[i] >= least)) continue;
    float value = base - 2 * sum[i];
    if (!(value > 0)) value = 0;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    task->keys[q][task->found[q]++] = (uint64_t)bits << 32 | (task->first + at + i);
  }
}

/* Four queries share the loads of a block. */
SKETCH_INLINE void multiply_plain(const adji_prefilter_sketch_task *task) {
  for (uint32_t q = 0; q < task->query_count; q += 4) {
    const float *x[4];
    for (uint32_t k = 0; k < 4; k++)
      x[k] = (const float *)(const void *)(task->queries + (q + k) * task->query_stride);
    for (uint32_t at = 0; at < task->count; at += ADJI_SKETCH_BLOCK) {
      const float *block = (const float *)(const void *)task->blocks + (uint64_t)at * task->groups;
      float sum[4][ADJI_SKETCH_BLOCK];
      for (uint32_t k = 0; k < 4; k++)
        memcpy(sum[k], task->minus + at, sizeof sum[k]);
      for (uint32_t g = 0; g < task->groups; g++)
        for (uint32_t k = 0; k < 4; k++)
          for (uint32_t i = 0; i < ADJI_SKETCH_BLOCK; i++)
            sum[k][i] += x[k][g] * block[(uint64_t)g * ADJI_SKETCH_BLOCK + i];
      for (uint32_t k = 0; k < 4 && q + k < task->query_count; k++)
        keep_plain(task, q + k, at, sum[k]);
    }
  }
}

static void sketch_plain(const adji_prefilter_sketch_task *task) {
  multiply_plain(task);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma,f16c,bmi2"))) static void sketch_avx2(const adji_prefilter_sketch_task *task) {
  multiply_plain(task);
}
#endif

/* ---- Choice ---------------------------------------------------------------------------------- */

static const adji_prefilter_sketch gemm_plain = {"gemm", false, sketch_plain, NULL};
#if defined(__x86_64__)
static const adji_prefilter_sketch gemm_avx2 = {"gemm", false, sketch_avx2, NULL};
static const adji_prefilter_sketch gemm_avx512 = {"gemm", false, adji_prefilter_sketch_avx512, NULL};
static const adji_prefilter_sketch vnni = {"vnni", true, adji_prefilter_sketch_vnni, adji_sketch_pairs_vnni};
static const adji_prefilter_sketch amx = {"amx", true, adji_prefilter_sketch_amx, adji_sketch_pairs_amx};
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
