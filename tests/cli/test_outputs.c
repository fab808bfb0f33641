/* SPDX-License-Identifier: MIT
 *
 * Output files that must not be lost. Every system call that writes them fails in turn (the linker replaces the C
 * library's calls by the ones here), processes die, and other programs plant links and take names. After each of these
 * the folder has the whole old file or the whole new file, and nothing else.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/context.h"
#include "core/part.h"
#include "io/output.h"

/* ---- Calls that fail -------------------------------------------------------------------------- */

/* The wrapped calls: name, result, parameters, arguments. */
#define CALLS(X)                                                                                                       \
  X(PWRITE, pwrite, ssize_t, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at))                \
  X(WRITE, write, ssize_t, (int fd, const void *from, size_t bytes), (fd, from, bytes))                                \
  X(SYNC_RANGE, sync_file_range, int, (int fd, off_t at, off_t bytes, unsigned how), (fd, at, bytes, how))             \
  X(FSYNC, fsync, int, (int fd), (fd))                                                                                 \
  X(CLOSE, close, int, (int fd), (fd))                                                                                 \
  X(RENAME, renameat, int, (int from, const char *a, int to, const char *b), (from, a, to, b))                         \
  X(RENAME_NEW, renameat2, int, (int from, const char *a, int to, const char *b, unsigned how), (from, a, to, b, how)) \
  X(LINK, linkat, int, (int from, const char *a, int to, const char *b, int how), (from, a, to, b, how))               \
  X(CHMOD, fchmod, int, (int fd, mode_t mode), (fd, mode))                                                             \
  X(CHOWN, fchown, int, (int fd, uid_t user, gid_t group), (fd, user, group))                                          \
  X(LOCK, flock, int, (int fd, int how), (fd, how))

#define NUMBER(number, ...) number,
enum { CALLS(NUMBER) KINDS };

static struct {
  atomic_int remaining[KINDS]; /* calls until one fails; negative: none fails */
  int error;
  bool for_ever; /* all later calls fail too */
  int slow_ms;   /* sync_file_range takes this long, and does nothing */
  void (*before_lock)(void);
} fault;

static bool is_hit(int kind) {
  int before = atomic_load(&fault.remaining[kind]);
  if (before < 0) return false;
  if (before > 0) {
    atomic_fetch_sub(&fault.remaining[kind], 1);
    return false;
  }
  if (!fault.for_ever) atomic_store(&fault.remaining[kind], -1);
  return true;
}

/* A close that fails closes the descriptor all the same. */
#define WRAPPED(number, name, result, parameters, arguments)      \
  result __real_##name parameters;                                \
  result __wrap_##name parameters;                                \
  result __wrap_##name parameters {                               \
    if (number == SYNC_RANGE && fault.slow_ms) {                  \
      struct timespec wait = {0, fault.slow_ms * 1000000L};       \
      nanosleep(&wait, NULL);                                     \
      return 0;                                                   \
    }                                                             \
    if (number == LOCK && fault.before_lock) fault.before_lock(); \
    if (!is_hit(number)) return __real_##name arguments;          \
    if (number == CLOSE) (void)__real_##name arguments;           \
    errno = fault.error;                                          \
    return -1;                                                    \
  }
CALLS(WRAPPED)

static void no_faults(void) {
  for (int kind = 0; kind < KINDS; kind++)
    atomic_store(&fault.remaining[kind], -1);
  fault.for_ever = false;
  fault.slow_ms = 0;
}

static void fail_call(int kind, int n, int error) {
  no_faults();
  fault.error = error;
  atomic_store(&fault.remaining[kind], n);
}

/* ---- Files ------------------------------------------------------------------------------------ */

static int files_here(void) {
  DIR *folder = opendir(".");
  int count = 0;
  assert_non_null(folder);
  while (readdir(folder))
    count++;
  closedir(folder);
  return count - 2; /* "." and ".." */
}

static void put_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), strlen(text));
  close(fd);
}

static bool holds(const char *path, const char *text) {
  char found[256] = "";
  int fd = open(path, O_RDONLY);
  if (fd < 0) return false;
  ssize_t bytes = read(fd, found, sizeof found - 1);
  close(fd);
  return bytes == (ssize_t)strlen(text) && !strcmp(found, text);
}

