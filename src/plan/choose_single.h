/* SPDX-License-Identifier: MIT
 *
 * Whether adj_collect counts first and fills in place, or evaluates each candidate once.
 */
#ifndef ADJI_CHOOSE_SINGLE_H
#define ADJI_CHOOSE_SINGLE_H

#include "plan/range_choice.h"

/* What cores take to count a join first and then fill it in place. */
double adji_counted_seconds(const adji_range_question *q, double pairs, double candidates);

/* What they take to evaluate each candidate once; and if a device deals out what they find to its rows. */
double adji_single_seconds(const adji_range_question *q, double pairs, double candidates);
double adji_sent_seconds(const adji_range_question *q, double pairs, double candidates);

typedef struct adji_single_choice {
  bool single;
  double seconds;
} adji_single_choice;

/* The quicker, from estimates of the pairs and candidates. A self-join is evaluated once from one of a pair's points,
 * which takes an index in which that is possible: symmetric. Refuses single=on where it is not. */
adj_status adji_choose_single(const adji_range_question *q, bool symmetric, double pairs, double candidates,
                              adji_single_choice *out);

/* What cores take, in the better way, by the candidates that choosing the grid met. */
double adji_sampled_seconds(const adji_range_question *q, const adji_grid_choice *grid);

/* Whether a GPU keeps what it finds while counting; and compares every two points of a self-join once. */
bool adji_choose_device_single(const adji_range_question *q, const adji_grid_choice *grid);
bool adji_choose_device_mirrored(const adji_range_question *q, const adji_grid_choice *grid);

/* Candidates of a query, if a GPU that counts them keeps which belong to it, so that filling all rows takes no second
 * look; otherwise 0. whole: all rows are filled at once. sample: rows by which the grid was chosen. */
double adji_choose_device_tile_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole,
                                    uint64_t sample);
/* Whether it does so for each query, where these have few candidates. */
bool adji_choose_device_query_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole);

/* Refuses settings that ask for kernels of a GPU which this join has not. */
adj_status adji_check_device_kernels(const adji_range_question *q, const adji_grid_choice *grid);

#endif
