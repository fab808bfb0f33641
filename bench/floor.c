/* SPDX-License-Identifier: MIT
 *
 * The floors of this machine, which joins are measured against (docs/performance.md): how fast memory can be written
 * the first time (with pages of 4 KiB or huge ones), written again and copied, and how many candidates per second the
 * simplest 2-D kernel can compare if they are in the first-level cache. Each figure is measured with 1 thread up to all
 * threads. Prints one JSON object.
 *
 *     floor [MEBIBYTES]     size of the buffer for the memory figures, by default 1024
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lanes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_THREADS = 256, CANDIDATES = 2048, QUERIES = 20000, ROUNDS = 5 };

static void copy_all(lane *l) {
  memcpy(l->to, l->from, l->bytes);
}

/* Bytes per second of the first write, best of the rounds. */
static double first_touch(lane *lanes, unsigned threads, size_t bytes, int advice) {
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const double rate = touch_once(lanes, threads, bytes, advice);
    if (rate > best) best = rate;
  }
  return best;
}

/* Bytes per second written again, and copied (counted once), in memory that is already mapped. */
static void warm_rates(lane *lanes, unsigned threads, size_t bytes, double *rewrite, double *copy) {
  *rewrite = *copy = 0;
  char *to = map_fresh(bytes, MADV_HUGEPAGE), *from = map_fresh(bytes, MADV_HUGEPAGE);
  if (to && from) {
    memset(to, 1, bytes);
    memset(from, 2, bytes);
    for (int round = 0; round < ROUNDS; round++) {
      slice(lanes, threads, to, NULL, bytes, write_all);
      const double written = (double)bytes / time_lanes(lanes, threads);
      if (written > *rewrite) *rewrite = written;
      slice(lanes, threads, to, from, bytes, copy_all);
      const double copied = (double)bytes / time_lanes(lanes, threads);
      if (copied > *copy) *copy = copied;
    }
  }
  if (to) munmap(to, bytes);
  if (from) munmap(from, bytes);
}

/* The candidates of the kernels below: two columns that stay in the first-level cache. */
typedef struct block {
  float x[CANDIDATES], y[CANDIDATES];
  uint32_t ids[CANDIDATES + 16];
} block;

static void fill_block(block *b, uint64_t seed) {
  for (int i = 0; i < CANDIDATES; i++) {
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    b->x[i] = (float)(seed >> 40) * 0x1p-24f;
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    b->y[i] = (float)(seed >> 40) * 0x1p-24f;
  }
}

/* About a third of the candidates in a unit square are within this distance of a point inside. */
static const float radius_sq = 0.12f;

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bw,avx512vl,fma,popcnt"))) static void compare_count(lane *l) {
  block *b = (block *)l->to;
  const __m512 limit = _mm512_set1_ps(radius_sq);
  for (int q = 0; q < QUERIES; q++) {
    const __m512 qx = _mm512_set1_ps(b->x[q % CANDIDATES]), qy = _mm512_set1_ps(b->y[q % CANDIDATES]);
    uint64_t found = 0;
    for (int i = 0; i < CANDIDATES; i += 16) {
      const __m512 dx = _mm512_sub_ps(_mm512_loadu_ps(b->x + i), qx), dy = _mm512_sub_ps(_mm512_loadu_ps(b->y + i), qy);
      const __m512 s = _mm512_fmadd_ps(dy, dy, _mm512_mul_ps(dx, dx));
      found += (uint64_t)__builtin_popcount(_mm512_cmp_ps_mask(s, limit, _CMP_LE_OQ));
    }
    l->found += found;
  }
}

