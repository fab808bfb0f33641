/* SPDX-License-Identifier: MIT
 *
 * One join of the papers' driver: its repeats, and the line of JSON about them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "driver_papers.h"

/* The join to run. */
typedef struct job {
  adj_ctx *ctx;
  const papers_request *r;
  const papers_sets *sets;
  papers_traced *traced;
} job;

typedef struct outcome {
  double seconds[PAPERS_REPEATS], plan[PAPERS_REPEATS];
  uint32_t repeats;
  papers_digest digest;
  bool same; /* all repeats have the same digest */
  adj_stats stats;
  adj_worker workers[2]; /* cores and the first device */
  uint64_t references, misses;
  bool counted;
} outcome;

/* ---- Runs ------------------------------------------------------------------------------------------------ */

static bool find_backend(const char *name, adj_backend *out) {
  static const struct {
    const char *name;
    adj_backend backend;
  } all[] = {{"auto", ADJ_BACKEND_AUTO},
             {"cpu", ADJ_BACKEND_CPU},
             {"gpu", ADJ_BACKEND_GPU},
             {"hybrid", ADJ_BACKEND_HYBRID},
             {"reference", ADJ_BACKEND_REFERENCE}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!name || !strcmp(name, all[i].name)) {
      *out = all[i].backend;
      return true;
    }
  return false;
}

static adj_join_spec spec_of(const papers_request *r, adj_backend backend) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.backend = backend;
  spec.algorithm = r->algorithm;
  spec.tuning = r->tuning;
  spec.system = r->system;
  if (!strcmp(r->kind, "knn")) {
    spec.kind = ADJ_KNN;
    spec.k = (uint32_t)r->k;
    spec.flags = ADJ_WITH_DISTANCE;
  } else {
    spec.radius = r->radius;
    spec.order = r->order && !strcmp(r->order, "id") ? ADJ_ORDER_ID : ADJ_ORDER_ANY;
  }
  return spec;
}

static int over_time(void *user, const adj_progress *where) {
  (void)where;
  return bench_now() > *(const double *)user;
}

static void note_workers(const adj_plan *plan, outcome *o) {
  for (uint32_t i = 0; i < 2; i++) {
    adj_worker_init(&o->workers[i], sizeof o->workers[i]);
    if (i >= o->stats.worker_count || adj_plan_worker(plan, i, &o->workers[i])) o->workers[i].queries = 0;
  }
}

static adj_status run_once(const job *j, const adj_join_spec *spec, outcome *o) {
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  adj_stats_init(&o->stats, sizeof o->stats);
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  j->traced->count = 0;
  papers_cache_begin();
  double begin = bench_now(), end = j->r->limit > 0 ? begin + j->r->limit : INFINITY;
  control.interval_ms = 5;
  control.progress = over_time;
  control.user = &end;
  adj_status status = adj_plan_create(j->ctx, spec, j->sets->left, j->sets->right, &plan);
  double planned = bench_now();
  if (!status) status = adj_collect(plan, &result, &control, &o->stats);
  double done = bench_now();
  o->counted = papers_cache_read(&o->references, &o->misses);
  if (!status) {
    papers_digest digest = papers_digest_of(result, spec->k, adj_dataset_type(j->sets->left), adj_ctx_threads(j->ctx));
    o->same = (!o->repeats || digest.sum == o->digest.sum) && o->same;
    o->digest = digest;
    o->plan[o->repeats] = planned - begin;
    o->seconds[o->repeats++] = done - begin;
    note_workers(plan, o);
  }
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status;
}

/* Repeats the join while there is time. */
static adj_status run_all(const job *j, adj_backend backend, outcome *o) {
  const papers_request *r = j->r;
  adj_join_spec spec = spec_of(r, backend);
  double begin = bench_now();
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < r->repeats && !status; i++) {
    if (i && r->limit > 0 && (bench_now() - begin) * (i + 1) / i > r->limit) break;
    status = run_once(j, &spec, o);
  }
  return o->repeats ? ADJ_OK : status;
}

/* ---- The answer ------------------------------------------------------------------------------------------ */

