/* SPDX-License-Identifier: MIT
 *
 * Times questions to a kept index, kNN and radius, with 1, 1,000 and 100,000 queries per call. nanoflann gets the same
 * questions, in turn and in the same process.
 *
 *   index [--count N] [--dim D] [--k K] [--mean M] [--rounds R] [--threads T] [--save DIR] [--clock wall|cpu]
 *         [--only knn|radius] [--queries Q]
 *
 * A call is all that a program does to get its answer. For one query: adj_index_nearest or adj_index_within into its
 * own arrays. For more: a dataset of the queries, a plan, and adj_collect, with distances. The time is the least of R
 * rounds, in which our calls and nanoflann's take turns. Calls with one query are timed 2,000 at a time, each with
 * another query. For nanoflann the best time counts, of leaves with 10 and 16 points, and of queries as they come and
 * in Morton order (the sort is timed). The distances of both are compared. --save writes points, queries and times for
 * index_scipy.py. --clock cpu counts the CPU time of all threads, for machines with other users. --only and --queries
 * select some of the lines.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "adjoin.h"
#include "index.h"

typedef struct options {
  uint64_t count;
  uint32_t dim, k, rounds, threads;
  double mean;
  const char *save, *only;
  uint64_t queries; /* 0: all three numbers */
} options;

typedef struct bench {
  options o;
  adj_ctx *ctx;
  adj_index *index;
  const float *points, *queries;
  uint64_t query_count;
  double radius;
  uint64_t next; /* query */
  peer_index *peers[2];
  peer_answer answer;
} bench;

#ifndef BENCH_NANOFLANN /* without nanoflann these are never called */
peer_index *peer_create(const float *points, size_t count, unsigned dim, size_t leaf) {
  (void)points, (void)count, (void)dim, (void)leaf;
  return NULL;
}

void peer_destroy(peer_index *index) {
  (void)index;
}

void peer_nearest(const peer_index *index, const float *queries, size_t count, unsigned k, int ordered,
                  peer_answer *answer) {
  (void)index, (void)queries, (void)count, (void)k, (void)ordered, (void)answer;
}

void peer_within(const peer_index *index, const float *queries, size_t count, double radius, int ordered,
                 peer_answer *answer) {
  (void)index, (void)queries, (void)count, (void)radius, (void)ordered, (void)answer;
}
#endif

static void must(adj_status status, const char *what) {
  if (!status) return;
  fprintf(stderr, "index: %s: %s\n", what, adj_last_error());
  exit(1);
}

static clockid_t clock_used = CLOCK_MONOTONIC;