static mode_t mode_of(const char *path) {
  struct stat about;
  assert_int_equal(stat(path, &about), 0);
  return about.st_mode & 07777;
}

static adj_ctx *ctx;

static adj_status save(const char *path, uint32_t flags) {
  return adj_text_save(ctx, path, "new", 3, flags);
}

static void must_save(const char *path) {
  must(save(path, 0));
  assert_true(holds(path, "new"));
}

/* ---- Faults ----------------------------------------------------------------------------------- */

/* Fails the n-th call, for every n. Returns how many failures were reported. */
static int try_faults(int kind, int error, uint32_t flags, bool replaces) {
  int noticed = 0;
  for (int n = 0;; n++) {
    assert_true(n < 100);
    if (replaces) put_file("x", "old");
    fail_call(kind, n, error);
    adj_status status = save("x", flags);
    bool hit = atomic_load(&fault.remaining[kind]) < 0;
    no_faults();
    bool complete = status == ADJ_OK;
    if (status &&
        (status != ADJ_E_IO || !strstr(adj_last_error(), strerror(error)) || strncmp(adj_last_error(), "x: ", 3)))
      fail_msg("call %d of kind %d: %s", n, kind, adj_last_error());
    assert_true(complete ? holds("x", "new") : replaces ? holds("x", "old") : access("x", F_OK) != 0);
    assert_int_equal(files_here(), complete || replaces);
    unlink("x");
    noticed += status != ADJ_OK;
    if (!hit) return noticed;
  }
}

static void test_faults(void **unused) {
  (void)unused;
  for (int replaces = 0; replaces < 2; replaces++) {
    assert_int_equal(try_faults(PWRITE, ENOSPC, 0, replaces), 1);
    assert_int_equal(try_faults(PWRITE, EIO, 0, replaces), 1);
    assert_int_equal(try_faults(PWRITE, EINTR, 0, replaces), 0);
    assert_int_equal(try_faults(SYNC_RANGE, EIO, 0, replaces), 1);
    assert_int_equal(try_faults(SYNC_RANGE, ENOSYS, 0, replaces), 0);
    assert_int_equal(try_faults(FSYNC, EIO, 0, replaces), 2); /* the file, the folder */
    assert_int_equal(try_faults(FSYNC, EDQUOT, 0, replaces), 2);
    assert_int_equal(try_faults(FSYNC, EINVAL, 0, replaces), 0);
    assert_int_equal(try_faults(FSYNC, EIO, ADJ_NO_SYNC, replaces), 0); /* nothing is synced */
    assert_int_equal(try_faults(CLOSE, EIO, 0, replaces), 1);
    assert_int_equal(try_faults(CLOSE, EIO, ADJ_NO_SYNC, replaces), 1);
    assert_int_equal(try_faults(RENAME, EIO, 0, replaces), !replaces); /* existing files are exchanged instead */
    assert_int_equal(try_faults(RENAME_NEW, EINVAL, 0, replaces), 0);
    assert_int_equal(try_faults(LOCK, ENOLCK, 0, replaces), 0);
    assert_int_equal(try_faults(LOCK, EWOULDBLOCK, 0, replaces),
                     0); /* another run that removes garbage holds the lock */
    assert_int_equal(try_faults(CHMOD, EPERM, 0, replaces), replaces);
  }
  assert_int_equal(try_faults(RENAME_NEW, EIO, ADJ_NO_CLOBBER, false), 1);
  assert_int_equal(try_faults(RENAME_NEW, EINVAL, ADJ_NO_CLOBBER, false), 0); /* uses a link instead */
  assert_int_equal(files_here(), 0);
}

/* If names cannot be exchanged, the old file stays when renaming fails. When only the sync of the folder fails, the new
 * file has replaced it. */
