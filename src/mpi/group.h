/* SPDX-License-Identifier: MIT
 *
 * The ranks of a job as the other parts of libadjoin_mpi see them: waits that never hang on a rank that failed, errors
 * that all ranks agree on, messages of any size, and work in another thread while messages move.
 *
 * There are two kinds of failure.
 *
 * A rank fails in its own work (input, memory, a cancel). The ranks agree on such a failure at the end of each step, in
 * adji_agree. A step either computes or exchanges messages. What an exchange needs is allocated and agreed on before
 * it starts, so no rank waits for a message that another rank will not send. A rank that fails while it computes also
 * sends a note to all others, so that they stop computing early.
 *
 * A call of MPI fails. The ranks can then agree on nothing any more: the rank sends the others a note if it can, the
 * group is marked as broken, and every wait ends.
 *
 * "Agreed on" at a function means that it is collective and that the ranks agree on its status at the end, by
 * adji_agree. After other functions the caller does that.
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
  uint64_t chunk;   /* most bytes in a message */
  adji_note broken; /* broken.broken: MPI has failed; the text says why */
  bool failed;      /* all ranks have agreed that this call fails; there is nothing left to agree on */
  bool stopped;     /* another rank has sent a note: this rank may stop its work */
  uint32_t notes_sent, notes_received;
  adji_note note_out;
  MPI_Request *note_requests;
  /* Statistics of the run. */
  uint64_t bytes_sent, messages;
  double wait_s, wait_cpu_s;
  /* The caller's progress function, and how far this rank is. */
  const adj_run_control *control;
  double step_from, step_to; /* the current step covers this part of the run, 0 to 1 */
  double reported_at;
} adji_group;

double adji_seconds(void);     /* monotonic */
double adji_cpu_seconds(void); /* of this process, all threads */

/* Runs a callback of the caller, given as a statement, and restores the floating-point state after it. */
#define ADJI_RUN_CALLBACK(statement)                      \
  do {                                                    \
    adji_float_state adji_ours_ = adji_float_state_get(); \
    statement;                                            \
    adji_float_state_set(adji_ours_);                     \
  } while (0)

adj_status adji_group_open(adji_group *group, MPI_Comm comm, adj_ctx *ctx);
/* Collective, unless the group is broken. */
void adji_group_close(adji_group *group);

/* Frees a block that was passed to MPI. If the group is broken the block is leaked, as MPI may still write to it. */
void adji_group_free(adji_group *group, void *block);

/* Whether the run should end: by the caller's flag, by adj_cancel, or by a note of another rank. */
bool adji_group_should_stop(adji_group *group);

/* Waits for a request of any communicator, and leaves the core to others meanwhile. Returns the code of MPI. */
int adji_await(MPI_Request *request);
/* Waits for all requests. Ends early if the group breaks. */
adj_status adji_wait(adji_group *group, int count, MPI_Request *requests);

/* Collective. Returns ADJ_OK if every rank passed ADJ_OK; otherwise the status of the lowest rank that failed, with its
 * message. A rank that stopped because of another rank's note did not fail itself: it passes its own status. */
adj_status adji_agree(adji_group *group, adj_status status);

#ifdef __clang_analyzer__ /* tells the analyser that a rank that failed never gets ADJ_OK */
static inline adj_status adji_agree_failed(adji_group *group, adj_status status) {
  adj_status agreed = adji_agree(group, status);
  return status ? status : agreed;
}
#define adji_agree adji_agree_failed
#endif

/* Turns the result of a call of MPI into a status; an error breaks the group. */
adj_status adji_mpi_check(adji_group *group, int code, const char *call);

/* ---- Collectives: they wait by adji_wait; count is a number of values ---------------------------------------- */

adj_status adji_all_gather(adji_group *group, const void *mine, int bytes, void *all);
adj_status adji_all_reduce(adji_group *group, void *values, int count, MPI_Datatype type, MPI_Op op);
adj_status adji_broadcast(adji_group *group, void *data, uint64_t bytes);

/* ---- Messages ---------------------------------------------------------------------------------------------------- */

/* The messages to all ranks, or from all ranks, in one block: bytes starts[i] .. starts[i + 1] - 1 are rank i's. */
typedef struct adji_mail {
  uint64_t *starts; /* ranks + 1 */
  char *bytes;
} adji_mail;
adj_status adji_mail_open(adji_group *group, adji_mail *mail); /* allocates starts, all zero, and no bytes */
void adji_mail_clear(adji_group *group, adji_mail *mail);

/* Sends `out` and receives `in`, which is opened here. Lengths go to all ranks; empty messages are not sent. The ranks
 * agree on the result: call it with the status so far. */
adj_status adji_exchange(adji_group *group, adj_status status, const adji_mail *out, adji_mail *in);
#ifdef __clang_analyzer__ /* as above */
static inline adj_status adji_exchange_failed(adji_group *group, adj_status status, const adji_mail *out,
                                              adji_mail *in) {
  adj_status agreed = adji_exchange(group, status, out, in);
  return status ? status : agreed;
}
#define adji_exchange adji_exchange_failed
#endif

/* Sends a block to a rank, or receives one, in chunks. The requests are appended to *list, which grows. */
typedef struct adji_requests {
  MPI_Request *items;
  int count, room;
} adji_requests;
adj_status adji_post_send(adji_group *group, adji_requests *list, const char *bytes, uint64_t size, int to);
adj_status adji_post_receive(adji_group *group, adji_requests *list, char *bytes, uint64_t size, int from);
void adji_requests_clear(adji_requests *list);

/* ---- Work in other threads -------------------------------------------------------------------------------------- */

/* Shared by the work and the thread that waits for it. The work passes `control` to its runs, which report their
 * progress here and are told to stop. */
typedef struct adji_mpi_work {
  adj_run_control control;
  atomic_int stop;
  _Atomic uint64_t fraction, pairs; /* fraction in units of 2^-32 */
} adji_mpi_work;

/* Runs fn in a thread of its own. Meanwhile the calling thread moves messages, calls the caller's progress function and
 * looks for failures of other ranks. If this rank fails, it tells the others. requests (may be NULL): pending messages;
 * they may still be pending at the end. The ranks do not agree on the result here. */
adj_status adji_do_work(adji_group *group, adj_status (*fn)(void *user, adji_mpi_work *work), void *user,
                        adji_requests *requests);

#endif
