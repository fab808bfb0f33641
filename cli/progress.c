/* SPDX-License-Identifier: MIT
 *
 * The progress line.
 */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

void progress_begin(progress_line *progress, bool always, bool never) {
  progress->terminal = isatty(STDERR_FILENO) == 1;
  progress->on = !never && (always || progress->terminal);
  progress->drawn = false;
  progress->began = seconds_now();
}

/* "[######......]", 20 wide. */
static void draw_bar(double fraction, char *bar) {
  enum { WIDTH = 20 };
  int full = (int)(fraction * WIDTH + 0.5);
  bar[0] = '[';
  for (int i = 0; i < WIDTH; i++)
    bar[1 + i] = i < full ? '#' : '.';
  memcpy(bar + 1 + WIDTH, "]", 2);
}

int progress_show(void *user, const adj_progress *where) {
  progress_line *progress = user;
  double fraction = where->fraction < 0 ? 0 : where->fraction > 1 ? 1 : where->fraction;
  double elapsed = seconds_now() - progress->began;
  char bar[32], pairs[32], rate[32], remaining[32] = "";
  draw_bar(fraction, bar);
  text_short((double)where->pairs, pairs);
  text_short(elapsed > 0 ? (double)where->pairs / elapsed : 0, rate);
  if (fraction > 0.005) {
    char time[24];
    snprintf(remaining, sizeof remaining, ", %s remaining", text_duration(elapsed * (1 - fraction) / fraction, time));
  }
  fprintf(stderr, "%s%s %s %3.0f %%  %s pairs, %s/s%s%s", progress->terminal ? "\r" : "", bar, where->phase,
          100 * fraction, pairs, rate, remaining, progress->terminal ? "\033[K" : "\n");
  fflush(stderr);
  progress->drawn = true;
  return 0;
}

void progress_end(progress_line *progress) {
  if (progress->drawn && progress->terminal) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
  }
  progress->drawn = false;
}
