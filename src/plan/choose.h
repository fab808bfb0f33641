/* SPDX-License-Identifier: MIT
 *
 * The planner's choices. Each is a function of the request, a sample of the points and the costs of the machine, and
 * has its own choose_*.c.
 */
#ifndef ADJI_CHOOSE_H
#define ADJI_CHOOSE_H

#include "gpu/shared/halves.h"
#include "gpu/worker/range.h"
#include "index/codes.h"
#include "plan/tuning.h"

/* ---- Range joins --------------------------------------------------------------------------------------- */

/* A range join, before anything is decided. */
typedef struct adji_range_question {
  const adji_join *join;
  const adji_measure *measure;
  const adji_tuning *tuning;
  uint64_t population;           /* points of which the right set is a sample; 0: the right set is complete */
  bool device;                   /* for a GPU, whose look-ups and comparisons have other costs               */
  bool codes;                    /* candidates go through the prefilter of 8-bit codes: cores only           */
  const adji_gpu_lender *lender; /* lends what an index has on devices; NULL: none */
  double filled;                 /* share of the left points that have neighbours, by a sample; 0: not known  */
  double count_ns;               /* one core's time to count all neighbours, by a trial; 0: not known         */
} adji_range_question;

/* Points of the right set. */
static inline uint64_t adji_question_points(const adji_range_question *question) {
  return question->population ? question->population : question->join->right->count;
}

/* Memory operations of a join by GPU-Join's estimate, and its time by our own. */
typedef struct adji_memory_operations {
  double search, compare, cost_s;
} adji_memory_operations;

/* The grid, and what is known from choosing it. */
typedef struct adji_grid_choice {
  adji_grid grid;          /* no axes: none pays                                                       */
  adji_halves_plan tensor; /* a GPU's prefilter on tensor cores                                        */
  double cell_population;  /* other points in a point's cell, by a sample                              */
  double candidates;       /* of a query, by a sample                                                  */
  uint32_t next_dim;       /* the dimension that would be indexed next; if all are, one of them        */
  uint32_t *dims;          /* all dimensions in the order that SHORTC adds them up; NULL: input order  */
  adji_memory_operations memory[ADJI_MAX_AXES + 1]; /* with the papers' kernels: with 1 .. memory_count axes */
  uint32_t memory_count;
  char reason[192];
} adji_grid_choice;

/* The number of axes with the fewest operations. */
uint32_t adji_fewest_memory_operations(const adji_grid_choice *choice);

/* For the cores. */
typedef struct adji_cores_choice {
  adji_grid_choice grid;
  adji_code_scale code_scale; /* of the prefilter of codes; ctx NULL: none */
  adji_lent kept;             /* a grid that the index has already; kept.what NULL: none */
} adji_cores_choice;

/* For a GPU. The options point into the choice, and to the question's join and measure. */
typedef struct adji_device_choice {
  adji_algorithm algorithm;
  adji_grid_choice grid;
  adji_gpu_worker_options options;
} adji_device_choice;

/* Which dimensions the grid indexes, how wide its cells are, and how fine its last axis is. brute: no axes are wanted;
 * for a GPU there may still be a prefilter. Leaves nothing to clear on failure. */
adj_status adji_choose_grid(const adji_range_question *question, bool brute, adji_grid_choice *out);
void adji_grid_choice_clear(adj_ctx *ctx, adji_grid_choice *choice);

/* The algorithm of the cores if no axis pays: recursion over boxes, or brute force. */
adji_algorithm adji_choose_without_axes(const adji_range_question *q);

/* An axis of the grid: the sample's coordinates, the width of a slab, where it begins and ends. */
typedef struct adji_ends {
  const double *values;
  double slab;
  double low, high;
} adji_ends;

/* Moves the ends of the axes inwards if a few points far out would make more than `room` cells. Points beyond an end
 * are then in the first or last slab. All axes have the same `sample` rows, drawn from `population` points. */
void adji_choose_ends(adji_ends *axes, uint32_t axis_count, uint64_t sample, uint64_t population, uint64_t room);

/* Seconds of the cores, in this order: to count first and then fill in place; to find rows in one pass, staged; to
 * evaluate each candidate once; the same if a device writes the pairs found to their rows; and a lower bound for cores
 * alone, from the candidates of the grid's sample. */
double adji_counted_seconds(const adji_range_question *q, double pairs, double candidates);
double adji_staged_seconds(const adji_range_question *q, double pairs, double candidates);
double adji_single_seconds(const adji_range_question *q, double pairs, double candidates);
double adji_sent_seconds(const adji_range_question *q, double pairs, double candidates);
double adji_sampled_seconds(const adji_range_question *q, const adji_grid_choice *grid);

/* Single evaluation writes a pair to any row: the more rows, the farther from the previous one. The cost of such a
 * write relative to that with about 100,000 rows. */
double adji_pair_spread(double rows);

typedef struct adji_single_choice {
  bool single, single_count;
  bool staged;                   /* collect stages rows, if no device helps */
  double seconds, count_seconds; /* to collect, to count */
} adji_single_choice;

/* Whether cores stage rows or evaluate each candidate once, to collect and to count, from estimates of the pairs and
 * candidates. Single evaluation finds a pair of a self-join from one of its points, which needs a symmetric index.
 * Refuses single=on without one. */
adj_status adji_choose_single(const adji_range_question *q, bool symmetric, double pairs, double candidates,
                              adji_single_choice *out);

/* ---- The kernels of a GPU for range joins -------------------------------------------------------------- */

