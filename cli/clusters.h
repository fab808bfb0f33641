/* SPDX-License-Identifier: MIT
 *
 * The clusters that adjoin dbscan finds, and the file they go to.
 */
#ifndef CLI_CLUSTERS_H
#define CLI_CLUSTERS_H

#include "join_request.h"

typedef struct clusters {
  int64_t *labels; /* one for each point; clusters_free frees them */
  uint64_t points;
  uint64_t many;  /* clusters           */
  uint64_t noise; /* points in none     */
  bool no_memory; /* the program itself has no memory, for which the library has no message */
} clusters;

/* The format of the output, by --format or by the name of the file: "npy", "csv", "tsv"; NULL: none of these. */
const char *clusters_format(const join_request *request);

adj_status clusters_find(adj_ctx *ctx, const join_request *request, const adj_join_spec *spec,
                         const adj_dataset *points, const adj_run_control *control, adj_stats *stats, clusters *out);

/* Writes the label of each point to the output of the request. */
adj_status clusters_write(adj_ctx *ctx, const join_request *request, const adj_dataset *points, uint32_t flags,
                          clusters *found);

void clusters_free(clusters *found);

#endif
