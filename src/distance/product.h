/* SPDX-License-Identifier: MIT
 *
 * Blocked products of sketches (index/sketch.h): many queries with a tile of candidates, and which pairs
 * may be close. A filter of brute force; what passes is decided by the canonical distance.
 *
 * A sketch is a row of words of 4 bytes, either four codes (8-bit integers) or one f32. Candidates lie in
 * blocks of 16: word g of the 16 points of a block is 64 bytes, and the words follow each other. With
 * P the product of a query and a candidate, C = P - half is compared with the query's least, where half
 * is half the candidate's squared norm: so C grows as the distance falls. What passes is appended to the
 * query's keys as value << 32 | position, where value = max(base - 2C, 0) orders as the distance of the
 * sketches does, and ties go to the lower position.
 *
 *   codes   queries are signed, candidates unsigned (the code + 128); integers, all of it exact
 *   f32     value holds the bits of a float; rounding is bounded by whoever sets least (index/sketch.c)
 */
#ifndef ADJI_PRODUCT_H
#define ADJI_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  ADJI_BLOCK = 16,          /* candidates of a block                                                 */
  ADJI_TILE_MULTIPLE = 64,  /* tiles begin at multiples of it, and memory ends at one                */
  ADJI_QUERY_MULTIPLE = 32, /* rows of queries can be read, and least and base, up to a multiple     */
  ADJI_PRODUCT_PAD = 16     /* entries of keys that may be written behind the last                   */
};

typedef union adji_value {
  int32_t code;
  float f32;
} adji_value;

/* Least values that no candidate reaches, and that each one does but those marked as absent. */
enum { ADJI_LEAST_NONE = INT32_MAX, ADJI_LEAST_ALL = -(1 << 29), ADJI_ABSENT = -(1 << 30) };

typedef struct adji_product_task {
  const char *queries;
  uint64_t query_stride; /* bytes                                       */
  uint32_t query_count;
  uint32_t groups;         /* words of a sketch                           */
  const char *blocks;      /* of the tile                                 */
  const adji_value *minus; /* - half of each candidate of the tile        */
  uint32_t first, count;   /* position of its first one, and how many     */
  const adji_value *least; /* per query                                   */
  const adji_value *base;
  uint64_t *const *keys; /* per query: entry found[q] is the next       */
  uint32_t *found;
} adji_product_task;

typedef void (*adji_product_fn)(const adji_product_task *task);

/* How many words of a sketch a kernel takes at once: groups must be a multiple of adji_product_words. */
typedef struct adji_product {
  const char *name;
  bool codes;
  adji_product_fn run;
} adji_product;

/* The kernels by name, NULL when this CPU, or the instruction set asked for, has none:
 * "amx", "vnni": codes; "gemm": f32. */
const adji_product *adji_product_for(const char *isa, const char *name);

/* Words of a sketch of dim coordinates, filled up so that every kernel takes them. */
uint32_t adji_product_groups(bool codes, uint32_t dim);

void adji_product_plain(const adji_product_task *task);
#if defined(__x86_64__)
void adji_product_avx2(const adji_product_task *task);
void adji_product_avx512(const adji_product_task *task);
void adji_product_vnni(const adji_product_task *task);
void adji_product_amx(const adji_product_task *task);
bool adji_amx_usable(void); /* asks the system for leave to use the tiles */
#endif

#endif
