/* SPDX-License-Identifier: MIT
 *
 * What every compiled benchmark driver shares: the command line, the points, the digest of a
 * result and the line of JSON it prints. A driver is
 *
 *     driver POINTS.npy RADIUS MODE THREADS REPEATS [VARIANT]
 *
 * It loads the points (not timed), runs the self-join REPEATS times and prints one JSON object a
 * line for each. peers.py of this folder speaks the same protocol for peers written in Python.
 */
#ifndef ADJOIN_BENCH_DRIVER_H
#define ADJOIN_BENCH_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_args {
  const char *path;
  double radius;
  const char *mode; /* "csr", "count", or one that only some drivers know */
  unsigned threads, repeats;
  const char *variant; /* "" when not given: a tuning of the driver, such as a leaf size */
} bench_args;

typedef struct bench_points {
  uint64_t count;
  uint32_t dim;
  uint32_t value_bytes; /* 4 or 8 */
  void *data;           /* row-major and packed; from malloc */
} bench_points;

/* Two results are the same iff their digests are, but for a chance of 2^-64. The sums do not depend
 * on the order within a row. */
enum { BENCH_BUCKETS = 4096 };
typedef struct bench_digest {
  uint64_t pairs;
  uint64_t degree_sum; /* over i of mix(i, neighbours of i): the same in mode csr and count   */
  uint64_t pair_sum;   /* over pairs of mix(i, j); 0 in mode count                            */
  /* The sum by row number modulo BENCH_BUCKETS, of pairs (csr) or degrees (count): how many buckets
   * of two results differ tells about how many rows do. */
  uint64_t buckets[BENCH_BUCKETS];
} bench_digest;

typedef struct bench_timing {
  double seconds, index_s; /* all of it; the part that builds the index                     */
  double cpu_s;            /* of all threads: far below seconds * threads on a busy machine */
  uint64_t rss_before;     /* bytes resident before the timed part, points included         */
  uint64_t rss_peak;       /* and the most during it                                        */
} bench_timing;

/* false with a message on stderr. */
bool bench_parse(int argc, char **argv, bench_args *args);
bool bench_load(const char *path, bench_points *points);

double bench_now(void); /* seconds of a monotonic clock */

/* Around the timed part: what it takes of memory and of processors. */
void bench_usage_begin(bench_timing *timing);
void bench_usage_end(bench_timing *timing);

void bench_digest_rows(const uint64_t *offsets, const uint32_t *ids, uint64_t rows, bench_digest *digest);
void bench_digest_counts(const uint32_t *counts, uint64_t rows, bench_digest *digest);

/* extra: more JSON members, such as "\"leaf\": 16", or NULL. digest may be NULL for a driver's mode
 * that joins nothing. */
void bench_report(const char *driver, const bench_args *args, const bench_timing *timing, const bench_digest *digest,
                  const char *extra);

#ifdef __cplusplus
}
#endif
#endif
