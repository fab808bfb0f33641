/* SPDX-License-Identifier: MIT
 *
 * Sets derived from points on a device, for cosine and great-circle distances. They have the same bits as those of
 * data/derive.h.
 */
#ifndef ADJI_GPU_DEVICE_DERIVE_H
#define ADJI_GPU_DEVICE_DERIVE_H

#include "gpu/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Both wait for the device, since a row may have no derived point. The first coordinate that is not finite, or else the
 * first such row, gives ADJ_E_DATA with the message of data/derive.h. They take device memory for the derived points
 * only. */
ADJI_OP adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_points *out);
ADJI_OP adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle,
                                          adji_gpu_points *out);

#ifdef __cplusplus
}
#endif
#endif
