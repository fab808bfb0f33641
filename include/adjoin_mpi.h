/* SPDX-License-Identifier: MIT
 *
 * adjoin_mpi.h - joins of points that are spread over the ranks of an MPI program. Library: libadjoin_mpi.
 *
 *     adj_ctx *ctx;
 *     adj_mpi_ctx_create(MPI_COMM_WORLD, NULL, &ctx);         // this rank's share of its host
 *     adj_dataset_create(ctx, &points, &mine);                // this rank's points: any number, even none
 *     adj_join_spec spec;
 *     adj_join_spec_init(&spec, sizeof spec);
 *     spec.radius = 0.01;
 *     adj_mpi_plan *plan;
 *     adj_mpi_result *result;
 *     if (adj_mpi_plan_create(MPI_COMM_WORLD, ctx, &spec, mine, NULL, NULL, &plan) != ADJ_OK ||
 *         adj_mpi_collect(plan, &result, NULL, NULL) != ADJ_OK) {
 *       if (rank == 0) fprintf(stderr, "%s\n", adj_last_error()); // the same on every rank; names the rank that failed
 *       return 1;
 *     }
 *     const uint64_t *row = adj_mpi_result_offsets(result); // neighbours of this rank's point i:
 *     const int64_t *ids = adj_mpi_result_ids(result);      // ids[row[i]] .. ids[row[i + 1] - 1], global
 *
 * Ids. The points of all ranks are one set: those of rank 0 first, then those of rank 1, and so on. The global id of a
 * point is its place in that set, 0-based, 64 bits. There may be more than 2^32 points in all; a rank has at most
 * ADJ_MAX_COUNT of them, and works on at most so many at a time. With adj_mpi_options.id_bytes = 4 results have ids of
 * 32 bits where these suffice. That takes half the memory, and less time.
 *
 * Exactness. Every row has the same bits as in a join of the whole set by one process (adjoin.h), for any number of
 * ranks, any split of the points and each distribution. docs/cluster.md has the argument.
 *
 * Distributions. How points and work are spread:
 *
 *   replicated   every rank receives all right points, and joins its own left points with them. Memory of a rank: all
 *                right points and their index. For small right sets.
 *   ring         blocks of right points travel around the ranks, and each rank joins them with its left points; the
 *                next block is transferred meanwhile. In a self-join one of two ranks joins their pair of blocks, and
 *                sends the other one its rows. kNN: queries travel instead, with their lists. Memory of a rank: three
 *                blocks, and these rows or lists. Any metric and dimension.
 *   halo         space is cut into one region a rank, such that each has the same estimated work. Each point moves once
 *                to the rank of its region, and to the ranks of regions within a radius of it; kNN: within a distance
 *                that a sample suggests. Each rank joins its region alone, and rows return to the ranks that own the
 *                points. kNN: queries whose k-th neighbour is farther away than that are also searched in the regions
 *                that it reaches. Not for ADJ_DOT.
 *
 * ADJ_MPI_AUTO takes halo in up to six dimensions. In more, adj_mpi_plan_create takes a small sample of the points, and
 * halo is chosen if they reach few regions; otherwise ring for self-joins, and for two sets replicated if the right
 * points fit the memory of every rank. adj_mpi_plan_explain gives the choice and its reason.
 *
 * Collective calls. Functions marked "collective" must be called by all ranks of the communicator, in the same order,
 * with the same spec, options and kind of control; points, contexts and limits may differ. A call that fails, fails on
 * every rank, with the same status and the same message, which begins with the rank it comes from ("rank 3: row 17:
 * ..."). The ranks agree on errors at each step, so no rank waits for one that has failed, and long steps of other
 * ranks end early. After a failure the plan can be used again, unless MPI itself failed: that is ADJ_E_IO, and every
 * later call on the plan is ADJ_E_IO too. Communication uses a duplicate of the communicator; its errors never reach
 * the caller's error handler.
 *
 * Threads. MPI is called from the calling thread only: MPI_THREAD_FUNNELED suffices, if that is the main thread. The
 * context's threads compute; while they do, the calling thread moves messages. Callbacks run in the calling thread.
 *
 * Time and memory. n and m are the left and right points in all, p the number of ranks; times are of one rank.
 */
