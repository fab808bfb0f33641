/* SPDX-License-Identifier: MIT
 *
 * A library that somebody left in a folder under the name of another one. Whoever loads it says so, and ends.
 */
#include <unistd.h>

__attribute__((constructor)) static void run(void) {
  static const char text[] = "PLANTED\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(67);
  _exit(66);
}
