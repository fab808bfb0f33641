/* SPDX-License-Identifier: MIT
 *
 * A shim between libadjoin_mpi and MPI: the n-th call of this rank is late, fails, or ends the job. Only calls that
 * start communication are counted. Calls that test whether it is complete are not, because their number varies.
 */
#ifndef ADJOIN_TEST_SHIM_H
#define ADJOIN_TEST_SHIM_H

typedef enum shim_fault { SHIM_NONE, SHIM_DELAY, SHIM_FAIL, SHIM_ABORT, SHIM_KILL } shim_fault;

/* Sets what happens to call number `at` from now on, counted from 1. */
void shim_set(shim_fault what, long at);
/* Whether it has happened. */
int shim_reached(void);

#endif
