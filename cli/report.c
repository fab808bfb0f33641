/* SPDX-License-Identifier: MIT
 *
 * Prints the total and the summary of a run. stats.c writes the JSON of --stats.
 */
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

static bool is_standard(const char *path) {
  return path && !strcmp(path, "-");
}

/* If the pairs are written to a file, their number is not printed. */
bool report_total(const run_report *report) {
  const join_request *request = report->request;
  if (is_standard(request->output) || is_standard(request->stats) || is_standard(request->trace)) return true;
  if (request->output && !request->per_point_counts) return true;
  uint64_t total = request->min_points ? report->clusters.many : report->stats.pairs;
  if (printf("%llu\n", (unsigned long long)total) > 0 && !fflush(stdout)) return true;
  fprintf(stderr, "adjoin: standard output: cannot be written: %s\n", strerror(errno));
  return false;
}

static void add_phase(char *text, size_t room, const char *name, double seconds) {
  char time[32];
  size_t length = strlen(text);
  if (seconds < 0.0005) return;
  snprintf(text + length, room - length, "%s%s %s", length ? ", " : "", name, text_duration(seconds, time));
}

/* "12 pairs, 3 per point", "the 8 nearest of 1,000 points among 2,000", or "3 clusters of 1,000 points, 24 in none". */
static void describe_result(const run_report *report, char *text, size_t room) {
  const join_request *request = report->request;
  char first[32], second[32], third[32], many[32] = "";
  uint64_t rows = adj_dataset_count(report->left);
  if (request->k > 1) snprintf(many, sizeof many, "%llu ", (unsigned long long)request->k);
  if (request->min_points)
    snprintf(text, room, "%s cluster%s of %s points, %s in none", text_count(report->clusters.many, first),
             report->clusters.many == 1 ? "" : "s", text_count(rows, second),
             text_count(report->clusters.noise, third));
  else if (request->kind == ADJ_RANGE)
    snprintf(text, room, "%s pair%s, %.4g per point", text_count(report->stats.pairs, first),
             report->stats.pairs == 1 ? "" : "s", rows ? (double)report->stats.pairs / (double)rows : 0);
  else if (report->left == report->right)
    snprintf(text, room, "the %snearest of %s points", many, text_count(rows, first));
  else
    snprintf(text, room, "the %snearest of %s points among %s", many, text_count(rows, first),
             text_count(adj_dataset_count(report->right), second));
}

void report_summary(const run_report *report) {
  const adj_stats *stats = &report->stats;
  const join_request *request = report->request;
  char result[128], wall[32], rate[32], peak[32], phases[160] = "";
  double join_s = stats->plan_s + stats->index_s + stats->join_s + stats->write_s;
  bool nearest = request->kind == ADJ_KNN;
  double many = nearest ? (double)adj_dataset_count(report->left) : (double)stats->pairs;
  describe_result(report, result, sizeof result);
  add_phase(phases, sizeof phases, "read", report->read_s);
  add_phase(phases, sizeof phases, "plan", stats->plan_s);
  add_phase(phases, sizeof phases, "index", stats->index_s);
  add_phase(phases, sizeof phases, "join", stats->join_s);
  add_phase(phases, sizeof phases, "write", stats->write_s);
  add_phase(phases, sizeof phases, "GPU kernels", stats->kernel_s);
  fprintf(stderr, "adjoin: %s, in %s%s%s%s; %s %s/s, peak memory %s\n", result, text_duration(report->wall_s, wall),
          *phases ? " (" : "", phases, *phases ? ")" : "", text_short(join_s > 0 ? many / join_s : 0, rate),
          nearest ? "points" : "pairs", text_bytes((double)stats->peak_bytes, peak));
  if (!request->output || is_standard(request->output)) return;
  fprintf(stderr, "adjoin: wrote %s\n", request->output);
  if (request->distances) fprintf(stderr, "adjoin: wrote %s\n", request->distances);
}