static void test_faults_without_exchange(void **unused) {
  (void)unused;
  put_file("x", "old");
  fail_call(RENAME_NEW, 0, EINVAL);
  atomic_store(&fault.remaining[RENAME], 0);
  assert_int_equal(save("x", 0), ADJ_E_IO);
  no_faults();
  assert_non_null(strstr(adj_last_error(), "x: cannot be renamed"));
  assert_true(holds("x", "old"));
  fail_call(RENAME_NEW, 0, EIO);
  atomic_store(&fault.remaining[FSYNC], 1);
  assert_int_equal(save("x", 0), ADJ_E_IO);
  no_faults();
  assert_non_null(strstr(adj_last_error(), "x: is complete, but its folder"));
  assert_true(holds("x", "new"));
  assert_int_equal(files_here(), 1);
  unlink("x");
}

/* Neither renaming nor linking is possible, so the code checks whether the name is free. */
static void test_new_without_links(void **unused) {
  (void)unused;
  fail_call(RENAME_NEW, 0, ENOSYS);
  atomic_store(&fault.remaining[LINK], 0);
  must(save("x", ADJ_NO_CLOBBER));
  no_faults();
  assert_true(holds("x", "new"));
  assert_int_equal(files_here(), 1);
  unlink("x");
}

typedef struct result_world {
  adj_dataset *points;
  adj_plan *plan;
} result_world;

static void make_result(result_world *world) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = 3;
  spec.flags = ADJ_WITH_DISTANCE;
  world->points = uniform(ctx, 300, 2);
  must(adj_plan_create(ctx, &spec, world->points, NULL, &world->plan));
}

/* A result of two files: if anything fails, both are the old files. */
static void test_faults_of_two_files(void **unused) {
  (void)unused;
  static const int kinds[] = {PWRITE, SYNC_RANGE, FSYNC, CLOSE, RENAME, RENAME_NEW};
  result_world world;
  make_result(&world);
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.distances = "far.npy";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    int noticed = 0;
    for (int n = 0, hit = 1; hit; n++) {
      put_file("near.npy", "old");
      put_file("far.npy", "old");
      fail_call(kinds[i], n, EIO);
      adj_status status = adj_write(world.plan, "near.npy", &options, NULL, NULL);
      hit = atomic_load(&fault.remaining[kinds[i]]) < 0;
      no_faults();
      noticed += status != ADJ_OK;
      assert_int_equal(files_here(), 2);
      assert_int_equal(holds("near.npy", "old"), status != ADJ_OK);
      assert_int_equal(holds("far.npy", "old"), status != ADJ_OK);
    }
    assert_true(noticed >= (kinds[i] == RENAME || kinds[i] == RENAME_NEW ? 0 : 2));
  }
  /* The second of two new files cannot get its name, so the first is removed again. */
  unlink("near.npy");
  unlink("far.npy");
  fail_call(RENAME, 1, EIO);
  assert_int_equal(adj_write(world.plan, "near.npy", &options, NULL, NULL), ADJ_E_IO);
  no_faults();
  assert_int_equal(files_here(), 0);
  unlink("near.npy");
  unlink("far.npy");
  adj_plan_destroy(world.plan);
  adj_dataset_destroy(world.points);
}

/* A pipe may take fewer bytes than it is given. A pipe without a reader is an error. */
static void test_broken_pipe(void **unused) {
  (void)unused;
  int ends[2], kept = dup(STDOUT_FILENO);
  signal(SIGPIPE, SIG_IGN);
  fflush(stdout);
  assert_int_equal(pipe(ends), 0);
  close(ends[0]);
  dup2(ends[1], STDOUT_FILENO);
  adj_status status = save("-", 0);
  dup2(kept, STDOUT_FILENO);
  close(kept);
  close(ends[1]);
  assert_int_equal(status, ADJ_E_IO);
  assert_string_equal(adj_last_error(), "standard output: cannot be written: Broken pipe");
}

/* ---- Waiting that can be cancelled --------------------------------------------------------------- */

static void *cancel_soon(void *milliseconds) {
  struct timespec wait = {0, *(const int *)milliseconds * 1000000L};
  nanosleep(&wait, NULL);
  adj_cancel(ctx);
  return NULL;
}

static double now(void) {
  return (double)adji_now_ns() * 1e-9;
}

