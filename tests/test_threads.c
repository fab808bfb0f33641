/* SPDX-License-Identifier: MIT
 *
 * The team of threads: every task runs once, and a lane runs one task at a time; failures and cancelling; loops inside
 * loops, of the same and of another team; several callers. Meant for the thread sanitizer.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "check.h"
#include "core/context.h"

enum { TASKS = 2000, MOST_LANES = 8 };

typedef struct tally {
  adji_team *team, *inner;
  atomic_int runs[TASKS];
  atomic_int in_lane[MOST_LANES]; /* tasks running in a lane at this moment */
  atomic_int wrong;
  uint64_t fail_at;
  _Atomic uint64_t started;
  _Atomic uint32_t cancels;
} tally;

static adj_status count_task(void *user, uint64_t task, uint32_t lane) {
  tally *t = user;
  atomic_fetch_add(&t->started, 1);
  if (task >= TASKS || lane >= adji_team_size(t->team)) {
    atomic_fetch_add(&t->wrong, 1);
    return ADJ_OK;
  }
  if (atomic_fetch_add(&t->in_lane[lane], 1) != 0) atomic_fetch_add(&t->wrong, 1);
  atomic_fetch_add(&t->runs[task], 1);
  atomic_fetch_sub(&t->in_lane[lane], 1);
  return ADJ_OK;
}

static void assert_each_once(tally *t, uint64_t count) {
  assert_int_equal(atomic_load(&t->wrong), 0);
  for (uint64_t i = 0; i < TASKS; i++)
    assert_int_equal(atomic_load(&t->runs[i]), i < count);
}

static void each_task_runs_once(void **state) {
  (void)state;
  static const uint64_t counts[] = {0, 1, 2, 3, 7, 100, TASKS};
  for (uint32_t threads = 1; threads <= 5; threads++) {
    adji_team *team = adji_team_create(threads);
    assert_non_null(team);
    assert_int_equal(adji_team_size(team), threads);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
      for (int again = 0; again < 20; again++) {
        tally t = {.team = team};
        must(adji_parallel(team, counts[c], count_task, &t, false));
        assert_each_once(&t, counts[c]);
      }
    adji_team_destroy(team);
  }
  adji_team_destroy(NULL);
}

static adj_status fail_task(void *user, uint64_t task, uint32_t lane) {
  tally *t = user;
  (void)lane;
  atomic_fetch_add(&t->started, 1);
  if (task < t->fail_at) return ADJ_OK;
  return adji_fail(ADJ_E_DATA, "task %llu fails", (unsigned long long)task);
}

/* Tasks are handed out in ascending order. With one lane the first failing task is reported, with more lanes one of the
 * first few. Hardly any task starts after it. */
static void failure_stops_the_loop(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 4; threads++) {
    adji_team *team = adji_team_create(threads);
    for (uint64_t at = 0; at < 50; at += 7) {
      tally t = {.team = team, .fail_at = at};
      must_fail(ADJ_E_DATA, "task ", adji_parallel(team, TASKS, fail_task, &t, false));
      if (threads == 1) {
        assert_int_equal(atomic_load(&t.started), at + 1);
        char wanted[32];
        snprintf(wanted, sizeof wanted, "task %llu fails", (unsigned long long)at);
        assert_string_equal(adj_last_error(), wanted);
      }
      tally fine = {.team = team};
      must(adji_parallel(team, TASKS, count_task, &fine, false)); /* the team can be used again */
      assert_each_once(&fine, TASKS);
    }
    adji_team_destroy(team);
  }
}

static adj_status stopping_task(void *user, uint64_t task, uint32_t lane) {
  tally *t = user;
  (void)lane;
  atomic_fetch_add(&t->started, 1);
  if (task == t->fail_at) atomic_fetch_add(&t->cancels, 1);
  return ADJ_OK;
}

/* Every lane checks whether the call that runs the loop was cancelled. */
static void cancels_end_loops(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 4; threads++) {
    adji_team *team = adji_team_create(threads);
    tally before = {.team = team};
    adji_call outer = adji_call_begin(&before.cancels);
    assert_null(outer.cancels);
    atomic_fetch_add(&before.cancels, 1);
    must_fail(ADJ_CANCELLED, "stopped", adji_parallel(team, TASKS, count_task, &before, true));
    assert_int_equal(atomic_load(&before.started), 0);
    must(adji_parallel(team, TASKS, count_task, &before, false)); /* this loop ignores cancels */
    assert_int_equal(atomic_load(&before.started), TASKS);
    adji_call_set(outer);
    tally during = {.team = team, .fail_at = 5};
    adji_call_begin(&during.cancels);
    must_fail(ADJ_CANCELLED, "stopped", adji_parallel(team, 1000000, stopping_task, &during, true));
    assert_true(atomic_load(&during.started) < 1000000);
    adji_call_set(outer);
    adji_team_destroy(team);
  }
}

/* ---- Calls ------------------------------------------------------------------------------------------ */

static void a_cancel_ends_calls_under_way(void **state) {
  (void)state;
  _Atomic uint32_t cancels = 0, others = 0;
  assert_false(adji_call_cancelled());
  adji_call none = adji_call_begin(&cancels);
  assert_false(adji_call_cancelled());
  atomic_fetch_add(&cancels, 1);
  assert_true(adji_call_cancelled());
  adji_call first = adji_call_begin(&cancels); /* a call inside a call is part of it */
  assert_true(adji_call_cancelled());
  adji_call_set(first);
  first = adji_call_begin(&others); /* a call of another context is independent */
  assert_false(adji_call_cancelled());
  adji_call_set(first);
  assert_true(adji_call_cancelled());
  adji_call_set(none);
  none = adji_call_begin(&cancels); /* begun after the cancel */
  assert_false(adji_call_cancelled());
  adji_call_set(none);
  assert_null(adji_call_current().cancels);
}

