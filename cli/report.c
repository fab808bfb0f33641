/* SPDX-License-Identifier: MIT
 *
 * The total and the summary of a run. The JSON of --stats is in stats.c.
 */
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

static bool is_standard(const char *path) {
  return path && !strcmp(path, "-");
}

/* Pairs written to a file are the answer themselves; otherwise their number is. */
bool report_total(const run_report *report) {
  const join_request *request = report->request;
  if (is_standard(request->output) || is_standard(request->stats) || is_standard(request->trace)) return true;
  if (request->output && !request->per_point_counts) return true;
  if (printf("%llu\n", (unsigned long long)report->stats.pairs) > 0 && !fflush(stdout)) return true;
  fprintf(stderr, "adjoin: standard output: cannot be written: %s\n", strerror(errno));
  return false;
}

static void add_phase(char *text, size_t room, const char *name, double seconds) {
  char time[32];
  size_t length = strlen(text);
  if (seconds < 0.0005) return;
  snprintf(text + length, room - length, "%s%s %s", length ? ", " : "", name, text_duration(seconds, time));
}

void report_summary(const run_report *report) {
  const adj_stats *stats = &report->stats;
  char pairs[32], wall[32], rate[32], peak[32], phases[160] = "";
  uint64_t rows = adj_dataset_count(report->left);
  double join_s = stats->plan_s + stats->index_s + stats->join_s + stats->write_s;
  add_phase(phases, sizeof phases, "read", report->read_s);
  add_phase(phases, sizeof phases, "plan", stats->plan_s);
  add_phase(phases, sizeof phases, "index", stats->index_s);
  add_phase(phases, sizeof phases, "join", stats->join_s);
  add_phase(phases, sizeof phases, "write", stats->write_s);
  fprintf(stderr, "adjoin: %s pairs, %.4g per point, in %s%s%s%s; %s pairs/s, peak memory %s\n",
          text_count(stats->pairs, pairs), rows ? (double)stats->pairs / (double)rows : 0,
          text_duration(report->wall_s, wall), *phases ? " (" : "", phases, *phases ? ")" : "",
          text_short(join_s > 0 ? (double)stats->pairs / join_s : 0, rate),
          text_bytes((double)stats->peak_bytes, peak));
  if (report->request->output && !is_standard(report->request->output))
    fprintf(stderr, "adjoin: wrote %s\n", report->request->output);
}
