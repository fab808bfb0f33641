/* SPDX-License-Identifier: MIT
 *
 * Compares the library's results with the reference's: every offset, id and bit of a distance.
 */
#include "compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct comparison {
  const join_case *c;
  const join_setup *setup;
  const reference_rows *expected; /* the answer in the order asked for; kNN rows are padded */
  uint64_t pairs;                 /* neighbours in the answer, without padding              */
  uint32_t *places;               /* by id; all 0 between rows, see check_any_order         */
  adj_plan *plan;
  bool lacked_memory; /* the last call that failed had no memory */
  char *message;
  size_t capacity;
} comparison;

/* Writes the message. Returns false, so that a check can return this call. */
__attribute__((format(printf, 2, 3))) static bool differs(comparison *job, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  /* The analyser loses sight of va_start. NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
  vsnprintf(job->message, job->capacity, format, arguments);
  va_end(arguments);
  return false;
}

static bool call_failed(comparison *job, const char *call, adj_status status) {
  job->lacked_memory = status == ADJ_E_MEMORY || status == ADJ_E_DEVICE_MEMORY;
  return differs(job, "%s: %s: %s", call, adj_status_name(status), adj_last_error());
}

/* Entries of the answer, padding included. */
static uint64_t entries_of(const reference_rows *rows) {
  return rows->offsets[rows->rows];
}

/* Neighbours in a row of the answer, without the padding at the end of a kNN row. */
static uint64_t neighbours_in(const reference_rows *rows, uint64_t row) {
  uint64_t end = rows->offsets[row + 1];
  while (end > rows->offsets[row] && rows->ids[end - 1] == ADJ_NO_ID)
    end--;
  return end - rows->offsets[row];
}

static uint64_t pairs_of(const reference_rows *rows) {
  uint64_t pairs = 0;
  for (uint64_t row = 0; row < rows->rows; row++)
    pairs += neighbours_in(rows, row);
  return pairs;
}

/* ---- Whole results ----------------------------------------------------------------------------------- */

/* Entries of one row, as the library reports them or as they are expected. */
typedef struct row_view {
  const uint32_t *ids;
  const char *distances; /* NULL: not compared */
  size_t size;           /* of a distance      */
} row_view;

static row_view view_row(const comparison *job, const uint32_t *ids, const void *distances, uint64_t at) {
  size_t size = type_size(job->c->left.type);
  return (row_view){ids + at, distances ? (const char *)distances + at * size : NULL, size};
}

static bool same_distance(const row_view *a, uint64_t n, const row_view *b, uint64_t m) {
  return !a->distances || !b->distances || !memcmp(a->distances + n * a->size, b->distances + m * b->size, a->size);
}

static double distance_at(const row_view *row, uint64_t n) {
  if (row->size == sizeof(double)) return ((const double *)row->distances)[n];
  return (double)((const float *)row->distances)[n];
}

/* Compares entries in order. The message names the first one that differs. */
static bool check_entries(comparison *job, const char *call, uint64_t row, const row_view *got,
                          const row_view *expected, uint64_t count) {
  for (uint64_t n = 0; n < count; n++) {
    if (got->ids[n] != expected->ids[n])
      return differs(job, "%s: row %" PRIu64 ", entry %" PRIu64 ": id %u instead of %u", call, row, n, got->ids[n],
                     expected->ids[n]);
    if (!same_distance(got, n, expected, n))
      return differs(job, "%s: row %" PRIu64 ", id %u: distance %a instead of %a", call, row, got->ids[n],
                     distance_at(got, n), distance_at(expected, n));
  }
  return true;
}

/* Compares entries in any order: every expected id must appear once, with its distance, and the padding too. */
static bool check_any_order(comparison *job, const char *call, uint64_t row, const row_view *got,
                            const row_view *expected, uint64_t count) {
  uint64_t right_count = job->c->self_join ? job->c->left.count : job->c->right.count, padding = 0;
  if (!job->places) job->places = calloc(right_count + 1, sizeof *job->places);
  if (!job->places) return differs(job, "out of memory");
  for (uint64_t n = 0; n < count; n++)
    if (expected->ids[n] == ADJ_NO_ID)
      padding++;
    else
      job->places[expected->ids[n]] = (uint32_t)n + 1;
  bool same = true;
  for (uint64_t n = 0; same && n < count; n++) {
    uint32_t id = got->ids[n];
    bool padded = id == ADJ_NO_ID && padding > 0;
    uint64_t place = padded ? count : id < right_count ? job->places[id] : 0;
    if (!place)
      same = differs(job, "%s: row %" PRIu64 ", entry %" PRIu64 ": id %u is too many", call, row, n, id);
    else if (!same_distance(got, n, expected, place - 1))
      same = differs(job, "%s: row %" PRIu64 ", id %u: distance %a instead of %a", call, row, id, distance_at(got, n),
                     distance_at(expected, place - 1));
    if (padded)
      padding--;
    else if (place)
      job->places[id] = 0;
  }
  for (uint64_t n = 0; n < count; n++)
    if (expected->ids[n] != ADJ_NO_ID) job->places[expected->ids[n]] = 0;
  return same;
}

/* Compares a row of the library with a row of the reference. NULL distances are not compared. */
static bool check_row(comparison *job, const char *call, uint64_t row, const uint32_t *ids, const void *distances,
                      uint64_t at, uint64_t count) {
  const reference_rows *all = job->expected;
  uint64_t begin = all->offsets[row], wanted = all->offsets[row + 1] - begin;
  if (count != wanted)
    return differs(job, "%s: row %" PRIu64 " has %" PRIu64 " entries instead of %" PRIu64, call, row, count, wanted);
  if (!count) return true;
  row_view got = view_row(job, ids, distances, at), expected = view_row(job, all->ids, all->distances, begin);
  if (!memcmp(got.ids, expected.ids, count * sizeof *ids) &&
      (!got.distances || !expected.distances || !memcmp(got.distances, expected.distances, count * got.size)))
    return true;
  if (job->setup->order == ADJ_ORDER_ANY) return check_any_order(job, call, row, &got, &expected, count);
  return check_entries(job, call, row, &got, &expected, count);
}

static bool check_stats(comparison *job, const char *call, const adj_stats *stats) {
  if (stats->pairs == job->pairs) return true;
  return differs(job, "%s: stats say %" PRIu64 " pairs instead of %" PRIu64, call, stats->pairs, job->pairs);
}

static bool check_collected(comparison *job) {
  adj_result *result = NULL;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  adj_status status = adj_collect(job->plan, &result, NULL, &stats);
  if (status) return call_failed(job, "collect", status);
  bool same = check_stats(job, "collect", &stats);
  if (same && adj_result_rows(result) != job->expected->rows) same = differs(job, "collect: wrong number of rows");
  if (same && adj_result_pairs(result) != pairs_of(job->expected))
    same = differs(job, "collect: wrong number of pairs");
  if (same && adj_result_type(result) != job->c->left.type) same = differs(job, "collect: wrong type");
  const void *distances = adj_result_distances(result);
  if (same && job->setup->distances && !distances && entries_of(job->expected))
    same = differs(job, "collect: no distances");
  if (same && !job->setup->distances && distances) same = differs(job, "collect: distances that nobody asked for");
  const uint64_t *offsets = adj_result_offsets(result);
  if (same && offsets[0] != 0) same = differs(job, "collect: the offsets do not begin with 0");
  for (uint64_t row = 0; same && row < job->expected->rows; row++)
    same = check_row(job, "collect", row, adj_result_ids(result), distances, offsets[row],
                     offsets[row + 1] - offsets[row]);
  adj_result_destroy(result);
  return same;
}

static bool check_degrees(comparison *job, const char *call, const uint32_t *degrees) {
  for (uint64_t row = 0; row < job->expected->rows; row++) {
    uint64_t wanted = neighbours_in(job->expected, row);
    if (degrees[row] != wanted)
      return differs(job, "%s: row %" PRIu64 " has %u neighbours instead of %" PRIu64, call, row, degrees[row], wanted);
  }
  return true;
}

static bool check_counted(comparison *job) {
  uint32_t *degrees = malloc((job->expected->rows + 1) * sizeof *degrees);
  if (!degrees) return differs(job, "out of memory");
  memset(degrees, 0xee, (job->expected->rows + 1) * sizeof *degrees);
  uint64_t total = 0, again = 0;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  adj_status status = adj_count(job->plan, degrees, &total, NULL, &stats);
  bool same = status ? call_failed(job, "count", status) : check_degrees(job, "count", degrees);
  if (same && total != job->pairs) same = differs(job, "count: wrong total");
  if (same) same = check_stats(job, "count", &stats);
  if (same && degrees[job->expected->rows] != 0xeeeeeeee) same = differs(job, "count: wrote behind the degrees");
  if (same) {
    status = adj_count(job->plan, NULL, &again, NULL, NULL);
    if (status) same = call_failed(job, "count without degrees", status);
    if (same && again != total) same = differs(job, "count: another total without degrees");
  }
  free(degrees);
  return same;
}

/* ---- Streaming ---------------------------------------------------------------------------------------- */

typedef struct stream_check {
  comparison *job;
  uint64_t next_row;
  int begun, ended;
  adj_status outcome;
} stream_check;

static adj_status stream_begin(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  stream_check *check = user;
  comparison *job = check->job;
  check->begun++;
  bool same = true;
  if (rows != job->expected->rows || pairs != entries_of(job->expected))
    same = differs(job, "stream: begin says %" PRIu64 " rows and %" PRIu64 " pairs", rows, pairs);
  else if (job->c->k && degrees)
    same = differs(job, "stream: begin has degrees where every row has k entries");
  else if (!job->c->k)
    same = check_degrees(job, "stream", degrees);
  return same ? ADJ_OK : ADJ_E_SINK;
}

static adj_status stream_write(void *user, const adj_rows *rows) {
  stream_check *check = user;
  comparison *job = check->job;
  bool same = check->begun == 1 && !check->ended;
  if (!same) differs(job, "stream: write outside of begin and end");
  if (same && (rows->first_row != check->next_row || rows->first_row + rows->row_count > job->expected->rows))
    same = differs(job, "stream: rows %" PRIu64 " to %" PRIu64 " come after row %" PRIu64, rows->first_row,
                   rows->first_row + rows->row_count, check->next_row);
  if (same && job->setup->distances != (rows->distances != NULL) && rows->offsets[rows->row_count] > rows->offsets[0])
    same = differs(job, "stream: distances are not as asked for");
  for (uint64_t i = 0; same && i < rows->row_count; i++)
    same = check_row(job, "stream", rows->first_row + i, rows->ids, rows->distances, rows->offsets[i],
                     rows->offsets[i + 1] - rows->offsets[i]);
  check->next_row += rows->row_count;
  return same ? ADJ_OK : ADJ_E_SINK;
}

static void stream_end(void *user, adj_status outcome) {
  stream_check *check = user;
  check->ended++;
  check->outcome = outcome;
}

static bool check_streamed(comparison *job) {
  stream_check check = {.job = job};
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &check;
  sink.begin = stream_begin;
  sink.write = stream_write;
  sink.end = stream_end;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  adj_status status = adj_stream(job->plan, &sink, NULL, &stats);
  if (status == ADJ_E_SINK) return false; /* the sink has written the message */
  if (status) return call_failed(job, "stream", status);
  if (check.begun != 1 || check.ended != 1 || check.outcome != ADJ_OK)
    return differs(job, "stream: begin %d times, end %d times with %s", check.begun, check.ended,
                   adj_status_name(check.outcome));
  if (check.next_row != job->expected->rows)
    return differs(job, "stream: %" PRIu64 " rows instead of %" PRIu64, check.next_row, job->expected->rows);
  return check_stats(job, "stream", &stats);
}

/* ---- The case ----------------------------------------------------------------------------------------- */

static adj_status borrow(adj_ctx *ctx, const point_set *set, adj_dataset **out) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = set->type;
  points.dim = set->dim;
  points.count = set->count;
  points.data = set->data;
  points.ownership = ADJ_BORROW;
  return adj_dataset_create(ctx, &points, out);
}

