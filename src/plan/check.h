/* SPDX-License-Identifier: MIT
 *
 * What a request must be before anything is made of it.
 */
#ifndef ADJI_CHECK_H
#define ADJI_CHECK_H

#include "core/names.h"
#include "data/dataset.h"

/* algorithm receives the one asked for. */
adj_status adji_check_spec(const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                           adji_algorithm *algorithm);

/* Whether a backend has an algorithm. */
adj_status adji_check_algorithm_on(adj_join_kind kind, adj_backend backend, adji_algorithm algorithm);

#endif
