/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the papers' driver; driver_papers.c describes the driver.
 */
#ifndef ADJOIN_BENCH_DRIVER_PAPERS_H
#define ADJOIN_BENCH_DRIVER_PAPERS_H

#include <adjoin.h>
#include <stdbool.h>

enum { PAPERS_BATCHES = 256, PAPERS_REPEATS = 32 };

/* One line of the input. Texts that are not given are NULL, and numbers are 0. */
typedef struct papers_request {
  const char *data; /* a generator's name, or a file if it has a slash      */
  const char *type; /* of generated points: "f32" or "f64"                  */
  const char *kind; /* "range", "knn", "select" from a matrix on a device, "points" or "machine" */
  const char *backend, *system, *algorithm, *tuning, *order;
  uint64_t count, dim;  /* points                                                      */
  uint64_t queries;     /* size of a left set with seed 2; select: rows of the matrix */
  uint64_t part, parts; /* the left set is every parts-th row, from row part on         */
  uint64_t k, threads, repeats;
  double radius, mean; /* mean: take the radius that gives this mean number of neighbours     */
  double limit;        /* seconds after which a run is ended; 0: none                         */
} papers_request;

/* The points of a request. */
typedef struct papers_sets {
  adj_dataset *left, *right; /* right NULL: a self-join */
  adj_dataset *part;         /* the caller destroys it  */
} papers_sets;

/* From the trace of a run: the batches that devices took, in order. */
typedef struct papers_traced {
  uint32_t first_lane; /* of devices */
  uint32_t count;
  uint64_t queries[PAPERS_BATCHES];
} papers_traced;

/* Runs the join and prints the line. */
void papers_join(adj_ctx *ctx, const papers_request *r, const papers_sets *s, papers_traced *traced);

/* Sums that depend on the order within rows for kNN joins, and do not for range joins. */
typedef struct papers_digest {
  uint64_t pairs, sum;
  double distances; /* kNN: the sum of all */
} papers_digest;

papers_digest papers_digest_of(const adj_result *result, uint32_t k, adj_type type, unsigned threads);

/* Sorts times in ascending order. */
void papers_sort_times(double *seconds, uint32_t count);

/* Distances of a sample of the points to all points. NULL: no memory. The caller frees it. */
typedef struct papers_survey papers_survey;
papers_survey *papers_survey_of(const adj_dataset *set, unsigned threads);

/* The radius within which points have `mean` others, by such a sample. */
double papers_radius_of(const papers_survey *survey, double mean);

/* Count cache references and misses of all threads that start after _open, if the system allows a program to do so. If
 * not, _read returns false. */
void papers_cache_open(void);
void papers_cache_begin(void);
bool papers_cache_read(uint64_t *references, uint64_t *misses);

/* kind=select: the k smallest of each row of a matrix on a device. Prints the line. In gpu_papers.c, with CUDA only. */
void papers_select(adj_ctx *ctx, const papers_request *r);

/* Prints a JSON member, with a comma before it. */
void papers_print_text(const char *name, const char *text);

/* Prints a line that says why there is no result. */
void papers_refuse(adj_status status, const char *message);

#endif
