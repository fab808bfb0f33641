/* SPDX-License-Identifier: MIT
 *
 * Numbers as text: the shortest decimal that reads back as the same float or double.
 */
#ifndef ADJI_WRITE_DECIMAL_H
#define ADJI_WRITE_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

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

/* Each writes no terminating 0 and returns the end of what it wrote. */
char *adji_put_double(const adji_decimals *decimals, double value, char *to);
char *adji_put_float(const adji_decimals *decimals, float value, char *to);
char *adji_put_count(uint64_t value, char *to);

#endif
