/* SPDX-License-Identifier: MIT
 *
 * Shared by all compiled benchmark drivers: the command line, the points, the digest of a result and the line of JSON
 * that a driver prints. A driver is called as
 *
 *     driver POINTS.npy[,RIGHT.npy] WHAT MODE THREADS REPEATS [VARIANT [ANSWER.npy]]
 *
 * WHAT is a radius, or "k=8" for the eight nearest. The driver loads the points (not timed), runs the join REPEATS
 * times and prints a line with a JSON object for each run. ANSWER is for kNN joins, see bench_answer. driver_python.py
 * in this folder follows the same protocol for peers written in Python.
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

/* Two results are equal iff their digests are, except with a probability of 2^-64. The sums do not depend on the order
 * within a row. */
enum { BENCH_BUCKETS = 4096 };
typedef struct bench_digest {
  uint64_t pairs;
  uint64_t degree_sum; /* over i of mix(i, neighbours of i): the same in mode csr and count   */
  uint64_t pair_sum;   /* over pairs of mix(i, j); 0 in mode count                            */
  /* Sums of pairs (csr) or degrees (count) by row number modulo BENCH_BUCKETS. The number of buckets that differ
   * between two results shows about how many rows differ. */
  uint64_t buckets[BENCH_BUCKETS];
  /* For kNN joins only. */
  double distance_sum;
  int64_t far_rows; /* rows of the answer that differ by more than rounding; -1: not compared */
} bench_digest;

typedef struct bench_timing {
  double seconds, index_s; /* whole run; the part of it that builds the index               */
  double cpu_s;            /* of all threads: far below seconds * threads on a busy machine */
  uint64_t rss_before;     /* bytes resident before the timed part, points included         */
  uint64_t rss_peak;       /* most bytes resident during the timed part                     */
} bench_timing;

/* Return false, with a message on stderr, if they fail. */
bool bench_parse(int argc, char **argv, bench_args *args);
bool bench_load(const char *path, bench_points *points);

/* Loads both sets. In a self-join right is empty, with data NULL. */
bool bench_load_both(const bench_args *args, bench_points *left, bench_points *right);

double bench_now(void); /* seconds of a monotonic clock */

/* Called around the timed part: measure its memory and CPU time. */
void bench_usage_begin(bench_timing *timing);
void bench_usage_end(bench_timing *timing);

void bench_digest_rows(const uint64_t *offsets, const uint32_t *ids, uint64_t rows, bench_digest *digest);
void bench_digest_counts(const uint32_t *counts, uint64_t rows, bench_digest *digest);

/* The table of a kNN join: k entries per row, nearest first. Padding has the id UINT32_MAX. */
typedef struct bench_table {
  uint64_t rows;
  uint32_t k;
  const uint32_t *ids;
  const float *distances;
} bench_table;

void bench_digest_table(const bench_table *table, bench_digest *digest);

/* Peers break ties and round in their own ways, so tables are compared by their distances. The answer file has the
 * distances of every row, or of every n-th row, such that there are at most 2^24. If there is no such file yet, this
 * result becomes the answer. Otherwise digest->far_rows receives the number of its rows in which a distance differs by
 * more than rounding. Returns false, with a message on stderr, if it fails. */
bool bench_answer(const char *path, const bench_table *table, bench_digest *digest);

/* extra: more JSON members, such as "\"leaf\": 16", or NULL. digest may be NULL in a mode that joins nothing. */
void bench_report(const char *driver, const bench_args *args, const bench_timing *timing, const bench_digest *digest,
                  const char *extra);

#ifdef __cplusplus
}
#endif
#endif
