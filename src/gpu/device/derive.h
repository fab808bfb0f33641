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

/* Both wait for the device, since a row may have no derived point. The first coordinate that is not finite, or else
 * the first such row, gives ADJ_E_DATA with the message of data/derive.h. Device memory: the size of the derived
 * points. */
ADJI_OP adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_points *out);
ADJI_OP adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle,
                                          adji_gpu_points *out);

#ifdef __cplusplus
}
#endif
#endif