static adj_join_spec spec_of(const join_case *c, const join_setup *setup) {
  adj_join_spec spec = case_spec(c);
  spec.backend = setup->backend;
  spec.algorithm = setup->algorithm;
  spec.system = setup->system;
  spec.tuning = setup->tuning;
  spec.order = setup->order;
  if (setup->distances) spec.flags |= ADJ_WITH_DISTANCE;
  return spec;
}

/* Whether the library may refuse a join: this build or machine cannot do it, or a setting does not fit the case.
 * Callers check that every setting fits some case. */
static bool may_refuse(const join_setup *setup, adj_status status) {
  if (setup->may_lack_memory && (status == ADJ_E_MEMORY || status == ADJ_E_DEVICE_MEMORY)) return true;
  return status == ADJ_E_UNSUPPORTED ||
         (status == ADJ_E_ARGUMENT && (setup->algorithm || setup->tuning || setup->system));
}

/* Gets the result in every way. A join may lack the memory to be collected, and still be counted or streamed. */
static join_verdict check_all(comparison *job) {
  bool (*const checks[])(comparison *) = {check_collected, check_counted, check_streamed};
  join_verdict verdict = JOIN_SAME;
  for (int i = 0; i < 3; i++) {
    job->lacked_memory = false;
    if (checks[i](job)) continue;
    if (!job->setup->may_lack_memory || !job->lacked_memory) return JOIN_DIFFERS;
    verdict = JOIN_REFUSED;
  }
  return verdict;
}

