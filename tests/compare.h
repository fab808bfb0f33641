/* SPDX-License-Identifier: MIT
 *
 * Runs a case through the library in every way a result can be had (counted, collected, streamed)
 * and compares the whole of each with the reference. Uses adjoin.h alone.
 */
#ifndef ADJOIN_COMPARE_H
#define ADJOIN_COMPARE_H

#include "cases.h"

/* How to run it. */
typedef struct join_setup {
  adj_backend backend;
  const char *algorithm; /* as in adj_join_spec, as tuning */
  const char *tuning, *system;
  adj_order order;
  bool distances;
  bool kept;            /* on an index that has answered other questions; ignores tuning */
  bool may_lack_memory; /* a join that runs out of memory counts as refused, not as different */
} join_setup;

typedef enum join_verdict {
  JOIN_SAME,
  JOIN_DIFFERS, /* or failed where it should not have                                              */
  JOIN_REFUSED  /* ADJ_E_UNSUPPORTED; ADJ_E_ARGUMENT, if an algorithm or a tuning was asked for; no memory */
} join_verdict;

/* The reference's answer to a case, in both orders. The answer to a kNN join is in by_id alone. */
typedef struct join_answer {
  reference_rows by_id, by_distance;
} join_answer;

bool answer_case(const join_case *c, join_answer *out); /* false: out of memory */
void answer_free(join_answer *answer);

/* A radius for each left point: near the radius of the case or, if that is infinite, near the distances found. The
 * caller frees them. Returns NULL if memory runs out. */
double *case_radii(const join_case *c, const join_answer *answer);

/* message (of at least 200 bytes) receives what differs, or why it was refused. */
join_verdict compare_case(adj_ctx *ctx, const join_case *c, const join_answer *answer, const join_setup *setup,
                          char *message, size_t capacity);

#endif
