/* SPDX-License-Identifier: MIT
 *
 * GPUs that take part in a range join of the cores.
 */
#ifndef ADJI_GPU_HYBRID_RANGE_PARTNER_H
#define ADJI_GPU_HYBRID_RANGE_PARTNER_H

#include "gpu/range/engine.h"

/* Whether a GPU can have a part in the join, if there is one: otherwise the message says why not. */
adj_status adji_gpu_range_partner_can(const adji_gpu_engine_options *options);

/* Opens the number-th device of the context, copies the points there and builds the index. Any thread. */
adj_status adji_gpu_range_partner_create(const adji_gpu_engine_options *options, uint32_t number, adji_partner *out);

/* rows[i] is the row of the cores' i-th query: before the first pass. */
adj_status adji_gpu_range_partner_follow(adji_partner *made, const uint32_t *rows);

/* Whether there is room on the device for so many pairs that are kept while they are found, each once. */
bool adji_gpu_range_partner_has_room(adji_partner *made, uint64_t pairs);

/* What the device would take for all queries, from so many of them in its own order. */
typedef struct adji_range_trial {
  double count_s; /* to count; finding again takes about as long, and writes as well */
  double copy_s;  /* of the rows to the host                                         */
  double pairs, candidates;
  uint64_t queries; /* that it was asked for */
} adji_range_trial;
/* By the time of the kernel that samples what queries meet: at most what they take, for so few do not keep a device
 * busy. It costs what an estimate costs. */
adj_status adji_gpu_range_partner_guess(adji_partner *made, uint64_t sample, adji_range_trial *out);
/* By the time of lists. The first of all have kernels loaded: that lets it seem slower than it is. */
adj_status adji_gpu_range_partner_try(adji_partner *made, uint64_t queries, adji_range_trial *out);

/* Makes the engine that has the device alone do the join. The partner is gone then. */
adj_status adji_gpu_range_partner_alone(adji_partner *made, adji_engine *out);

#endif