static void test_cancel_while_syncing(void **unused) {
  (void)unused;
  adji_output *output;
  put_file("x", "old");
  must(adji_output_open(ctx, "x", 0, &output));
  must(adji_output_write_at(output, (uint64_t)8 << 30, "end", 3)); /* a hole of 8 GiB: 257 chunks */
  no_faults();
  fault.slow_ms = 50;
  int after = 200;
  pthread_t thread;
  adji_call outer = adji_call_begin(&ctx->cancels);
  pthread_create(&thread, NULL, cancel_soon, &after);
  double began = now();
  adj_status status = adji_output_close(output, ADJ_OK);
  double took = now() - began;
  adji_call_set(outer);
  pthread_join(thread, NULL);
  no_faults();
  assert_int_equal(status, ADJ_CANCELLED);
  assert_true(took > 0.15 && took < 2);
  assert_true(holds("x", "old"));
  assert_int_equal(files_here(), 1);
  unlink("x");
}

static void test_cancel_while_nobody_reads(void **unused) {
  (void)unused;
  assert_int_equal(mkfifo("pipe", 0600), 0);
  int after = 200;
  pthread_t thread;
  pthread_create(&thread, NULL, cancel_soon, &after);
  double began = now();
  assert_int_equal(save("pipe", 0), ADJ_CANCELLED);
  double took = now() - began;
  assert_true(took > 0.15 && took < 2);
  pthread_join(thread, NULL);
  unlink("pipe");
}

/* ---- Access rights ---------------------------------------------------------------------------- */

static void test_modes(void **unused) {
  (void)unused;
  static const mode_t modes[] = {0600, 0640, 0664, 0666, 0755, 0700, 04755};
  mode_t before = umask(027);
  must_save("x");
  assert_int_equal(mode_of("x"), 0640);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    put_file("x", "old");
    assert_int_equal(chmod("x", modes[i]), 0);
    must_save("x");
    assert_int_equal(mode_of("x"), modes[i] & 0777); /* writing clears set-user-id */
  }
  umask(before);
  unlink("x");
  if (geteuid()) {
    assert_int_equal(mkdir("d", 0500), 0);
    assert_int_equal(save("d/x", 0), ADJ_E_IO);
    rmdir("d");
    put_file("x", "old");
    chmod("x", 0400);
    assert_int_equal(save("x", 0), ADJ_E_IO);
    assert_non_null(strstr(adj_last_error(), "Permission denied"));
    assert_true(holds("x", "old"));
    unlink("x");
  }
}

static void test_owner(void **unused) {
  (void)unused;
  struct stat about;
  if (geteuid()) skip();
  put_file("x", "old");
  assert_int_equal(chown("x", 12345, 23456), 0);
  chmod("x", 0640);
  must_save("x");
  assert_int_equal(stat("x", &about), 0);
  assert_int_equal(about.st_uid, 12345);
  assert_int_equal(about.st_gid, 23456);
  assert_int_equal(mode_of("x"), 0640);
  /* If chown is not permitted, the group gets no access. */
  fail_call(CHOWN, 0, EPERM);
  fault.for_ever = true;
  must(save("x", 0));
  no_faults();
  assert_int_equal(mode_of("x"), 0600);
  unlink("x");
}

/* With an access control list, the group bits of the mode are the mask of the list, not the rights of the group. */
static void test_access_list(void **unused) {
  (void)unused;
  static const char name[] = "system.posix_acl_access";
  static const struct {
    uint16_t tag, rights;
    uint32_t id;
  } entries[] = {{1, 6, UINT32_MAX}, {2, 4, 12345}, {4, 0, UINT32_MAX}, {16, 4, UINT32_MAX}, {32, 0, UINT32_MAX}};
  char list[4 + sizeof entries] = {2}, found[256];
  memcpy(list + 4, entries, sizeof entries);
  put_file("x", "old");
  if (setxattr("x", name, list, sizeof list, 0)) { /* this file system has no access control lists */
    unlink("x");
    skip();
  }
  assert_int_equal(mode_of("x"), 0640);
  must_save("x");
  assert_int_equal(mode_of("x"), 0640);
  assert_int_equal(getxattr("x", name, found, sizeof found), sizeof list);
  assert_memory_equal(found, list, sizeof list);
  unlink("x");
}

