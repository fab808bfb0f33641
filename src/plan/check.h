/* SPDX-License-Identifier: MIT
 *
 * What a request must be before anything is made of it.
 */
#ifndef ADJI_CHECK_H
#define ADJI_CHECK_H

#include "data/dataset.h"

/* algorithm receives the one asked for, NULL: to choose. */
adj_status adji_check_spec(const adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                           const char **algorithm);

#endif
