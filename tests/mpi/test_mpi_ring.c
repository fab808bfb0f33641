/* SPDX-License-Identifier: MIT
 *
 * kNN self-joins in a ring with enough points for mutual joins, in which each pair of blocks is joined once. The ranks
 * are divided into groups of 1 to 8. Results are compared with a join in one process by the canonical kernels alone,
 * bit by bit, and the statistics say which way they were found.
 *
 *   mpirun -n 8 test_mpi_ring
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adjoin_mpi.h"
#include "distance/prefilter_sketch.h"

enum { MOST_GROUPS = 3, DIVISIONS = 4, DIM = 36, A_RANK = 1100, MOST_RANKS = 8 };

/* The ranks of each group in a division of eight. */
static const int divisions[DIVISIONS][MOST_GROUPS] = {{8}, {6, 2}, {5, 3}, {4, 3, 1}};

typedef enum kind { UNIFORM, LATTICE, DUPLICATES, STRAYS, APART } kind;

/* How points are divided among ranks. */
typedef enum split { EVEN, FEW_ON_FIRST, NONE_ON_SECOND, ALL_ON_LAST } split;

typedef enum radii { NO_RADIUS, ONE_RADIUS, OWN_RADII } radii;

typedef struct scene {
  const char *name;
  kind shape;
  split split;
  uint32_t k;
  radii radii;
  adj_type type;
  adj_metric metric;
  uint32_t flags;
  const char *tuning;
  bool once; /* each pair of blocks is expected to be joined once, if this CPU has products for it */
} scene;

static const scene scenes[] = {
    {"uniform", UNIFORM, EVEN, 7, NO_RADIUS, ADJ_F32, ADJ_L2, 0, NULL, true},
    {"uniform, f64", UNIFORM, FEW_ON_FIRST, 5, NO_RADIUS, ADJ_F64, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"ties", LATTICE, NONE_ON_SECOND, 9, NO_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"duplicates", DUPLICATES, EVEN, 12, NO_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"strays", STRAYS, EVEN, 3, NO_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"a radius", UNIFORM, FEW_ON_FIRST, 8, ONE_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"radii", UNIFORM, EVEN, 6, OWN_RADII, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"radii and selves", LATTICE, NONE_ON_SECOND, 4, OWN_RADII, ADJ_F64, ADJ_L2, ADJ_WITH_SELF, NULL, true},
    {"cosine", UNIFORM, EVEN, 4, NO_RADIUS, ADJ_F32, ADJ_COSINE, ADJ_WITH_DISTANCE, NULL, true},
    {"blocks far apart", APART, EVEN, 5, NO_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"all on one rank", UNIFORM, ALL_ON_LAST, 5, NO_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, true},
    {"many neighbours", UNIFORM, EVEN, 300, NO_RADIUS, ADJ_F32, ADJ_L2, ADJ_WITH_DISTANCE, NULL, false},
    {"L1", UNIFORM, EVEN, 4, NO_RADIUS, ADJ_F32, ADJ_L1, 0, NULL, false},
    {"inner products", UNIFORM, EVEN, 4, NO_RADIUS, ADJ_F32, ADJ_DOT, ADJ_WITH_DISTANCE, NULL, false},
    {"a prefilter of the user's", UNIFORM, EVEN, 4, NO_RADIUS, ADJ_F32, ADJ_L2, 0, "prefilter=gemm", false},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

typedef struct stage {
  const scene *s;
  MPI_Comm comm;
  int rank, ranks;
  adj_ctx *ctx;
  uint64_t count, first, many; /* all points, and this rank's */
  char *points;                /* all */
  double *far;                 /* a radius for each */
  uint32_t *ids;               /* the answer */
  char *distances;
} stage;

static int failures, joins;

static void report(const stage *t, const char *what) {
  if (failures++ < 20)
    fprintf(stderr, "%s: rank %d of %d: %s (%s)\n", t->s->name, t->rank, t->ranks, what, adj_last_error());
}

static uint64_t size_of(const stage *t) {
  return t->s->type == ADJ_F64 ? 8 : 4;
}

/* ---- Points ----------------------------------------------------------------------------------------------------- */

/* Which points a rank has. */
static uint64_t first_of(const stage *t, int rank) {
  uint64_t ranks = (uint64_t)t->ranks, r = (uint64_t)rank, even = t->count * r / ranks;
  switch (t->s->split) {
    case FEW_ON_FIRST: /* three points on rank 0 */
      return r && r < ranks ? (ranks == 1 ? 0 : 3 + (t->count - 3) * (r - 1) / (ranks - 1)) : even;
    case NONE_ON_SECOND:
      return r < 2 ? 0 : even;
    case ALL_ON_LAST:
      return r == ranks ? t->count : 0;
    default:
      return even;
  }
}

/* Coordinate j of point i. Every stray is far from all others. With APART every block has a place of its own. */
static double coordinate(const stage *t, uint64_t i, uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  double u = (double)(*state >> 11) * 0x1p-53;
  switch (t->s->shape) {
    case LATTICE:
      return floor(2 * u);
    case STRAYS:
      return i % 190 == 5 ? 1e4 * (u - 0.5) : u;
    case APART: {
      uint64_t group = i * (uint64_t)t->ranks / t->count;
      return (double)group * 50 + u;
    }
    default:
      return u;
  }
}

static void make_points(stage *t) {
  uint64_t state = 77, size = size_of(t);
  t->points = malloc(t->count * DIM * size);
  if (!t->points) MPI_Abort(MPI_COMM_WORLD, 1);
  for (uint64_t i = 0; i < t->count; i++)
    for (uint64_t j = 0; j < DIM; j++) {
      double x = coordinate(t, i, &state);
      float narrow = (float)x;
      memcpy(t->points + (i * DIM + j) * size, size == 8 ? (void *)&x : (void *)&narrow, size);
    }
  for (uint64_t i = 0; i < t->count && t->s->shape == DUPLICATES; i++) /* groups of 40 on all ranks */
    memcpy(t->points + i * DIM * size, t->points + i % (t->count / 40) * DIM * size, DIM * size);
  for (uint64_t i = 0; i < t->count; i++)
    t->far[i] = i % 5 ? 1.5 + 0.1 * (double)(i % 9) : i % 2 ? (double)INFINITY : 0;
}

static adj_dataset *set_of(const stage *t, uint64_t first, uint64_t count) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = t->s->type;
  points.dim = DIM;
  points.count = count;
  points.data = t->points + first * DIM * size_of(t);
  points.ownership = ADJ_BORROW;
  adj_dataset *set = NULL;
  if (adj_dataset_create(t->ctx, &points, &set)) report(t, "a dataset");
  return set;
}