/* A file that replaces a private one is private while it is written. */
static void test_part_is_private(void **unused) {
  (void)unused;
  adji_output *output;
  put_file("x", "old");
  chmod("x", 0600);
  must(adji_output_open(ctx, "x", 0, &output));
  DIR *folder = opendir(".");
  const struct dirent *entry;
  int parts = 0;
  while ((entry = readdir(folder)))
    if (strstr(entry->d_name, ".part-adjoin-")) {
      parts++;
      assert_int_equal(mode_of(entry->d_name), 0600);
    }
  closedir(folder);
  assert_int_equal(parts, 1);
  assert_int_equal(adji_output_close(output, ADJ_E_LIMIT), ADJ_E_LIMIT);
  unlink("x");
}

/* ---- Links and names -------------------------------------------------------------------------- */

static void test_links(void **unused) {
  (void)unused;
  struct stat about;
  mkdir("d", 0700);
  assert_int_equal(symlink("d/file", "dangling"), 0);
  assert_int_equal(symlink("../dangling", "d/second"), 0);
  assert_int_equal(symlink("d/second", "first"), 0);
  must_save("first");
  assert_true(holds("d/file", "new"));
  static const char *const links[] = {"first", "d/second", "dangling"};
  for (int i = 0; i < 3; i++)
    assert_true(!lstat(links[i], &about) && S_ISLNK(about.st_mode));
  put_file("d/file", "old");
  must_save("first"); /* the link is no longer dangling */
  assert_true(!lstat("d/file", &about) && S_ISREG(about.st_mode));
  unlink("d/file");
  unlink("d/second");
  assert_int_equal(symlink("../first", "d/second"), 0); /* a circle of links */
  assert_int_equal(save("first", 0), ADJ_E_IO);
  assert_int_equal(symlink("nowhere/file", "lost"), 0);
  assert_int_equal(save("lost", 0), ADJ_E_IO);
  assert_non_null(strstr(adj_last_error(), "lost: cannot be written: its folder does not exist"));
  static const char *const all[] = {"first", "d/second", "dangling", "lost"};
  for (int i = 0; i < 4; i++)
    assert_int_equal(unlink(all[i]), 0);
  assert_int_equal(rmdir("d"), 0);
}

/* In a folder like /tmp, another user's link to a file of ours is not followed. */
static void test_planted_links(void **unused) {
  (void)unused;
  if (geteuid()) skip();
  put_file("mine", "old");
  mkdir("shared", 0700);
  chmod("shared", 01777);
  assert_int_equal(symlink("../mine", "shared/x"), 0);
  assert_int_equal(symlink("../none", "shared/y"), 0);
  assert_int_equal(symlink("/dev/null", "shared/z"), 0);
  must_save("shared/x"); /* the user's own link */
  put_file("mine", "old");
  static const char *const links[] = {"shared/x", "shared/y", "shared/z"};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(lchown(links[i], 12345, 12345), 0);
    assert_int_equal(save(links[i], 0), ADJ_E_IO);
    const char *const paths[] = {links[i], NULL};
    assert_int_equal(adj_paths_check(NULL, paths, 0), ADJ_E_IO);
    assert_int_equal(unlink(links[i]), 0);
  }
  assert_true(holds("mine", "old"));
  assert_int_not_equal(access("none", F_OK), 0);
  assert_int_equal(rmdir("shared"), 0);
  unlink("mine");
}

static void test_long_names(void **unused) {
  (void)unused;
  char name[256];
  memset(name, 'n', 255);
  name[255] = 0;
  must_save(name);
  must_save(name);
  assert_int_equal(files_here(), 1);
  unlink(name);
  for (int i = 0; i + 1 < 254; i += 2)
    memcpy(name + i, "\xc3\xa4", 3); /* two bytes per letter */
  must_save(name);
  unlink(name);
}