static void *tell_cancelled(void *argument) {
  *(bool *)argument = adji_call_cancelled();
  return NULL;
}

static void new_threads_work_for_the_call(void **state) {
  (void)state;
  _Atomic uint32_t cancels = 0;
  adji_call none = adji_call_begin(&cancels);
  for (int cancelled = 0; cancelled < 2; cancelled++) {
    pthread_t thread;
    bool seen = !cancelled;
    atomic_store(&cancels, (uint32_t)cancelled);
    assert_int_equal(adji_thread_start(&thread, tell_cancelled, &seen), 0);
    pthread_join(thread, NULL);
    assert_int_equal(seen, cancelled);
  }
  adji_call_set(none);
}

/* ---- Loops inside loops ----------------------------------------------------------------------------- */

typedef struct nest {
  adji_team *outer, *inner;
  atomic_int tasks, wrong;
  bool fails;
} nest;

typedef struct inner_loop {
  nest *nest;
  uint32_t lane;
} inner_loop;

static adj_status inner_task(void *user, uint64_t task, uint32_t lane) {
  inner_loop *loop = user;
  atomic_fetch_add(&loop->nest->tasks, 1);
  bool same_team = loop->nest->inner == loop->nest->outer;
  if (same_team ? lane != loop->lane : lane >= adji_team_size(loop->nest->inner))
    atomic_fetch_add(&loop->nest->wrong, 1);
  if (loop->nest->fails && task == 3) return adji_fail(ADJ_E_DATA, "the inner task fails");
  return ADJ_OK;
}

static adj_status outer_task(void *user, uint64_t task, uint32_t lane) {
  nest *n = user;
  (void)task;
  inner_loop loop = {n, lane};
  return adji_parallel(n->inner, 10, inner_task, &loop, false);
}

static void loops_nest(void **state) {
  (void)state;
  adji_team *team = adji_team_create(3);
  nest n = {.outer = team, .inner = team};
  must(adji_parallel(team, 100, outer_task, &n, false));
  assert_int_equal(atomic_load(&n.tasks), 1000);
  assert_int_equal(atomic_load(&n.wrong), 0);
  n.fails = true;
  must_fail(ADJ_E_DATA, "inner task", adji_parallel(team, 100, outer_task, &n, false));
  adji_team_destroy(team);
}

/* A callback in a lane of one context may use another context, with fewer threads. */
static void loops_of_another_team_nest(void **state) {
  (void)state;
  adji_team *outer = adji_team_create(4);
  for (uint32_t threads = 1; threads <= 2; threads++) {
    adji_team *inner = adji_team_create(threads);
    nest n = {.outer = outer, .inner = inner};
    must(adji_parallel(outer, 200, outer_task, &n, false));
    assert_int_equal(atomic_load(&n.tasks), 2000);
    assert_int_equal(atomic_load(&n.wrong), 0);
    adji_team_destroy(inner);
  }
  adji_team_destroy(outer);
}

/* ---- Several callers -------------------------------------------------------------------------------- */

static void *call_loops(void *argument) {
  adji_team *team = argument;
  for (int i = 0; i < 50; i++) {
    tally t = {.team = team};
    if (adji_parallel(team, 100, count_task, &t, false)) return "the loop failed";
    for (int task = 0; task < 100; task++)
      if (atomic_load(&t.runs[task]) != 1) return "a task did not run once";
  }
  return NULL;
}

static void callers_take_turns(void **state) {
  (void)state;
  adji_team *team = adji_team_create(3);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, call_loops, team), 0);
  for (int i = 0; i < 4; i++) {
    void *complaint = NULL;
    pthread_join(threads[i], &complaint);
    if (complaint) fail_msg("%s", (const char *)complaint);
  }
  adji_team_destroy(team);
}

static void slices_cover_everything(void **state) {
  (void)state;
  for (uint64_t n = 0; n < 40; n++)
    for (uint64_t count = 1; count < 12; count++) {
      uint64_t expected = 0, smallest = UINT64_MAX, largest = 0;
      for (uint64_t t = 0; t < count; t++) {
        uint64_t begin, end;
        adji_slice(n, count, t, &begin, &end);
        assert_int_equal(begin, expected);
        assert_true(end >= begin);
        expected = end;
        if (end - begin < smallest) smallest = end - begin;
        if (end - begin > largest) largest = end - begin;
      }
      assert_int_equal(expected, n);
      assert_true(largest - smallest <= 1);
    }
}

/* Messages belong to the thread whose call failed. */
static void *fail_once(void *argument) {
  (void)argument;
  adji_fail(ADJ_E_DATA, "in the other thread");
  return NULL;
}

static void messages_are_per_thread(void **state) {
  (void)state;
  adji_fail(ADJ_E_DATA, "in this thread");
  pthread_t thread;
  pthread_create(&thread, NULL, fail_once, NULL);
  pthread_join(thread, NULL);
  assert_string_equal(adj_last_error(), "in this thread");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_task_runs_once),
      cmocka_unit_test(failure_stops_the_loop),
      cmocka_unit_test(cancels_end_loops),
      cmocka_unit_test(a_cancel_ends_calls_under_way),
      cmocka_unit_test(new_threads_work_for_the_call),
      cmocka_unit_test(loops_nest),
      cmocka_unit_test(loops_of_another_team_nest),
      cmocka_unit_test(callers_take_turns),
      cmocka_unit_test(slices_cover_everything),
      cmocka_unit_test(messages_are_per_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
