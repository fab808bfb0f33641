/* SPDX-License-Identifier: MIT
 *
 * adj_dbscan: clusters by density, from a range join whose rows are streamed and never kept.
 *
 * 1. The counts of the join tell which points are core points; with weights, a separate stream adds up the weights.
 * 2. Each row of a core point unites it with the core points in the row. Sets are trees of parents, in which a parent
 *    has a lower id than its child. So the root of a cluster is its lowest core point, for any order of the rows.
 * 3. Each row of another point chooses the cluster with the lowest root among its core points. Until all rows have
 *    come, two clusters may still become one, and the lower of two roots may change. A point that sees several roots
 *    before then stays undecided. Undecided points are few; at the end a second join finds their rows again.
 * 4. Clusters are numbered by their roots.
 *
 * The rows of a block are shared by all threads. Parents are atomic: a root becomes a child by compare and exchange,
 * and any ancestor may replace a child's parent at any time. No order of memory accesses is needed beyond that,
 * because a parent says nothing about other memory.
 */
#include "core/context.h"

enum { OTHER, CORE, UNDECIDED }; /* kinds of points */

typedef struct dbscan {
  adj_ctx *ctx;
  const adj_dataset *points;
  adj_join_spec spec;
  adj_dbscan_job job;
  adj_run_control control; /* the caller's */
  double from, to;         /* the running stream's part of the whole progress */
  uint64_t count;
  _Atomic uint32_t *parent; /* of a core point; of another point: a core point of its cluster, or ADJ_NO_ID */
  _Atomic uint8_t *kind;
  uint32_t *undecided; /* in ascending order */
  uint64_t undecided_count;
  void *undecided_rows;
} dbscan;

/* A block of rows, and the points that they belong to. */
typedef struct block {
  dbscan *d;
  const adj_rows *rows;
  const uint32_t *ids; /* NULL: row i is point i */
  bool final;          /* all core points are united */
} block;

static uint8_t kind_of(const dbscan *d, uint64_t i) {
  return atomic_load_explicit(&d->kind[i], memory_order_relaxed);
}

static void set_kind(dbscan *d, uint64_t i, uint8_t kind) {
  atomic_store_explicit(&d->kind[i], kind, memory_order_relaxed);
}

static uint32_t parent_of(const dbscan *d, uint64_t i) {
  return atomic_load_explicit(&d->parent[i], memory_order_relaxed);
}

static void set_parent(dbscan *d, uint64_t i, uint32_t parent) {
  atomic_store_explicit(&d->parent[i], parent, memory_order_relaxed);
}

/* ---- Sets of core points -------------------------------------------------------------------------------- */

/* The root of a core point. Halves the path: every other node on it gets its grandparent as parent. */
static uint32_t find_root(dbscan *d, uint32_t i) {
  for (;;) {
    uint32_t up = parent_of(d, i);
    if (up == i) return i;
    uint32_t above = parent_of(d, up);
    if (above == up) return up;
    set_parent(d, i, above);
    i = above;
  }
}

/* Unites the sets of two core points. Returns the root of the union. */
static uint32_t unite(dbscan *d, uint32_t a, uint32_t b) {
  for (;;) {
    a = find_root(d, a);
    b = find_root(d, b);
    if (a == b) return a;
    uint32_t low = a < b ? a : b, high = a < b ? b : a, expected = high;
    if (atomic_compare_exchange_strong_explicit(&d->parent[high], &expected, low, memory_order_relaxed,
                                                memory_order_relaxed))
      return low;
  }
}

/* ---- Rows ------------------------------------------------------------------------------------------------- */

/* Runs fn over the rows of a block, in parallel. */
static adj_status each_row(const block *b, adji_slice_fn fn) {
  enum { ENTRIES_A_SLICE = 1 << 16 };
  const adj_rows *rows = b->rows;
  uint64_t work = rows->offsets[rows->row_count] - rows->offsets[0] + rows->row_count;
  return adji_loop_slices(b->d->ctx, rows->row_count, work / ENTRIES_A_SLICE + 1, fn, (void *)b);
}

/* Unites the core points of rows with those in their rows. Each pair is in two rows: the row of the higher id unites
 * them. */
static void unite_rows(void *user, uint64_t begin, uint64_t end) {
  const block *b = user;
  dbscan *d = b->d;
  for (uint64_t r = begin; r < end; r++) {
    uint32_t i = (uint32_t)(b->rows->first_row + r);
    if (kind_of(d, i) != CORE) continue;
    uint32_t root = find_root(d, i);
    for (uint64_t e = b->rows->offsets[r]; e < b->rows->offsets[r + 1]; e++) {
      uint32_t j = b->rows->ids[e];
      if (j < i && parent_of(d, j) != root && kind_of(d, j) == CORE) root = unite(d, root, j);
    }
  }
}

