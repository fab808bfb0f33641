/* SPDX-License-Identifier: MIT
 *
 * The list of cases over several ranks, under mpirun -n 8. The ranks are divided into groups of 1, 2, 3, 4, 5, 7 and 8,
 * which take the cases in turn. Each case runs with every distribution in some group, with points split among ranks in
 * several ways (evenly, unevenly, all on one rank, none on some). Counts, results and streams are compared with the
 * reference: every offset, id and bit of the distances.
 *
 *   mpirun -n 8 test_mpi_cases [--all] [PART PARTS]
 *
 * Without --all: the small cases, each with one distribution in one division of the ranks. Every fourth case has a
 * radius for each left point.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adjoin_mpi.h"
#include "compare.h"

enum { MOST_GROUPS = 3, DIVISIONS = 4 };

/* The ranks of each group in a division of eight. */
static const int divisions[DIVISIONS][MOST_GROUPS] = {{8}, {7, 1}, {5, 3}, {4, 2, 2}};

static int failures, runs;

typedef struct scene {
  MPI_Comm comm;
  int rank, ranks;
  adj_ctx *ctx;
  const join_case *c;
  const reference_rows *expected;
  adj_mpi_distribution distribution;
  int split;
  bool distances, narrow; /* narrow: results have ids of 32 bits */
  adj_order order;
  uint64_t left_first, left_count, right_first, right_count; /* this rank's */
} scene;

static void report_failure(const scene *s, const char *what) {
  failures++;
  if (failures > 20) return;
  fprintf(stderr, "%s: rank %d of %d, %s, split %d: %s\n", s->c->name, s->rank, s->ranks,
          adj_mpi_distribution_name(s->distribution), s->split, what);
}

/* Which of `count` points a rank has. */
static void divide(int split, int rank, int ranks, uint64_t count, uint64_t *first, uint64_t *many) {
  uint64_t begin = count * (uint64_t)rank / (uint64_t)ranks, end = count * ((uint64_t)rank + 1) / (uint64_t)ranks;
  if (split == 1) { /* the last rank has all */
    begin = rank == ranks - 1 ? 0 : count;
    end = count;
    if (rank < ranks - 1) begin = end = 0;
  }
  if (split == 2) { /* every second rank has none */
    uint64_t pairs = ((uint64_t)ranks + 1) / 2, at = (uint64_t)rank / 2;
    begin = count * at / pairs;
    end = rank % 2 ? count * (at + 1) / pairs : begin;
    if (rank % 2 == 0 && rank == ranks - 1) end = count * (at + 1) / pairs;
  }
  if (split == 3) { /* higher ranks have more */
    uint64_t all = (uint64_t)ranks * (uint64_t)ranks;
    begin = count * (uint64_t)rank * (uint64_t)rank / all;
    end = count * ((uint64_t)rank + 1) * ((uint64_t)rank + 1) / all;
  }
  *first = begin;
  *many = end - begin;
}

static adj_dataset *dataset_of(const scene *s, const point_set *set, uint64_t first, uint64_t count) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = set->type;
  points.dim = set->dim;
  points.count = count;
  points.data = (const char *)set->data + first * set->dim * type_size(set->type);
  adj_dataset *out = NULL;
  if (adj_dataset_create(s->ctx, &points, &out)) report_failure(s, adj_last_error());
  return out;
}

/* ---- Comparing -------------------------------------------------------------------------------------------------- */

static bool same_row(const scene *s, const adj_mpi_rows *rows, uint64_t i) {
  const reference_rows *e = s->expected;
  uint64_t row = rows->first_row + i, first = rows->offsets[i], many = rows->offsets[i + 1] - first;
  uint64_t at = e->offsets[s->left_first + row], size = type_size(s->c->left.type);
  const char *distances = s->distances ? (const char *)rows->distances + first * size : NULL;
  if (e->offsets[s->left_first + row + 1] - at != many) return false;
  for (uint64_t k = 0; k < many && !s->narrow; k++) {
    int64_t id = e->ids[at + k] == ADJ_NO_ID ? -1 : (int64_t)e->ids[at + k];
    if (rows->ids[first + k] != id) return false;
  }
  if (s->narrow && many && memcmp(rows->ids_32 + first, e->ids + at, many * sizeof *e->ids) != 0) return false;
  return !s->distances || !many || !memcmp(distances, (const char *)e->distances + at * size, many * size);
}

