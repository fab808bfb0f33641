/* SPDX-License-Identifier: MIT
 *
 * Waiting, notes and agreement: see group.h.
 */
#include "mpi/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_NOTE = 1 };

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double adji_seconds(void) {
  return seconds_of(CLOCK_MONOTONIC);
}

double adji_cpu_seconds(void) {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- Life ------------------------------------------------------------------------------------------------------- */

adj_status adji_group_open(adji_group *group, MPI_Comm comm, adj_ctx *ctx) {
  *group = (adji_group){.comm = MPI_COMM_NULL, .ctx = ctx, .chunk = UINT64_C(1) << 30, .step_to = 1};
  int initialized = 0, code = MPI_Initialized(&initialized);
  if (code || !initialized) return adji_fail(ADJ_E_ARGUMENT, "comm: MPI is not initialised");
  if (comm == MPI_COMM_NULL) return adji_fail(ADJ_E_ARGUMENT, "comm: is MPI_COMM_NULL");
  if (MPI_Comm_dup(comm, &group->comm)) return adji_fail(ADJ_E_IO, "MPI_Comm_dup failed");
  code = MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
  if (!code) code = MPI_Comm_rank(group->comm, &group->rank);
  if (!code) code = MPI_Comm_size(group->comm, &group->ranks);
  if (code) return adji_fail(ADJ_E_IO, "a communicator that was just made does not work");
  group->note_requests = calloc((size_t)group->ranks, sizeof *group->note_requests);
  return group->note_requests ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for a communicator");
}

void adji_group_close(adji_group *group) {
  if (!group->broken.broken && group->comm != MPI_COMM_NULL) (void)MPI_Comm_free(&group->comm);
  free(group->note_requests);
}

void adji_group_free(adji_group *group, void *block) {
  if (!group->broken.broken) adji_free(&group->ctx->memory, block);
}

/* ---- Notes ------------------------------------------------------------------------------------------------------ */

static adj_status fail_broken(const adji_group *group) {
  return adji_fail(ADJ_E_IO, "%s", group->broken.text);
}

/* Sends a note to every other rank. Notes are small, so MPI sends them before the receiver asks. Errors are ignored. */
static void send_notes(adji_group *group, const adji_note *note) {
  if (group->notes_sent) return;
  group->note_out = *note;
  for (int i = 0; i < group->ranks; i++) {
    group->note_requests[i] = MPI_REQUEST_NULL;
    if (i != group->rank)
      (void)MPI_Isend(&group->note_out, sizeof group->note_out, MPI_BYTE, i, TAG_NOTE, group->comm,
                      &group->note_requests[i]);
  }
  group->notes_sent = 1;
}

adj_status adji_mpi_check(adji_group *group, int code, const char *call) {
  if (code == MPI_SUCCESS) return ADJ_OK;
  if (!group->broken.broken) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(code, text, &length)) text[0] = 0;
    group->broken = (adji_note){.broken = 1, .status = ADJ_E_IO};
    snprintf(group->broken.text, sizeof group->broken.text, "rank %d: %s failed: %.300s", group->rank, call, text);
    group->notes_sent = 0;
    send_notes(group, &group->broken);
  }
  return fail_broken(group);
}

/* Receives the notes that have arrived. */
static adj_status read_notes(adji_group *group) {
  for (int arrived = 1; arrived;) {
    MPI_Status from;
    adj_status status =
        adji_mpi_check(group, MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTE, group->comm, &arrived, &from), "MPI_Iprobe");
    if (status || !arrived) return status;
    adji_note note;
    status = adji_mpi_check(
        group, MPI_Recv(&note, sizeof note, MPI_BYTE, from.MPI_SOURCE, TAG_NOTE, group->comm, MPI_STATUS_IGNORE),
        "MPI_Recv");
    if (status) return status;
    group->notes_received++;
    group->stopped = true;
    if (note.broken) {
      group->broken = note;
      return fail_broken(group);
    }
  }
  return ADJ_OK;
}

