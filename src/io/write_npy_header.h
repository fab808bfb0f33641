/* SPDX-License-Identifier: MIT
 *
 * The header of every .npy file and of every member of a .npz file.
 */
#ifndef ADJI_WRITE_NPY_HEADER_H
#define ADJI_WRITE_NPY_HEADER_H

#include <stddef.h>

#include "adjoin.h"

/* The header of a .npy file: descr and shape in Python's notation, "'<i8'" and "(5, 2)". Writes at
 * most ADJI_NPY_HEADER bytes, returns how many: always a multiple of 64. */
enum { ADJI_NPY_HEADER = 256 };
size_t adji_npy_header(char *to, const char *descr, const char *shape);

/* The descr of distances and coordinates. */
static inline const char *adji_npy_real(adj_type type) {
  return type == ADJ_F64 ? "'<f8'" : "'<f4'";
}

#endif
