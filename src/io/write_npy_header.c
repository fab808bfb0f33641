/* SPDX-License-Identifier: MIT
 *
 * The header of a .npy file.
 */
#include "io/write_npy_header.h"

#include <stdio.h>
#include <string.h>

size_t adji_npy_header(char *to, const char *descr, const char *shape) {
  char text[ADJI_NPY_HEADER];
  int length = snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': %s, }", descr, shape);
  size_t total = ((size_t)length + 10 + 1 + 63) / 64 * 64; /* magic and sizes, text, blanks, line end */
  memset(to, ' ', total);
  memcpy(to, "\x93NUMPY\x01\x00", 8); /* format 1.0 */
  to[8] = (char)((total - 10) & 255);
  to[9] = (char)((total - 10) >> 8);
  memcpy(to + 10, text, (size_t)length);
  to[total - 1] = '\n';
  return total;
}