/* ---- A kept index ----------------------------------------------------------------------------------------------- */

static adj_index_options options_of(const adj_join_spec *spec) {
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.metric = spec->metric;
  options.backend = spec->backend;
  options.angle = spec->angle;
  options.unit = spec->unit;
  options.sphere_radius = spec->sphere_radius;
  options.p = spec->p;
  options.box = spec->box;
  options.box_count = spec->box_count;
  return options;
}

static adj_question question_of(const adj_join_spec *spec) {
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.kind = spec->kind;
  question.k = spec->k;
  question.radius = spec->radius;
  question.radii = spec->radii;
  question.radius_count = spec->radius_count;
  question.order = spec->order;
  question.flags = spec->flags;
  question.algorithm = spec->algorithm;
  return question;
}

/* Asks another question first. The question that is compared may then reuse its structures. */
static adj_status ask_another(adj_index *index, const adj_join_spec *spec, const adj_dataset *left) {
  adj_question question = question_of(spec);
  adj_plan *plan = NULL;
  uint64_t total;
  question.k += 2;
  question.radii = NULL;
  question.radius_count = 0;
  question.radius = spec->radii ? (spec->radius_count ? spec->radii[0] : 1) : spec->radius;
  if (spec->kind == ADJ_RANGE && isinf(question.radius)) question.radius = 1;
  if (spec->metric != ADJ_DOT && spec->metric != ADJ_HAVERSINE) question.radius *= 1.125;
  adj_status status =
      isfinite(question.radius) || spec->kind == ADJ_KNN ? adj_index_plan(index, &question, left, &plan) : ADJ_OK;
  if (!status && plan) status = adj_count(plan, NULL, &total, NULL, NULL);
  adj_plan_destroy(plan);
  return status;
}

