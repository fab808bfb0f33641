/* SPDX-License-Identifier: MIT
 *
 * cuBLAS at run time: the library, its functions, a handle for a device.
 *
 * The bounds of gpu/brute/prefilter_gemm.h are for products in the arithmetic of the type. Environment variables can
 * make cuBLAS compute with fewer bits instead, and its documentation does not say whether they override a handle's math
 * mode. No check of the result could find a pair that such products dropped. So there are two safeguards: handles are
 * pedantic, which is documented as "the prescribed precision and standardized arithmetic for all phases of
 * calculations", and cuBLAS is not used where a variable asks for anything else.
 */
#include "gpu/device/cublas.cuh"

#include <cstdlib>
#include <cstring>

#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#include <dlfcn.h>

#include "core/library.h"

/* The functions that are used. */
#define FUNCTIONS(X)                      \
  X(create, cublasCreate_v2)              \
  X(destroy, cublasDestroy_v2)            \
  X(set_stream, cublasSetStream_v2)       \
  X(set_workspace, cublasSetWorkspace_v2) \
  X(set_math_mode, cublasSetMathMode)     \
  X(sgemm, cublasSgemm_v2)                \
  X(dgemm, cublasDgemm_v2)                \
  X(status_string, cublasGetStatusString)

/* The library stays loaded: its handles and the driver refer to each other. */
struct adji_cublas {
  cublasHandle_t handle;
#define DECLARE(member, name) decltype(&name) member;
  FUNCTIONS(DECLARE)
};

namespace {

/* The newest first; both have the functions above. NEEDED: the library that each depends on. */
const char *const LIBRARIES[] = {"libcublas.so.13", "libcublas.so.12"};
const char *const NEEDED[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

void *load_library() {
  for (int i = 0; i < 2; i++)
    if (void *library = adji_library_open(LIBRARIES[i], NEEDED[i])) return library;
  return NULL;
}

adj_status find_functions(void *library, adji_cublas *to) {
#define FIND(member, name)                                               \
  to->member = reinterpret_cast<decltype(&name)>(dlsym(library, #name)); \
  if (!to->member) return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=gemm: libcublas has no " #name);
  FUNCTIONS(FIND)
  return ADJ_OK;
}

adj_status fail(adji_gpu *gpu, cublasStatus_t error, const char *name) {
  adj_status status = error == CUBLAS_STATUS_ALLOC_FAILED ? ADJ_E_DEVICE_MEMORY : ADJ_E_DEVICE;
  return adji_fail(status, "device %d: %s: %s", gpu->device, name, gpu->cublas->status_string(error));
}

/* Makes a cuBLAS call; on failure, returns its status from the enclosing function. */
#define ADJI_CUBLAS(gpu, name, call)                                               \
  do {                                                                             \
    cudaError_t adji_turn_ = adji_cuda_turn(gpu);                                  \
    if (adji_turn_ != cudaSuccess) return adji_cuda_fail(gpu, adji_turn_, name);   \
    cublasStatus_t adji_error_ = (call);                                           \
    if (adji_error_ != CUBLAS_STATUS_SUCCESS) return fail(gpu, adji_error_, name); \
  } while (0)

/* Pedantic: no tf32, and no other arithmetic than that of the type. */
adj_status make_handle(adji_gpu *gpu) {
  adji_cublas *c = gpu->cublas;
  ADJI_CUBLAS(gpu, "cublasCreate", c->create(&c->handle));
  ADJI_CUBLAS(gpu, "cublasSetMathMode", c->set_math_mode(c->handle, CUBLAS_PEDANTIC_MATH));
  return ADJ_OK;
}

void close_cublas(adji_gpu *gpu) {
  if (!gpu->cublas) return;
  if (gpu->cublas->handle) gpu->cublas->destroy(gpu->cublas->handle);
  free(gpu->cublas);
  gpu->cublas = NULL;
}

adj_status open_cublas(adji_gpu *gpu) {
  void *library = load_library();
  if (!library)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=gemm needs cuBLAS: %s and %s are not found (%s)",
                     LIBRARIES[0], LIBRARIES[1], dlerror());
  gpu->cublas = static_cast<adji_cublas *>(calloc(1, sizeof *gpu->cublas));
  if (!gpu->cublas) return adji_fail(ADJ_E_MEMORY, "no memory for a handle of cuBLAS");
  adj_status status = find_functions(library, gpu->cublas);
  if (!status) status = make_handle(gpu);
  gpu->close_cublas = close_cublas;
  if (status) close_cublas(gpu);
  return status;
}

}  // namespace

/* Refuses environment variables that ask for other arithmetic, or set how it is done: f32 from three bf16 or by tf32,
 * f64 from integers of any number of bits. A variable that is 0 or empty is off. */
static adj_status check_environment() {
  static const char *const ASKING[] = {"CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION",
                                       "CUBLAS_EMULATION_STRATEGY", "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT",
                                       "NVIDIA_TF32_OVERRIDE"};
  for (const char *name : ASKING) {
    const char *value = getenv(name);
    if (value && *value && strcmp(value, "0"))
      return adji_fail(
          ADJ_E_UNSUPPORTED,
          "tuning: prefilter=gemm: %s=%s in the environment makes cuBLAS compute with other precision than "
          "the proof needs: unset it, or use another prefilter",
          name, value);
  }
  return ADJ_OK;
}

/* Setting the stream resets the workspace, so the stream comes first. */
adj_status adji_cublas_begin(adji_gpu *gpu, const adji_block *room) {
  adj_status status = check_environment();
  if (!status && !gpu->cublas) status = open_cublas(gpu);
  if (status) return status;
  adji_cublas *c = gpu->cublas;
  ADJI_CUBLAS(gpu, "cublasSetStream", c->set_stream(c->handle, gpu->compute));
  ADJI_CUBLAS(gpu, "cublasSetWorkspace", c->set_workspace(c->handle, room->at, room->bytes));
  return ADJ_OK;
}

/* cuBLAS is column-major: the row-major matrix here is a matrix of columns by rows to cuBLAS, and packed points are its
 * columns. The factors -1 and 0 cause no rounding. */
adj_status adji_cublas_multiply(adji_gpu *gpu, const adji_products *job) {
  adji_cublas *c = gpu->cublas;
  int m = static_cast<int>(job->columns), n = static_cast<int>(job->rows), k = static_cast<int>(job->width);
  int stride = static_cast<int>(job->stride);
  if (job->type == ADJ_F64) {
    double minus = -1, none = 0;
    ADJI_CUBLAS(gpu, "cublasDgemm",
                c->dgemm(c->handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &minus, static_cast<const double *>(job->y), k,
                         static_cast<const double *>(job->x), k, &none, static_cast<double *>(job->values), stride));
  } else {
    float minus = -1, none = 0;
    ADJI_CUBLAS(gpu, "cublasSgemm",
                c->sgemm(c->handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &minus, static_cast<const float *>(job->y), k,
                         static_cast<const float *>(job->x), k, &none, static_cast<float *>(job->values), stride));
  }
  return ADJ_OK;
}

#else

adj_status adji_cublas_begin(adji_gpu *, const adji_block *) {
  return adji_fail(ADJ_E_UNSUPPORTED,
                   "tuning: prefilter=gemm needs cuBLAS, whose header was not there when this library was built");
}

adj_status adji_cublas_multiply(adji_gpu *, const adji_products *) {
  return ADJ_E_UNSUPPORTED; /* never called: adji_cublas_begin has failed */
}

#endif
