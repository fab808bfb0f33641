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
  bool kept;            /* on an index that has answered other questions; tuning is not used */
  bool may_lack_memory; /* a join that fails for want of memory is refused; others do not differ */
} join_setup;

typedef enum join_verdict {
  JOIN_SAME,
  JOIN_DIFFERS, /* or failed where it should not have                                              */
  JOIN_REFUSED  /* ADJ_E_UNSUPPORTED; ADJ_E_ARGUMENT, if an algorithm or a tuning was asked for; no memory */
} join_verdict;

/* The reference's answer to a case, in both orders. That of a kNN join has one, by_id. */
typedef struct join_answer {
  reference_rows by_id, by_distance;
} join_answer;

bool answer_case(const join_case *c, join_answer *out); /* false: out of memory */
void answer_free(join_answer *answer);

/* A radius for each left point: around that of the case; or, for bounds that are infinite, around those that are found.
 * The caller frees them; NULL: out of memory. */
double *case_radii(const join_case *c, const join_answer *answer);

/* message (of at least 200 bytes) receives what differs, or why it was refused. */
join_verdict compare_case(adj_ctx *ctx, const join_case *c, const join_answer *answer, const join_setup *setup,
                          char *message, size_t capacity);

#endif