bool adji_group_should_stop(adji_group *group) {
  return group->stopped || (group->cancel && *group->cancel) || adji_call_cancelled();
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

/* Sleeps between polls, as there may be more ranks than cores. The first SPINS polls do not sleep. Later ones sleep a
 * quarter of the wait so far, at least 20 microseconds and at most a millisecond: a long wait takes little CPU time,
 * and a short wait becomes only a little longer. */
enum { SPINS = 16, MIN_NAP_NS = 20000, MAX_NAP_NS = 1000000 };

static void nap(uint32_t turn, double since) {
  if (turn < SPINS) return;
  double wanted = (adji_seconds() - since) * 0.25e9;
  struct timespec some = {0, wanted < MIN_NAP_NS ? MIN_NAP_NS : wanted > MAX_NAP_NS ? MAX_NAP_NS : (long)wanted};
  nanosleep(&some, NULL);
}

int adji_await(MPI_Request *request) {
  double begin = adji_seconds();
  int done = 0, code = MPI_SUCCESS;
  for (uint32_t turn = 0; !code && !done; turn++) {
    if (turn) nap(turn, begin);
    code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
  }
  return code;
}

adj_status adji_wait(adji_group *group, int count, MPI_Request *requests) {
  double begin = adji_seconds(), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  adj_status status = group->broken.broken ? fail_broken(group) : ADJ_OK;
  for (uint32_t turn = 0; !status; turn++) {
    int done = 0;
    status = adji_mpi_check(group, MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a message");
    if (status || done) break;
    if (turn % 16 == 15) status = read_notes(group);
    nap(turn, begin);
  }
  group->wait_s += adji_seconds() - begin;
  group->wait_cpu_s += seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
  return status;
}

static adj_status wait_one(adji_group *group, int code, const char *call, MPI_Request *request) {
  adj_status status = adji_mpi_check(group, code, call);
  return status ? status : adji_wait(group, 1, request);
}

adj_status adji_all_gather(adji_group *group, const void *mine, int bytes, void *all) {
  if (group->broken.broken) return fail_broken(group);
  MPI_Request request;
  int code = MPI_Iallgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, group->comm, &request);
  return wait_one(group, code, "MPI_Iallgather", &request);
}

adj_status adji_all_reduce(adji_group *group, void *values, int count, MPI_Datatype type, MPI_Op op) {
  if (group->broken.broken) return fail_broken(group);
  MPI_Request request;
  int code = MPI_Iallreduce(MPI_IN_PLACE, values, count, type, op, group->comm, &request);
  return wait_one(group, code, "MPI_Iallreduce", &request);
}

static adj_status broadcast_from(adji_group *group, void *data, uint64_t bytes, int root) {
  adj_status status = group->broken.broken ? fail_broken(group) : ADJ_OK;
  for (uint64_t at = 0; at < bytes && !status; at += group->chunk) {
    uint64_t some = bytes - at < group->chunk ? bytes - at : group->chunk;
    MPI_Request request;
    int code = MPI_Ibcast((char *)data + at, (int)some, MPI_BYTE, root, group->comm, &request);
    status = wait_one(group, code, "MPI_Ibcast", &request);
    if (group->rank == root) group->bytes_sent += some;
  }
  return status;
}

adj_status adji_broadcast(adji_group *group, void *data, uint64_t bytes) {
  return broadcast_from(group, data, bytes, 0);
}

/* ---- Agreement -------------------------------------------------------------------------------------------------- */

/* Receives every note of this failure on every rank, so that the next step begins with no note under way. */
static adj_status drain_notes(adji_group *group) {
  int sent = (int)group->notes_sent;
  adj_status status = adji_all_reduce(group, &sent, 1, MPI_INT, MPI_SUM);
  uint32_t expected = (uint32_t)sent - group->notes_sent;
  double begin = adji_seconds();
  for (uint32_t turn = 0; !status && group->notes_received < expected; turn++) {
    status = read_notes(group);
    nap(turn, begin);
  }
  if (!status && group->notes_sent) status = adji_wait(group, group->ranks, group->note_requests);
  group->notes_sent = group->notes_received = 0;
  group->stopped = false;
  return status;
}

/* Whether a message begins with a rank: that of a sink whose ranks have already agreed. */
static bool names_rank(const char *text) {
  int length = 0;
  (void)sscanf(text, "rank %*d: %n", &length);
  return length > 0;
}

#undef adji_agree
adj_status adji_agree(adji_group *group, adj_status status) {
  if (group->broken.broken) return fail_broken(group);
  if (status && group->failed) return status;
  adji_note mine = {.status = status};
  if (status) snprintf(mine.text, sizeof mine.text, "%s", adj_last_error());
  if (!status && !group->stopped && adji_group_should_stop(group)) {
    mine.status = ADJ_CANCELLED;
    snprintf(mine.text, sizeof mine.text, "%s", adj_status_text(ADJ_CANCELLED));
  }
  int lowest = mine.status ? group->rank : group->ranks;
  adj_status agreed = adji_all_reduce(group, &lowest, 1, MPI_INT, MPI_MIN);
  if (agreed) return agreed;
  if (lowest == group->ranks) return ADJ_OK;
  adji_note note = mine;
  agreed = broadcast_from(group, &note, sizeof note, lowest);
  if (!agreed) agreed = drain_notes(group);
  group->failed = true;
  if (agreed) return agreed;
  if (names_rank(note.text)) return adji_fail((adj_status)note.status, "%s", note.text);
  return adji_fail((adj_status)note.status, "rank %d: %s", lowest, note.text);
}

/* ---- Work in other threads -------------------------------------------------------------------------------------- */

typedef struct job {
  adj_status (*fn)(void *user, adji_mpi_work *work);
  void *user;
  adji_mpi_work work;
  adj_status status;
  char text[ADJI_MESSAGE];
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool done;
} job;

static void *job_main(void *argument) {
  job *j = argument;
  j->status = j->fn(j->user, &j->work);
  if (j->status) snprintf(j->text, sizeof j->text, "%s", adj_last_error());
  pthread_mutex_lock(&j->lock);
  j->done = true;
  pthread_cond_signal(&j->ended);
  pthread_mutex_unlock(&j->lock);
  return NULL;
}

/* Waits for the end of the work, at most this many milliseconds. Returns whether it is done. */
static bool await_end(job *j, double milliseconds) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  int64_t at = until.tv_nsec + (int64_t)(milliseconds * 1e6);
  until.tv_sec += at / 1000000000;
  until.tv_nsec = at % 1000000000;
  pthread_mutex_lock(&j->lock);
  for (int late = 0; !j->done && !late;)
    late = pthread_cond_timedwait(&j->ended, &j->lock, &until);
  bool done = j->done;
  pthread_mutex_unlock(&j->lock);
  return done;
}