static double now(void) {
  struct timespec t;
  clock_gettime(clock_used, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Calls ---------------------------------------------------------------------------------------------- */

enum { SINGLE_CALLS = 2000, MOST_FOUND = 4096 };

/* Takes the next `many` queries, from another place each time. */
static const float *take_queries(bench *b, uint64_t many) {
  if (b->next + many > b->query_count) b->next = 0;
  const float *at = b->queries + b->next * b->o.dim;
  b->next += many;
  return at;
}

/* Sums of the distances found, so that answers can be compared. */
static double sum_of(const float *distances, uint64_t count) {
  double sum = 0;
  for (uint64_t i = 0; i < count; i++)
    sum += (double)distances[i];
  return sum;
}

static double ours_single(bench *b, const float *queries, bool nearest, double *sum) {
  static uint32_t ids[MOST_FOUND];
  static float distances[MOST_FOUND];
  uint32_t found;
  *sum = 0;
  double begin = now();
  for (uint32_t i = 0; i < SINGLE_CALLS; i++, queries += b->o.dim) {
    if (nearest)
      must(adj_index_nearest(b->index, queries, b->o.k, ids, distances, &found), "nearest");
    else
      must(adj_index_within(b->index, queries, b->radius, MOST_FOUND, ids, distances, &found), "within");
    *sum += sum_of(distances, found);
  }
  return (now() - begin) / SINGLE_CALLS;
}

static double peer_single(bench *b, const peer_index *peer, const float *queries, bool nearest, double *sum) {
  *sum = 0;
  double begin = now();
  for (uint32_t i = 0; i < SINGLE_CALLS; i++, queries += b->o.dim) {
    if (nearest)
      peer_nearest(peer, queries, 1, b->o.k, 0, &b->answer);
    else
      peer_within(peer, queries, 1, b->radius, 0, &b->answer);
    *sum += sum_of(b->answer.distances, nearest ? b->o.k : b->answer.offsets[1]);
  }
  return (now() - begin) / SINGLE_CALLS;
}

static double ours_many(bench *b, const float *queries, uint64_t many, bool nearest, double *sum) {
  adj_points points;
  adj_question question;
  adj_points_init(&points, sizeof points);
  adj_question_init(&question, sizeof question);
  adj_dataset *left = NULL;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  double begin = now();
  points.dim = b->o.dim;
  points.count = many;
  points.data = queries;
  points.ownership = ADJ_BORROW;
  question.kind = nearest ? ADJ_KNN : ADJ_RANGE;
  question.k = b->o.k;
  if (!nearest) question.radius = b->radius;
  question.flags = ADJ_WITH_DISTANCE;
  question.order = nearest ? ADJ_ORDER_ID : ADJ_ORDER_ANY; /* nanoflann's rows have no order */
  must(adj_dataset_create(b->ctx, &points, &left), "dataset");
  must(adj_index_plan(b->index, &question, left, &plan), "plan");
  must(adj_collect(plan, &result, NULL, NULL), "collect");
  double took = now() - begin;
  uint64_t entries = adj_result_offsets(result)[many];
  *sum = sum_of(adj_result_distances(result), entries);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  adj_dataset_destroy(left);
  return took;
}

static double peer_many(bench *b, const peer_index *peer, const float *queries, uint64_t many, bool nearest,
                        bool ordered, double *sum) {
  double begin = now();
  if (nearest)
    peer_nearest(peer, queries, many, b->o.k, ordered, &b->answer);
  else
    peer_within(peer, queries, many, b->radius, ordered, &b->answer);
  double took = now() - begin;
  *sum = sum_of(b->answer.distances, nearest ? many * b->o.k : b->answer.offsets[many]);
  return took;
}

/* ---- A line of the table --------------------------------------------------------------------------------- */

static void compare_sums(double ours, double theirs) {
  if (fabs(ours - theirs) <= 1e-5 * (fabs(ours) + 1)) return;
  fprintf(stderr, "index: the answers differ: distances add up to %.9g and %.9g\n", ours, theirs);
  exit(1);
}

static void time_line(bench *b, uint64_t many, bool nearest, double wanted, FILE *times) {
  double ours = INFINITY, theirs = INFINITY, sum = 0, other = 0;
  for (uint32_t r = 0; r < b->o.rounds; r++) {
    const float *queries = take_queries(b, many == 1 ? SINGLE_CALLS : many);
    ours = fmin(ours, many == 1 ? ours_single(b, queries, nearest, &sum) : ours_many(b, queries, many, nearest, &sum));
    for (int p = 0; p < 2 && b->peers[p]; p++)
      for (int ordered = 0; ordered < (many == 1 ? 1 : 2); ordered++) {
        double took = many == 1 ? peer_single(b, b->peers[p], queries, nearest, &other)
                                : peer_many(b, b->peers[p], queries, many, nearest, ordered, &other);
        theirs = fmin(theirs, took);
        compare_sums(sum, other);
      }
  }
  char what[64], each[32];
  if (nearest)
    snprintf(what, sizeof what, "knn k=%u", b->o.k);
  else
    snprintf(what, sizeof what, "radius, %g neighbours", b->o.mean);
  snprintf(each, sizeof each, "%.3f us", 1e6 * ours / (double)many);
  printf("%2u-D  %-22s %7llu queries  adjoin %10.2f us (%s a query)", b->o.dim, what, (unsigned long long)many,
         1e6 * ours, each);
  if (b->peers[0])
    printf("  nanoflann %10.2f us  %5.2fx%s", 1e6 * theirs, theirs / ours,
           theirs / ours < wanted ? "  below the bar" : "");
  printf("\n");
  fflush(stdout);
  if (times) fprintf(times, "%s %llu %.9g\n", nearest ? "knn" : "radius", (unsigned long long)many, ours);
}

/* ---- Set-up ---------------------------------------------------------------------------------------------- */

static adj_dataset *generate(adj_ctx *ctx, uint64_t count, uint32_t dim, uint64_t seed) {
  adj_generate_options g;
  adj_generate_options_init(&g, sizeof g);
  g.name = "unif";
  g.count = count;
  g.dim = dim;
  g.seed = seed;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &g, &set), "generate");
  return set;
}

static float *copy_of(const adj_dataset *set) {
  uint64_t count = adj_dataset_count(set);
  uint32_t dim = adj_dataset_dim(set);
  float *copy = malloc(count * dim * sizeof *copy);
  for (uint64_t i = 0; copy && i < count; i++)
    must(adj_dataset_row(set, i, copy + i * dim), "row");
  if (!copy) exit(1);
  return copy;
}

/* For the radius: the median, over some queries, of the distance of neighbour number `mean`. */
static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

static double radius_for(bench *b) {
  enum { SAMPLED = 501 };
  static uint32_t ids[1024];
  static float distances[1024], last[SAMPLED];
  uint32_t k = (uint32_t)b->o.mean;
  for (int i = 0; i < SAMPLED; i++) {
    must(adj_index_nearest(b->index, b->queries + (uint64_t)i * b->o.dim, k, ids, distances, NULL), "nearest");
    last[i] = distances[k - 1];
  }
  qsort(last, SAMPLED, sizeof *last, by_value);
  return (double)last[SAMPLED / 2];
}

