/* SPDX-License-Identifier: MIT
 *
 * Checks whether the tensor cores of a device add up as the prefilters assume (gpu/shared/halves.h), once, when the
 * device is opened. NVIDIA does not document how they add. Published measurements say that products of halves are
 * exact; that several products are added to the sum so far at a time: 4 on compute capability 7, 8 on 8.0 and 16 on
 * 9.0; that all addends are truncated at 2^-23 of the largest, or up to two bits further down; and that sums are
 * truncated:
 *
 *   M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7
 *   (2021) e330.   F. A. Khattak, M. Mikaitis, Accurate models of NVIDIA tensor cores, arXiv:2512.07004 (2025).
 *
 * An H200 adds 16 products at a time and truncates at 2^-25 of the largest: with these values the model in
 * tests/tensor_model.h gives the same bits for all of 256,000 sums (tests/gpu_tensor.c).
 *
 * The prefilters need less: the error of an instruction must be at most ADJI_TENSOR_ERROR * 2^-23 of the sum of all
 * magnitudes. Four groups of four products, each with the sum so far and a truncated result, reach 24. The probe tries
 * the inputs that come nearest to this limit.
 */
#ifndef ADJI_GPU_DEVICE_TENSOR_PROBE_H
#define ADJI_GPU_DEVICE_TENSOR_PROBE_H

#include "core/context.h"
#include "gpu/device/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ADJI_TENSOR_ROWS_A = 16,
  ADJI_TENSOR_COLUMNS_B = 8,
  ADJI_TENSOR_DEPTH = 16,
  ADJI_TENSOR_ERROR = 24,
  ADJI_COMPUTED_NANS = 8
};

/* How tensor cores add up. */
typedef struct adji_tensor_facts {
  bool holds;        /* they add as the prefilters need it */
  uint32_t bits;     /* addends are truncated at 2^-bits of the largest */
  uint32_t together; /* products added at a time */
  double worst;      /* the largest error seen, where the prefilters allow ADJI_TENSOR_ERROR */
} adji_tensor_facts;

/* c + steps * ab, one instruction after the other. a and b are bits of halves. */
typedef struct adji_tensor_case {
  uint16_t a[ADJI_TENSOR_ROWS_A][ADJI_TENSOR_DEPTH], b[ADJI_TENSOR_COLUMNS_B][ADJI_TENSOR_DEPTH];
  float c[ADJI_TENSOR_ROWS_A][ADJI_TENSOR_COLUMNS_B];
  uint32_t steps;
} adji_tensor_case;

typedef struct adji_tensor_answer {
  float d[ADJI_TENSOR_ROWS_A][ADJI_TENSOR_COLUMNS_B];
} adji_tensor_answer;

/* Computes the cases on the current device, and the bits of NaNs that arise in f32 in several ways. */
ADJI_OP adj_status adji_tensor_run(const adji_tensor_case *cases, uint32_t count, adji_tensor_answer *out,
                                   uint32_t nans[ADJI_COMPUTED_NANS]);

/* Probes the current device, whose number is for messages. Fails if the device is not usable at all: if a computed NaN
 * is not the 0x7fffffff that the PTX manual promises and kernels rely on. */
adj_status adji_tensor_probe(int device, adji_tensor_facts *out);

/* The bits of x as a half; x must be representable as one. */
uint16_t adji_half_bits(double x);
double adji_half_value(uint16_t bits);

#ifdef __cplusplus
}
#endif
#endif
