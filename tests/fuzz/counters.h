/* SPDX-License-Identifier: MIT
 *
 * The coverage counters, which libFuzzer reads after each input.
 */
#ifndef ADJOIN_FUZZ_COUNTERS_H
#define ADJOIN_FUZZ_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

/* *count is 0 in a build without coverage. */
uint8_t *fuzz_counters(size_t *count);

#endif