#ifndef ADJOIN_MPI_H
#define ADJOIN_MPI_H

#include <mpi.h>

#include "adjoin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Context ------------------------------------------------------------------------------------------ */

/* A context for one of several ranks on a host. options may be NULL. Fields left at their defaults become this rank's
 * share. threads: the usable cores, shared by the ranks of the host (at least 1; all of them if MPI has bound each rank
 * to cores of its own); memory_limit: 90 % of the available memory, shared; devices: with at least as many ranks as
 * devices, one device for each rank, in turn; otherwise every (number of ranks)-th device. Collective over comm. */
ADJ_API adj_status adj_mpi_ctx_create(MPI_Comm comm, const adj_ctx_options *options, adj_ctx **out);

/* ---- Plans ---------------------------------------------------------------------------------------------- */

typedef enum adj_mpi_distribution {
  ADJ_MPI_AUTO = 0,
  ADJ_MPI_REPLICATED = 1,
  ADJ_MPI_RING = 2,
  ADJ_MPI_HALO = 3
} adj_mpi_distribution;

/* "auto", "replicated", "ring", "halo"; NULL: no distribution. */
ADJ_API const char *adj_mpi_distribution_name(adj_mpi_distribution distribution);

typedef struct adj_mpi_options {
  uint32_t struct_size;
  adj_mpi_distribution distribution; /* default ADJ_MPI_AUTO                                                    */
  /* Polled by every call on the plan, adj_mpi_plan_create included: once it is not 0 on one rank, the call ends with
   * ADJ_CANCELLED on every rank. A signal handler may set it. It must outlive the plan. NULL: no such flag. adj_cancel
   * ends a call as well, but only while this rank computes. */
  const volatile int *cancel;
  uint64_t sample;       /* halo: sample points of all ranks together, from which cuts are made; 0: as needed */
  uint64_t window_bytes; /* adj_mpi_stream: bytes of rows in a block; 0: 64 MiB, or less if memory_limit is low */
  uint64_t chunk_bytes;  /* longest message; 0: 1 GiB. Longer ones are sent in chunks                          */
  uint32_t id_bytes;     /* of ids in results and blocks: 8 (or 0); 4: 32 bits, with up to ADJ_MAX_COUNT right points */
  uint32_t reserved;
} adj_mpi_options;

ADJ_API void adj_mpi_options_init(adj_mpi_options *options, size_t struct_size);

typedef struct adj_mpi_plan adj_mpi_plan;

/* Checks the request, counts the points of all ranks and chooses the distribution. right NULL or equal to left on every
 * rank: a self-join. left and right: this rank's points; all ranks need the same type and dimension, also ranks without
 * points. spec is as in adj_plan_create, for the points of all ranks: radii are those of this rank's left points; k and
 * radius are the same on all ranks; backend, algorithm, tuning and system apply to the joins of each rank. The datasets
 * and ctx must outlive the plan; spec and options need not. No point moves yet. Collective.
 * Time: O(n / p). Memory: a sample; with radii, 8 bytes a left point. */
ADJ_API adj_status adj_mpi_plan_create(MPI_Comm comm, adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left,
                                       const adj_dataset *right, const adj_mpi_options *options, adj_mpi_plan **out);
/* NULL is fine. Collective, as it frees the duplicate of the communicator. */
ADJ_API void adj_mpi_plan_destroy(adj_mpi_plan *plan);

/* What was chosen and why, expected bytes and seconds; the same text on every rank. Otherwise as adj_plan_explain. Not
 * collective. After a run the text also explains the joins of this rank. */
ADJ_API adj_status adj_mpi_plan_explain(const adj_mpi_plan *plan, char *buffer, size_t capacity, size_t *needed);

/* Where this rank's rows are among all rows: the layout of a file that all ranks write. */
typedef struct adj_mpi_layout {
  uint32_t struct_size;
  uint32_t reserved;
  int32_t rank, ranks;
  uint64_t first_row, rows, all_rows; /* left points: of earlier ranks, of this rank, of all ranks               */
  uint64_t first_right, rights, all_rights;
  /* Entries of rows, padding of kNN included. Range joins: known from adj_mpi_sink.begin on, and in the layout of a
   * result; 0 before. kNN: rows * k. */
  uint64_t first_entry, entries, all_entries;
} adj_mpi_layout;