static void compare_rows(const scene *s, const adj_mpi_rows *rows) {
  if (s->distances != (rows->distances != NULL)) report_failure(s, "distances that were not asked for, or none");
  if (s->narrow != (rows->ids_32 != NULL) || s->narrow == (rows->ids != NULL))
    report_failure(s, "ids of 32 bits that were not asked for, or none");
  for (uint64_t i = 0; i < rows->row_count; i++) {
    if (same_row(s, rows, i)) continue;
    char text[120];
    snprintf(text, sizeof text, "row %llu differs: %llu entries", (unsigned long long)(rows->first_row + i),
             (unsigned long long)(rows->offsets[i + 1] - rows->offsets[i]));
    report_failure(s, text);
    return;
  }
}

static uint64_t expected_degree(const scene *s, uint64_t row) {
  uint64_t first = s->expected->offsets[row], end = s->expected->offsets[row + 1], many = 0;
  for (uint64_t i = first; i < end; i++)
    many += s->expected->ids[i] != ADJ_NO_ID;
  return many;
}

static void compare_counts(const scene *s, adj_mpi_plan *plan) {
  uint64_t *degrees = malloc((s->left_count + 1) * sizeof *degrees), total = 0, all = 0;
  if (!degrees || adj_mpi_count(plan, degrees, &total, NULL, NULL)) report_failure(s, adj_last_error());
  for (uint64_t i = 0; i < s->left_count; i++)
    if (degrees[i] != expected_degree(s, s->left_first + i)) {
      report_failure(s, "a count differs");
      break;
    }
  for (uint64_t i = 0; i < s->expected->rows; i++)
    all += expected_degree(s, i);
  if (total != all) report_failure(s, "the total differs");
  free(degrees);
}

static void compare_result(const scene *s, adj_mpi_plan *plan) {
  adj_mpi_result *result = NULL;
  if (adj_mpi_collect(plan, &result, NULL, NULL)) {
    report_failure(s, adj_last_error());
    return;
  }
  adj_mpi_rows rows = {.row_count = adj_mpi_result_rows(result), .offsets = adj_mpi_result_offsets(result)};
  rows.ids = adj_mpi_result_ids(result);
  rows.ids_32 = adj_mpi_result_ids_32(result);
  rows.distances = adj_mpi_result_distances(result);
  adj_mpi_layout layout;
  adj_mpi_layout_init(&layout, sizeof layout);
  if (adj_mpi_result_layout(result, &layout) || layout.first_row != s->left_first || layout.rows != s->left_count ||
      layout.first_entry != s->expected->offsets[s->left_first] ||
      layout.all_entries != s->expected->offsets[s->expected->rows])
    report_failure(s, "the layout differs");
  if (rows.row_count != s->left_count) report_failure(s, "the number of rows differs");
  compare_rows(s, &rows);
  adj_mpi_result_destroy(result);
}

/* ---- Streams ---------------------------------------------------------------------------------------------------- */

typedef struct listener {
  const scene *s;
  uint64_t rows, entries, window; /* window: bytes of a block at most; 0: not checked */
  bool began, ended;
} listener;

static adj_status record_begin(void *user, const adj_mpi_layout *layout, const uint64_t *degrees) {
  listener *l = user;
  l->began = true;
  if (layout->rows != l->s->left_count || layout->first_entry != l->s->expected->offsets[l->s->left_first])
    report_failure(l->s, "the layout of the stream differs");
  for (uint64_t i = 0; degrees && i < layout->rows; i++)
    if (degrees[i] != expected_degree(l->s, l->s->left_first + i)) {
      report_failure(l->s, "a count of the stream differs");
      break;
    }
  return ADJ_OK;
}

