/* SPDX-License-Identifier: MIT
 *
 * Published systems by name: "lbjoin" is a backend, an algorithm and settings.
 */
#ifndef ADJI_SYSTEMS_H
#define ADJI_SYSTEMS_H

#include "core/names.h"
#include "plan/tuning.h"

typedef struct adji_system adji_system;

/* NULL: no system. Refuses names that are unknown. */
adj_status adji_system_find(const char *name, const adji_system **out);

/* Refuses joins that the system cannot do, by kind, metric, dimensions, k, backend or algorithm. Chooses the backend
 * and the algorithm where spec leaves them open. */
adj_status adji_system_fit(const adji_system *system, uint32_t dim, adj_join_spec *spec, adji_algorithm *algorithm);

/* Its settings for points of `dim` dimensions, then those of spec, which override them. system may be NULL. */
adj_status adji_system_tuning(const adji_system *system, uint32_t dim, const adj_join_spec *spec, adji_tuning *out);

#endif
