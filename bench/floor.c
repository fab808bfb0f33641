/* SPDX-License-Identifier: MIT
 *
 * The floors of this machine, which the join is measured against (docs/performance.md): how fast
 * memory can be written the first time (a page at a time, 4 KiB or huge), written again and copied,
 * and how many candidates a second the simplest 2-D kernel can compare when they lie in the first-level
 * cache. Each figure for 1 thread up to all. Prints one JSON object.
 *
 *     floor [MEBIBYTES]     buffer of the memory figures, 1024 unless told
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_THREADS = 256, CANDIDATES = 2048, QUERIES = 20000, ROUNDS = 5 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One figure: a piece of work that each thread does on its own slice. */
typedef struct lane {
  pthread_t thread;
  pthread_barrier_t *barrier;
  void (*work)(struct lane *lane);
  char *to, *from;
  size_t bytes;
  uint64_t found; /* so that no work can be optimised away */
  double begin, end;
} lane;

static void *run_lane(void *argument) {
  lane *l = argument;
  pthread_barrier_wait(l->barrier);
  l->begin = now();
  l->work(l);
  l->end = now();
  return NULL;
}

/* Seconds from the first lane's start to the last one's end; negative when threads cannot start. */
static double time_lanes(lane *lanes, unsigned threads) {
  pthread_barrier_t barrier;
  if (pthread_barrier_init(&barrier, NULL, threads) != 0) return -1;
  for (unsigned t = 0; t < threads; t++) {
    lanes[t].barrier = &barrier;
    /* The others would wait at the barrier for ever, so there is nothing to go on with. */
    if (pthread_create(&lanes[t].thread, NULL, run_lane, &lanes[t]) != 0) exit(1);
  }
  double begin = 0, end = 0;
  for (unsigned t = 0; t < threads; t++) {
    pthread_join(lanes[t].thread, NULL);
    if (t == 0 || lanes[t].begin < begin) begin = lanes[t].begin;
    if (t == 0 || lanes[t].end > end) end = lanes[t].end;
  }
  pthread_barrier_destroy(&barrier);
  return end - begin;
}

static void write_all(lane *l) {
  memset(l->to, 1, l->bytes);
}

static void copy_all(lane *l) {
  memcpy(l->to, l->from, l->bytes);
}

/* A fresh mapping, no page of it touched. advice is what madvise is told; NULL on failure. */
static char *map_fresh(size_t bytes, int advice) {
  /* Room for the start to be moved to a huge page's edge. */
  const size_t huge = (size_t)2 << 20;
  char *block = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return NULL;
  const size_t skip = (huge - (uintptr_t)block % huge) % huge;
  if (skip) munmap(block, skip);
  if (huge - skip) munmap(block + skip + bytes, huge - skip);
  madvise(block + skip, bytes, advice);
  return block + skip;
}

static void slice(lane *lanes, unsigned threads, char *to, char *from, size_t bytes, void (*work)(lane *)) {
  const size_t each = bytes / threads / 4096 * 4096;
  for (unsigned t = 0; t < threads; t++) {
    lanes[t].work = work;
    lanes[t].to = to + t * each;
    lanes[t].from = from ? from + t * each : NULL;
    lanes[t].bytes = t + 1 == threads ? bytes - t * each : each;
  }
}

/* Bytes a second of the first write, best of the rounds, each on a fresh mapping. */
static double first_touch(lane *lanes, unsigned threads, size_t bytes, int advice) {
  double best = 0;
  for (int round = 0; round < ROUNDS; round++) {
    char *block = map_fresh(bytes, advice);
    if (!block) return 0;
    slice(lanes, threads, block, NULL, bytes, write_all);
    const double rate = (double)bytes / time_lanes(lanes, threads);
    if (rate > best) best = rate;
    munmap(block, bytes);
  }
  return best;
}

/* Bytes a second written again, and copied (counted once), to memory that is already there. */
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

/* About a third of the candidates of a unit square are within this of a point inside. */
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

/* The same, and the ids of those within go to a small buffer: what filling rows costs at least. */
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

/* Candidates a second, all threads together; 0 where the CPU has no AVX-512. */
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
