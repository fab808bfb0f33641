/* SPDX-License-Identifier: MIT
 *
 * Readable numbers, and the clock.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdint.h>

/* Each writes to a buffer of 32 characters and returns it. */
const char *text_count(uint64_t value, char *buffer);    /* 1,234,567 */
const char *text_short(double value, char *buffer);      /* 1.23 M    */
const char *text_bytes(double bytes, char *buffer);      /* 1.5 GiB   */
const char *text_duration(double seconds, char *buffer); /* 0.42 s, 12 s, 3:05, 2:00:10; needs 24 */

double seconds_now(void); /* monotonic */

#endif
