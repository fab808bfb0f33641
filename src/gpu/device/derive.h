/* SPDX-License-Identifier: MIT
 *
 * Sets derived from points on a device, with the bits of data/derive.h: what cosine and great-circle distances are
 * measured on.
 */
#ifndef ADJI_GPU_DEVICE_DERIVE_H
#define ADJI_GPU_DEVICE_DERIVE_H

#include "gpu/device/points.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Derived points, packed by rows, in memory of their own. */
typedef struct adji_gpu_derived {
  adji_gpu *gpu; /* NULL: none */
  adji_gpu_rows rows;
  uint64_t bytes;
} adji_gpu_derived;

/* Wait until the points are there, since a row may have none: the first such row is ADJ_E_DATA with data/derive.h's
 * message, and so is a coordinate that is not finite, before that. Device memory: the size of the derived points. */
adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_derived *out);
adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle, adji_gpu_derived *out);

/* After what the device was asked before. */
void adji_gpu_derived_free(adji_gpu_derived *derived);

#ifdef __cplusplus
}
#endif
#endif
