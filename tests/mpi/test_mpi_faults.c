/* SPDX-License-Identifier: MIT
 *
 * Faults on one rank of several, under mpirun. Every rank must get the same status and message, which names the rank,
 * and no rank may hang. After a fault that is not one of MPI itself, the plan must still give the expected result.
 * Memory: each allocation of a rank fails in turn. MPI: each call of a rank fails or is late in turn.
 *
 *   mpirun -n 3 test_mpi_faults           all of it
 *   mpirun -n 3 test_mpi_faults STEP      each STEP-th allocation and call
 *   mpirun -n 3 test_mpi_faults kill N    rank 1 is killed in its N-th call; abort N: ends the job
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adjoin_mpi.h"
#include "core/context.h"
#include "shim.h"

enum { POINTS = 160, DIM = 2, MANY_DIM = 8 }; /* in many dimensions auto takes a sample */
enum { BLOCK = 1100, BLOCK_DIM = 36 };        /* enough points for mutual joins of blocks in a ring */

static int rank, ranks, failures, checks;
static adj_ctx *ctx;
static float points[BLOCK * BLOCK_DIM];
static uint32_t dim = DIM;
static uint64_t values = (uint64_t)POINTS * DIM; /* of points that are used */
static volatile int cancel;

static void check(int held, const char *what) {
  checks++;
  if (held) return;
  failures++;
  fprintf(stderr, "rank %d: %s (%s)\n", rank, what, adj_last_error());
}

static adj_dataset *my_points(void) {
  adj_points p;
  adj_points_init(&p, sizeof p);
  p.dim = dim;
  p.count = values / dim;
  p.data = points;
  adj_dataset *out = NULL;
  check(adj_dataset_create(ctx, &p, &out) == ADJ_OK, "a dataset");
  return out;
}

static adj_join_spec question(int kind) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = kind ? ADJ_KNN : ADJ_RANGE;
  spec.radius = kind ? (double)INFINITY : 0.1;
  spec.k = 3;
  spec.flags = ADJ_WITH_DISTANCE;
  return spec;
}

static adj_status make_plan(const adj_join_spec *spec, adj_mpi_distribution distribution, const adj_dataset *set,
                            adj_mpi_plan **out) {
  adj_mpi_options options;
  adj_mpi_options_init(&options, sizeof options);
  options.distribution = distribution;
  options.cancel = &cancel;
  return adj_mpi_plan_create(MPI_COMM_WORLD, ctx, spec, set, NULL, &options, out);
}

