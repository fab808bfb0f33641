/* SPDX-License-Identifier: MIT
 *
 * The ranks of a job as the other parts of libadjoin_mpi see them: waiting that never hangs on a rank that failed,
 * errors that all ranks agree on, messages of any size, and work in other threads while messages move.
 *
 * Failures are of two kinds. What a rank finds wrong in its own work (input, memory, a cancel) is agreed on at the end
 * of each step, by adji_agree: steps are either computing or exchanging, and what an exchange needs is allocated and
 * agreed on before it, so no rank waits for a message that another will not send. A rank that fails while it computes
 * also sends a note to all others, who then end their own computing early. A call of MPI that fails is the other kind:
 * nothing can be agreed on any more. The rank tells the others by a note if it can, the group is broken, and every wait
 * ends.
 */
#ifndef ADJI_MPI_GROUP_H
#define ADJI_MPI_GROUP_H

#include <mpi.h>
#include <stdatomic.h>

#include "core/context.h"

enum { ADJI_MESSAGE = 480 };

typedef struct adji_note {
  int32_t broken, status;
  char text[ADJI_MESSAGE];
} adji_note;

typedef struct adji_group {
  MPI_Comm comm; /* a duplicate of the caller's */
  adj_ctx *ctx;
  int rank, ranks;
  const volatile int *cancel;
  uint64_t chunk;   /* bytes of a message at most */
  adji_note broken; /* broken.broken: MPI failed; why */
  bool failed;      /* all ranks have agreed that this call fails: nothing is left to agree on */
  bool stopped;     /* another rank sent a note: this one need not go on */
  uint32_t notes_sent, notes_received;
  adji_note note_out;
  MPI_Request *note_requests;
  /* Statistics of the run. */
  uint64_t bytes_sent, messages;
  double wait_s, wait_cpu_s;
  /* The caller's progress, and where this rank is. */
  const adj_run_control *control;
  double step_from, step_to; /* of the run, what the step at hand covers */
  double reported_at;
} adji_group;

double adji_seconds(void);     /* monotonic */
double adji_cpu_seconds(void); /* of this process, all threads */

/* Runs a callback of the caller, given as a statement. What it does to the floating-point state ends with it. */
#define ADJI_RUN_CALLBACK(statement)                      \
  do {                                                    \
    adji_float_state adji_ours_ = adji_float_state_get(); \
    statement;                                            \
    adji_float_state_set(adji_ours_);                     \
  } while (0)

adj_status adji_group_open(adji_group *group, MPI_Comm comm, adj_ctx *ctx);
/* Collective, unless the group is broken. */
void adji_group_close(adji_group *group);

/* Frees a block that MPI may have had: not if the group is broken, as messages may still be written to it. */
void adji_group_free(adji_group *group, void *block);

/* Whether the run is to end: the caller's flag, adj_cancel, or a note of another rank. */
bool adji_group_should_stop(adji_group *group);

/* Waits for all requests. Ends early if the group breaks. */
adj_status adji_wait(adji_group *group, int count, MPI_Request *requests);

/* All ranks: ADJ_OK if all are; otherwise the status of the lowest rank that failed, with its message. A rank that
 * ended because of another one's note is not at fault, and passes what it has. */
adj_status adji_agree(adji_group *group, adj_status status);

#ifdef __clang_analyzer__ /* tell the analyser that a rank that failed is never told ADJ_OK */
static inline adj_status adji_agree_failed(adji_group *group, adj_status status) {
  adj_status agreed = adji_agree(group, status);
  return status ? status : agreed;
}
#define adji_agree adji_agree_failed
#endif

/* Turns the result of a call of MPI into a status; an error breaks the group. */
adj_status adji_mpi_check(adji_group *group, int code, const char *call);

/* ---- Collectives, each of which waits as above. `count` values ------------------------------------------------ */

adj_status adji_all_gather(adji_group *group, const void *mine, int bytes, void *all);
adj_status adji_all_reduce(adji_group *group, void *values, int count, MPI_Datatype type, MPI_Op op);
adj_status adji_broadcast(adji_group *group, void *data, uint64_t bytes);

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* What goes to each rank and what comes from it, each in one block: rank i has bytes starts[i] .. starts[i + 1] - 1. */
typedef struct adji_mail {
  uint64_t *starts; /* ranks + 1 */
  char *bytes;
} adji_mail;
adj_status adji_mail_open(adji_group *group, adji_mail *mail); /* starts, zero; no bytes */
void adji_mail_clear(adji_group *group, adji_mail *mail);

/* Sends and receives. Only lengths go to all ranks; no message is sent where nothing is to be. `in` is opened here.
 * Agreed on: call it with the status so far. */
adj_status adji_exchange(adji_group *group, adj_status status, const adji_mail *out, adji_mail *in);
#ifdef __clang_analyzer__ /* as above */
static inline adj_status adji_exchange_failed(adji_group *group, adj_status status, const adji_mail *out,
                                              adji_mail *in) {
  adj_status agreed = adji_exchange(group, status, out, in);
  return status ? status : agreed;
}
#define adji_exchange adji_exchange_failed
#endif

/* One block to a rank and one from another, in chunks; requests are appended to *list, which is grown. */
typedef struct adji_requests {
  MPI_Request *items;
  int count, room;
} adji_requests;
adj_status adji_post_send(adji_group *group, adji_requests *list, const char *bytes, uint64_t size, int to);
adj_status adji_post_receive(adji_group *group, adji_requests *list, char *bytes, uint64_t size, int from);
void adji_requests_clear(adji_requests *list);

/* ---- Work in other threads ------------------------------------------------------------------------------------------
 */

/* What the work tells and is told, from any thread: pass `control` to the runs. */
typedef struct adji_mpi_work {
  adj_run_control control;
  atomic_int stop;
  _Atomic uint64_t fraction, pairs; /* fraction in 2^-32 */
} adji_mpi_work;

/* Runs fn in a thread of its own, while this one moves messages, calls the caller's progress and looks for failures of
 * others. If this rank fails, the others are told. requests (may be NULL): those on their way; they need not be
 * complete in the end. Not agreed on. */
adj_status adji_do_work(adji_group *group, adj_status (*fn)(void *user, adji_mpi_work *work), void *user,
                        adji_requests *requests);

#endif