static void test_no_clobber(void **unused) {
  (void)unused;
  put_file("x", "old");
  must_fail(ADJ_E_IO, "x: exists already, and is not to be replaced", save("x", ADJ_NO_CLOBBER));
  assert_true(holds("x", "old"));
  must(save("/dev/null", ADJ_NO_CLOBBER));
  must(save("y", ADJ_NO_CLOBBER));
  /* Another program creates the file meanwhile; our file gets its name by rename, or by link. */
  for (int linked = 0; linked < 2; linked++) {
    unlink("x");
    adji_output *output;
    must(adji_output_open(ctx, "x", ADJ_NO_CLOBBER, &output));
    put_file("x", "other");
    if (linked) fail_call(RENAME_NEW, 0, EINVAL);
    assert_int_equal(adji_output_close(output, ADJ_OK), ADJ_E_IO);
    no_faults();
    assert_non_null(strstr(adj_last_error(), "exists already"));
    assert_true(holds("x", "other"));
  }
  assert_int_equal(files_here(), 2);
  unlink("x");
  unlink("y");
}

static adj_status check(const char *input, const char *output, const char *second) {
  const char *const inputs[] = {input, NULL}, *const outputs[] = {output, second, NULL};
  return adj_paths_check(inputs, outputs, 0);
}

static void test_same_files(void **unused) {
  (void)unused;
  put_file("in", "old");
  mkdir("d", 0700);
  assert_int_equal(symlink("in", "soft"), 0);
  assert_int_equal(link("in", "d/hard"), 0);
  assert_int_equal(symlink("d", "e"), 0);
  assert_int_equal(symlink("d/new", "dangling"), 0);
  char here[1024], whole[1032];
  assert_non_null(getcwd(here, sizeof here));
  snprintf(whole, sizeof whole, "%s/in", here);
  static const char *const other[] = {"in", "./in", "d/../in", "soft", "d/hard", "e/hard"};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
    must_fail(ADJ_E_ARGUMENT, "is the same file as the input in", check("in", other[i], NULL));
    must_fail(ADJ_E_ARGUMENT, "is the same file as the output in", check("none", "in", other[i]));
    must_fail(ADJ_E_ARGUMENT, "input", check(other[i], "new", whole));
  }
  /* Outputs that do not exist yet. */
  must_fail(ADJ_E_ARGUMENT, "is the same file as the output d/new", check("in", "d/new", "e/new"));
  must_fail(ADJ_E_ARGUMENT, "is the same file as the output dangling", check("in", "dangling", "d/./new"));
  must(check("in", "new", "d/new"));
  must(check("in", "d/new", "d/other"));
  must(check("in", "/dev/null", "/dev/null"));
  must(check("-", "-", "new"));
  must(check("none", "new", NULL));
  must(adj_paths_check(NULL, NULL, 0));
  must_fail(ADJ_E_IO, "d: cannot be written: Is a directory", check("in", "d", NULL));
  must_fail(ADJ_E_IO, "none/x: cannot be written", check("in", "none/x", NULL));
  const char *const old[] = {"in", NULL};
  must_fail(ADJ_E_IO, "in: exists already", adj_paths_check(NULL, old, ADJ_NO_CLOBBER));
  /* The second file of a result. */
  result_world world;
  make_result(&world);
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.distances = "e/new.npy";
  must_fail(ADJ_E_ARGUMENT, "need a file of their own", adj_write(world.plan, "d/new.npy", &options, NULL, NULL));
  adj_plan_destroy(world.plan);
  adj_dataset_destroy(world.points);
  static const char *const all[] = {"in", "soft", "d/hard", "e", "dangling"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    assert_int_equal(unlink(all[i]), 0);
  assert_int_equal(rmdir("d"), 0);
}

/* ---- Part files of the dead ------------------------------------------------------------------- */

/* Starts a process that opens an output, and writes one byte to a pipe when it is open. */
static pid_t start_writer(void) {
  int ends[2];
  char ready;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (!child) {
    adji_output *output;
    alarm(60); /* in case the test fails and leaves it running */
    adj_status status = adji_output_open(ctx, "result", 0, &output);
    if (!status) status = adji_output_write(output, "half", 4);
    if (write(ends[1], status ? "n" : "y", 1) == 1) pause();
    _exit(1);
  }
  close(ends[1]);
  assert_int_equal(read(ends[0], &ready, 1), 1);
  assert_int_equal(ready, 'y');
  close(ends[0]);
  return child;
}

