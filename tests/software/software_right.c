/* SPDX-License-Identifier: MIT
 *
 * Right sets that outlive a join on the software device. In every form they are just their points.
 */
#include <stdlib.h>
#include <string.h>

#include "software/software.h"

struct adji_gpu_right {
  adji_gpu *gpu;
  adji_right_form form;
  adji_software_block points;
  adji_gpu_rows rows;
  adji_device_stats work; /* of making it: the first join reports it */
};

/* A tree or a grid copies the points. The form POINTS uses points on the device in place. */
static adj_status make_points(adji_gpu_right *r, const adji_gpu_right_options *o) {
  const adj_dataset *set = o->set;
  bool in_place = o->rows && o->form == ADJI_RIGHT_POINTS;
  r->rows = o->rows ? *o->rows : (adji_gpu_rows){NULL, set->type, set->dim, set->count, set->dim, 1};
  if (in_place) return ADJ_OK;
  uint64_t bytes = adji_mul(r->rows.count * r->rows.dim, adji_type_size(r->rows.type));
  adj_status status = adji_software_get(r->gpu, bytes, "points", &r->points);
  if (status) return status;
  if (o->rows)
    adji_software_copy_rows(o->rows, r->points.at);
  else
    status = adji_upload(r->gpu, set, r->points.at, &r->work);
  r->rows = (adji_gpu_rows){r->points.at, r->rows.type, r->rows.dim, r->rows.count, r->rows.dim, 1};
  return status;
}

adj_status adji_gpu_right_open(adji_gpu *gpu, const adji_gpu_right_options *options, adji_gpu_right **out) {
  adj_status status = adji_software_launch(gpu, "right_open");
  if (status) return status;
  adji_gpu_right *r = calloc(1, sizeof *r);
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for an index");
  r->gpu = gpu;
  r->form = options->form;
  status = make_points(r, options);
  if (status)
    adji_gpu_right_close(r);
  else
    *out = r;
  return status;
}

void adji_gpu_right_close(adji_gpu_right *right) {
  if (!right) return;
  adji_software_free(right->gpu, &right->points);
  free(right);
}

const adji_gpu_rows *adji_gpu_right_rows(const adji_gpu_right *right) {
  return &right->rows;
}

adji_device_stats adji_software_right_work(adji_gpu_right *right) {
  adji_device_stats work = right->work;
  right->work = (adji_device_stats){0};
  return work;
}
