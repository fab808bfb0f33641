/* SPDX-License-Identifier: MIT
 *
 * The base of every .cu file: the open device, checked calls, memory with a limit.
 */
#ifndef ADJI_GPU_DEVICE_DEVICE_CUH
#define ADJI_GPU_DEVICE_DEVICE_CUH

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "core/atomic.h" /* before the C headers: it has templates */

extern "C" {
#include "gpu/device/device.h"
}

enum { ADJI_WARP = 32 };

/* A block of device memory, allocated in the order of a stream. */
typedef struct adji_block {
  void *at;
  uint64_t bytes;
} adji_block;

/* Freed blocks that are kept for reuse: see device_blocks.cu. */
enum { ADJI_KEPT_BLOCKS = 48 };

/* A pinned buffer: see staging.h. The copies of each half have an event. */
typedef struct adji_stage {
  char *at;
  cudaEvent_t copied[2];
} adji_stage;

struct adji_gpu : adji_gpu_base {
  int block_shared_bytes; /* shared memory that a block can have at most */
  cudaStream_t compute, copy, side;
  cudaMemPool_t pool;
  adji_block kept[ADJI_KEPT_BLOCKS]; /* the oldest first */
  uint32_t kept_count;
  uint64_t kept_bytes;
  /* Small results of kernels: computed in d_answers, then fetched to `answers`, which is pinned. */
  uint64_t *answers, *d_answers;
  cudaEvent_t marks[ADJI_MARKS], joint, forked; /* see adji_gpu_mark; joint and forked order streams */
  bool marked[ADJI_MARKS];
  adji_stage *staging; /* one for each lane, made on first use */
  uint32_t staging_count;
  struct adji_cublas *cublas; /* see cublas.cuh; NULL before its first use, as is close_cublas */
  void (*close_cublas)(adji_gpu *gpu);
};

/* The index of each answer. */
enum adji_answer {
  ADJI_ANSWER_CELLS, /* non-empty cells of an index */
  ADJI_ANSWER_ITEMS, /* points and images */
  ADJI_ANSWER_CACHE, /* of the count cache, requested by kernels */
  ADJI_ANSWER_LONG,  /* rows that are too long for a block to sort */
  ADJI_ANSWER_HEAD,  /* the next query in the queue */
  ADJI_ANSWER_PAIRS, /* entries of a kNN result, padding not counted */
  /* Faults of the given points: see derive.cu. */
  ADJI_ANSWER_NOT_FINITE,
  ADJI_ANSWER_FAULT,
  /* Totals that every warp adds to, each spread over ADJI_SPREAD places: pairs found; candidates compared; rows whose
   * length differs from the count; the longest row; slots, which are the lanes of all warp-wide comparisons, busy or
   * not. */
  ADJI_ANSWER_SPREAD = 16,
  ADJI_SPREAD = 64,
  ADJI_ANSWERS = ADJI_ANSWER_SPREAD + 5 * ADJI_SPREAD,
  ADJI_KEPT_ANSWERS = 4
};

typedef struct adji_totals {
  uint64_t pairs, candidates, broken, longest, slots;
} adji_totals;

/* Fails the call if a test wants that. */
static inline cudaError_t adji_cuda_turn(adji_gpu *gpu) {
  return adji_gpu_turn_fails(gpu, false) ? cudaErrorUnknown : cudaSuccess;
}

/* The status and message of a failed call. call is its source text; the message has the function's name. */
adj_status adji_cuda_fail(adji_gpu *gpu, cudaError_t error, const char *call);