static adj_status record_rows(void *user, const adj_mpi_rows *rows) {
  listener *l = user;
  if (rows->first_row != l->rows || rows->first_entry != l->entries) report_failure(l->s, "a block is out of order");
  uint64_t value = l->s->c->left.type == ADJ_F64 ? 8 : 4,
           entry = (l->s->narrow ? 4 : 8) + (l->s->distances ? value : 0);
  uint64_t bytes = rows->offsets[rows->row_count] * entry;
  if (l->window && bytes > l->window && rows->row_count > 1) report_failure(l->s, "a block is longer than its window");
  l->rows += rows->row_count;
  l->entries += rows->offsets[rows->row_count];
  compare_rows(l->s, rows);
  return ADJ_OK;
}

static void record_end(void *user, adj_status outcome) {
  listener *l = user;
  l->ended = outcome == ADJ_OK;
}

static void compare_stream(const scene *s, adj_mpi_plan *plan, uint64_t window) {
  listener l = {.s = s, .window = window};
  adj_mpi_sink sink;
  adj_mpi_sink_init(&sink, sizeof sink);
  sink.user = &l;
  sink.begin = record_begin;
  sink.write = record_rows;
  sink.end = record_end;
  if (adj_mpi_stream(plan, &sink, NULL, NULL)) report_failure(s, adj_last_error());
  if (!l.began || !l.ended || l.rows != s->left_count) report_failure(s, "the stream is not complete");
}

/* ---- Cases ------------------------------------------------------------------------------------------------------ */

static void run_scene(scene *s, uint32_t turn) {
  const join_case *c = s->c;
  adj_join_spec spec = case_spec(c);
  divide(s->split, s->rank, s->ranks, c->left.count, &s->left_first, &s->left_count);
  divide((s->split + 1) % 4, s->rank, s->ranks, c->right.count, &s->right_first, &s->right_count);
  adj_dataset *left = dataset_of(s, &c->left, s->left_first, s->left_count), *right = NULL;
  if (!c->self_join) right = dataset_of(s, &c->right, s->right_first, s->right_count);
  adj_mpi_options options;
  adj_mpi_options_init(&options, sizeof options);
  options.distribution = s->distribution;
  uint64_t bytes = 8 * s->expected->offsets[s->expected->rows];
  options.window_bytes = turn % 2 ? bytes / 10 + 1 : 0; /* a few rounds */
  options.chunk_bytes = turn % 3 ? 0 : 1000;
  s->narrow = turn / 3 % 2;
  options.id_bytes = s->narrow ? 4 : 0;
  spec.flags |= s->distances ? ADJ_WITH_DISTANCE : 0u;
  spec.order = s->order;
  spec.radii = c->radii && s->left_count ? c->radii + s->left_first : NULL;
  spec.radius_count = spec.radii ? s->left_count : 0;
  adj_mpi_plan *plan = NULL;
  if (adj_mpi_plan_create(s->comm, s->ctx, &spec, left, right, &options, &plan)) {
    report_failure(s, adj_last_error());
  } else {
    if (turn % 3 == 0) compare_counts(s, plan);
    if (turn % 3 != 1) compare_result(s, plan);
    if (turn % 3 != 2) compare_stream(s, plan, options.window_bytes);
    runs++;
  }
  adj_mpi_plan_destroy(plan);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
}

/* Sends data of the first rank of the group to its other ranks. */
static void share(const scene *s, void *data, uint64_t bytes) {
  MPI_Request request;
  MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, s->comm, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
    nanosleep(&(struct timespec){0, 100000}, NULL); /* there are more ranks than cores: lets the others work */
}

static void share_answer(const scene *s, reference_rows *rows) {
  uint64_t size = type_size(s->c->left.type), head[2] = {rows->rows, s->rank ? 0 : rows->offsets[rows->rows]};
  share(s, head, sizeof head);
  if (s->rank) {
    *rows = (reference_rows){.rows = head[0]};
    rows->offsets = malloc((head[0] + 1) * 8);
    rows->ids = malloc((head[1] + 1) * 4);
    rows->distances = malloc((head[1] + 1) * size);
  }
  share(s, rows->offsets, (head[0] + 1) * 8);
  share(s, rows->ids, head[1] * 4);
  share(s, rows->distances, head[1] * size);
}

/* Gives each left point a radius, computed by the first rank of the group. The caller frees the radii. */
static void give_radii(const scene *s, join_case *c) {
  join_answer answer = {0};
  bool first = !s->rank;
  c->radii = first && answer_case(c, &answer) ? case_radii(c, &answer) : malloc((c->left.count + 1) * sizeof *c->radii);
  if (!c->radii) MPI_Abort(MPI_COMM_WORLD, 1);
  if (first) answer_free(&answer);
  share(s, c->radii, c->left.count * sizeof *c->radii);
}

