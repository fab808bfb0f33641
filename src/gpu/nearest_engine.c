/* SPDX-License-Identifier: MIT
 *
 * The engine of kNN joins on a GPU: all rows are found at once, and stay on the device until they are asked for.
 */
#include "gpu/nearest_engine.h"

#ifdef ADJI_HAVE_CUDA

#include <stdlib.h>

#include "gpu/nearest.h"
#include "gpu/staging.h"

typedef struct nearest_engine {
  adji_gpu *gpu;
  adji_gpu_nearest *nearest;
  adji_join join;
  adji_device_work made; /* what opening took; told with the first run */
} nearest_engine;

static adj_status fetch_rows(nearest_engine *e, adji_run *run, const adji_table *table) {
  uint64_t size = adji_type_size(e->join.left->type), first = table->first_row * table->k;
  uint64_t entries = (table->end_row - table->first_row) * table->k;
  adj_status status = adji_download(e->gpu, adji_gpu_nearest_ids(e->nearest) + first, entries * sizeof *table->ids,
                                    table->ids, &run->device);
  const char *distances = adji_gpu_nearest_distances(e->nearest);
  if (!status && table->distances)
    status = adji_download(e->gpu, distances + first * size, entries * size, table->distances, &run->device);
  return status;
}

static adj_status nearest_rows(void *state, adji_run *run, const adji_table *table) {
  nearest_engine *e = state;
  if (table->first_row == table->end_row) return ADJ_OK;
  adji_gpu_lock(e->gpu);
  adj_status status = adji_gpu_nearest_run(e->nearest);
  if (!status) status = adji_gpu_wait(e->gpu);
  if (!status) status = fetch_rows(e, run, table);
  adji_device_work_add(&run->device, &e->made);
  e->made = (adji_device_work){0};
  run->batches++;
  adji_gpu_unlock(e->gpu);
  return status ? status : adji_run_report(run, "join", 1, 0, false);
}

static void nearest_destroy(void *state) {
  nearest_engine *e = state;
  adji_gpu_lock(e->gpu);
  adji_gpu_nearest_close(e->nearest);
  adji_gpu_unlock(e->gpu);
  free(e);
}

adj_status adji_gpu_nearest_create(const adji_join *join, const adji_measure *measure, adji_engine *out) {
  if (!adji_gpu_nearest_can(join, measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "backend: kNN joins like this one do not run on a GPU yet");
  nearest_engine *e = calloc(1, sizeof *e);
  if (!e) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  e->join = *join;
  adj_status status = adji_gpu_of(join->ctx, &e->gpu);
  if (!status) {
    adji_gpu_lock(e->gpu);
    status = adji_gpu_nearest_open(e->gpu, join, measure, &e->nearest, &e->made);
    adji_gpu_unlock(e->gpu);
  }
  if (status) {
    free(e);
    return status;
  }
  *out = (adji_engine){.state = e, .nearest = nearest_rows, .destroy = nearest_destroy};
  return ADJ_OK;
}

#else

adj_status adji_gpu_nearest_create(const adji_join *join, const adji_measure *measure, adji_engine *out) {
  (void)join;
  (void)measure;
  (void)out;
  return adji_fail(ADJ_E_UNSUPPORTED, "backend: this build has no GPU code");
}

#endif
