/* SPDX-License-Identifier: MIT
 *
 * Running a kNN plan: count, collect, stream. Rows all have k entries, so every row's place is known.
 */
#ifndef ADJI_RUN_KNN_H
#define ADJI_RUN_KNN_H

#include "plan/plan.h"

adj_status adji_knn_count(adj_plan *plan, uint32_t *degrees, uint64_t *total, const adj_run_control *control,
                          adj_stats *stats);
adj_status adji_knn_collect(adj_plan *plan, adj_result **out, const adj_run_control *control, adj_stats *stats);
adj_status adji_knn_stream(adj_plan *plan, const adj_sink *sink, const adj_run_control *control, adj_stats *stats);

#endif
