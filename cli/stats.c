/* SPDX-License-Identifier: MIT
 *
 * --stats: one JSON object about the run. docs/man/adjoin.1 lists the fields.
 */
#include <string.h>

#include "json.h"
#include "report.h"

static void put_text(json_writer *json, const char *name, const char *value) {
  json_raw(json, ",\n  \"%s\": ", name);
  json_text(json, value);
}

static void put_count(json_writer *json, const char *name, uint64_t value) {
  json_raw(json, ",\n  \"%s\": %llu", name, (unsigned long long)value);
}

static void put_real(json_writer *json, const char *name, double value) {
  json_raw(json, ",\n  \"%s\": ", name);
  json_real(json, value);
}

static void put_seconds(json_writer *json, const run_report *report) {
  const adj_stats *stats = &report->stats;
  const struct {
    const char *name;
    double seconds;
  } phases[] = {{"read", report->read_s},
                {"plan", stats->plan_s},
                {"index", stats->index_s},
                {"join", stats->join_s},
                {"write", stats->write_s}};
  json_raw(json, ",\n  \"seconds\": {");
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
    json_raw(json, "%s\"%s\": %.9f", i ? ", " : "", phases[i].name, phases[i].seconds);
  json_raw(json, "}");
  json_raw(json, ",\n  \"wall_seconds\": %.9f", report->wall_s);
}

static void put_join(json_writer *json, const run_report *report) {
  /* By adj_metric; 0: the default. */
  static const char *const metrics[] = {"l2", "l2", "l1", "linf", "lp", "cosine", "dot", "haversine"};
  const join_request *request = report->request;
  put_count(json, "n_left", adj_dataset_count(report->left));
  put_count(json, "n_right", adj_dataset_count(report->right));
  put_count(json, "dim", adj_dataset_dim(report->left));
  put_text(json, "type", adj_dataset_type(report->left) == ADJ_F64 ? "f64" : "f32");
  put_text(json, "metric", metrics[request->metric]);
  if (request->metric == ADJ_LP) put_real(json, "p", request->p);
  if (request->box) put_text(json, "box", request->box);
  put_real(json, "radius", request->radius);
  if (request->k) put_count(json, "k", request->k);
  if (!request->min_points) return;
  put_count(json, "min_points", request->min_points);
  put_count(json, "clusters", report->clusters.many);
  put_count(json, "noise", report->clusters.noise);
}

/* Only if a device took part. */
static void put_device(json_writer *json, const adj_stats *stats) {
  const struct {
    const char *name;
    double seconds;
  } times[] = {{"kernels", stats->kernel_s},
               {"upload", stats->upload_s},
               {"download", stats->download_s},
               {"place", stats->place_s}};
  if (strcmp(stats->backend, "gpu") && strcmp(stats->backend, "hybrid")) return;
  json_raw(json, ",\n  \"device_seconds\": {");
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    json_raw(json, "%s\"%s\": %.9f", i ? ", " : "", times[i].name, times[i].seconds);
  json_raw(json, "}");
  put_count(json, "bytes_up", stats->bytes_up);
  put_count(json, "bytes_down", stats->bytes_down);
  put_real(json, "warp_efficiency", stats->warp_efficiency);
}

/* Only if a kNN join searched a grid, or a grid ordered the queue. */
static void put_grid(json_writer *json, const adj_stats *stats) {
  if (!stats->grid_queries && !(stats->grid_order_s > 0)) return;
  json_raw(json, ",\n  \"grid\": {\"epsilon\": ");
  json_real(json, stats->grid_epsilon);
  json_raw(json, ", \"epsilon_seconds\": %.9f, \"queries\": %llu, \"failed\": %llu", stats->grid_epsilon_s,
           (unsigned long long)stats->grid_queries, (unsigned long long)stats->grid_failed);
  json_raw(json, ", \"reindexed\": %llu, \"reindex_seconds\": %.9f", (unsigned long long)stats->grid_reindexed,
           stats->grid_reindex_s);
  json_raw(json, ", \"order_seconds\": %.9f}", stats->grid_order_s);
}