/* Makes a CUDA call; on failure, returns its status from the enclosing function. */
#define ADJI_CUDA(gpu, call)                                                        \
  do {                                                                              \
    cudaError_t adji_error_ = adji_cuda_turn(gpu);                                  \
    if (adji_error_ == cudaSuccess) adji_error_ = (call);                           \
    if (adji_error_ != cudaSuccess) return adji_cuda_fail(gpu, adji_error_, #call); \
  } while (0)

/* Checks a kernel launch; name is the kernel's name. */
#define ADJI_LAUNCHED(gpu, name)                                                             \
  do {                                                                                       \
    cudaError_t adji_error_ = adji_cuda_turn(gpu);                                           \
    if (adji_error_ == cudaSuccess) adji_error_ = cudaGetLastError();                        \
    if (adji_error_ != cudaSuccess) return adji_cuda_fail(gpu, adji_error_, name " kernel"); \
  } while (0)

/* Lets a kernel use all the dynamic shared memory that a block of the device can have. The limit is one value per
 * kernel and device in the whole process: if each launch set it to its own need, it could lower it for a launch of
 * another thread. */
#define ADJI_ALLOW_SHARED(gpu, ...)                                                                             \
  do {                                                                                                          \
    cudaFuncAttributes adji_attributes_;                                                                        \
    ADJI_CUDA(gpu, cudaFuncGetAttributes(&adji_attributes_, __VA_ARGS__));                                      \
    int adji_most_ = (gpu)->block_shared_bytes - static_cast<int>(adji_attributes_.sharedSizeBytes);            \
    ADJI_CUDA(gpu, cudaFuncSetAttribute(__VA_ARGS__, cudaFuncAttributeMaxDynamicSharedMemorySize, adji_most_)); \
  } while (0)

/* The side stream runs work in parallel to `stream`. fork: the side stream waits for the work on `stream` so far.
 * rejoin: later work on `stream` waits for the side stream. status is that of the work in between; rejoin waits in any
 * case, and returns status unless it fails itself. */
adj_status adji_gpu_fork(adji_gpu *gpu, cudaStream_t stream);
adj_status adji_gpu_rejoin(adji_gpu *gpu, cudaStream_t stream, adj_status status);

void adji_stage_free(adji_stage *stage);

/* clear sets answers to 0; fetch copies all of them to the host, and waits for the stream. */
adj_status adji_answer_clear(adji_gpu *gpu, cudaStream_t stream, int which, int many);
adj_status adji_answers_fetch(adji_gpu *gpu, cudaStream_t stream);

/* The totals of ADJI_ANSWERS numbers on the host; the totals of the answers fetched last. */
adji_totals adji_totals_of(const uint64_t *answers);
adji_totals adji_answer_totals(const adji_gpu *gpu);

/* Saves the answers as they are at this point of the stream, without waiting. There is room for ADJI_KEPT_ANSWERS
 * copies; read one once the stream has passed that point. */
adj_status adji_answers_keep(adji_gpu *gpu, cudaStream_t stream, uint32_t which);
/* The same for ADJI_ANSWERS numbers elsewhere in device memory. */
adj_status adji_answers_keep_from(adji_gpu *gpu, cudaStream_t stream, const void *from, uint32_t which);
adji_totals adji_totals_kept(const adji_gpu *gpu, uint32_t which);
uint64_t adji_answer_kept(const adji_gpu *gpu, uint32_t which, int answer);

static inline unsigned long long *adji_answer_at(adji_gpu *gpu, int which) {
  return reinterpret_cast<unsigned long long *>(gpu->d_answers + which);
}

#ifdef __CUDACC__
/* Sums a number over the warp and adds it to one of the answer's places. A single place would serialise all warps. */
static __device__ __forceinline__ void adji_answer_add(unsigned long long *answer, unsigned long long value,
                                                       uint32_t lane) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, step);
  if (lane == 0 && value) atomicAdd(answer + blockIdx.x % ADJI_SPREAD, value);
}
#endif

/* ADJ_E_DEVICE_MEMORY beyond the limit, or when the device has no more. what: named in the message. */
adj_status adji_block_get(adji_gpu *gpu, cudaStream_t stream, uint64_t bytes, const char *what, adji_block *out);
void adji_block_free(adji_gpu *gpu, cudaStream_t stream, adji_block *block);
static inline void adji_blocks_free(adji_gpu *gpu, std::initializer_list<adji_block *> blocks) {
  for (adji_block *block : blocks)
    adji_block_free(gpu, gpu->compute, block);
}

/* Frees the blocks that are kept for reuse. */
void adji_blocks_forget(adji_gpu *gpu);

/* Makes sure that *block, a workspace, has at least this many bytes; its contents are lost when it grows. */
adj_status adji_block_reserve(adji_gpu *gpu, cudaStream_t stream, uint64_t bytes, adji_block *block);

template <class T>
static inline T *adji_at(const adji_block &block) {
  return static_cast<T *>(block.at);
}

static inline uint32_t adji_blocks_for(uint64_t items, uint32_t each) {
  return static_cast<uint32_t>((items + each - 1) / each);
}

#endif
