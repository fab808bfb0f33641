/* SPDX-License-Identifier: MIT
 *
 * Work that threads do side by side on slices of memory, timed: what floor and gpu measure a machine's memory by.
 */
#ifndef ADJOIN_BENCH_LANES_H
#define ADJOIN_BENCH_LANES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

double now(void); /* seconds */

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

/* Seconds from the first lane's start to the last one's end; negative when threads cannot start. */
double time_lanes(lane *lanes, unsigned threads);

/* A fresh mapping, no page of it touched. advice is what madvise is told; NULL on failure. */
char *map_fresh(size_t bytes, int advice);

/* Gives each lane its part of the memory. from may be NULL. */
void slice(lane *lanes, unsigned threads, char *to, char *from, size_t bytes, void (*work)(lane *));

void write_all(lane *l);

/* Bytes a second of the first write to a fresh mapping; 0 where there is none. */
double touch_once(lane *lanes, unsigned threads, size_t bytes, int advice);

#endif
