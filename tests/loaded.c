/* SPDX-License-Identifier: MIT
 *
 * A library that test_library should find in some cases and not in others.
 */
int adjoin_test_loaded(void);

int adjoin_test_loaded(void) {
  return 1;
}