/* Assigns points that are not core points to the cluster with the lowest root in their rows. */
static void attach_rows(void *user, uint64_t begin, uint64_t end) {
  const block *b = user;
  dbscan *d = b->d;
  for (uint64_t r = begin; r < end; r++) {
    uint64_t row = b->rows->first_row + r, i = b->ids ? b->ids[row] : row;
    if (kind_of(d, i) == CORE) continue;
    uint32_t lowest = ADJ_NO_ID;
    bool several = false;
    for (uint64_t e = b->rows->offsets[r]; e < b->rows->offsets[r + 1]; e++) {
      uint32_t j = b->rows->ids[e];
      if (kind_of(d, j) != CORE) continue;
      uint32_t root = find_root(d, j);
      several |= lowest != ADJ_NO_ID && root != lowest;
      if (root < lowest) lowest = root; /* ADJ_NO_ID is the highest number */
    }
    set_parent(d, i, lowest);
    set_kind(d, i, several && !b->final ? UNDECIDED : OTHER);
  }
}

/* At first each core point is a set of its own. */
static void begin_point(dbscan *d, uint64_t i, bool core) {
  set_kind(d, i, core ? CORE : OTHER);
  set_parent(d, i, core ? (uint32_t)i : ADJ_NO_ID);
}

static void weigh_rows(void *user, uint64_t begin, uint64_t end) {
  const block *b = user;
  const double *weights = b->d->job.weights;
  for (uint64_t r = begin; r < end; r++) {
    double sum = 0;
    for (uint64_t e = b->rows->offsets[r]; e < b->rows->offsets[r + 1]; e++)
      sum += weights[b->rows->ids[e]];
    begin_point(b->d, b->rows->first_row + r, sum >= (double)b->d->job.min_points);
  }
}

/* ---- Streams ---------------------------------------------------------------------------------------------- */

typedef struct counted {
  dbscan *d;
  const uint32_t *degrees;
} counted;

static void begin_counted(void *user, uint64_t begin, uint64_t end) {
  const counted *c = user;
  for (uint64_t i = begin; i < end; i++)
    begin_point(c->d, i, c->degrees[i] >= c->d->job.min_points);
}

/* Without weights the counts tell which points are core points. */
static adj_status begin_clusters(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)pairs;
  counted c = {user, degrees};
  if (c.d->job.weights) return ADJ_OK;
  return adji_loop_slices(c.d->ctx, rows, rows / 16384 + 1, begin_counted, &c);
}

static adj_status weigh_block(void *user, const adj_rows *rows) {
  block b = {.d = user, .rows = rows};
  return each_row(&b, weigh_rows);
}

static adj_status cluster_block(void *user, const adj_rows *rows) {
  dbscan *d = user;
  block b = {.d = d, .rows = rows, .final = rows->first_row + rows->row_count == d->count};
  adj_status status = each_row(&b, unite_rows);
  return status ? status : each_row(&b, attach_rows);
}

static adj_status decide_block(void *user, const adj_rows *rows) {
  dbscan *d = user;
  block b = {.d = d, .rows = rows, .ids = d->undecided, .final = true};
  return each_row(&b, attach_rows);
}

static int report_progress(void *user, const adj_progress *where) {
  const dbscan *d = user;
  adj_progress copy = *where;
  copy.fraction = d->from + (d->to - d->from) * copy.fraction;
  return d->control.progress(d->control.user, &copy);
}

/* Streams a plan to a sink. This part of the whole run ends with progress `to`. */
static adj_status stream(dbscan *d, adj_plan *plan, const adj_sink *sink, double to, adj_stats *stats) {
  adj_run_control control = d->control;
  d->to = to;
  if (control.progress) {
    control.progress = report_progress;
    control.user = d;
  }
  adj_status status = adj_stream(plan, sink, &control, stats);
  d->from = to;
  return status;
}

/* Steps 1 to 3. */
static adj_status find_clusters(dbscan *d, adj_stats *stats) {
  adj_plan *plan = NULL;
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = d;
  d->spec.flags = ADJ_WITH_SELF;
  d->spec.order = d->job.weights ? ADJ_ORDER_ID : ADJ_ORDER_ANY; /* sums of weights depend on the order */
  adj_status status = adj_plan_create(d->ctx, &d->spec, d->points, NULL, &plan);
  sink.write = weigh_block;
  if (!status && d->job.weights) status = stream(d, plan, &sink, 0.45, NULL);
  sink.begin = begin_clusters;
  sink.write = cluster_block;
  if (!status) status = stream(d, plan, &sink, 0.95, stats);
  adj_plan_destroy(plan);
  return status;
}

/* ---- Undecided points --------------------------------------------------------------------------------------- */

static adj_status list_undecided(dbscan *d) {
  uint64_t many = 0, at = 0, row_bytes = (uint64_t)adj_dataset_dim(d->points) * sizeof(double);
  for (uint64_t i = 0; i < d->count; i++)
    many += kind_of(d, i) == UNDECIDED;
  d->undecided_count = many;
  if (!many) return ADJ_OK;
  if (adj_dataset_type(d->points) == ADJ_F32) row_bytes /= 2;
  d->undecided = adji_alloc(&d->ctx->memory, many, sizeof *d->undecided, "border points");
  d->undecided_rows = adji_alloc(&d->ctx->memory, many, row_bytes, "border points");
  if (!d->undecided || !d->undecided_rows) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < d->count; i++) {
    if (kind_of(d, i) != UNDECIDED) continue;
    adj_status status = adj_dataset_row(d->points, i, (char *)d->undecided_rows + at * row_bytes);
    if (status) return status;
    d->undecided[at++] = (uint32_t)i;
  }
  return ADJ_OK;
}

