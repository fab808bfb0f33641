/* SPDX-License-Identifier: MIT
 *
 * Libraries loaded at run time are not taken from the current folder. The search path is read when a process starts, so
 * each case is a process of its own: this program, run with a search path in a folder that has a library.
 *
 *   test_library LIBRARY        runs all cases
 *   test_library open NAME      exit status 0: adji_library_open found the library
 *   test_library plain NAME     exit status 0: dlopen() found it
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/library.h"

static const char *folder, *name;

/* Whether a process in the folder `in`, with this LD_LIBRARY_PATH, finds the library. */
static bool finds(const char *in, const char *how, const char *search) {
  pid_t child = fork();
  if (!child) {
    if (search)
      setenv("LD_LIBRARY_PATH", search, 1);
    else
      unsetenv("LD_LIBRARY_PATH");
    if (!chdir(in)) execl("/proc/self/exe", "test_library", how, name, (char *)NULL);
    _exit(9);
  }
  int status = -1;
  assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  assert_in_range(WEXITSTATUS(status), 0, 1);
  return WEXITSTATUS(status) == 0;
}

static void current_folder_is_not_searched(void **state) {
  (void)state;
  static const char *const reaching[] = {":", ".", "/nowhere:", ":/nowhere", "/nowhere::/nowhere", "./"};
  assert_false(finds(folder, "open", NULL));
  assert_false(finds(folder, "open", "/nowhere"));
  for (int i = 0; i < 6; i++) {
    assert_true(finds(folder, "plain", reaching[i])); /* shows that the test can fail */
    assert_false(finds(folder, "open", reaching[i]));
  }
}

static void named_folders_are(void **state) {
  (void)state;
  char search[4200];
  static const char *const forms[] = {"%s", "%s:", ":%s", "/nowhere:%s::", "relative:%s"};
  for (int i = 0; i < 5; i++) {
    snprintf(search, sizeof search, forms[i], folder);
    assert_true(finds("/", "open", search));
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(current_folder_is_not_searched),
      cmocka_unit_test(named_folders_are),
  };
  if (argc == 3) {
    bool plain = !strcmp(argv[1], "plain");
    return !(plain ? dlopen(argv[2], RTLD_NOW) : adji_library_open(argv[2], "libabsent.so.1"));
  }
  if (argc != 2) return 2;
  char *slash = strrchr(argv[1], '/');
  if (!slash) return 2;
  *slash = 0;
  folder = argv[1];
  name = slash + 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
