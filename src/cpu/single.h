/* SPDX-License-Identifier: MIT
 *
 * Collecting with each candidate evaluated once: no counting pass, and in a self-join each unordered
 * pair only from its first point. Pays where distances cost more than moving what was found.
 */
#ifndef ADJI_SINGLE_H
#define ADJI_SINGLE_H

#include "cpu/range.h"
#include "queue/partners.h"

/* Who does what. Devices that have begun take whole queries of a self-join too, for which they find what comes behind
 * them in the order of the index, as cores do: so whoever has a query, each pair is found once. */
typedef struct adji_single_work {
  const adji_join *join;
  const adji_range_options *options;
  adji_queue *queue;
  const adji_partners *partners;
  const adji_partners_begun *begun;
} adji_single_work;

/* Memory, beyond the result: 4 bytes a point and, per pair that was evaluated, 4 bytes (8 or 12 with
 * distances): half of the pairs in a self-join, and all of those that a device found. */
adj_status adji_single_collect(const adji_single_work *work, adji_run *run, adj_result *result);

/* The counts alone: degrees by row. Memory: 4 bytes a point, and 12 with a device. */
adj_status adji_single_count(const adji_single_work *work, adji_run *run, uint32_t *degrees, uint64_t *total);

#endif
