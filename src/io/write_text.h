/* SPDX-License-Identifier: MIT
 *
 * Fields of text files. Numbers: the shortest decimal that reads back as the same float or double. The name of a row:
 * its label, quoted if necessary, or its number if the points have no labels.
 */
#ifndef ADJI_WRITE_TEXT_H
#define ADJI_WRITE_TEXT_H

#include "data/dataset.h"

enum {
  ADJI_DECIMAL_MIN = -292, /* the powers of ten that doubles need */
  ADJI_DECIMAL_MAX = 324,
  ADJI_REAL_TEXT = 25,  /* most characters of a number: -1.2345678901234567e-308 */
  ADJI_COUNT_TEXT = 20, /* most digits of a uint64_t                              */
};

/* 10^k for each k: its 128 leading bits, rounded up. */
typedef struct adji_decimals {
  struct {
    uint64_t high, low;
  } power[ADJI_DECIMAL_MAX - ADJI_DECIMAL_MIN + 1];
} adji_decimals;

void adji_decimals_init(adji_decimals *decimals);

/* These write no terminating 0, and return the end of what they wrote. set NULL: rows have no labels. */
char *adji_put_double(const adji_decimals *decimals, double value, char *to);
char *adji_put_float(const adji_decimals *decimals, float value, char *to);
char *adji_put_count(uint64_t value, char *to);
char *adji_put_row_name(const adj_dataset *set, uint64_t row, char separator, char *to);

static inline char *adji_put_real(const adji_decimals *decimals, adj_type type, const void *value, char *to) {
  if (type == ADJ_F64) return adji_put_double(decimals, *(const double *)value, to);
  return adji_put_float(decimals, *(const float *)value, to);
}

/* Most bytes adji_put_row_name writes for any row of the set. */
uint64_t adji_row_name_bytes(const adj_dataset *set);

#endif
