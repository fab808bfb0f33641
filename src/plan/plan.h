/* SPDX-License-Identifier: MIT
 *
 * The plan: a join with everything decided and its index built.
 */
#ifndef ADJI_PLAN_H
#define ADJI_PLAN_H

#include "plan/range_choice.h"

/* What was decided, with the reason in words, and what is expected. */
typedef struct adji_choice {
  adj_backend backend;
  adji_algorithm algorithm;
  char reason[256];
  bool single; /* collect evaluates each pair once */
} adji_choice;

struct adj_plan {
  adj_ctx *ctx;
  const adj_dataset *left, *right; /* the caller's; the same for a self-join */
  bool self_join;
  adj_join_spec spec; /* algorithm, tuning and box are not kept */
  adji_tuning tuning;
  uint32_t backends; /* those that the settings leave to choose from */
  adji_join join;    /* of sets that may be derived from left and right */
  adji_measure measure;
  void *box;                                 /* lengths of the measure's box, or NULL */
  adj_dataset *derived_left, *derived_right; /* NULL where the caller's are joined    */
  adji_choice choice;
  adji_range_question question; /* of a range join, on cores                               */
  adji_device_choice device;    /* of a GPU that does a range join, alone or beside cores  */
  adji_engine engine;
  uint64_t cells;        /* of the right index, that are not empty               */
  uint64_t device_chunk; /* points that the device joins at a time; 0: all       */
  double estimated_pairs, estimated_candidates, estimated_seconds;
  uint64_t sampled;
  double plan_s, index_s;
  uint64_t plan_peak; /* bytes held at most while the plan was made */
  bool ran;
  adj_stats last; /* of the last run */
  adj_worker last_workers[1 + ADJI_MOST_DEVICES];
};

/* Bytes of one entry of the result. */
static inline uint64_t adji_plan_entry_bytes(const adj_plan *plan) {
  return 4 + (plan->join.style.distances ? adji_type_size(plan->left->type) : 0);
}

#endif