/* ---- Joins ------------------------------------------------------------------------------------------------------ */

static adj_join_spec spec_of(const stage *t, uint64_t first, uint64_t count) {
  const scene *s = t->s;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.backend = ADJ_BACKEND_CPU;
  spec.metric = s->metric;
  spec.k = s->k;
  spec.radius = s->radii == ONE_RADIUS ? 1.7 : (double)INFINITY;
  spec.flags = s->flags | ADJ_WITH_DISTANCE;
  if (s->radii == OWN_RADII && count) {
    spec.radii = t->far + first;
    spec.radius_count = count;
  }
  return spec;
}

/* Sends data of the first rank of the group to its other ranks, and leaves the core to others meanwhile. */
static void share(const stage *t, void *data, uint64_t bytes) {
  MPI_Request request;
  MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, t->comm, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;)
    nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void find_answer(stage *t) {
  uint64_t entries = t->count * t->s->k, size = size_of(t);
  t->ids = malloc(entries * 4);
  t->distances = malloc(entries * size);
  if (!t->ids || !t->distances) MPI_Abort(MPI_COMM_WORLD, 1);
  if (!t->rank) {
    adj_join_spec spec = spec_of(t, 0, t->count);
    spec.algorithm = "brute";
    spec.tuning = "prefilter=off";
    adj_dataset *set = set_of(t, 0, t->count);
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    if (adj_plan_create(t->ctx, &spec, set, NULL, &plan) || adj_collect(plan, &result, NULL, NULL))
      MPI_Abort(MPI_COMM_WORLD, 1);
    memcpy(t->ids, adj_result_ids(result), entries * 4);
    memcpy(t->distances, adj_result_distances(result), entries * size);
    adj_result_destroy(result);
    adj_plan_destroy(plan);
    adj_dataset_destroy(set);
  }
  share(t, t->ids, entries * 4);
  share(t, t->distances, entries * size);
}

