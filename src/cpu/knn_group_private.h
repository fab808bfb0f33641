/* SPDX-License-Identifier: MIT
 *
 * What the parts of a group's search share: knn_group.c, and the pools of knn_group_pool.c.
 */
#ifndef ADJI_KNN_GROUP_PRIVATE_H
#define ADJI_KNN_GROUP_PRIVATE_H

#include "cpu/knn_group.h"

adj_status adji_pools_init(adji_knn_group *g); /* for k neighbours; those of another k are replaced */
void adji_pools_clear(adji_knn_group *g);

/* Makes a guess for the selected queries, which becomes the reach of the search. False: there is none. */
bool adji_pool_guess(adji_knn_group *g);
/* Limits from the leaves around one take the place of the guess: k points at least are within each. False: there are
 * none. */
bool adji_pool_bound(adji_knn_group *g, uint64_t leaf);

/* Adds the points of the collected leaves. */
void adji_pool_leaves(adji_knn_group *g, adji_knn_task *task);

/* Whether query q has enough points, and not too many: then one of the next two has its neighbours. */
bool adji_pool_is_right(adji_knn_group *g, uint32_t q);
/* The k nearest of query q. False: they could not be told apart. */
bool adji_pool_pick(adji_knn_group *g, uint32_t q, adji_picked *to);
void adji_pool_select(adji_knn_group *g, uint32_t q); /* to the first list */

/* A search of the group's queries in the leaves it has collected. */
adji_knn_task adji_knn_group_task(adji_knn_group *g);

#endif
