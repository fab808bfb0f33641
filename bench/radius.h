/* SPDX-License-Identifier: MIT
 *
 * The radius of a range join with about so many neighbours a point, for sets and metrics of any kind: what the sweeps
 * of driver_auto.c and gpu_sweep.c ask for.
 */
#ifndef ADJOIN_BENCH_RADIUS_H
#define ADJOIN_BENCH_RADIUS_H

#include <adjoin.h>

/* A join of that metric on a backend: the k nearest with distances, or with k = 0 a range join. */
adj_join_spec sweep_spec(adj_metric metric, adj_backend backend, uint32_t k, double radius);

/* l2, l1, linf, lp (p = 3), cosine, ip or haversine; others end the program. */
adj_metric sweep_metric(const char *name);

/* The median distance of the neighbour with that number, of some points; of all points the largest distance, and more.
 * A failure is returned. */
adj_status radius_of_mean(adj_ctx *ctx, adj_dataset *set, const adj_join_spec *spec, double mean, double *radius);

#endif
