/* SPDX-License-Identifier: MIT
 *
 * What test_cases varies: contexts with every instruction set and several numbers of threads, algorithms, and settings
 * of the planner. A join that fails or gives a wrong result is a failure of the test. A setting may be refused if it
 * does not fit the case. Refusals are counted, and there may not be many.
 */
#ifndef ADJOIN_TEST_MACHINE_H
#define ADJOIN_TEST_MACHINE_H

#include <math.h>
#include <stdio.h>

#include "check.h"
#include "compare.h"
#include "tunings.h"

enum { MOST_CONTEXTS = 16, MOST_THREADS = 3 };

/* How many joins with a tuning were compared, and how many the library refused. */
typedef struct tuning_use {
  uint64_t compared, refused;
  char reason[200]; /* why the first one was refused */
} tuning_use;

typedef struct machine {
  adj_ctx *contexts[MOST_CONTEXTS]; /* one per instruction set and 1 to MOST_THREADS threads */
  int context_count;
  tuning_use uses[2][MOST_TUNINGS]; /* of range joins and of kNN joins */
  uint64_t compared, refused, wrong;
  bool partial; /* only a part of the cases is run: some tunings may fit none of them */
} machine;

static inline void machine_start(machine *m) {
  memset(m, 0, sizeof *m);
  for (uint32_t i = 0; adj_isa_name(i); i++)
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
      assert_true(m->context_count < MOST_CONTEXTS);
      m->contexts[m->context_count++] = context_of(threads, adj_isa_name(i));
    }
}

/* One of the contexts; number may be any number. */
static inline adj_ctx *context_at(const machine *m, uint64_t number) {
  return m->context_count > 0 ? m->contexts[number % (uint64_t)m->context_count] : NULL;
}

static inline const char *name_or(const char *name, const char *otherwise) {
  return name ? name : otherwise;
}

static inline void print_failure(const join_case *c, const adj_ctx *ctx, const join_setup *setup, const char *message) {
  static const char *const orders[] = {"id", "distance", "any"};
  print_message(
      "%s\n    %u-D, %llu x %llu points, k %u, radius %a, metric %d, p %g, box %g, flags %u; backend %d, %s, %s, %u "
      "threads, order "
      "%s, tuning %s%s\n    %s\n",
      c->name, c->left.dim, (unsigned long long)c->left.count, (unsigned long long)c->right.count, c->k, c->radius,
      (int)c->metric, c->p, c->box_count ? c->box[0] : 0, c->flags, (int)setup->backend,
      name_or(setup->algorithm, "auto"), adj_ctx_isa(ctx), adj_ctx_threads(ctx), orders[setup->order],
      name_or(setup->tuning, "none"), setup->distances ? ", with distances" : "", message);
}

/* Counts the outcome of a join for its tuning. A refusal may be due to the algorithm, if one is given. */
static inline void count_use(machine *m, const join_case *c, const join_setup *setup, bool refused,
                             const char *reason) {
  const char *const *tunings;
  int count = tunings_for(c, &tunings);
  for (int i = 0; i < count; i++) {
    if (tunings[i] != setup->tuning || (refused && setup->algorithm)) continue;
    tuning_use *use = &m->uses[c->k > 0][i];
    if (refused && !use->refused++) snprintf(use->reason, sizeof use->reason, "%s", reason);
    use->compared += !refused;
  }
}

/* Compares a case with its answer, and counts it. If the tuning is refused, compares the case without it. Returns false
 * if the join fails or its result is wrong. */
static inline bool machine_compare(machine *m, adj_ctx *ctx, const join_case *c, const join_answer *answer,
                                   const join_setup *setup) {
  enum { MOST_PRINTED = 20 };
  char message[512] = "";
  join_verdict verdict = compare_case(ctx, c, answer, setup, message, sizeof message);
  bool refused = verdict == JOIN_REFUSED, asked = setup->algorithm || setup->tuning;
  if (refused && !asked) verdict = JOIN_DIFFERS; /* the cores can join every case */
  if (verdict == JOIN_DIFFERS) {
    if (m->wrong++ < MOST_PRINTED) print_failure(c, ctx, setup, message);
    return false;
  }
  count_use(m, c, setup, refused, message);
  ++*(refused ? &m->refused : &m->compared);
  if (!refused || !setup->tuning) return true;
  join_setup plain = *setup;
  plain.tuning = NULL;
  return machine_compare(m, ctx, c, answer, &plain);
}

/* Whether a tuning needs something that this CPU lacks in all its instruction sets. */
static inline bool is_absent(const char *tuning, bool nearest) {
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = uniform(ctx, 100, 16);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = nearest ? ADJ_KNN : ADJ_RANGE;
  spec.k = nearest;
  spec.radius = nearest ? INFINITY : 1;
  spec.tuning = tuning;
  adj_plan *plan = NULL;
  bool absent = adj_plan_create(ctx, &spec, set, NULL, &plan) && strstr(adj_last_error(), "this CPU");
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
  return absent;
}

/* In the whole list of cases no tuning may be refused every time, and at most a third of all joins may be refused. With
 * a sanitizer there are few random joins, so a few refusals do not count. */
static inline void check_refusals(const machine *m) {
  enum { ENOUGH = 5 };
  int unused = 0;
  for (int kind = 0; kind < 2; kind++)
    for (int i = 0; i < (kind ? NEAREST_TUNING_COUNT : RANGE_TUNING_COUNT); i++) {
      const tuning_use *use = &m->uses[kind][i];
      const char *tuning = kind ? NEAREST_TUNINGS[i] : RANGE_TUNINGS[i];
      if (use->compared || use->refused < ENOUGH || is_absent(tuning, kind)) continue;
      print_message("every %s join refuses tuning \"%s\": %s\n", kind ? "kNN" : "range", name_or(tuning, "none"),
                    use->reason);
      unused++;
    }
  print_message("%llu joins compared, %llu refused, %llu wrong\n", (unsigned long long)m->compared,
                (unsigned long long)m->refused, (unsigned long long)m->wrong);
  assert_int_equal(m->wrong, 0);
  assert_true(!unused || m->partial);
  assert_true(m->compared > 0 && m->refused <= ENOUGH + m->compared / 2);
}

/* Checks the refusals, and that the runs gave back all their memory. */
static inline void machine_stop(machine *m) {
  check_refusals(m);
  for (int i = 0; i < m->context_count; i++) {
    assert_int_equal(adj_ctx_memory_used(m->contexts[i]), 0);
    adj_ctx_destroy(m->contexts[i]);
  }
}

#endif
