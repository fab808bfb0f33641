/* SPDX-License-Identifier: MIT
 *
 * A library for test_library to find, or not.
 */
int adjoin_test_loaded(void);

int adjoin_test_loaded(void) {
  return 1;
}
