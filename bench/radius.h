/* SPDX-License-Identifier: MIT
 *
 * The radius of a range join with about a given number of neighbours per point, for any set and metric. Used by the
 * sweeps of driver_auto.c and gpu_sweep.c.
 */
#ifndef ADJOIN_BENCH_RADIUS_H
#define ADJOIN_BENCH_RADIUS_H

#include <adjoin.h>

/* The spec of a join with this metric on a backend: the k nearest with distances, or with k = 0 a range join. */
adj_join_spec sweep_spec(adj_metric metric, adj_backend backend, uint32_t k, double radius);

/* l2, l1, linf, lp (p = 3), cosine, ip or haversine; others end the program. */
adj_metric sweep_metric(const char *name);

/* The median, over some points, of the distance of neighbour number `mean`. If the mean is all points: more than the
 * largest distance. */
adj_status radius_of_mean(adj_ctx *ctx, adj_dataset *set, const adj_join_spec *spec, double mean, double *radius);

#endif
