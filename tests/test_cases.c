/* SPDX-License-Identifier: MIT
 *
 * Every case with every algorithm, instruction set and number of threads. Orders, distances and settings of the planner
 * take turns, so that each case meets all of them. Whole results are compared.
 *
 *   test_cases [--quick] [--all] [PART PARTS]
 *
 * A case runs with every fifth combination, a large one with every ninth. --quick: only the small cases, with every
 * twenty-third combination, and every third case on the reference backend. --all: every combination, with all orders,
 * distances and tunings instead of turns. PART of PARTS: several processes can share the work.
 */
#include <stdio.h>
#include <stdlib.h>

#include "machine.h"

static struct {
  bool quick, all;
  uint32_t part, parts;
} asked = {false, false, 0, 1};

/* Runs a case with one context and algorithm, and with one combination of the rest, or all. */
static void run_combinations(machine *m, adj_ctx *ctx, const join_case *c, const join_answer *answer,
                             const char *algorithm, uint32_t turn) {
  join_setup setup = {.backend = ADJ_BACKEND_CPU, .algorithm = algorithm};
  const char *const *tunings;
  int tuning_count = tunings_for(c, &tunings);
  if (!asked.all) {
    setup.order = (adj_order)(turn % 3);
    setup.distances = turn / 3 % 2;
    setup.tuning = tunings[turn % (uint32_t)tuning_count];
    machine_compare(m, ctx, c, answer, &setup);
    return;
  }
  for (int order = 0; order < 3; order++)
    for (int distances = 0; distances < 2; distances++)
      for (int tuning = 0; tuning < tuning_count; tuning++) {
        setup.order = (adj_order)order;
        setup.distances = distances;
        setup.tuning = tunings[tuning];
        machine_compare(m, ctx, c, answer, &setup);
      }
}

static void run_case(machine *m, const join_case *c, uint32_t number) {
  join_answer answer;
  assert_true(answer_case(c, &answer));
  const char *const *algorithms;
  int algorithm_count = algorithms_for(c, &algorithms);
  uint32_t turn = number * 7, stride = asked.quick ? 23 : c->quick ? 5 : 9; /* large cases take long */
  for (int i = 0; i < m->context_count; i++)
    for (int a = 0; a < algorithm_count; a++, turn++) {
      if (turn % stride && !asked.all) continue;
      run_combinations(m, m->contexts[i], c, &answer, algorithms[a], turn);
    }
  join_setup automatic = {.backend = ADJ_BACKEND_AUTO, .order = (adj_order)(number % 3), .distances = true};
  machine_compare(m, context_at(m, number), c, &answer, &automatic);
  join_setup reference = {.backend = ADJ_BACKEND_REFERENCE, .order = (adj_order)(number % 3), .distances = number % 2};
  bool with_reference = c->quick && (!asked.quick || number % 3 == 0); /* the reference takes longest */
  if (with_reference) machine_compare(m, context_at(m, number), c, &answer, &reference);
  answer_free(&answer);
}

static void every_case_matches_the_reference(void **state) {
  (void)state;
  machine m;
  machine_start(&m);
  m.partial = asked.parts > 1;
  for (uint32_t i = asked.part; i < case_count(); i += asked.parts) {
    join_case c;
    assert_true(case_build(i, &c));
    if (c.quick || !asked.quick) run_case(&m, &c, i);
    case_free(&c);
  }
  machine_stop(&m);
}

int main(int argc, char **argv) {
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    if (!strcmp(argv[at], "--quick")) asked.quick = true;
    if (!strcmp(argv[at], "--all")) asked.all = true;
  }
  if (at + 1 < argc) {
    asked.part = (uint32_t)strtoul(argv[at], NULL, 10);
    asked.parts = (uint32_t)strtoul(argv[at + 1], NULL, 10);
  }
  if (!asked.parts || asked.part >= asked.parts) {
    fprintf(stderr, "usage: test_cases [--quick] [--all] [PART PARTS]\n");
    return 2;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_matches_the_reference)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
