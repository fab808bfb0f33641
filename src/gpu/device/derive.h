/* SPDX-License-Identifier: MIT
 *
 * Sets derived from points on a device: what cosine and great-circle distances are measured on. They have the bits of
 * data/derive.h.
 */
#ifndef ADJI_GPU_DEVICE_DERIVE_H
#define ADJI_GPU_DEVICE_DERIVE_H

#include "gpu/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Derived points, packed by rows, in their own memory. */
typedef struct adji_gpu_derived {
  adji_gpu *gpu; /* NULL: none */
  adji_gpu_rows rows;
  uint64_t bytes;
} adji_gpu_derived;

/* Both wait for the device, since a row may have no derived point. The first coordinate that is not finite, or else
 * the first such row, gives ADJ_E_DATA with the message of data/derive.h. Device memory: the size of the derived
 * points. */
ADJI_OP adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_derived *out);
ADJI_OP adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle,
                                          adji_gpu_derived *out);

/* In the order of the device's work. */
ADJI_OP void adji_gpu_derived_free(adji_gpu_derived *derived);

#ifdef __cplusplus
}
#endif
#endif