/* Checks that the status is the same on all ranks, and that the message names rank 1. */
static void check_same(adj_status status, adj_status expected, const char *word) {
  int mine[2] = {(int)status, -(int)status};
  char text[2][512];
  snprintf(text[0], sizeof text[0], "%s", status ? adj_last_error() : "");
  memcpy(text[1], text[0], sizeof text[0]);
  PMPI_Bcast(text[1], sizeof text[1], MPI_BYTE, 0, MPI_COMM_WORLD);
  PMPI_Allreduce(MPI_IN_PLACE, mine, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  check(mine[0] == -mine[1], "ranks have different statuses");
  check(status == expected, "another status than expected");
  check(!strcmp(text[0], text[1]), "ranks have different messages");
  if (status && word) check(strstr(text[0], word) != NULL, "the message lacks a word");
}

/* A sum over the whole result, the same for every distribution. */
static uint64_t digest(const adj_mpi_result *result) {
  uint64_t rows = adj_mpi_result_rows(result), sum = 0;
  const uint64_t *offsets = adj_mpi_result_offsets(result);
  const float *distances = adj_mpi_result_distances(result);
  for (uint64_t i = 0; i < rows; i++)
    for (uint64_t e = offsets[i]; e < offsets[i + 1]; e++) {
      uint32_t bits;
      memcpy(&bits, &distances[e], 4);
      sum = sum * 31 + (uint64_t)adj_mpi_result_ids(result)[e] * 7 + bits + i;
    }
  return sum;
}

static adj_status collect(adj_mpi_plan *plan, uint64_t *sum) {
  adj_mpi_result *result = NULL;
  adj_status status = adj_mpi_collect(plan, &result, NULL, NULL);
  if (!status) *sum = digest(result);
  adj_mpi_result_destroy(result);
  return status;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static void fail_allocations(adj_mpi_distribution distribution, int kind, int step) {
  adj_dataset *set = my_points();
  adj_join_spec spec = question(kind);
  adj_mpi_plan *plan = NULL;
  uint64_t good = 0, sum = 0;
  check(make_plan(&spec, distribution, set, &plan) == ADJ_OK && collect(plan, &good) == ADJ_OK,
        "a join without faults");
  adj_mpi_plan_destroy(plan);
  for (int64_t at = 0, done = 0; !done; at += step) {
    plan = NULL;
    if (rank == 1) atomic_store(&ctx->memory.fail_at, at);
    adj_status status = make_plan(&spec, distribution, set, &plan);
    if (!status) status = collect(plan, &sum);
    int again = rank == 1 ? atomic_load(&ctx->memory.fail_at) < 0 : 0;
    atomic_store(&ctx->memory.fail_at, -1);
    PMPI_Bcast(&again, 1, MPI_INT, 1, MPI_COMM_WORLD);
    done = !again;
    if (status) check_same(status, ADJ_E_MEMORY, "rank 1: ");
    if (plan) check(collect(plan, &sum) == ADJ_OK && sum == good, "the plan does not work after a fault");
    adj_mpi_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
}

/* ---- MPI -------------------------------------------------------------------------------------------------------- */

static void fail_calls(adj_mpi_distribution distribution, int kind, int step, shim_fault fault) {
  adj_join_spec spec = question(kind);
  adj_dataset *set = my_points();
  for (long at = 1, done = 0; !done; at += step) {
    adj_mpi_plan *plan = NULL;
    uint64_t sum = 0;
    PMPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) shim_set(fault, at);
    adj_status status = make_plan(&spec, distribution, set, &plan);
    if (!status) status = collect(plan, &sum);
    int reached = rank == 1 && shim_reached();
    shim_set(SHIM_NONE, 0);
    PMPI_Bcast(&reached, 1, MPI_INT, 1, MPI_COMM_WORLD);
    done = !reached;
    if (reached && fault == SHIM_FAIL) {
      check_same(status, ADJ_E_IO, "rank 1: ");
      if (plan) check(collect(plan, &sum) == ADJ_E_IO, "a broken plan works");
    } else {
      check_same(status, ADJ_OK, NULL);
    }
    adj_mpi_plan_destroy(plan);
  }
  adj_dataset_destroy(set);
}

/* ---- What the caller does --------------------------------------------------------------------------------------- */

static int end_progress(void *user, const adj_progress *where) {
  (void)user;
  (void)where;
  return 1;
}

/* The first time with the message of a call that fails, later without one. */
static adj_status refuse_rows(void *user, const adj_mpi_rows *rows) {
  (void)rows;
  int *calls = user;
  adj_dataset *none = NULL;
  if (rank == 1 && !(*calls)++) (void)adj_dataset_create(ctx, NULL, &none);
  return rank == 1 ? ADJ_E_SINK : ADJ_OK;
}

/* Ranks that agreed in the sink: all have the message of rank 1. */
static adj_status refuse_together(void *user, const adj_mpi_rows *rows) {
  (void)user;
  (void)rows;
  return adj_mpi_agree(MPI_COMM_WORLD, rank == 1 ? ADJ_E_SINK : ADJ_OK, "the disk is full");
}

static int ended;
static void count_end(void *user, adj_status outcome) {
  (void)user;
  ended += outcome == ADJ_E_SINK;
}

static void end_by_the_caller(adj_mpi_distribution distribution) {
  adj_join_spec spec = question(0);
  adj_dataset *set = my_points();
  adj_mpi_plan *plan = NULL;
  uint64_t sum = 0, good = 0;
  check(make_plan(&spec, distribution, set, &plan) == ADJ_OK && collect(plan, &good) == ADJ_OK, "a join");
  if (rank == 1) cancel = 1;
  check_same(collect(plan, &sum), ADJ_CANCELLED, "rank 1: ");
  cancel = 0;
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.max_pairs = 1;
  check_same(adj_mpi_count(plan, NULL, &sum, &control, NULL), ADJ_E_LIMIT, "max_pairs");
  control.max_pairs = 0;
  control.interval_ms = 0;
  control.progress = rank == 1 ? end_progress : NULL;
  adj_status status =
      adj_mpi_count(plan, NULL, &sum, &control, NULL); /* a short run may end before it asks for progress */
  if (status) check_same(status, ADJ_CANCELLED, "rank 1: ");
  adj_mpi_sink sink;
  adj_mpi_sink_init(&sink, sizeof sink);
  int calls = 0;
  sink.user = &calls;
  sink.write = refuse_rows;
  sink.end = count_end;
  ended = 0;
  check_same(adj_mpi_stream(plan, &sink, NULL, NULL), ADJ_E_SINK, "rank 1: ctx, points");
  check(ended == 1, "end was not called once with the outcome");
  check_same(adj_mpi_stream(plan, &sink, NULL, NULL), ADJ_E_SINK, "rank 1: sink: write returned ADJ_E_SINK for the ");
  sink.write = refuse_together;
  adj_status together = adj_mpi_stream(plan, &sink, NULL, NULL);
  check_same(together, ADJ_E_SINK, "rank 1: the disk is full");
  check(!strstr(adj_last_error(), "rank 1: rank 1"), "the rank is named twice");
  check(collect(plan, &sum) == ADJ_OK && sum == good, "the plan does not work after it was ended");
  adj_mpi_plan_destroy(plan);
  adj_dataset_destroy(set);
}

static void refuse_requests(void) {
  adj_dataset *set = my_points();
  adj_mpi_plan *plan = NULL;
  adj_join_spec spec = question(0);
  if (rank == 1) spec.radius = -1;
  check_same(make_plan(&spec, ADJ_MPI_AUTO, set, &plan), ADJ_E_ARGUMENT, "rank 1: radius");
  spec = question(1);
  if (rank == 1) spec.k = 4;
  check_same(make_plan(&spec, ADJ_MPI_AUTO, set, &plan), ADJ_E_ARGUMENT, "rank 1: k");
  spec = question(0);
  spec.metric = ADJ_DOT;
  check_same(make_plan(&spec, ADJ_MPI_HALO, set, &plan), ADJ_E_UNSUPPORTED, "halo");
  adj_dataset_destroy(set);
  if (rank == 1) points[14] = points[15] = 0; /* no direction */
  set = my_points();
  spec = question(0);
  spec.metric = ADJ_COSINE;
  for (adj_mpi_distribution d = ADJ_MPI_REPLICATED; d <= ADJ_MPI_HALO; d++)
    check_same(make_plan(&spec, d, set, &plan), ADJ_E_DATA, "rank 1: row 8");
  adj_dataset_destroy(set);
  points[14] = points[15] = 0.5f;
  check_same(adj_mpi_agree(MPI_COMM_WORLD, rank == 1 ? ADJ_E_IO : ADJ_OK, "file.npy: no such file"), ADJ_E_IO,
             "rank 1: file.npy: no such file");
  check_same(adj_mpi_agree(MPI_COMM_WORLD, ADJ_OK, NULL), ADJ_OK, NULL);
}

int main(int argc, char **argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (uint32_t i = 0, bits; i < BLOCK * BLOCK_DIM; i++) {
    bits = (i + 1 + (uint32_t)rank * 104729) * 2654435761u;
    points[i] = (float)((bits ^ bits >> 15) * 2246822519u >> 8) * 0x1p-24f;
  }
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 1; /* so that the n-th allocation is always the same */
  if (ranks < 2 || adj_mpi_ctx_create(MPI_COMM_WORLD, &options, &ctx)) MPI_Abort(MPI_COMM_WORLD, 2);
  if (argc > 2) {
    adj_join_spec spec = question(0);
    adj_dataset *set = my_points();
    adj_mpi_plan *plan = NULL;
    uint64_t sum;
    if (rank == 1) shim_set(strcmp(argv[1], "kill") ? SHIM_ABORT : SHIM_KILL, strtol(argv[2], NULL, 10));
    if (!make_plan(&spec, ADJ_MPI_HALO, set, &plan)) (void)collect(plan, &sum);
    PMPI_Barrier(MPI_COMM_WORLD);
    return 0; /* the job should have ended before this */
  }
  int step = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;
  refuse_requests();
  for (adj_mpi_distribution d = ADJ_MPI_REPLICATED; d <= ADJ_MPI_HALO; d++) {
    end_by_the_caller(d);
    for (int kind = 0; kind < 2; kind++) {
      fail_allocations(d, kind, step);
      fail_calls(d, kind, step, SHIM_FAIL);
      fail_calls(d, kind, 5 * step + 2, SHIM_DELAY);
    }
  }
  dim = MANY_DIM;
  for (int kind = 0; kind < 2; kind++) {
    fail_allocations(ADJ_MPI_AUTO, kind, step);
    fail_calls(ADJ_MPI_AUTO, kind, step, SHIM_FAIL);
  }
  dim = BLOCK_DIM;
  values = (uint64_t)BLOCK * BLOCK_DIM;
  fail_allocations(ADJ_MPI_RING, 1, step);
  fail_calls(ADJ_MPI_RING, 1, step, SHIM_FAIL);
  int sums[2] = {failures, checks};
  PMPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (!rank) printf("%d checks, %d failed\n", sums[1], sums[0]);
  adj_ctx_destroy(ctx);
  MPI_Finalize();
  return sums[0] != 0;
}