static void end_writer(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

static void test_garbage(void **unused) {
  (void)unused;
  pid_t dead = start_writer(), alive = start_writer();
  end_writer(dead);
  assert_int_equal(files_here(), 2);
  must_save("other");
  assert_int_equal(files_here(), 2); /* the part file of the living process, and the new file */
  end_writer(alive);
  must_save("other");
  assert_int_equal(files_here(), 1);
  unlink("other");
}

/* Files that only look like part files, or belong to others, are not removed. */
static void test_what_is_not_garbage(void **unused) {
  (void)unused;
  static const char *const names[] = {
      "a.part-adjoin-0123456789abcdef",           "a.part-adjoin-01234567-0123456789abcdeg",
      "a.part-adjoin-01234567-0123456789abcdef0", "a.part-01234567-0123456789abcdef",
      "a.part-adjoin-01234567-0123456789abcdef", /* another host, today */
  };
  enum { NAMES = sizeof names / sizeof *names };
  for (int i = 0; i < NAMES; i++)
    put_file(names[i], "theirs");
  must_save("x");
  assert_int_equal(files_here(), NAMES + 1);
  const struct timespec yesterday[2] = {{time(NULL) - 90000, 0}, {time(NULL) - 90000, 0}};
  for (int i = 0; i < NAMES; i++)
    assert_int_equal(utimensat(AT_FDCWD, names[i], yesterday, 0), 0);
  must_save("x");
  assert_int_equal(files_here(), NAMES); /* only the last file is gone */
  for (int i = 0; i < NAMES - 1; i++)
    assert_int_equal(unlink(names[i]), 0);

  /* The name of a real part file is given to a link, to a second name, and to a file of another user. */
  pid_t child = start_writer();
  end_writer(child);
  char part[300] = "";
  DIR *folder = opendir(".");
  const struct dirent *entry;
  while ((entry = readdir(folder)))
    if (strstr(entry->d_name, ".part-adjoin-")) snprintf(part, sizeof part, "%s", entry->d_name);
  closedir(folder);
  assert_int_equal(link(part, "kept"), 0);
  must_save("x");
  assert_int_equal(access(part, F_OK), 0);
  unlink("kept");
  if (!geteuid()) {
    assert_int_equal(chown(part, 12345, 12345), 0);
    must_save("x");
    assert_int_equal(access(part, F_OK), 0);
  }
  unlink(part);
  assert_int_equal(symlink("x", part), 0);
  must_save("x");
  assert_int_equal(files_here(), 2);
  unlink(part);
  unlink("x");
}

/* Another run may take a part file for garbage before it is locked. This does no harm: a new one is made. */
static void remove_parts(void) {
  DIR *folder = opendir(".");
  const struct dirent *entry;
  assert_non_null(folder);
  while ((entry = readdir(folder)))
    if (strstr(entry->d_name, ".part-adjoin-")) assert_int_equal(unlink(entry->d_name), 0);
  closedir(folder);
  fault.before_lock = NULL;
}

static void test_hasty_neighbour(void **unused) {
  (void)unused;
  fault.before_lock = remove_parts;
  must_save("x");
  assert_null(fault.before_lock);
  assert_int_equal(files_here(), 1);
  unlink("x");
}

/* ---- Descriptors ------------------------------------------------------------------------------ */

static void test_closed_descriptors(void **unused) {
  (void)unused;
  int kept[3];
  fflush(stdout);
  for (int fd = 0; fd < 3; fd++) {
    kept[fd] = fcntl(fd, F_DUPFD, 10);
    close(fd);
  }
  adji_output *output = NULL;
  adj_status status = adji_output_open(ctx, "x", 0, &output);
  ssize_t written[3];
  for (int fd = 0; fd < 3; fd++)
    written[fd] = write(fd, "message", 7);
  if (!status) status = adji_output_close(output, adji_output_write(output, "new", 3));
  bool is_free[3];
  for (int fd = 0; fd < 3; fd++) {
    is_free[fd] = fcntl(fd, F_GETFD) < 0;
    dup2(kept[fd], fd);
    close(kept[fd]);
  }
  must(status);
  for (int fd = 0; fd < 3; fd++)
    assert_true(is_free[fd] && written[fd] < 0);
  assert_true(holds("x", "new"));
  unlink("x");
}

/* ---- Progress --------------------------------------------------------------------------------- */

enum { MOST_REPORTS = 1000 };

typedef struct reports {
  double began, at[MOST_REPORTS], fraction[MOST_REPORTS];
  int count, writing;
} reports;

static int note_progress(void *user, const adj_progress *where) {
  reports *r = user;
  if (r->count == MOST_REPORTS) return 0;
  r->at[r->count] = now() - r->began;
  r->fraction[r->count++] = where->fraction;
  r->writing += !strcmp(where->phase, "write");
  return 0;
}

/* Reads a pipe slowly, in 2 seconds. */
static void *read_slowly(void *path) {
  char buffer[1 << 16];
  int fd = open(path, O_RDONLY);
  uint64_t total = 0;
  double began = now();
  ssize_t bytes;
  while ((bytes = read(fd, buffer, sizeof buffer)) > 0) {
    total += (uint64_t)bytes;
    while ((now() - began) * 12e6 < (double)total)
      usleep(1000);
  }
  close(fd);
  return NULL;
}

/* The join takes a moment and writing takes two seconds. In the middle of writing, progress must be about a half. */
static void test_progress_includes_writing(void **unused) {
  (void)unused;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 0.04;
  adj_dataset *points = uniform(ctx, 17500, 2);
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, points, NULL, &plan));
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.format = "npy";
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  reports seen = {.began = now()};
  control.progress = note_progress;
  control.user = &seen;
  control.interval_ms = 20;
  assert_int_equal(mkfifo("pipe", 0600), 0);
  pthread_t thread;
  pthread_create(&thread, NULL, read_slowly, "pipe");
  must(adj_write(plan, "pipe", &options, &control, NULL));
  pthread_join(thread, NULL);
  double whole = now() - seen.began;
  assert_true(whole > 1);
  assert_true(seen.writing > 10);
  int checked = 0;
  for (int i = 0; i < seen.count; i++) {
    double expected = seen.at[i] / whole;
    if (expected < 0.4 || expected > 0.9) continue;
    checked++;
    if (seen.fraction[i] < expected - 0.25 || seen.fraction[i] > expected + 0.2)
      fail_msg("after %.2f of %.2f s: %.2f", seen.at[i], whole, seen.fraction[i]);
  }
  assert_true(checked > 5);
  unlink("pipe");
  adj_plan_destroy(plan);
  adj_dataset_destroy(points);
}

