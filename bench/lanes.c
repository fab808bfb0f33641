/* SPDX-License-Identifier: MIT */
#include "lanes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *run_lane(void *argument) {
  lane *l = argument;
  pthread_barrier_wait(l->barrier);
  l->begin = now();
  l->work(l);
  l->end = now();
  return NULL;
}

double time_lanes(lane *lanes, unsigned threads) {
  pthread_barrier_t barrier;
  if (pthread_barrier_init(&barrier, NULL, threads) != 0) return -1;
  for (unsigned t = 0; t < threads; t++) {
    lanes[t].barrier = &barrier;
    /* The other threads would wait at the barrier for ever, so the program ends. */
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

void write_all(lane *l) {
  memset(l->to, 1, l->bytes);
}

char *map_fresh(size_t bytes, int advice) {
  /* Has room to move the start to the edge of a huge page. */
  const size_t huge = (size_t)2 << 20;
  char *block = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return NULL;
  const size_t skip = (huge - (uintptr_t)block % huge) % huge;
  if (skip) munmap(block, skip);
  if (huge - skip) munmap(block + skip + bytes, huge - skip);
  madvise(block + skip, bytes, advice);
  return block + skip;
}

void slice(lane *lanes, unsigned threads, char *to, char *from, size_t bytes, void (*work)(lane *)) {
  const size_t each = bytes / threads / 4096 * 4096;
  for (unsigned t = 0; t < threads; t++) {
    lanes[t].work = work;
    lanes[t].to = to + t * each;
    lanes[t].from = from ? from + t * each : NULL;
    lanes[t].bytes = t + 1 == threads ? bytes - t * each : each;
  }
}

double touch_once(lane *lanes, unsigned threads, size_t bytes, int advice) {
  char *block = map_fresh(bytes, advice);
  if (!block) return 0;
  slice(lanes, threads, block, NULL, bytes, write_all);
  const double rate = (double)bytes / time_lanes(lanes, threads);
  munmap(block, bytes);
  return rate;
}
