/* SPDX-License-Identifier: MIT
 *
 * What workers report about a run: see stats.h.
 */
#include "queue/stats.h"

/* to += sign * more */
static void accumulate(adji_device_stats *to, const adji_device_stats *more, int sign) {
  uint64_t s = (uint64_t)(int64_t)sign; /* unsigned arithmetic wraps, so this subtracts for -1 */
  to->kernel_s += sign * more->kernel_s;
  to->up_s += sign * more->up_s;
  to->down_s += sign * more->down_s;
  to->place_s += sign * more->place_s;
  to->bytes_up += s * more->bytes_up;
  to->bytes_down += s * more->bytes_down;
  to->slots += s * more->slots;
  to->compared += s * more->compared;
  to->prefilter.queries += s * more->prefilter.queries;
  to->prefilter.sums += s * more->prefilter.sums;
  to->prefilter.again += s * more->prefilter.again;
  to->prefilter.failed += s * more->prefilter.failed;
  to->prefilter.tiles += s * more->prefilter.tiles;
  to->prefilter.tiles_scanned += s * more->prefilter.tiles_scanned;
  to->grid.queries += s * more->grid.queries;
  to->grid.failed += s * more->grid.failed;
  to->grid.reindexed += s * more->grid.reindexed;
  to->grid.epsilon_s += sign * more->grid.epsilon_s;
  to->grid.reindex_s += sign * more->grid.reindex_s;
}

void adji_device_stats_add(adji_device_stats *to, const adji_device_stats *more) {
  accumulate(to, more, 1);
  if (more->grid.epsilon > 0) to->grid.epsilon = more->grid.epsilon;
}

void adji_device_stats_report(const adji_device_stats *now, adji_device_stats *reported, adji_device_stats *to) {
  adji_device_stats more = *now;
  accumulate(&more, reported, -1);
  *reported = *now;
  adji_device_stats_add(to, &more);
}