ADJ_API void adj_mpi_layout_init(adj_mpi_layout *layout, size_t struct_size);
ADJ_API adj_status adj_mpi_plan_layout(const adj_mpi_plan *plan, adj_mpi_layout *out); /* not collective */

/* The distribution that was chosen. */
ADJ_API adj_mpi_distribution adj_mpi_plan_distribution(const adj_mpi_plan *plan);

/* ---- Running ------------------------------------------------------------------------------------------------ */

/* What a run did on this rank; fields that concern all ranks say so. */
typedef struct adj_mpi_stats {
  uint32_t struct_size;
  adj_mpi_distribution distribution;
  int32_t rank, ranks;
  uint32_t threads;
  uint32_t rounds;          /* passes of points or queries that the memory limit required; 1: a single one     */
  uint64_t rows, rights;    /* points that this rank passed to adj_mpi_plan_create                             */
  uint64_t queries, points; /* left and right points that this rank joined; self-joins: without the halo       */
  uint64_t halo_points;     /* right points that it received besides, and queries it searched for other ranks  */
  uint64_t pairs;           /* neighbours in this rank's rows, without padding                                 */
  uint64_t all_pairs;       /* neighbours in the rows of all ranks                                             */
  uint64_t bytes_points;    /* sent to other ranks: points, with their ids and accompanying data               */
  uint64_t bytes_rows;      /* sent to other ranks: rows and counts that return to the owners of their points  */
  uint64_t bytes_least;     /* size of the coordinates alone of the points sent                                */
  uint64_t messages;
  double total_s, plan_s, exchange_s, join_s, wait_s; /* wall clock. wait: nothing to do until others send     */
  double cpu_s;          /* CPU time of this rank's process during the run, all threads                     */
  double work;           /* estimated work of this rank: cost of its queries, neighbours and points         */
  double work_imbalance; /* of all ranks: (largest - mean) / mean of it                                     */
  double busy_imbalance; /* the same for join_cpu_s                                                         */
  uint64_t peak_bytes;   /* most host memory that the context and this library held at once                 */
  adj_stats join;        /* of this rank's joins, added up; strings are those of the last join              */
  double join_cpu_s;     /* CPU time of join_s                                                              */
  double wait_cpu_s;     /* CPU time of wait_s: MPI's own work and copies, and polling for messages         */
} adj_mpi_stats;

ADJ_API void adj_mpi_stats_init(adj_mpi_stats *stats, size_t struct_size);

/* Gathers the statistics of all ranks at rank 0, where `all` has room for one struct a rank; NULL elsewhere.
 * Collective. */
ADJ_API adj_status adj_mpi_stats_gather(adj_mpi_plan *plan, const adj_mpi_stats *mine, adj_mpi_stats *all);

/* The runs: a plan may be run any number of times. control and stats may be NULL. progress is called in the calling
 * thread and reports on this rank; if it returns non-zero on one rank, the run ends on all of them. max_pairs is a
 * limit for all ranks together. */

/* Counts only. degrees: one for each of this rank's left points, may be NULL; total: of all ranks, may be NULL.
 * Collective. Time and memory: those of adj_mpi_collect without the result, and 8 bytes a left point. */
ADJ_API adj_status adj_mpi_count(adj_mpi_plan *plan, uint64_t *degrees, uint64_t *total, const adj_run_control *control,
                                 adj_mpi_stats *stats);

typedef struct adj_mpi_result adj_mpi_result;

/* The rows of this rank's left points, in memory. A result that does not fit the memory limit of a rank is
 * ADJ_E_MEMORY on every rank. Collective.
 * Time: that of adj_collect for the points of this rank, and the exchange.
 * Memory: the result: 8 bytes a row, and for each entry 8 bytes (or id_bytes) plus those of its distance. While it is
 * made: the points of this rank's region and its halo (ring: three blocks; replicated: all), their index, and 4 to 6
 * bytes an entry. */
ADJ_API adj_status adj_mpi_collect(adj_mpi_plan *plan, adj_mpi_result **out, const adj_run_control *control,
                                   adj_mpi_stats *stats);