static void compare(const stage *t, const adj_mpi_result *result) {
  uint64_t k = t->s->k, at = t->first * k, size = size_of(t);
  if (adj_mpi_result_rows(result) != t->many) {
    report(t, "the number of rows");
    return;
  }
  if (!t->many) return;
  for (uint64_t row = 0; row < t->many; row++)
    if (memcmp(adj_mpi_result_ids_32(result) + row * k, t->ids + at + row * k, k * 4) != 0 ||
        memcmp((const char *)adj_mpi_result_distances(result) + row * k * size, t->distances + (at + row * k) * size,
               k * size) != 0) {
      report(t, "a row differs");
      return;
    }
}

/* Whether each pair of blocks was joined once: half as many queries visited other ranks. */
static bool was_once(const stage *t, const adj_mpi_stats *stats) {
  uint64_t visits = stats->halo_points, all = 0;
  MPI_Allreduce(&visits, &all, 1, MPI_UINT64_T, MPI_SUM, t->comm);
  return all < t->count * (uint64_t)(t->ranks - 1);
}

static void run_scene(stage *t) {
  const scene *s = t->s;
  adj_join_spec spec = spec_of(t, t->first, t->many);
  spec.tuning = s->tuning;
  adj_dataset *set = set_of(t, t->first, t->many);
  adj_mpi_options options;
  adj_mpi_options_init(&options, sizeof options);
  options.distribution = ADJ_MPI_RING;
  options.id_bytes = 4;
  adj_mpi_plan *plan = NULL;
  adj_mpi_result *result = NULL;
  adj_mpi_stats stats;
  adj_mpi_stats_init(&stats, sizeof stats);
  adj_status status = adj_mpi_plan_create(t->comm, t->ctx, &spec, set, NULL, &options, &plan);
  for (int turn = 0; turn < 2 && !status; turn++) { /* the second run has an index already */
    status = adj_mpi_collect(plan, &result, NULL, &stats);
    if (status) break;
    compare(t, result);
    adj_mpi_result_destroy(result);
    bool possible = adji_prefilter_sketch_for(adj_ctx_isa(t->ctx), "vnni") && t->ranks > 1;
    if (was_once(t, &stats) != (possible && s->once) && t->ranks > 1) report(t, "joined once, or not");
    joins++;
  }
  if (status) report(t, "the join failed");
  adj_mpi_plan_destroy(plan);
  adj_dataset_destroy(set);
}

static void run_group(stage *t) {
  for (int i = 0; i < SCENES; i++) {
    t->s = &scenes[i];
    t->count = (uint64_t)A_RANK * (uint64_t)t->ranks + 37;
    t->first = first_of(t, t->rank);
    t->many = first_of(t, t->rank + 1) - t->first;
    t->far = malloc(t->count * sizeof *t->far);
    if (!t->far) MPI_Abort(MPI_COMM_WORLD, 1);
    make_points(t);
    find_answer(t);
    run_scene(t);
    free(t->points);
    free(t->far);
    free(t->ids);
    free(t->distances);
  }
}

int main(int argc, char **argv) {
  int level, rank, ranks;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int first = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0, step = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;
  if (ranks != MOST_RANKS || step < 1) {
    fprintf(stderr, "usage: mpirun -n 8 test_mpi_ring [DIVISION STEP]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 1;
  stage t = {.comm = MPI_COMM_NULL};
  if (adj_ctx_create(&options, &t.ctx)) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int d = first; d < DIVISIONS; d += step) {
    int group = 0, at = rank;
    while (at >= divisions[d][group])
      at -= divisions[d][group++];
    MPI_Comm_split(MPI_COMM_WORLD, group, rank, &t.comm);
    MPI_Comm_rank(t.comm, &t.rank);
    MPI_Comm_size(t.comm, &t.ranks);
    run_group(&t);
    MPI_Comm_free(&t.comm);
  }
  if (adj_ctx_memory_used(t.ctx)) report(&t, "memory is still in use");
  int sums[2] = {failures, joins};
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (!rank) printf("%d joins of a rank, %d differ\n", sums[1], sums[0]);
  adj_ctx_destroy(t.ctx);
  MPI_Finalize();
  return sums[0] != 0;
}
