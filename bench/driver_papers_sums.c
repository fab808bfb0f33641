/* SPDX-License-Identifier: MIT
 *
 * What the papers' driver computes apart from joins: digests of results, the radius of a mean, and cache counters.
 * Results have up to a billion pairs, so all threads share this work.
 */
#include <linux/perf_event.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver_papers.h"

enum { MOST_LANES = 256 };

/* One thread's share of a piece of work. */
typedef struct lane {
  pthread_t thread;
  unsigned number, lanes;
  const void *work;
  papers_digest digest;
  uint32_t *bins;
} lane;

static unsigned run_lanes(lane *lanes, unsigned threads, const void *work, void *(*body)(void *)) {
  unsigned many = threads < 1 ? 1 : threads > MOST_LANES ? MOST_LANES : threads;
  for (unsigned i = 0; i < many; i++)
    lanes[i] = (lane){.number = i, .lanes = many, .work = work};
  unsigned started = 1;
  while (started < many && !pthread_create(&lanes[started].thread, NULL, body, &lanes[started]))
    started++;
  body(&lanes[0]);
  for (unsigned i = started; i < many; i++) /* no threads could be started for these */
    body(&lanes[i]);
  for (unsigned i = 1; i < started; i++)
    pthread_join(lanes[i].thread, NULL);
  return many;
}

/* ---- Times ----------------------------------------------------------------------------------------------- */

static int ascending(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

void papers_sort_times(double *seconds, uint32_t count) {
  qsort(seconds, count, sizeof *seconds, ascending);
}

/* ---- Digests --------------------------------------------------------------------------------------------- */

typedef struct rows {
  const adj_result *result;
  uint32_t k;
  adj_type type;
} rows;

static uint64_t mix(uint64_t high, uint64_t low) {
  uint64_t x = (high << 32 | low) + UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Rows of kNN joins are sorted, so places count. Rows of range joins may be in any order. */
static void *digest_lane(void *argument) {
  lane *l = argument;
  const rows *r = l->work;
  const uint64_t *offsets = adj_result_offsets(r->result);
  const uint32_t *ids = adj_result_ids(r->result);
  const float *narrow = adj_result_distances(r->result);
  const double *wide = adj_result_distances(r->result);
  uint64_t count = adj_result_rows(r->result);
  for (uint64_t i = count * l->number / l->lanes; i < count * (l->number + 1) / l->lanes; i++) {
    uint64_t begin = r->k ? i * r->k : offsets[i], end = r->k ? begin + r->k : offsets[i + 1];
    uint64_t sum = mix(i, end - begin);
    for (uint64_t at = begin; at < end; at++) {
      if (r->k && ids[at] == ADJ_NO_ID) continue;
      sum += mix(r->k ? at : i, ids[at]);
      l->digest.pairs++;
      if (r->k) l->digest.distances += r->type == ADJ_F64 ? wide[at] : (double)narrow[at];
    }
    l->digest.sum += sum;
  }
  return NULL;
}

papers_digest papers_digest_of(const adj_result *result, uint32_t k, adj_type type, unsigned threads) {
  lane lanes[MOST_LANES];
  rows work = {result, k, type};
  unsigned many = run_lanes(lanes, threads, &work, digest_lane);
  papers_digest all = {0};
  for (unsigned i = 0; i < many; i++) {
    all.pairs += lanes[i].digest.pairs;
    all.sum += lanes[i].digest.sum;
    all.distances += lanes[i].digest.distances;
  }
  return all;
}

/* ---- The radius of a mean -------------------------------------------------------------------------------- */

/* Squared distances are binned by the upper bits of the float: this is monotone, with 512 bins per octave. */
enum { QUERIES = 256, BIN_SHIFT = 14, BINS = 1 << (31 - BIN_SHIFT) };

struct papers_survey {
  uint64_t queries;
  uint64_t within[BINS]; /* pairs in this bin and all before it */
};

/* The input of a thread. */
typedef struct survey_work {
  const adj_dataset *set;
  const float *queries; /* QUERIES values of each coordinate, in f32 */
  uint64_t count, many;
  uint32_t dim;
} survey_work;

static bool read_row(const adj_dataset *set, uint64_t i, float *row, double *wide) {
  uint32_t dim = adj_dataset_dim(set);
  if (adj_dataset_type(set) != ADJ_F64) return !adj_dataset_row(set, i, row);
  if (adj_dataset_row(set, i, wide)) return false;
  for (uint32_t j = 0; j < dim; j++)
    row[j] = (float)wide[j];
  return true;
}

static uint32_t bin_of(float square) {
  uint32_t bits;
  memcpy(&bits, &square, sizeof bits);
  return bits >> BIN_SHIFT;
}

static void *survey_lane(void *argument) {
  lane *l = argument;
  const survey_work *s = l->work;
  l->bins = calloc(BINS, sizeof *l->bins);
  float *row = malloc(s->dim * sizeof *row);
  double *wide = malloc(s->dim * sizeof *wide);
  for (uint64_t i = s->count * l->number / l->lanes;
       l->bins && row && wide && i < s->count * (l->number + 1) / l->lanes && read_row(s->set, i, row, wide); i++) {
    float sums[QUERIES] = {0};
    for (uint32_t j = 0; j < s->dim; j++)
      for (uint64_t q = 0; q < QUERIES; q++) {
        float t = s->queries[(uint64_t)j * QUERIES + q] - row[j];
        sums[q] += t * t;
      }
    for (uint64_t q = 0; q < s->many; q++)
      l->bins[bin_of(sums[q])]++;
  }
  free(row);
  free(wide);
  return NULL;
}

/* Adds up the bins of all threads, each with all bins before it. Returns false if a thread had no memory. */
static bool add_up(const lane *lanes, unsigned many, papers_survey *out) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < many; i++)
    if (!lanes[i].bins) return false;
  for (uint32_t b = 0; b < BINS; b++) {
    for (unsigned i = 0; i < many; i++)
      sum += lanes[i].bins[b];
    out->within[b] = sum;
  }
  return true;
}

