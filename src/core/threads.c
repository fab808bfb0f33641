/* SPDX-License-Identifier: MIT
 *
 * The call that each thread works for, and the team. Threads of the team wait on a condition variable; a loop is a
 * shared counter from which all of them draw tasks. Loops often follow each other closely, and waking a thread takes as
 * long as a short loop, so threads spin for a moment before they sleep, unless there are more threads than cores.
 */
#define _GNU_SOURCE
#include "core/threads.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Calls --------------------------------------------------------------------------------------------- */

/* Its member floats is not used: the state is in the registers. */
static _Thread_local adji_call current;

adji_call adji_call_current(void) {
  adji_call call = current;
  call.floats = adji_float_state_get();
  return call;
}

void adji_call_set(adji_call call) {
  current = call;
  adji_float_state_set(call.floats);
}

adji_call adji_call_begin(const _Atomic uint32_t *cancels) {
  adji_call before = adji_call_current();
  if (current.cancels != cancels) current = (adji_call){.cancels = cancels, .at_begin = atomic_load(cancels)};
  adji_float_state_reset();
  return before;
}

bool adji_call_cancelled(void) {
  return current.cancels && atomic_load_explicit(current.cancels, memory_order_relaxed) != current.at_begin;
}

bool adji_call_cancelled_in(const _Atomic uint32_t *cancels) {
  return current.cancels == cancels && atomic_load_explicit(cancels, memory_order_relaxed) != current.at_begin;
}

typedef struct thread_start {
  adji_call call;
  void *(*main)(void *);
  void *argument;
} thread_start;

static void *thread_main(void *argument) {
  thread_start start = *(thread_start *)argument;
  free(argument);
  current = start.call;
  adji_float_state_reset(); /* a new thread inherits the state of its creator */
  return start.main(start.argument);
}

int adji_thread_start(pthread_t *thread, void *(*main)(void *), void *argument) {
  thread_start *start = malloc(sizeof *start);
  if (!start) return ENOMEM;
  *start = (thread_start){current, main, argument};
  int failed = pthread_create(thread, NULL, thread_main, start);
  if (failed) free(start);
  return failed;
}

/* ---- The team ------------------------------------------------------------------------------------------ */

struct adji_team {
  uint32_t size;
  uint32_t started;         /* threads to join on destroy     */
  _Atomic uint32_t members; /* threads that have a lane       */
  pthread_t *threads;
  pthread_mutex_t turn; /* held by the caller of the current loop */
  pthread_mutex_t lock; /* guards the members below           */
  pthread_cond_t work, done;
  _Atomic uint64_t generation; /* of loops; a change wakes the team   */
  _Atomic uint32_t busy;       /* lanes still in the current loop     */
  bool quit;
  uint32_t spins;       /* before a thread sleeps             */
  int creator_core;     /* where the team was created, if it has a thread for every core; otherwise -1 */
  adj_status status;    /* of the lowest task that failed in   */
  uint64_t failed_task; /* the current loop                    */
  char message[1024];
  /* The current loop; written under lock before generation changes. */
  adji_task_fn fn;
  void *user;
  uint64_t count;
  bool cancellable;
  adji_call call; /* the caller's */
  _Atomic uint64_t next;
};

/* Set while a thread runs a task, because a nested loop must not wait for its own team. */
static _Thread_local const adji_team *inside_team;
static _Thread_local uint32_t inside_lane;
static _Thread_local bool works_alone;

/* Tasks are handed out in ascending order and run to completion, so the lowest failing task always runs. Its message is
 * kept, which is the same for any number of threads. */
static void keep_failure(adji_team *team, uint64_t task, adj_status status) {
  pthread_mutex_lock(&team->lock);
  if (!team->status || task < team->failed_task) {
    team->status = status;
    team->failed_task = task;
    strncpy(team->message, adj_last_error(), sizeof team->message - 1);
  }
  pthread_mutex_unlock(&team->lock);
  atomic_store(&team->next, team->count);
}

static adj_status check_cancel(bool cancellable) {
  return cancellable && adji_call_cancelled() ? adji_fail(ADJ_CANCELLED, "stopped by the caller") : ADJ_OK;
}

static void draw_tasks(adji_team *team, uint32_t lane) {
  adji_call before = current;
  current = team->call;
  inside_team = team;
  inside_lane = lane;
  for (;;) {
    uint64_t task = atomic_fetch_add(&team->next, 1);
    if (task >= team->count) break;
    adj_status status = check_cancel(team->cancellable);
    if (!status) status = team->fn(team->user, task, lane);
    if (status) keep_failure(team, task, status);
  }
  inside_team = NULL;
  current = before;
}

enum { SPINS = 1000 }; /* about 50 microseconds */

static void await_loop(const adji_team *team, uint64_t seen) {
  for (uint32_t i = 0; i < team->spins && atomic_load(&team->generation) == seen; i++)
    adji_pause();
}

static void await_end(const adji_team *team) {
  for (uint32_t i = 0; i < team->spins && atomic_load(&team->busy); i++)
    adji_pause();
}

/* Moves this thread to a core of its own, away from the creator and other lanes; it may leave it later. Some kernels
 * keep a new thread on its creator's core for the first milliseconds although others are idle: when counting the
 * neighbours of a million points, the first join of a process took as long with two cores as with one. With fewer
 * threads than cores the choice is left to the kernel, which knows which cores share execution units. */