/* The prefilter of tensor cores (gpu/shared/halves.h). may_choose: whether the join can have it and it was not turned
 * off. check: refuses prefilter=tensor otherwise. choose: whether it is used, with its centre and scale, from a sample
 * of the right set, in which coordinate j of row i is at values[j * sample + i]. cost: of a pair, in instructions of a
 * warp. */
bool adji_may_choose_tensor(const adji_range_question *q);
adj_status adji_check_tensor(const adji_range_question *q);
adj_status adji_choose_tensor(const adji_range_question *q, const double *values, uint64_t sample,
                              adji_halves_plan *out);
double adji_tensor_cost(const adji_costs *costs, const adji_halves_plan *tensor);
/* Statistics of the sampled pairs that pass the prefilter. */
typedef struct adji_tensor_passing {
  double part;     /* of all pairs */
  double uneven;   /* 1: all queries have equally many; n: one query in n has all */
  double together; /* of two points that pass with the same query, the part that would also pass with each other */
} adji_tensor_passing;
adji_tensor_passing adji_tensor_passing_of(const adji_range_question *q, const adji_halves_plan *tensor,
                                           const double *values, uint64_t sample);
/* The cost of a pair that passes. */
double adji_tensor_passed_cost(const adji_costs *costs, uint32_t dim);

/* The kernels of the papers, if settings ask for them. ADJ_E_UNSUPPORTED for joins that they cannot do. */
adj_status adji_choose_access(const adji_range_question *q, const adji_grid_choice *grid, adji_point_options *out);

/* Whether every query is compared with every right point, in tiles. This is for many dimensions, with neither grid nor
 * prefilter. */
bool adji_choose_device_all_pairs(const adji_range_question *q, const adji_grid_choice *grid);
/* Seconds that a device takes for one such pass over `queries` queries. */
double adji_all_pairs_seconds(const adji_range_question *q, double queries);
/* Warp instructions that a device issues in this time. */
double adji_warp_instructions(const adji_costs *costs, double seconds);

/* Whether a count keeps the pairs it finds; whether a self-join compares every two points once. */
bool adji_choose_device_single(const adji_range_question *q, const adji_grid_choice *grid);
bool adji_choose_device_mirrored(const adji_range_question *q, const adji_grid_choice *grid);

/* The candidates of a query, if a count records which of them are neighbours, so that filling all rows compares nothing
 * again; otherwise 0. whole: all rows are filled at once. sample: rows from which the grid was chosen. */
double adji_choose_device_tile_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole,
                                    uint64_t sample);
/* Whether a count records this for each query; for queries with few candidates. */
bool adji_choose_device_query_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole);

/* Refuses settings that ask for kernels which a GPU does not have for this join. */
adj_status adji_check_device_kernels(const adji_range_question *q, const adji_grid_choice *grid);

/* ---- kNN joins ----------------------------------------------------------------------------------------- */

/* A tree or brute force, as far as this can be decided without an index. */
typedef struct adji_knn_choice {
  adji_algorithm algorithm; /* ADJI_ALGORITHM_AUTO: a trial decides   */
  char reason[96];
} adji_knn_choice;

adji_knn_choice adji_choose_knn(const adji_join *join);

/* Whether a tree can exclude anything in this number of dimensions. */
bool adji_tree_is_useful(const adji_measure *measure, uint32_t dim);

/* Whether cores use brute force whatever the number of queries. */
bool adji_surely_brute(const adji_join *join);

/* Whether a GPU cuts runs of its curve in two (gpu/index/tree_cut.cu). */
bool adji_choose_cut(const adji_join *join, const adji_tuning *tuning);

/* Seconds of the cores, roughly: to build trees, to search them, and for the whole join. few: there are so few
 * dimensions that a tree is fast for any distribution of points. */
double adji_tree_seconds(const adji_join *join);
double adji_search_seconds(const adji_join *join);
double adji_knn_seconds(const adji_join *join, bool few);
/* A device's time per dimension with this metric relative to L2, comparing all pairs. */
double adji_device_step_factor(const adji_costs *costs, const adji_measure *measure);
/* Seconds of brute force on a device, with or without tensor cores. */
double adji_device_brute_seconds(const adji_join *join, bool tensor);
/* Whether points are so close together that the prefilter of tensor cores passes most of them. */
bool adji_too_near_for_halves(const adji_join *join);

/* ---- Cores and devices --------------------------------------------------------------------------------- */

/* What a device has to do before it can begin: start CUDA, open, or nothing. */
typedef enum adji_readiness { ADJI_NOT_STARTED, ADJI_STARTED, ADJI_OPEN } adji_readiness;

/* Whether a device is worth using for a join that takes the cores this long. */
bool adji_worth_a_device(const adji_costs *costs, double cores_s, adji_readiness ready);

/* Seconds of a join of all queries. */
typedef struct adji_share_times {
  double index;  /* for cores to build an index; 0: they have one                   */
  double cores;  /* of the cores alone                                              */
  double device; /* of a device that does lists of queries, with its rows placed    */
  double place;  /* for cores to copy the rows of all these lists into the result   */
  double alone;  /* of a device that does everything, perhaps by another method     */
  double extra;  /* that sharing adds                                               */
} adji_share_times;

/* How long cores and device take together, and whether that is clearly less than the device alone takes. */
double adji_shared_seconds(const adji_share_times *t);
bool adji_sharing_pays(const adji_share_times *t);
/* The seconds that `devices` devices take which share the queries by lists; whether that is clearly less than one takes
 * alone. begin: seconds until the others are open. Of the times, only device, place, alone and extra are used. */
double adji_several_seconds(const adji_share_times *t, uint32_t devices, double begin);
bool adji_several_pay(const adji_share_times *t, uint32_t devices, double begin);

#endif