static void print_stats(const adj_stats *s) {
  papers_print_text("backend", s->backend ? s->backend : "");
  papers_print_text("algorithm", s->algorithm ? s->algorithm : "");
  papers_print_text("isa", s->isa ? s->isa : "");
  printf(", \"threads\": %u, \"plan_s\": %.6f, \"index_s\": %.6f, \"join_s\": %.6f", s->threads, s->plan_s, s->index_s,
         s->join_s);
  printf(", \"candidates\": %llu, \"batches\": %llu, \"cells\": %llu, \"imbalance\": %.4f, \"peak_bytes\": %llu",
         (unsigned long long)s->candidates, (unsigned long long)s->batches, (unsigned long long)s->cells, s->imbalance,
         (unsigned long long)s->peak_bytes);
  printf(", \"kernel_s\": %.6f, \"upload_s\": %.6f, \"download_s\": %.6f, \"place_s\": %.6f", s->kernel_s, s->upload_s,
         s->download_s, s->place_s);
  printf(", \"bytes_up\": %llu, \"bytes_down\": %llu, \"warp_efficiency\": %.4f, \"worker_imbalance\": %.4f",
         (unsigned long long)s->bytes_up, (unsigned long long)s->bytes_down, s->warp_efficiency, s->worker_imbalance);
  printf(", \"grid_queries\": %llu, \"grid_failed\": %llu, \"grid_reindexed\": %llu",
         (unsigned long long)s->grid_queries, (unsigned long long)s->grid_failed,
         (unsigned long long)s->grid_reindexed);
  printf(", \"ego_reorder_s\": %.6f, \"ego_sort_s\": %.6f, \"ego_workload_s\": %.6f", s->ego_reorder_s, s->ego_sort_s,
         s->ego_workload_s);
  printf(", \"grid_epsilon\": %.6g, \"grid_epsilon_s\": %.6f, \"grid_reindex_s\": %.6f, \"grid_order_s\": %.6f",
         s->grid_epsilon, s->grid_epsilon_s, s->grid_reindex_s, s->grid_order_s);
}

static void print_workers(const papers_traced *t, const outcome *o) {
  uint64_t cores = o->workers[0].queries, device = o->workers[1].queries;
  if (o->stats.worker_count > 1)
    printf(", \"device_share\": %.4f, \"device_busy_s\": %.6f, \"cores_busy_s\": %.6f, \"returned\": %llu",
           cores + device ? (double)device / (double)(cores + device) : 0, o->workers[1].busy_s, o->workers[0].busy_s,
           (unsigned long long)o->workers[1].failed);
  uint32_t many = t->count < PAPERS_BATCHES ? t->count : PAPERS_BATCHES;
  printf(", \"device_batches\": [");
  for (uint32_t i = 0; i < many; i++)
    printf("%s%llu", i ? ", " : "", (unsigned long long)t->queries[i]);
  printf("]");
}

static void print_outcome(const job *j, outcome *o) {
  const papers_request *r = j->r;
  const papers_sets *s = j->sets;
  const adj_dataset *points = s->right ? s->right : s->left;
  papers_sort_times(o->seconds, o->repeats);
  printf("{\"status\": \"ok\", \"seconds\": %.6f, \"seconds_min\": %.6f, \"repeats\": %u",
         o->seconds[(o->repeats - 1) / 2], o->seconds[0], o->repeats);
  printf(", \"queries\": %llu, \"points\": %llu, \"dim\": %u, \"radius\": %.9g, \"k\": %llu",
         (unsigned long long)adj_dataset_count(s->left), (unsigned long long)adj_dataset_count(points),
         adj_dataset_dim(points), r->radius, (unsigned long long)r->k);
  printf(", \"pairs\": %llu, \"digest\": \"%016llx\", \"same\": %s", (unsigned long long)o->digest.pairs,
         (unsigned long long)o->digest.sum, o->same ? "true" : "false");
  if (r->k) printf(", \"distances\": %.9g", o->digest.distances);
  if (o->counted)
    printf(", \"cache_references\": %llu, \"cache_misses\": %llu", (unsigned long long)o->references,
           (unsigned long long)o->misses);
  print_stats(&o->stats);
  print_workers(j->traced, o);
  printf("}\n");
}

void papers_join(adj_ctx *ctx, const papers_request *r, const papers_sets *s, papers_traced *traced) {
  job j = {.ctx = ctx, .r = r, .sets = s, .traced = traced};
  outcome o = {.same = true};
  adj_backend backend;
  if (!find_backend(r->backend, &backend)) {
    papers_refuse(ADJ_E_ARGUMENT, "backend: none of auto, cpu, gpu, hybrid, reference");
    return;
  }
  adj_status status = run_all(&j, backend, &o);
  if (status)
    papers_refuse(status, adj_last_error());
  else
    print_outcome(&j, &o);
}
