/* SPDX-License-Identifier: MIT
 *
 * The share of the machine that a container or a batch job may use, read from made-up trees of /proc and
 * /sys/fs/cgroup.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/limits.h"

static char root[] = "/tmp/adjoin_limits_XXXXXX";
static const uint64_t GIB = (uint64_t)1 << 30;

/* Writes a file below root, and makes its folders. */
static void put(const char *path, const char *text) {
  char full[4096];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *slash = strchr(full + sizeof root, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(full, 0700);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

/* A machine with 64 GiB available, and no control groups. */
static int start(void **state) {
  (void)state;
  memcpy(root + sizeof root - 7, "XXXXXX", 6);
  if (!mkdtemp(root)) return 1;
  put("/proc/meminfo", "MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:   67108864 kB\n");
  return 0;
}

static int stop(void **state) {
  (void)state;
  int status = -1;
  pid_t child = fork();
  if (!child) {
    execlp("rm", "rm", "-rf", root, (char *)NULL);
    _exit(127);
  }
  return child < 0 || waitpid(child, &status, 0) != child || status;
}

static const char unified[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
static const char both[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

static adji_limits limits(void) {
  adji_limits found;
  adji_limits_read(root, &found);
  return found;
}

static void nothing_limits(const adji_limits *l) {
  assert_int_equal(l->available, 64 * GIB);
  assert_int_equal(l->group_memory, 0);
  assert_string_equal(l->memory_file, "");
  assert_true(l->quota == 0);
  assert_string_equal(l->quota_file, "");
  assert_int_equal(adji_limits_threads(l, 64), 64);
}

static void machines_without_groups(void **state) {
  (void)state;
  adji_limits l = limits();
  nothing_limits(&l);
  put("/proc/self/cgroup", "0::/\n"); /* and cgroups are not mounted */
  l = limits();
  nothing_limits(&l);
  put("/proc/self/mountinfo", unified);
  put("/sys/fs/cgroup/cpu.stat", "usage_usec 1\n"); /* the root group has no limits */
  l = limits();
  nothing_limits(&l);
  put("/proc/meminfo", "nonsense\n"); /* then the default is half of this machine's memory */
  l = limits();
  assert_true(l.available > 0);
}

static void version_two(void **state) {
  (void)state;
  put("/proc/self/mountinfo", unified);
  put("/proc/self/cgroup", "0::/user.slice/job\n");
  put("/sys/fs/cgroup/user.slice/job/memory.max", "2147483648\n");
  put("/sys/fs/cgroup/user.slice/job/memory.high", "max\n");
  put("/sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n");
  put("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  put("/sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  adji_limits l = limits();
  assert_int_equal(l.available, 2 * GIB);
  assert_int_equal(l.group_memory, 2 * GIB);
  assert_string_equal(l.memory_file, "/sys/fs/cgroup/user.slice/job/memory.max");
  assert_true(l.quota == 1.5);
  assert_string_equal(l.quota_file, "/sys/fs/cgroup/user.slice/job/cpu.max");
  assert_int_equal(adji_limits_threads(&l, 64), 2);
  assert_int_equal(adji_limits_threads(&l, 1), 1);

  /* Memory that the group uses is not available, except cached files. */
  put("/sys/fs/cgroup/user.slice/job/memory.current", "1610612736\n");
  assert_int_equal(limits().available, GIB / 2);
  put("/sys/fs/cgroup/user.slice/job/memory.stat", "anon 5\nactive_file 536870912\ninactive_file 268435456\n");
  assert_int_equal(limits().available, GIB / 2 + GIB / 2 + GIB / 4);
  put("/sys/fs/cgroup/user.slice/job/memory.current", "9910612736\n"); /* more than the limit, for a moment */
  assert_int_equal(limits().available, GIB / 8);
}

static void the_least_on_the_way_up(void **state) {
  (void)state;
  put("/proc/self/mountinfo", unified);
  put("/proc/self/cgroup", "0::/pod/box/inner\n");
  put("/sys/fs/cgroup/pod/box/inner/memory.max", "8589934592\n");
  put("/sys/fs/cgroup/pod/box/memory.max", "max\n");
  put("/sys/fs/cgroup/pod/memory.max", "6442450944\n");
  put("/sys/fs/cgroup/pod/memory.high", "3221225472\n");
  put("/sys/fs/cgroup/pod/box/inner/cpu.max", "max 100000\n");
  put("/sys/fs/cgroup/pod/box/cpu.max", "25000 50000\n");
  put("/sys/fs/cgroup/pod/cpu.max", "400000 100000\n");
  adji_limits l = limits();
  assert_int_equal(l.available, 3 * GIB);
  assert_string_equal(l.memory_file, "/sys/fs/cgroup/pod/memory.high");
  assert_true(l.quota == 0.5);
  assert_string_equal(l.quota_file, "/sys/fs/cgroup/pod/box/cpu.max");
  assert_int_equal(adji_limits_threads(&l, 64), 1);

  /* A larger limit may leave less if a sibling uses much of it. */
  put("/sys/fs/cgroup/pod/box/inner/memory.current", "1000\n");
  put("/sys/fs/cgroup/pod/memory.high", "max\n");
  put("/sys/fs/cgroup/pod/memory.current", "5368709120\n");
  l = limits();
  assert_int_equal(l.available, GIB);
  assert_string_equal(l.memory_file, "/sys/fs/cgroup/pod/memory.max");
}

static void version_one(void **state) {
  (void)state;
  put("/proc/self/mountinfo", both);
  put("/proc/self/cgroup", "9:name=systemd:/x\n4:memory:/batch/7\n3:cpuset:/wrong\n2:cpu,cpuacct:/batch/7\n0::/\n");
  put("/sys/fs/cgroup/memory/batch/7/memory.limit_in_bytes", "4294967296\n");
  put("/sys/fs/cgroup/memory/batch/7/memory.usage_in_bytes", "2147483648\n");
  put("/sys/fs/cgroup/memory/batch/7/memory.stat",
      "cache 1\nhierarchical_memory_limit 9223372036854771712\ntotal_active_file 1073741824\n");
  put("/sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/cpu,cpuacct/batch/7/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/batch/7/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "310000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpuset/wrong/cpu.cfs_quota_us", "1000\n");
  adji_limits l = limits();
  assert_int_equal(l.group_memory, 4 * GIB);
  assert_int_equal(l.available, 3 * GIB);
  assert_string_equal(l.memory_file, "/sys/fs/cgroup/memory/batch/7/memory.limit_in_bytes");
  assert_true(l.quota == 3.1);
  assert_int_equal(adji_limits_threads(&l, 64), 4);
  assert_int_equal(adji_limits_threads(&l, 3), 3);

  /* A limit of a group above the mount. */
  put("/sys/fs/cgroup/memory/batch/7/memory.stat", "hierarchical_memory_limit 1073741824\n");
  put("/sys/fs/cgroup/memory/batch/7/memory.usage_in_bytes", "0\n");
  l = limits();
  assert_int_equal(l.available, GIB);
  assert_string_equal(l.memory_file, "/sys/fs/cgroup/memory/batch/7/memory.stat");
}

/* Cgroups of both versions at once: memory in version 2, cores in version 1. */
static void hybrid(void **state) {
  (void)state;
  put("/proc/self/mountinfo", both);
  put("/proc/self/cgroup", "2:cpuacct,cpu:/a\n0::/b\n");
  put("/sys/fs/cgroup/unified/b/memory.max", "1073741824\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  adji_limits l = limits();
  assert_int_equal(l.available, GIB);
  assert_true(l.quota == 2);
}

/* In a container the path may be a path of the host, while the mount shows only the container's group. */
static void containers(void **state) {
  (void)state;
  put("/proc/self/mountinfo",
      "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
      "36 31 0:33 /docker/abc /sys/fs/with\\040blank ro - cgroup cgroup rw,cpu\n");
  put("/proc/self/cgroup", "4:memory:/docker/abc\n2:cpu:/docker/abc/deeper\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  put("/sys/fs/with blank/deeper/cpu.cfs_quota_us", "300000\n");
  put("/sys/fs/with blank/deeper/cpu.cfs_period_us", "100000\n");
  adji_limits l = limits();
  assert_int_equal(l.available, GIB);
  assert_string_equal(l.memory_file, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  assert_true(l.quota == 3);

  static const char *const paths[] = {"0::/\n", "0::/../outside\n", "0::/system.slice/docker-abc.scope\n"};
  put("/proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  put("/sys/fs/cgroup/memory.max", "2147483648\n");
  put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  for (int i = 0; i < 3; i++) {
    put("/proc/self/cgroup", paths[i]);
    l = limits();
    assert_int_equal(l.available, 2 * GIB);
    assert_true(l.quota == 0.5);
  }
}

/* Text that cannot be understood limits nothing, and endless text is not read to the end. */
static void nonsense(void **state) {
  (void)state;
  static const char *const numbers[] = {"",    "\n",     "-5\n", "12x\n", "x12\n", "99999999999999999999999\n",
                                        "0\n", "1 2 3\n"};
  put("/proc/self/mountinfo", unified);
  put("/proc/self/cgroup", "0::/g\n");
  for (int i = 0; i < 8; i++) {
    put("/sys/fs/cgroup/g/memory.max", numbers[i]);
    put("/sys/fs/cgroup/g/memory.high", numbers[i]);
    put("/sys/fs/cgroup/g/cpu.max", numbers[i]);
    adji_limits l = limits();
    nothing_limits(&l);
  }
  put("/sys/fs/cgroup/g/cpu.max", "100000 0\n");
  adji_limits l = limits();
  nothing_limits(&l);
  put("/sys/fs/cgroup/g/memory.max", "1073741824\n");
  static const char *const mounts[] = {"", "- cgroup2\n", "1 2 3 - cgroup2 c rw\n", "1 2 3 / - cgroup2 c rw\n",
                                       "\n\n - \n"};
  for (int i = 0; i < 5; i++) {
    put("/proc/self/mountinfo", mounts[i]);
    l = limits();
    nothing_limits(&l);
  }
  static const char *const groups[] = {"", "0:\n", "0::relative\n", ":::::\n", "memory\n"};
  put("/proc/self/mountinfo", unified);
  for (int i = 0; i < 5; i++) {
    put("/proc/self/cgroup", groups[i]);
    l = limits();
    nothing_limits(&l);
  }
  /* A line that is too long is skipped, and the next one counts. A path that is too long is not opened. */
  char *text = calloc(1, 100000);
  memset(text, 'x', 60000);
  memcpy(text + 60000, "\n0::/g\n", 8);
  put("/proc/self/cgroup", text);
  assert_int_equal(limits().available, GIB);
  memcpy(text, "0::/", 4);
  memset(text + 4, 'y', 3000);
  memcpy(text + 3004, "\n", 2);
  put("/proc/self/cgroup", text);
  l = limits();
  nothing_limits(&l);
  free(text);
}

/* The limits of a context by default and when they are asked for, and what it says about their origin. */
static void contexts_say_where_from(void **state) {
  (void)state;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(NULL, &ctx));
  assert_true(strstr(adj_ctx_threads_from(ctx), "usable core") != NULL);
  assert_true(strstr(adj_ctx_memory_from(ctx), "90 % of ") == adj_ctx_memory_from(ctx));
  adj_ctx_destroy(ctx);
  ctx = context_of(3, NULL);
  assert_int_equal(adj_ctx_threads(ctx), 3);
  assert_string_equal(adj_ctx_threads_from(ctx), "as asked for");
  adj_ctx_destroy(ctx);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
  const struct CMUnitTest tests[] = {
      TEST(machines_without_groups),
      TEST(version_two),
      TEST(the_least_on_the_way_up),
      TEST(version_one),
      TEST(hybrid),
      TEST(containers),
      TEST(nonsense),
      TEST(contexts_say_where_from),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
