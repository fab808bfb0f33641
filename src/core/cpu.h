/* SPDX-License-Identifier: MIT
 *
 * Which instruction sets this build holds and this CPU runs.
 */
#ifndef ADJI_CPU_H
#define ADJI_CPU_H

#include <stdbool.h>

bool adji_isa_usable(const char *name); /* this build has it, and the CPU runs it */
const char *adji_isa_best(void);

#endif
