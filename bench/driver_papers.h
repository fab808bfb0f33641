/* SPDX-License-Identifier: MIT
 *
 * What the parts of the papers' driver share: driver_papers.c says what it does.
 */
#ifndef ADJOIN_BENCH_DRIVER_PAPERS_H
#define ADJOIN_BENCH_DRIVER_PAPERS_H

#include <adjoin.h>
#include <stdbool.h>

enum { PAPERS_BATCHES = 256, PAPERS_REPEATS = 32 };

/* One line of the input. Text that was not given is NULL, a number 0. */
typedef struct papers_request {
  const char *data; /* a generator's name, or a file: what has a slash      */
  const char *type; /* of generated points: "f32" or "f64"                  */
  const char *kind; /* "range", "knn", "select" from a matrix on a device, "points" or "machine" */
  const char *backend, *system, *algorithm, *tuning, *order;
  uint64_t count, dim;  /* points                                                      */
  uint64_t queries;     /* a left set of its own, of seed 2; select: rows of the matrix */
  uint64_t part, parts; /* the left set is every parts-th row, from row part on         */
  uint64_t k, threads, repeats;
  double radius, mean; /* mean: the radius at which points have so many neighbours on average */
  double limit;        /* seconds after which a run is ended; 0: none                         */
} papers_request;

/* Its points. */
typedef struct papers_sets {
  adj_dataset *left, *right; /* right NULL: a self-join */
  adj_dataset *part;         /* to be destroyed         */
} papers_sets;

/* From the trace of a run: batches that devices took, in order. */
typedef struct papers_traced {
  uint32_t first_lane; /* of devices */
  uint32_t count;
  uint64_t queries[PAPERS_BATCHES];
} papers_traced;

/* Runs the join and prints the line. */
void papers_join(adj_ctx *ctx, const papers_request *r, const papers_sets *s, papers_traced *traced);

/* What does not depend on the order within rows (range), and what does (kNN). */
typedef struct papers_digest {
  uint64_t pairs, sum;
  double distances; /* kNN: the sum of all */
} papers_digest;

papers_digest papers_digest_of(const adj_result *result, uint32_t k, adj_type type, unsigned threads);

/* Ascending. */
void papers_sort_times(double *seconds, uint32_t count);

/* Distances of a sample of the points to all of them. NULL: no memory. To be freed. */
typedef struct papers_survey papers_survey;
papers_survey *papers_survey_of(const adj_dataset *set, unsigned threads);

/* The radius at which points have `mean` others within it, by such a sample. */
double papers_radius_of(const papers_survey *survey, double mean);

/* Cache references and misses of all threads that start after _open, where the system lets a program count them.
 * _read is false where it does not. */
void papers_cache_open(void);
void papers_cache_begin(void);
bool papers_cache_read(uint64_t *references, uint64_t *misses);

/* kind=select: the k smallest of each row of a matrix on a device. Prints the line. In gpu_papers.c, with CUDA only. */
void papers_select(adj_ctx *ctx, const papers_request *r);

/* A member of JSON, not the first one. */
void papers_print_text(const char *name, const char *text);

/* A line that says why there is no result. */
void papers_refuse(adj_status status, const char *message);

#endif
