/* SPDX-License-Identifier: MIT
 *
 * A library planted in a folder under the name of another library. A process that loads it prints a message and exits.
 */
#include <unistd.h>

__attribute__((constructor)) static void run(void) {
  static const char text[] = "PLANTED\n";
  if (write(1, text, sizeof text - 1) < 0) _exit(67);
  _exit(66);
}
