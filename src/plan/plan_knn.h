/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a kNN join: tree or brute force.
 */
#ifndef ADJI_PLAN_KNN_H
#define ADJI_PLAN_KNN_H

#include "gpu/worker/knn.h"
#include "plan/plan.h"

/* algorithm: what was asked for. */
adj_status adji_plan_knn(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_knn_on_gpu(adj_plan *plan, adji_algorithm algorithm);

/* What plans that share a join have in common with it: what is wanted of a device; an engine of cores that search
 * trees, and what its queries will take. */
adji_knn_request adji_knn_request_of(const adj_plan *plan);
/* Refuses settings that ask for kernels of a GPU which this join has not. */
adj_status adji_check_knn_kernels(const adj_plan *plan);
adj_status adji_make_trees(adj_plan *plan, adji_engine *out);
adj_status adji_estimate_tree(adj_plan *plan);

#endif
