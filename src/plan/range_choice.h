/* SPDX-License-Identifier: MIT
 *
 * What the choices of a range join are made from, and what comes out: every choose_* is a function from the one to the
 * other.
 */
#ifndef ADJI_RANGE_CHOICE_H
#define ADJI_RANGE_CHOICE_H

#include "gpu/shared/halves.h"
#include "gpu/worker/range.h"
#include "index/codes.h"
#include "plan/tuning.h"

/* A range join, before anything is decided. */
typedef struct adji_range_question {
  const adji_join *join;
  const adji_measure *measure;
  const adji_tuning *tuning;
  uint64_t population; /* points of which the right set is a sample; 0: it is all there is  */
  bool device;         /* for a GPU, which looks up and compares in its own way             */
  bool codes;          /* candidates go through the prefilter of 8-bit codes: cores only    */
} adji_range_question;

/* The grid, and what is known from choosing it. */
typedef struct adji_grid_choice {
  adji_grid grid;          /* no axes: none is worth it                                           */
  adji_halves_plan tensor; /* a GPU's prefilter on tensor cores                                   */
  double cell_population;  /* other points in a point's cell, by a sample                         */
  double candidates;       /* that a query meets, by a sample                                     */
  uint32_t next_dim;       /* the dimension that would be indexed next; one that is where all are */
  char reason[192];
} adji_grid_choice;

/* For the cores. */
typedef struct adji_cores_choice {
  adji_grid_choice grid;
  adji_code_scale code_scale; /* of the prefilter of codes; ctx NULL: none */
} adji_cores_choice;

/* All that a GPU's engine is told. The options point into the choice, and to the question's join and measure. */
typedef struct adji_device_choice {
  adji_algorithm algorithm;
  adji_grid_choice grid;
  adji_gpu_worker_options options;
} adji_device_choice;

/* Points of the right set. */
static inline uint64_t adji_question_points(const adji_range_question *question) {
  return question->population ? question->population : question->join->right->count;
}

#endif
