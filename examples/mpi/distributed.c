/* SPDX-License-Identifier: MIT
 *
 * A join inside an MPI program. Each rank has particles of its own, anywhere in a periodic box, and wants the
 * neighbours of each particle within a radius, whichever rank has them. Ids are global: first those of rank 0, then
 * those of rank 1, ...
 *
 *   mpicc distributed.c $(pkg-config --cflags --libs adjoin_mpi) -o distributed
 *   mpirun -n 3 ./distributed
 */
#include <adjoin_mpi.h>
#include <inttypes.h>
#include <stdio.h>

enum { EACH = 1000, DIM = 3 };

/* Every rank has the same message, which says what went wrong and where. */
static int fail(int rank) {
  if (rank == 0) fprintf(stderr, "distributed: %s\n", adj_last_error());
  MPI_Finalize();
  return 1;
}

int main(int argc, char **argv) {
  int level, rank, ranks;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level); /* the library's threads do not call MPI */
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  /* This rank's particles, as a simulation would have them. */
  static float particles[EACH * DIM];
  uint32_t random = 1 + (uint32_t)rank;
  for (int i = 0; i < EACH * DIM; i++) {
    random = random * 1664525U + 1013904223U;
    particles[i] = (float)(random >> 8) / 16777216.0F;
  }

  adj_ctx *ctx = NULL;
  adj_dataset *mine = NULL;
  adj_mpi_plan *plan = NULL;
  adj_mpi_result *result = NULL;
  if (adj_mpi_ctx_create(MPI_COMM_WORLD, NULL, &ctx)) return fail(rank);

  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = DIM;
  points.count = EACH;
  points.data = particles;
  points.ownership = ADJ_BORROW;
  adj_status status = adj_dataset_create(ctx, &points, &mine);
  if (adj_mpi_agree(MPI_COMM_WORLD, status, NULL)) return fail(rank); /* if one rank fails, all fail */

  const double box = 1;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 0.0735;
  spec.box = &box;
  spec.box_count = 1;
  if (adj_mpi_plan_create(MPI_COMM_WORLD, ctx, &spec, mine, NULL, NULL, &plan)) return fail(rank);
  adj_mpi_stats stats;
  adj_mpi_stats_init(&stats, sizeof stats);
  if (adj_mpi_collect(plan, &result, NULL, &stats)) return fail(rank);

  /* The neighbours of this rank's particle i. */
  const uint64_t *row = adj_mpi_result_offsets(result);
  const int64_t *ids = adj_mpi_result_ids(result);
  if (rank == 0) {
    printf("particle 0:");
    for (uint64_t at = row[0]; at < row[1]; at++)
      printf(" %" PRId64, ids[at]);
    printf("\n%d points on %d ranks have %" PRIu64 " pairs\n", EACH * ranks, ranks, stats.all_pairs);
  }

  adj_mpi_result_destroy(result);
  adj_mpi_plan_destroy(plan);
  adj_dataset_destroy(mine);
  adj_ctx_destroy(ctx);
  MPI_Finalize();
  return 0;
}
