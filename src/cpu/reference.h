/* SPDX-License-Identifier: MIT
 *
 * The reference: plain nested loops over the canonical distance. Slow, and the definition of a correct result.
 */
#ifndef ADJI_REFERENCE_H
#define ADJI_REFERENCE_H

#include "queue/engine.h"

adj_status adji_reference_create(const adji_join *join, adji_engine *out);

#endif