/* Each test starts and ends in an empty folder. */
static int enter_folder(void **state) {
  const char *parent = getenv("TMPDIR");
  char *folder = malloc(1024);
  snprintf(folder, 1024, "%s/adjoin-outputs-XXXXXX", parent ? parent : P_tmpdir);
  *state = folder;
  no_faults();
  ctx = context_of(2, NULL);
  return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int leave_folder(void **state) {
  int failed = chdir("/") || rmdir(*state);
  free(*state);
  adj_ctx_destroy(ctx);
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_faults_without_exchange),
      cmocka_unit_test(test_new_without_links),
      cmocka_unit_test(test_faults_of_two_files),
      cmocka_unit_test(test_broken_pipe),
      cmocka_unit_test(test_cancel_while_syncing),
      cmocka_unit_test(test_cancel_while_nobody_reads),
      cmocka_unit_test(test_modes),
      cmocka_unit_test(test_owner),
      cmocka_unit_test(test_access_list),
      cmocka_unit_test(test_part_is_private),
      cmocka_unit_test(test_links),
      cmocka_unit_test(test_planted_links),
      cmocka_unit_test(test_long_names),
      cmocka_unit_test(test_no_clobber),
      cmocka_unit_test(test_same_files),
      cmocka_unit_test(test_garbage),
      cmocka_unit_test(test_what_is_not_garbage),
      cmocka_unit_test(test_hasty_neighbour),
      cmocka_unit_test(test_closed_descriptors),
      cmocka_unit_test(test_progress_includes_writing),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