ADJ_API adj_status adj_mpi_result_layout(const adj_mpi_result *result, adj_mpi_layout *out);
ADJ_API uint64_t adj_mpi_result_rows(const adj_mpi_result *result);
ADJ_API uint64_t adj_mpi_result_pairs(const adj_mpi_result *result); /* of this rank, without padding */
/* rows + 1 offsets; kNN: i * k. Entries: global ids, -1 as the padding of kNN. Distances: of adj_mpi_result_type, or
 * NULL if they were not asked for. The arrays live as long as the result. */
ADJ_API const uint64_t *adj_mpi_result_offsets(const adj_mpi_result *result);
/* Ids of 64 bits, or NULL if the result has ids of 32 bits. */
ADJ_API const int64_t *adj_mpi_result_ids(const adj_mpi_result *result);
/* Ids of 32 bits, padded with ADJ_NO_ID, or NULL if the result has ids of 64 bits: see adj_mpi_options.id_bytes. */
ADJ_API const uint32_t *adj_mpi_result_ids_32(const adj_mpi_result *result);
ADJ_API const void *adj_mpi_result_distances(const adj_mpi_result *result);
ADJ_API adj_type adj_mpi_result_type(const adj_mpi_result *result);
/* Not collective. Destroy results before their context. */
ADJ_API void adj_mpi_result_destroy(adj_mpi_result *result);

/* A block of consecutive finished rows of this rank. Valid during the callback only. */
typedef struct adj_mpi_rows {
  uint64_t first_row, row_count; /* of this rank's rows; globally from layout.first_row + first_row on      */
  uint64_t first_entry;          /* of this rank's entries; globally from layout.first_entry + first_entry on */
  const uint64_t *offsets;       /* row_count + 1 entries; row first_row + i: offsets[i] .. offsets[i + 1] - 1 */
  const int64_t *ids;            /* NULL if the ids have 32 bits                                              */
  const void *distances;         /* NULL without ADJ_WITH_DISTANCE                                            */
  const uint32_t *ids_32;        /* these, padded with ADJ_NO_ID; otherwise NULL                              */
} adj_mpi_rows;

/* Where rows go. Callbacks run in the calling thread, one at a time. This rank's rows come in ascending order, each
 * exactly once. A callback that does not return ADJ_OK ends the run on every rank with that status. The callbacks must
 * not call a collective function on the plan. They may communicate on other communicators, but only in begin, which is
 * called once on every rank, even without rows. */
typedef struct adj_mpi_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *user;
  /* Optional. Called before the first write, when everything is counted. layout is exact, and degrees has one entry a
   * row (kNN: NULL), valid until end. */
  adj_status (*begin)(void *user, const adj_mpi_layout *layout, const uint64_t *degrees);
  adj_status (*write)(void *user, const adj_mpi_rows *rows);
  /* Optional. Called once, whatever happened, if begin was reached. outcome is the same on every rank: after ADJ_OK
   * every rank has received all its rows. */
  void (*end)(void *user, adj_status outcome);
} adj_mpi_sink;

ADJ_API void adj_mpi_sink_init(adj_mpi_sink *sink, size_t struct_size);

/* Rows through a buffer of limited size, for results larger than memory: a pass that counts (not for kNN), then rounds
 * of at most window_bytes a rank; a row that is longer is a round of its own. Collective. Time: the count, and the join
 * once more; ring and replicated: points move once a round. Memory: as adj_mpi_collect with a result of window_bytes; 8
 * bytes a row for the counts. */
ADJ_API adj_status adj_mpi_stream(adj_mpi_plan *plan, const adj_mpi_sink *sink, const adj_run_control *control,
                                  adj_mpi_stats *stats);

/* ---- Agreement, for programs on top ------------------------------------------------------------------------ */

/* Checks that all ranks succeeded. Returns ADJ_OK on every rank if all passed ADJ_OK. Otherwise it returns on every
 * rank the status of the lowest rank that did not, and adj_last_error is that rank's message, preceded by the rank.
 * message NULL: adj_last_error of this rank. For a program's own steps, such as reading and writing files. A rank that
 * waits for others takes hardly any CPU time. Collective. */
ADJ_API adj_status adj_mpi_agree(MPI_Comm comm, adj_status status, const char *message);

/* Not final in this version: fields may be added to the end of structs, and the text of explain may change. */

#ifdef __cplusplus
}
#endif
#endif /* ADJOIN_MPI_H */
