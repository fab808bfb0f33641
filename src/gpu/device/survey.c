/* SPDX-License-Identifier: MIT
 *
 * Surveys of points: what all kinds of devices share.
 */
#include "gpu/device/survey.h"

#include "gpu/device/staging.h"

/* A survey comes back through one buffer: the bounds, the first value that is not finite, then the sample. */
uint64_t adji_gpu_survey_rows(uint32_t dim, adj_type type) {
  uint64_t row = dim * adji_type_size(type), bounds = (2 * (uint64_t)dim + 1) * 8;
  uint64_t rows = bounds < ADJI_STAGE_BYTES ? (ADJI_STAGE_BYTES - bounds) / row : 0;
  return rows ? rows : 1;
}

adj_status adji_gpu_refuse_value(uint64_t value, uint32_t dim) {
  return adji_fail(ADJ_E_DATA, "row %llu, column %llu: is not a finite number", (unsigned long long)(value / dim + 1),
                   (unsigned long long)(value % dim + 1));
}