/* Makes a plan on an index. The plan outlives the index. */
static adj_status plan_kept(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                            adj_plan **out) {
  adj_index_options options = options_of(spec);
  adj_question question = question_of(spec);
  adj_index *index = NULL;
  adj_status status = adj_index_create(ctx, &options, right ? right : left, &index);
  if (!status) status = ask_another(index, spec, right ? left : NULL);
  if (!status) status = adj_index_plan(index, &question, right ? left : NULL, out);
  adj_index_destroy(index);
  return status;
}

double *case_radii(const join_case *c, const join_answer *answer) {
  static const double factors[] = {1, 0, 0.5, 2, 0.99, 1.25, 0.25};
  double *radii = calloc(c->left.count + 1, sizeof *radii);
  for (uint64_t i = 0; i < c->left.count && radii; i++) {
    double radius = c->radius;
    if (isinf(radius) && i % 3 && c->k) { /* exactly on the distance of a neighbour */
      uint64_t at = answer->by_id.offsets[i] + i % c->k;
      radius = c->left.type == ADJ_F64 ? ((const double *)answer->by_id.distances)[at]
                                       : (double)((const float *)answer->by_id.distances)[at];
      if (isinf(radius)) radius = INFINITY; /* padding */
    } else {
      radius *= isinf(radius) ? 1 : factors[i % (sizeof factors / sizeof *factors)];
    }
    radii[i] = isinf(radius) && !c->k ? c->radius : radius;
  }
  return radii;
}

join_verdict compare_case(adj_ctx *ctx, const join_case *c, const join_answer *answer, const join_setup *setup,
                          char *message, size_t capacity) {
  comparison job = {.c = c, .setup = setup, .message = message, .capacity = capacity};
  job.expected = setup->order == ADJ_ORDER_DISTANCE && !c->k ? &answer->by_distance : &answer->by_id;
  job.pairs = pairs_of(job.expected);
  join_verdict verdict = JOIN_DIFFERS;
  adj_dataset *left = NULL, *right = NULL;
  adj_join_spec spec = spec_of(c, setup);
  adj_status status = borrow(ctx, &c->left, &left);
  if (!status && !c->self_join) status = borrow(ctx, &c->right, &right);
  if (!status)
    status = setup->kept ? plan_kept(ctx, &spec, left, right, &job.plan)
                         : adj_plan_create(ctx, &spec, left, right, &job.plan);
  if (status) {
    call_failed(&job, "plan", status);
    if (may_refuse(setup, status)) verdict = JOIN_REFUSED;
  } else {
    verdict = check_all(&job);
  }
  free(job.places);
  adj_plan_destroy(job.plan);
  adj_dataset_destroy(right);
  adj_dataset_destroy(left);
  return verdict;
}

bool answer_case(const join_case *c, join_answer *out) {
  adj_join_spec spec = case_spec(c);
  const point_set *right = c->self_join ? NULL : &c->right;
  memset(out, 0, sizeof *out);
  return reference_join(&c->left, right, &spec, &out->by_id, c->k ? NULL : &out->by_distance);
}

void answer_free(join_answer *answer) {
  reference_free(&answer->by_id);
  reference_free(&answer->by_distance);
}