static adj_status decide(dbscan *d) {
  adj_status status = list_undecided(d);
  if (status || !d->undecided_count) return status;
  adj_dataset *left = NULL;
  adj_plan *plan = NULL;
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = adj_dataset_type(d->points);
  points.dim = adj_dataset_dim(d->points);
  points.count = d->undecided_count;
  points.data = d->undecided_rows;
  points.ownership = ADJ_BORROW;
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = d;
  sink.write = decide_block;
  d->spec.flags = 0;
  status = adj_dataset_create(d->ctx, &points, &left);
  if (!status) status = adj_plan_create(d->ctx, &d->spec, left, d->points, &plan);
  if (!status) status = stream(d, plan, &sink, 1, NULL);
  adj_plan_destroy(plan);
  adj_dataset_destroy(left);
  return status;
}

/* ---- Labels --------------------------------------------------------------------------------------------------- */

/* Step 4. A root comes before all other core points of its cluster, but not before its border points. */
static void write_labels(dbscan *d) {
  int64_t *labels = d->job.labels;
  uint64_t clusters = 0;
  for (uint64_t i = 0; i < d->count; i++) {
    if (kind_of(d, i) != CORE) continue;
    uint32_t root = find_root(d, (uint32_t)i);
    labels[i] = root == i ? (int64_t)clusters++ : labels[root];
  }
  for (uint64_t i = 0; i < d->count; i++) {
    bool core = kind_of(d, i) == CORE;
    if (d->job.core) d->job.core[i] = core;
    if (core) continue;
    uint32_t reached = parent_of(d, i);
    labels[i] = reached == ADJ_NO_ID ? -1 : labels[find_root(d, reached)];
  }
  if (d->job.clusters) *d->job.clusters = clusters;
}

static adj_status check(const dbscan *d) {
  const adj_dbscan_job *job = &d->job;
  if (d->spec.kind != ADJ_RANGE) return adji_fail(ADJ_E_ARGUMENT, "spec: kind must be ADJ_RANGE");
  if (d->spec.flags || d->spec.order) return adji_fail(ADJ_E_ARGUMENT, "spec: flags and order must be 0");
  if (d->spec.radii) return adji_fail(ADJ_E_ARGUMENT, "spec: radii must be NULL; all points have one radius");
  if (!job->min_points) return adji_fail(ADJ_E_ARGUMENT, "min_points: must be 1 or more");
  if (!job->labels && d->count) return adji_fail(ADJ_E_ARGUMENT, "labels: must not be NULL");
  if (!job->weights) return ADJ_OK;
  if (job->weight_count != d->count)
    return adji_fail(ADJ_E_ARGUMENT, "weight_count: %llu weights, but %llu points",
                     (unsigned long long)job->weight_count, (unsigned long long)d->count);
  for (uint64_t i = 0; i < d->count; i++)
    if (job->weights[i] - job->weights[i] != 0)
      return adji_fail(ADJ_E_ARGUMENT, "weights: row %llu is %g", (unsigned long long)i + 1, job->weights[i]);
  return ADJ_OK;
}

static adj_status run(dbscan *d, adj_stats *stats) {
  adji_memory *memory = &d->ctx->memory;
  adj_status status = check(d);
  if (status) return status;
  d->parent = adji_alloc(memory, d->count + 1, sizeof *d->parent, "clusters");
  d->kind = adji_alloc(memory, d->count + 1, sizeof *d->kind, "clusters");
  if (!d->parent || !d->kind) status = ADJ_E_MEMORY;
  if (!status) status = find_clusters(d, stats);
  if (!status) status = decide(d);
  if (!status) write_labels(d);
  adji_free(memory, d->undecided_rows);
  adji_free(memory, d->undecided);
  adji_free(memory, (void *)d->kind);
  adji_free(memory, (void *)d->parent);
  return status;
}

ADJI_DEFINE_INIT(adj_dbscan_job, .min_points = 5)

adj_status adj_dbscan(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *points, const adj_dbscan_job *job,
                      const adj_run_control *control, adj_stats *stats) {
  if (!ctx || !spec || !points || !job) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, points and job: none may be NULL");
  dbscan d = {.ctx = ctx, .points = points, .count = adj_dataset_count(points)};
  adj_join_spec_init(&d.spec, sizeof d.spec);
  adj_dbscan_job_init(&d.job, sizeof d.job);
  adj_run_control_init(&d.control, sizeof d.control);
  adj_status status = adji_take_struct(&d.spec, sizeof d.spec, spec, "adj_join_spec");
  if (!status) status = adji_take_struct(&d.job, sizeof d.job, job, "adj_dbscan_job");
  if (!status && control) status = adji_take_struct(&d.control, sizeof d.control, control, "adj_run_control");
  if (status) return status;
  adji_call outer = adji_call_begin(&ctx->cancels);
  status = run(&d, stats);
  adji_call_set(outer);
  return status;
}
