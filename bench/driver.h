/* SPDX-License-Identifier: MIT
 *
 * What every compiled benchmark driver shares: the command line, the points, the digest of a
 * result and the line of JSON it prints. A driver is
 *
 *     driver POINTS.npy[,RIGHT.npy] WHAT MODE THREADS REPEATS [VARIANT [ANSWER.npy]]
 *
 * WHAT is a radius, or "k=8" for the eight nearest. It loads the points (not timed), runs the join
 * REPEATS times and prints one JSON object a line for each. ANSWER is for kNN joins, see
 * bench_answer. driver_python.py of this folder speaks the same protocol for peers written in Python.
 */
#ifndef ADJOIN_BENCH_DRIVER_H
#define ADJOIN_BENCH_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_args {
  const char *path, *right_path; /* right_path NULL: a self-join */
  double radius;
  uint32_t k;       /* 0: a range join                                            */
  const char *mode; /* "csr", "count", "knn", or one that only some drivers know */
  unsigned threads, repeats;
  const char *variant; /* "" when not given: a tuning of the driver, such as a leaf size */
  const char *answer;  /* NULL when not given */
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
  /* Of kNN joins only. */
  double distance_sum;
  int64_t far_rows; /* rows of the answer that this result is not near to; -1: not compared */
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

/* Loads both sets; right is empty, with data NULL, in a self-join. */
bool bench_load_both(const bench_args *args, bench_points *left, bench_points *right);

double bench_now(void); /* seconds of a monotonic clock */

/* Around the timed part: what it takes of memory and of processors. */
void bench_usage_begin(bench_timing *timing);
void bench_usage_end(bench_timing *timing);

void bench_digest_rows(const uint64_t *offsets, const uint32_t *ids, uint64_t rows, bench_digest *digest);
void bench_digest_counts(const uint32_t *counts, uint64_t rows, bench_digest *digest);

/* The table of a kNN join, k entries a row, nearest first. Padding has the id UINT32_MAX. */
typedef struct bench_table {
  uint64_t rows;
  uint32_t k;
  const uint32_t *ids;
  const float *distances;
} bench_table;

void bench_digest_table(const bench_table *table, bench_digest *digest);

/* Peers break ties as they please and round as they do, so tables are compared by their distances. The
 * file of the answer holds those of every row, or of every n-th so that they are at most 2^24. Where
 * there is none yet, this result becomes the answer; otherwise digest->far_rows receives the number of
 * its rows in which a distance differs by more than rounding. false with a message on stderr. */
bool bench_answer(const char *path, const bench_table *table, bench_digest *digest);

/* extra: more JSON members, such as "\"leaf\": 16", or NULL. digest may be NULL for a driver's mode
 * that joins nothing. */
void bench_report(const char *driver, const bench_args *args, const bench_timing *timing, const bench_digest *digest,
                  const char *extra);

#ifdef __cplusplus
}
#endif
#endif
