/* SPDX-License-Identifier: MIT
 *
 * Times work that threads do side by side on slices of memory. bench/floor and bench/gpu measure memory with it.
 */
#ifndef ADJOIN_BENCH_LANES_H
#define ADJOIN_BENCH_LANES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

double now(void); /* seconds */

/* A thread's part of a measurement: a piece of work on its own slice. */
typedef struct lane {
  pthread_t thread;
  pthread_barrier_t *barrier;
  void (*work)(struct lane *lane);
  char *to, *from;
  size_t bytes;
  uint64_t found; /* keeps the work from being optimised away */
  double begin, end;
} lane;

/* Seconds from the start of the first lane to the end of the last; negative if threads cannot start. */
double time_lanes(lane *lanes, unsigned threads);

/* Makes a fresh mapping without touching a page. advice: for madvise. Returns NULL on failure. */
char *map_fresh(size_t bytes, int advice);

/* Gives each lane its part of the memory. from may be NULL. */
void slice(lane *lanes, unsigned threads, char *to, char *from, size_t bytes, void (*work)(lane *));

void write_all(lane *l);

/* Bytes per second of the first write to a fresh mapping; 0 if it cannot be made. */
double touch_once(lane *lanes, unsigned threads, size_t bytes, int advice);

#endif
