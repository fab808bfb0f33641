/* SPDX-License-Identifier: MIT
 *
 * Numbers, compared with the C library, which rounds correctly.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io/read_number.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *begin = (const char *)data;
  adji_decimal number;
  const char *end = adji_scan_decimal(begin, begin + size, &number);
  if (!end) return 0;
  char *text = malloc((size_t)(end - begin) + 1);
  require(text != NULL);
  memcpy(text, begin, (size_t)(end - begin));
  text[end - begin] = 0;
  char *f64_end, *f32_end;
  double f64 = adji_decimal_f64(&number), right_f64 = strtod(text, &f64_end);
  float f32 = adji_decimal_f32(&number), right_f32 = strtof(text, &f32_end);
  require(f64_end == text + (end - begin) && f32_end == f64_end);
  require(!memcmp(&f64, &right_f64, sizeof f64));
  require(!memcmp(&f32, &right_f32, sizeof f32));
  free(text);
  return 0;
}