static void run_case(scene *s, uint32_t number, bool all) {
  const join_case *c = s->c;
  join_answer answer = {0};
  if (!s->rank && !answer_case(c, &answer)) MPI_Abort(MPI_COMM_WORLD, 1);
  bool knn = c->k > 0;
  share_answer(s, &answer.by_id);
  if (!knn) share_answer(s, &answer.by_distance);
  bool estimated = c->left.dim > 6; /* then auto takes a sample */
  for (uint32_t d = ADJ_MPI_AUTO; d <= ADJ_MPI_HALO; d++) {
    uint32_t turn = number + d * 5 + (uint32_t)s->ranks;
    if (d == ADJ_MPI_AUTO && !estimated) continue;
    if (d != ADJ_MPI_AUTO && !all && number % 3 + 1 != d) continue;
    if (d == ADJ_MPI_HALO && c->metric == ADJ_DOT) continue;
    s->distribution = (adj_mpi_distribution)d;
    s->split = (int)(turn % 4);
    s->distances = turn % 5 < 3;
    bool by_distance = !knn && turn % 7 < 2;
    s->expected = by_distance ? &answer.by_distance : &answer.by_id;
    s->order = by_distance ? ADJ_ORDER_DISTANCE : ADJ_ORDER_ID;
    run_scene(s, turn);
  }
  answer_free(&answer);
}

/* The group of this rank in a division. */
static int find_group(const int *sizes, int rank, int *group) {
  for (*group = 0; *group < MOST_GROUPS && sizes[*group]; ++*group) {
    if (rank < sizes[*group]) return 1;
    rank -= sizes[*group];
  }
  return 0;
}

int main(int argc, char **argv) {
  int level, rank, ranks, at = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bool all = argc > at && !strcmp(argv[at], "--all");
  at += all;
  uint32_t part = 0, parts = 1;
  if (at + 1 < argc) {
    part = (uint32_t)strtoul(argv[at], NULL, 10);
    parts = (uint32_t)strtoul(argv[at + 1], NULL, 10);
  }
  if (ranks != 8 || !parts) {
    fprintf(stderr, "usage: mpirun -n 8 test_mpi_cases [--all] [PART PARTS]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  scene s = {.comm = MPI_COMM_NULL};
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = rank % 3 == 1 ? 2 : 1;
  if (adj_ctx_create(&options, &s.ctx)) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int d = 0; d < DIVISIONS; d++) {
    int group = 0, groups = 0;
    while (groups < MOST_GROUPS && divisions[d][groups])
      groups++;
    find_group(divisions[d], rank, &group);
    MPI_Comm_split(MPI_COMM_WORLD, group, rank, &s.comm);
    MPI_Comm_rank(s.comm, &s.rank);
    MPI_Comm_size(s.comm, &s.ranks);
    for (uint32_t i = part; i < case_count(); i += parts) {
      join_case c;
      if ((i / parts) % (uint32_t)groups != (uint32_t)group) continue;
      if (!case_build(i, &c)) MPI_Abort(MPI_COMM_WORLD, 1);
      s.c = &c;
      double *radii = NULL;
      bool wanted = all || (c.quick && (i / parts) / MOST_GROUPS % DIVISIONS == (uint32_t)d);
      if (wanted && i % 4 == 3) give_radii(&s, &c);
      radii = c.radii;
      if (wanted) run_case(&s, i / parts + (uint32_t)d, all);
      free(radii);
      case_free(&c);
    }
    MPI_Comm_free(&s.comm);
  }
  if (adj_ctx_memory_used(s.ctx)) {
    fprintf(stderr, "rank %d: %llu bytes are still in use\n", rank, (unsigned long long)adj_ctx_memory_used(s.ctx));
    failures++;
  }
  int sums[2] = {failures, runs};
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (!rank) printf("%d joins of a rank, %d differ\n", sums[1], sums[0]);
  adj_ctx_destroy(s.ctx);
  MPI_Finalize();
  return sums[0] != 0;
}
