/* SPDX-License-Identifier: MIT
 *
 * The interface between the parts of a group's search: knn_group.c, and the pools of knn_group_pool.c.
 */
#ifndef ADJI_KNN_GROUP_PRIVATE_H
#define ADJI_KNN_GROUP_PRIVATE_H

#include "cpu/knn_group.h"

adj_status adji_pools_init(adji_knn_group *g); /* for the group's k; replaces those of another k */
void adji_pools_clear(adji_knn_group *g);

/* Makes a guess for the selected queries, which becomes the reach of the search. False: there is no guess. */
bool adji_pool_guess(adji_knn_group *g);
/* Sets limits from the leaves around `leaf` in place of the guess: within each are at least k points. False: there are
 * no limits. */
bool adji_pool_bound(adji_knn_group *g, uint64_t leaf);

/* Adds the points of the collected leaves to the pools. */
void adji_pool_leaves(adji_knn_group *g, adji_knn_task *task);

/* Whether query q has enough points and not too many, so that one of the next two functions finds its neighbours. */
bool adji_pool_is_usable(adji_knn_group *g, uint32_t q);
/* Finds the k nearest points of query q. False: they could not be told apart. */
bool adji_pool_pick(adji_knn_group *g, uint32_t q, adji_picked *to);
void adji_pool_select(adji_knn_group *g, uint32_t q); /* writes them to the first list */

/* A task that searches for the group's queries in its collected leaves. */
adji_knn_task adji_knn_group_task(adji_knn_group *g);

#endif