static void spread(const adji_team *team, uint32_t lane) {
#ifdef CPU_SETSIZE
  cpu_set_t allowed, one;
  int core = team->creator_core;
  if (core < 0 || sched_getaffinity(0, sizeof allowed, &allowed)) return;
  for (uint32_t passed = 0; passed < lane;) {
    core = core + 1 < CPU_SETSIZE ? core + 1 : 0;
    passed += CPU_ISSET(core, &allowed) != 0;
  }
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  if (!sched_setaffinity(0, sizeof one, &one)) sched_setaffinity(0, sizeof allowed, &allowed);
#else
  (void)team, (void)lane;
#endif
}

static void *member_main(void *argument) {
  adji_team *team = argument;
  uint32_t lane = 1 + atomic_fetch_add(&team->members, 1);
  uint64_t seen = 0;
  adji_float_state_reset();
  spread(team, lane);
  for (;;) {
    await_loop(team, seen);
    pthread_mutex_lock(&team->lock);
    while (!team->quit && team->generation == seen)
      pthread_cond_wait(&team->work, &team->lock);
    bool quit = team->quit;
    seen = team->generation;
    pthread_mutex_unlock(&team->lock);
    if (quit) return NULL;
    draw_tasks(team, lane);
    pthread_mutex_lock(&team->lock);
    if (--team->busy == 0) pthread_cond_signal(&team->done);
    pthread_mutex_unlock(&team->lock);
  }
}

adji_team *adji_team_create(uint32_t threads) {
  adji_team *team = calloc(1, sizeof *team);
  if (team) team->threads = calloc(threads, sizeof *team->threads);
  if (!team || !team->threads) {
    free(team);
    adji_fail(ADJ_E_MEMORY, "no memory for a team of %u threads", threads);
    return NULL;
  }
  team->size = threads;
  team->spins = threads <= adji_usable_cores() ? SPINS : 0;
  team->creator_core = threads == adji_usable_cores() ? sched_getcpu() : -1;
  pthread_mutex_init(&team->turn, NULL);
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->work, NULL);
  pthread_cond_init(&team->done, NULL);
  for (; team->started + 1 < threads; team->started++)
    if (pthread_create(&team->threads[team->started], NULL, member_main, team)) {
      adji_fail(ADJ_E_MEMORY, "the system cannot start thread %u of %u", team->started + 2, threads);
      adji_team_destroy(team);
      return NULL;
    }
  return team;
}

void adji_team_destroy(adji_team *team) {
  if (!team) return;
  pthread_mutex_lock(&team->lock);
  team->quit = true;
  pthread_cond_broadcast(&team->work);
  pthread_mutex_unlock(&team->lock);
  for (uint32_t i = 0; i < team->started; i++)
    pthread_join(team->threads[i], NULL);
  pthread_mutex_destroy(&team->turn);
  pthread_mutex_destroy(&team->lock);
  pthread_cond_destroy(&team->work);
  pthread_cond_destroy(&team->done);
  free(team->threads);
  free(team);
}

uint32_t adji_team_size(const adji_team *team) {
  return team->size;
}

/* A nested loop runs in the calling thread. Inside its own team it uses the lane of the task. In another team (a
 * callback may use another context) it uses lane 0. */
static adj_status run_alone(const adji_team *team, uint64_t count, adji_task_fn fn, void *user, bool cancellable) {
  uint32_t lane = inside_team == team ? inside_lane : 0;
  for (uint64_t task = 0; task < count; task++) {
    adj_status status = check_cancel(cancellable);
    if (!status) status = fn(user, task, lane);
    if (status) return status;
  }
  return ADJ_OK;
}

bool adji_work_alone(bool alone) {
  bool before = works_alone;
  works_alone = alone;
  return before;
}

bool adji_inside_task(void) {
  return inside_team != NULL;
}

adj_status adji_parallel(adji_team *team, uint64_t count, adji_task_fn fn, void *user, bool cancellable) {
  if (inside_team || works_alone) return run_alone(team, count, fn, user, cancellable);
  pthread_mutex_lock(&team->turn);
  pthread_mutex_lock(&team->lock);
  team->fn = fn;
  team->user = user;
  team->count = count;
  team->cancellable = cancellable;
  team->call = current;
  team->status = ADJ_OK;
  atomic_store(&team->next, 0);
  bool wake = count > 1 && team->size > 1;
  if (wake) {
    team->busy = team->size - 1;
    team->generation++;
    pthread_cond_broadcast(&team->work);
  }
  pthread_mutex_unlock(&team->lock);
  draw_tasks(team, 0);
  await_end(team);
  pthread_mutex_lock(&team->lock);
  while (team->busy)
    pthread_cond_wait(&team->done, &team->lock);
  adj_status status = team->status;
  if (status) adji_fail(status, "%s", team->message);
  pthread_mutex_unlock(&team->lock);
  pthread_mutex_unlock(&team->turn);
  return status;
}

uint64_t adji_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t adji_thread_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t adji_usable_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    int cores = CPU_COUNT(&set);
    if (cores > 0) return (uint32_t)cores;
  }
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? (uint32_t)cores : 1;
}