/* The same, and ids of candidates within go to a small buffer: the least cost of filling rows. */
__attribute__((target("avx512f,avx512bw,avx512vl,fma,popcnt"))) static void compare_fill(lane *l) {
  block *b = (block *)l->to;
  const __m512 limit = _mm512_set1_ps(radius_sq);
  const __m512i step = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int q = 0; q < QUERIES; q++) {
    const __m512 qx = _mm512_set1_ps(b->x[q % CANDIDATES]), qy = _mm512_set1_ps(b->y[q % CANDIDATES]);
    uint64_t found = 0;
    for (int i = 0; i < CANDIDATES; i += 16) {
      const __m512 dx = _mm512_sub_ps(_mm512_loadu_ps(b->x + i), qx), dy = _mm512_sub_ps(_mm512_loadu_ps(b->y + i), qy);
      const __m512 s = _mm512_fmadd_ps(dy, dy, _mm512_mul_ps(dx, dx));
      const __mmask16 within = _mm512_cmp_ps_mask(s, limit, _CMP_LE_OQ);
      const __m512i packed = _mm512_maskz_compress_epi32(within, _mm512_add_epi32(step, _mm512_set1_epi32(i)));
      _mm512_storeu_si512(b->ids + found, packed);
      found += (uint64_t)__builtin_popcount(within);
    }
    l->found += found + b->ids[0];
  }
}

static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#else
static void compare_count(lane *l) {
  (void)l;
}
static void compare_fill(lane *l) {
  (void)l;
}
static bool has_avx512(void) {
  return false;
}
#endif

/* Candidates per second, all threads together; 0 if the CPU has no AVX-512. */
static double compare_rate(lane *lanes, unsigned threads, void (*work)(lane *)) {
  block *blocks = has_avx512() ? aligned_alloc(64, threads * sizeof *blocks) : NULL;
  if (!blocks) return 0;
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (unsigned t = 0; t < threads; t++) {
      fill_block(&blocks[t], t + 1);
      lanes[t].work = work;
      lanes[t].to = (char *)&blocks[t];
    }
    const double rate = (double)threads * QUERIES * CANDIDATES / time_lanes(lanes, threads);
    if (rate > best) best = rate;
  }
  free(blocks);
  return best;
}

static void print_threads(lane *lanes, unsigned threads, size_t bytes) {
  double rewrite, copy;
  warm_rates(lanes, threads, bytes, &rewrite, &copy);
  printf("  {\"threads\": %u, \"first_touch_4k_gb_s\": %.2f, \"first_touch_huge_gb_s\": %.2f, ", threads,
         first_touch(lanes, threads, bytes, MADV_NOHUGEPAGE) / 1e9,
         first_touch(lanes, threads, bytes, MADV_HUGEPAGE) / 1e9);
  printf("\"rewrite_gb_s\": %.2f, \"copy_gb_s\": %.2f, ", rewrite / 1e9, copy / 1e9);
  printf("\"compare_2d_count_g_s\": %.2f, \"compare_2d_fill_g_s\": %.2f}",
         compare_rate(lanes, threads, compare_count) / 1e9, compare_rate(lanes, threads, compare_fill) / 1e9);
}

int main(int argc, char **argv) {
  const unsigned long mebibytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
  if (argc > 2 || mebibytes < 4 || mebibytes > 1 << 20) {
    fprintf(stderr, "usage: %s [MEBIBYTES]\n", argv[0]);
    return 2;
  }
  const size_t bytes = (size_t)mebibytes / 2 * 2 << 20; /* whole huge pages */
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (cores < 1) cores = 1;
  if (cores > MAX_THREADS) cores = MAX_THREADS;
  lane *lanes = calloc((size_t)cores, sizeof *lanes);
  if (!lanes) return 1;
  printf("{\"buffer_mib\": %lu, \"cores\": %ld, \"avx512\": %s, \"rates\": [\n", mebibytes, cores,
         has_avx512() ? "true" : "false");
  for (unsigned threads = 1;; threads = 2 * threads < (unsigned)cores ? 2 * threads : (unsigned)cores) {
    print_threads(lanes, threads, bytes);
    puts(threads < (unsigned)cores ? "," : "");
    if (threads == (unsigned)cores) break;
  }
  puts("]}");
  free(lanes);
  return 0;
}