static int record_progress(void *user, const adj_progress *where) {
  adji_mpi_work *work = user;
  atomic_store(&work->fraction, (uint64_t)(where->fraction * 0x1p32));
  atomic_store(&work->pairs, where->pairs);
  return atomic_load(&work->stop);
}

/* Tells the caller how far this rank is. Returns whether the caller wants the run to end. */
static bool report_progress(adji_group *group, adji_mpi_work *work) {
  const adj_run_control *control = group->control;
  double now = adji_seconds();
  if (!control || !control->progress || now - group->reported_at < control->interval_ms * 1e-3) return false;
  group->reported_at = now;
  adj_progress where = {.phase = "join", .pairs = atomic_load(&work->pairs)};
  where.fraction =
      group->step_from + (group->step_to - group->step_from) * (double)atomic_load(&work->fraction) * 0x1p-32;
  int stop;
  ADJI_RUN_CALLBACK(stop = control->progress(control->user, &where));
  return stop != 0;
}

/* Moves messages, reads notes and reports progress until the work ends. Returns errors of these, not of the work. */
static adj_status serve_until_done(adji_group *group, job *j, adji_requests *requests) {
  adj_status status = ADJ_OK;
  double turn = 0.1;
  while (!await_end(j, turn)) {
    int done;
    if (turn < (requests && requests->count ? 2 : 20)) turn *= 1.2;
    if (!status && requests && requests->count)
      status =
          adji_mpi_check(group, MPI_Testall(requests->count, requests->items, &done, MPI_STATUSES_IGNORE), "a message");
    if (!status) status = read_notes(group);
    if (!status && report_progress(group, &j->work))
      status = adji_fail(ADJ_CANCELLED, "the caller's progress function ended the run");
    if (status || adji_group_should_stop(group)) atomic_store(&j->work.stop, 1);
  }
  return status;
}

adj_status adji_do_work(adji_group *group, adj_status (*fn)(void *user, adji_mpi_work *work), void *user,
                        adji_requests *requests) {
  if (group->broken.broken) return fail_broken(group);
  job j = {.fn = fn, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER};
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&j.ended, &clock);
  pthread_condattr_destroy(&clock);
  adj_run_control_init(&j.work.control, sizeof j.work.control);
  j.work.control.interval_ms = 20;
  j.work.control.progress = record_progress;
  j.work.control.user = &j.work;
  pthread_t thread;
  int failed = adji_thread_start(&thread, job_main, &j);
  adj_status status = failed ? ADJ_OK : serve_until_done(group, &j, requests);
  if (!failed) pthread_join(thread, NULL);
  pthread_cond_destroy(&j.ended);
  pthread_mutex_destroy(&j.lock);
  if (failed) return adji_fail(ADJ_E_MEMORY, "no thread for the joins of this rank: %s", strerror(failed));
  if (status && !group->broken.broken) {
    adji_note note = {.status = status};
    send_notes(group, &note);
  }
  if (status || !j.status) return status;
  if (j.status == ADJ_CANCELLED && group->stopped) return ADJ_OK; /* another rank is at fault */
  if (!group->stopped) send_notes(group, &(adji_note){.status = j.status});
  return adji_fail(j.status, "%s", j.text);
}
