/* SPDX-License-Identifier: MIT
 *
 * A tree or brute force for the nearest neighbours, as far as that can be told without a look at the points, and what
 * cores take for either.
 */
#ifndef ADJI_CHOOSE_KNN_H
#define ADJI_CHOOSE_KNN_H

#include "plan/tuning.h"
#include "queue/join.h"

typedef struct adji_knn_choice {
  adji_algorithm algorithm; /* ADJI_ALGORITHM_AUTO: a trial must tell */
  char reason[96];
} adji_knn_choice;

adji_knn_choice adji_choose_knn(const adji_join *join);

/* Whether cores take brute force whatever the number of queries. */
bool adji_surely_brute(const adji_join *join);

/* Whether a GPU cuts runs of its curve in two (gpu/index/tree_cut.cu). */
bool adji_choose_cut(const adji_join *join, const adji_tuning *tuning);

/* What cores take, about: to build trees, to search them, and for the whole join, in which few says that there are few
 * dimensions. */
double adji_tree_seconds(const adji_join *join);
double adji_search_seconds(const adji_join *join);
double adji_knn_seconds(const adji_join *join, bool few);

#endif