papers_survey *papers_survey_of(const adj_dataset *set, unsigned threads) {
  lane lanes[MOST_LANES];
  survey_work s = {.set = set, .count = adj_dataset_count(set), .dim = adj_dataset_dim(set)};
  s.many = s.count < QUERIES ? s.count : QUERIES;
  float *queries = calloc((size_t)QUERIES * s.dim, sizeof *queries);
  float *row = calloc(s.dim, sizeof *row);
  double *wide = malloc(s.dim * sizeof *wide);
  papers_survey *out = malloc(sizeof *out);
  bool ok = queries && row && wide && out;
  for (uint64_t q = 0; q < s.many && ok; q++) {
    ok = read_row(set, q * s.count / s.many, row, wide);
    for (uint32_t j = 0; j < s.dim && ok; j++)
      queries[(uint64_t)j * QUERIES + q] = row[j];
  }
  if (ok) {
    s.queries = queries;
    out->queries = s.many;
    unsigned many = run_lanes(lanes, threads, &s, survey_lane);
    ok = add_up(lanes, many, out);
    for (unsigned i = 0; i < many; i++)
      free(lanes[i].bins);
  }
  free(queries);
  free(row);
  free(wide);
  if (!ok) {
    free(out);
    out = NULL;
  }
  return out;
}

/* The upper end of the first bin up to which queries find the mean number of points, besides themselves. */
double papers_radius_of(const papers_survey *survey, double mean) {
  double wanted = (mean + 1) * (double)survey->queries;
  uint32_t b = 0;
  while (b + 1 < BINS && (double)survey->within[b] < wanted)
    b++;
  uint32_t bits = (b + 1) << BIN_SHIFT;
  float square;
  memcpy(&square, &bits, sizeof square);
  return sqrt((double)square);
}

/* ---- Caches ---------------------------------------------------------------------------------------------- */

static int counters[2] = {-1, -1};

void papers_cache_open(void) {
  static const uint64_t events[] = {PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CACHE_MISSES};
  for (int i = 0; i < 2; i++) {
    struct perf_event_attr about = {.type = PERF_TYPE_HARDWARE, .size = sizeof about, .config = events[i]};
    about.inherit = 1; /* threads that are started later are counted as well */
    about.exclude_kernel = 1;
    counters[i] = (int)syscall(SYS_perf_event_open, &about, 0, -1, -1, 0);
  }
}

static uint64_t before[2];

static bool read_counters(uint64_t *to) {
  for (int i = 0; i < 2; i++)
    if (counters[i] < 0 || read(counters[i], &to[i], sizeof to[i]) != (ssize_t)sizeof to[i]) return false;
  return true;
}

void papers_cache_begin(void) {
  if (!read_counters(before)) before[0] = before[1] = 0;
}

bool papers_cache_read(uint64_t *references, uint64_t *misses) {
  uint64_t after[2];
  if (!read_counters(after) || !after[0]) return false;
  *references = after[0] - before[0];
  *misses = after[1] - before[1];
  return true;
}
