/* SPDX-License-Identifier: MIT
 *
 * Inside the generators. Random numbers are a function of (seed, row, column) only, so any thread can make any row. The
 * mathematics gives the same bits on every machine.
 */
#ifndef ADJI_GENERATE_H
#define ADJI_GENERATE_H

#include <stdint.h>

#include "data/dataset.h"

struct adji_generator;

typedef struct adji_generator_kind {
  const char *name;
  void (*row)(const struct adji_generator *g, uint64_t row);     /* writes one row */
  adj_status (*prepare)(adj_ctx *ctx, struct adji_generator *g); /* before the first row; NULL: nothing to do */
  uint32_t dims[2];                                              /* the fewest and the most; 0: any number */
} adji_generator_kind;

/* One set being made. */
typedef struct adji_generator {
  const adji_generator_kind *kind;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  uint64_t key;       /* the seed, mixed                                                     */
  double lambda;      /* expo                                                                */
  uint64_t side;      /* lattice: points per dimension                                       */
  uint32_t clusters;  /* clusters, duplicates: centres                                       */
  double *cumulative; /* clusters: weight of the centres 0 .. c, clusters entries, else NULL */
  double *axes;       /* flat, cooctexture, songs: numbers for each dimension, else NULL     */
  char *data;         /* count rows of dim values of type, packed                            */
} adji_generator;

/* The kind of this name, or NULL. adji_paper_kind knows only the imitations of the papers' real sets. */
const adji_generator_kind *adji_generator_find(const char *name);
const adji_generator_kind *adji_paper_kind(const char *name);

/* The meaning of a published name: generator, dim and count. */
typedef struct adji_published_set {
  const char *generator;
  uint64_t count;
  uint32_t dim;
} adji_published_set;

/* A name such as "Expo6D10M", or that of a real set such as "GAIA". False if the name is none of these. adji_paper_set
 * knows only the real sets. */
bool adji_published_find(const char *name, adji_published_set *set);
bool adji_paper_set(const char *name, adji_published_set *set);

/* ln x of a positive, normal x, within 2 ulp. */
double adji_ln(double x);

/* A bijection of 64 bits in which every input bit reaches every output bit (the finaliser of
 * SplitMix64; Steele, Lea and Flood 2014). */
static inline uint64_t adji_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Random bits. Numbers of different counters or keys are independent, as far as a join can notice. */
static inline uint64_t adji_random(uint64_t key, uint64_t counter) {
  return adji_mix(key + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

#endif