static void save(const bench *b, const adj_dataset *points, const adj_dataset *queries, FILE **times) {
  char path[512];
  if (!b->o.save) return;
  snprintf(path, sizeof path, "%s/points.npy", b->o.save);
  must(adj_dataset_save(points, path, NULL), "save");
  snprintf(path, sizeof path, "%s/queries.npy", b->o.save);
  must(adj_dataset_save(queries, path, NULL), "save");
  snprintf(path, sizeof path, "%s/times.txt", b->o.save);
  *times = fopen(path, "w");
  if (*times) fprintf(*times, "# k %u radius %.9g\n", b->o.k, b->radius);
}

static void run(const options *o) {
  bench b = {.o = *o};
  adj_ctx_options c;
  adj_ctx_options_init(&c, sizeof c);
  c.threads = o->threads;
  c.device_count = 0;
  must(adj_ctx_create(&c, &b.ctx), "context");
  b.query_count = 300000 < o->count ? 300000 : o->count;
  adj_dataset *points = generate(b.ctx, o->count, o->dim, 1), *queries = generate(b.ctx, b.query_count, o->dim, 2);
  b.points = copy_of(points);
  b.queries = copy_of(queries);
  double begin = now();
  must(adj_index_create(b.ctx, NULL, points, &b.index), "index");
  double built = now() - begin;
  begin = now();
  b.peers[0] = peer_create(b.points, o->count, o->dim, 10);
  double theirs = now() - begin;
  b.peers[1] = peer_create(b.points, o->count, o->dim, 16);
  printf("%2u-D  %llu points: adjoin builds its index in %.3f s, nanoflann in %.3f s\n", o->dim,
         (unsigned long long)o->count, built, theirs);
  b.answer.offsets = malloc((b.query_count + 1) * sizeof *b.answer.offsets);
  b.radius = radius_for(&b);
  FILE *times = NULL;
  save(&b, points, queries, &times);
  static const struct {
    uint64_t many;
    double wanted;
  } lines[] = {{1, 1}, {1000, 2}, {100000, 4}};
  for (int nearest = 1; nearest >= 0; nearest--) {
    if (o->only && strcmp(o->only, nearest ? "knn" : "radius") != 0) continue;
    for (int i = 0; i < 3; i++)
      if (lines[i].many <= b.query_count && (!o->queries || lines[i].many == o->queries))
        time_line(&b, lines[i].many, nearest, lines[i].wanted, times);
  }
  if (times) fclose(times);
  peer_destroy(b.peers[0]);
  peer_destroy(b.peers[1]);
  free(b.answer.offsets);
  free(b.answer.ids);
  free(b.answer.distances);
  free((void *)b.points);
  free((void *)b.queries);
  adj_index_destroy(b.index);
  adj_dataset_destroy(points);
  adj_dataset_destroy(queries);
  adj_ctx_destroy(b.ctx);
}

/* Threads of OpenMP spin for a while after their loop has ended, and would take a core from our calls. The OpenMP
 * library reads the variable when it is loaded. */
static void keep_openmp_quiet(char **argv) {
  if (!setenv("OMP_WAIT_POLICY", "passive", 0) && !getenv("ADJOIN_BENCH_AGAIN") &&
      !setenv("ADJOIN_BENCH_AGAIN", "1", 1))
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv) {
  keep_openmp_quiet(argv);
  options o = {.count = 1000000, .dim = 3, .k = 8, .rounds = 15, .mean = 10};
  for (int i = 1; i + 1 < argc; i += 2) {
    const char *name = argv[i], *value = argv[i + 1];
    if (!strcmp(name, "--count")) o.count = strtoull(value, NULL, 10);
    if (!strcmp(name, "--dim")) o.dim = (uint32_t)strtoul(value, NULL, 10);
    if (!strcmp(name, "--k")) o.k = (uint32_t)strtoul(value, NULL, 10);
    if (!strcmp(name, "--rounds")) o.rounds = (uint32_t)strtoul(value, NULL, 10);
    if (!strcmp(name, "--threads")) o.threads = (uint32_t)strtoul(value, NULL, 10);
    if (!strcmp(name, "--mean")) o.mean = strtod(value, NULL);
    if (!strcmp(name, "--save")) o.save = value;
    if (!strcmp(name, "--only")) o.only = value;
    if (!strcmp(name, "--queries")) o.queries = strtoull(value, NULL, 10);
    if (!strcmp(name, "--clock") && !strcmp(value, "cpu")) clock_used = CLOCK_PROCESS_CPUTIME_ID;
  }
  if (argc % 2 == 0 || !o.rounds || !o.k || o.k > MOST_FOUND || !(o.mean >= 1 && o.mean <= 1024) || o.count < 2000) {
    fprintf(stderr,
            "usage: index [--count N] [--dim D] [--k K] [--mean M] [--rounds R] [--threads T] [--save DIR]\n"
            "             [--clock wall|cpu] [--only knn|radius] [--queries 1|1000|100000]\n");
    return 2;
  }
  run(&o);
  return 0;
}