/* Only for joins by recursion over pairs of sequences. */
static void put_ego(json_writer *json, const adj_stats *stats) {
  if (!(stats->ego_sort_s > 0)) return;
  json_raw(json, ",\n  \"ego\": {\"reorder_seconds\": %.9f, \"sort_seconds\": %.9f, \"workload_seconds\": %.9f}",
           stats->ego_reorder_s, stats->ego_sort_s, stats->ego_workload_s);
}

/* Only with the papers' kernels: an entry for each number of indexed dimensions, from one on. */
static void put_indexed(json_writer *json, const adj_stats *stats) {
  if (!stats->indexed_count) return;
  json_raw(json, ",\n  \"indexed\": {\"fewest_operations\": %u, \"by_dimensions\": [", stats->indexed_fewest);
  for (uint32_t i = 0; i < stats->indexed_count; i++)
    json_raw(json, "%s{\"search\": %.6g, \"compare\": %.6g, \"estimated_seconds\": %.6g}", i ? ", " : "",
             stats->indexed_search[i], stats->indexed_compare[i], stats->indexed_s[i]);
  json_raw(json, "]}");
}

/* Only if a prefilter was used. */
static void put_prefilter(json_writer *json, const adj_stats *stats) {
  if (!stats->prefilter_queries) return;
  json_raw(json, ",\n  \"prefilter\": {\"queries\": %llu, \"sums\": %llu, \"again\": %llu, \"failed\": %llu",
           (unsigned long long)stats->prefilter_queries, (unsigned long long)stats->prefilter_sums,
           (unsigned long long)stats->prefilter_again, (unsigned long long)stats->prefilter_failed);
  if (stats->prefilter_tiles)
    json_raw(json, ", \"tiles\": %llu, \"tiles_scanned\": %llu", (unsigned long long)stats->prefilter_tiles,
             (unsigned long long)stats->prefilter_tiles_scanned);
  json_raw(json, "}");
}

/* Only if workers shared the queries. */
static void put_workers(json_writer *json, const run_report *report) {
  const adj_stats *stats = &report->stats;
  if (!stats->worker_count) return;
  put_real(json, "worker_imbalance", stats->worker_imbalance);
  json_raw(json, ",\n  \"workers\": [");
  for (uint32_t w = 0; w < stats->worker_count; w++) {
    adj_worker it;
    adj_worker_init(&it, sizeof it);
    if (adj_plan_worker(report->plan, w, &it)) break;
    json_raw(json, "%s\n    {\"name\": ", w ? "," : "");
    json_text(json, it.name);
    json_raw(json, ", \"queries\": %llu, \"batches\": %llu, \"failed\": %llu, \"busy_seconds\": %.9f",
             (unsigned long long)it.queries, (unsigned long long)it.batches, (unsigned long long)it.failed, it.busy_s);
    json_raw(json, ", \"queries_per_second\": ");
    json_real(json, it.rate);
    json_raw(json, "}");
  }
  json_raw(json, "]");
}

void report_stats(const run_report *report, json_writer *json) {
  const adj_stats *stats = &report->stats;
  double join_s = stats->plan_s + stats->index_s + stats->join_s + stats->write_s;
  json_raw(json, "{\n  \"adjoin\": ");
  json_text(json, adj_version_string());
  put_text(json, "command", report->command);
  put_seconds(json, report);
  put_count(json, "pairs", stats->pairs);
  put_count(json, "candidates", stats->candidates);
  put_count(json, "peak_bytes", stats->peak_bytes);
  put_text(json, "backend", stats->backend);
  put_text(json, "algorithm", stats->algorithm);
  put_count(json, "threads", stats->threads);
  put_text(json, "isa", stats->isa);
  put_join(json, report);
  put_real(json, "pairs_per_second", join_s > 0 ? (double)stats->pairs / join_s : 0);
  put_count(json, "cells", stats->cells);
  put_count(json, "batches", stats->batches);
  put_count(json, "batches_redone", stats->batches_redone);
  put_real(json, "imbalance", stats->imbalance);
  put_real(json, "estimated_pairs", stats->estimated_pairs);
  put_real(json, "estimated_candidates", stats->estimated_candidates);
  put_device(json, stats);
  put_grid(json, stats);
  put_ego(json, stats);
  put_indexed(json, stats);
  put_prefilter(json, stats);
  put_workers(json, report);
  json_raw(json, "\n}\n");
}
