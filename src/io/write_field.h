/* SPDX-License-Identifier: MIT
 *
 * Fields of a csv or tsv file. The name of a row is its label, quoted if necessary, or its number if the points have no
 * labels.
 */
#ifndef ADJI_WRITE_FIELD_H
#define ADJI_WRITE_FIELD_H

#include "data/dataset.h"
#include "io/write_decimal.h"

/* Most bytes adji_put_row_name writes for any row of the set. */
uint64_t adji_row_name_bytes(const adj_dataset *set);

/* Returns the end of what it wrote. */
char *adji_put_row_name(const adj_dataset *set, uint64_t row, char separator, char *to);

static inline char *adji_put_real(const adji_decimals *decimals, adj_type type, const void *value, char *to) {
  if (type == ADJ_F64) return adji_put_double(decimals, *(const double *)value, to);
  return adji_put_float(decimals, *(const float *)value, to);
}

#endif
