/* SPDX-License-Identifier: MIT
 *
 * The prefilter of f32 sketches in plain C that compilers vectorise; compiled for the baseline and for AVX2. Four
 * queries share the loads of a block.
 */
#include <string.h>

#include "distance/prefilter_sketch.h"

static inline void keep_plain(const adji_prefilter_sketch_task *task, uint32_t q, uint32_t at, const float *sum) {
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

static inline void sketch_plain(const adji_prefilter_sketch_task *task) {
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
