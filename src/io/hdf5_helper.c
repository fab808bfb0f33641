/* SPDX-License-Identifier: MIT
 *
 * The helper process, seen from the process that wants the points.
 */
#define _GNU_SOURCE
#include "io/hdf5_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/hdf5_helper_private.h"

enum { POLL_MS = 100, DYING_MS = 2000 };

/* ---- The end of a helper ---------------------------------------------------------------------------------- */

/* Waits for the process and returns its wait status; -1: unknown, for example if the host program waits for all
 * children. */
static int reap(pid_t process) {
  int ended;
  pid_t got;
  do
    got = waitpid(process, &ended, 0);
  while (got < 0 && errno == EINTR);
  return got == process ? ended : -1;
}

void adji_helper_stop(adji_helper *helper) {
  if (helper->process) {
    kill(helper->process, SIGKILL);
    reap(helper->process);
  }
  if (helper->channel >= 0) close(helper->channel);
  if (helper->slots) munmap(helper->slots, ADJI_HELPER_SLOTS * helper->slot_bytes);
  adji_discharge(&helper->ctx->memory, helper->charged);
  *helper = (adji_helper){.ctx = helper->ctx, .channel = -1};
}

static const char *signal_name(int number) {
  static const struct {
    int number;
    const char *name;
  } names[] = {{SIGSEGV, "segmentation fault"}, {SIGABRT, "abort"}, {SIGBUS, "bus error"}, {SIGFPE, "arithmetic fault"},
               {SIGILL, "illegal instruction"}, {SIGKILL, "killed"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].number == number) return names[i].name;
  return "signal";
}

/* Called when the helper has closed its side without a message. It is dead or dying; if it is neither, it is killed. */
static adj_status report_crash(adji_helper *helper) {
  int ended = 0;
  pid_t got = 0;
  for (int waited = 0; waited < DYING_MS && !got; waited++) {
    got = waitpid(helper->process, &ended, WNOHANG);
    if (!got) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  if (got) helper->process = 0;
  if (got > 0 && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGXCPU)
    return adji_fail(ADJ_E_FORMAT, "hdf5: the HDF5 library does not come to an end with it; the file may be damaged");
  if (got > 0 && WIFSIGNALED(ended))
    return adji_fail(ADJ_E_FORMAT, "hdf5: the HDF5 library crashed on it (%s, signal %d); the file may be damaged",
                     signal_name(WTERMSIG(ended)), WTERMSIG(ended));
  return adji_fail(ADJ_E_FORMAT,
                   "hdf5: the helper program ended before all was read (exit status %d); the file may be "
                   "damaged",
                   got > 0 && WIFEXITED(ended) ? WEXITSTATUS(ended) : -1);
}

/* ---- Messages ------------------------------------------------------------------------------------------- */

/* Passes on a failure of the helper. Status and text reach the user, so only failures that a reader can have are
 * accepted, and control characters are replaced. */
static adj_status pass_failure(adji_helper_message *message) {
  static const adj_status known[] = {ADJ_E_ARGUMENT, ADJ_E_FORMAT, ADJ_E_IO, ADJ_E_MEMORY, ADJ_E_UNSUPPORTED};
  adj_status status = ADJ_E_FORMAT;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (message->status == (int32_t)known[i]) status = known[i];
  message->text[sizeof message->text - 1] = 0;
  for (char *at = message->text; *at; at++)
    if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
  return adji_fail(status, "%s", message->text);
}

/* Waits for a message, in short steps between which adj_cancel is checked. */
static adj_status receive_message(adji_helper *helper, adji_helper_kind wanted, adji_helper_message *message) {
  for (;;) {
    adj_status status = adji_check_cancel(helper->ctx);
    if (status) return status;
    ssize_t got = recv(helper->channel, message, sizeof *message, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      struct pollfd wait = {.fd = helper->channel, .events = POLLIN};
      poll(&wait, 1, POLL_MS);
      continue;
    }
    if (got <= 0) return report_crash(helper);
    bool whole = (size_t)got == sizeof *message && message->magic == adji_helper_magic();
    if (whole && message->kind == ADJI_HELPER_SAYS_FAILED) return pass_failure(message);
    if (whole && message->kind == (uint32_t)wanted) return ADJ_OK;
    return adji_fail(ADJ_E_IO, "hdf5: the helper program is another version of adjoin, or does not work");
  }
}

/* descriptor: to pass along, or -1. */
static adj_status send_message(adji_helper *helper, const adji_helper_message *content, int descriptor) {
  adji_helper_message message = *content;
  message.magic = adji_helper_magic();
  struct iovec bytes = {&message, sizeof message};
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
  if (descriptor >= 0) {
    packet.msg_control = &control;
    packet.msg_controllen = sizeof control.room;
    struct cmsghdr *head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  ssize_t sent;
  do
    sent = sendmsg(helper->channel, &packet, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)sizeof message ? ADJ_OK : report_crash(helper);
}

/* ---- Starting ---------------------------------------------------------------------------------------------- */

/* Moves a descriptor above the numbers of the helper's own descriptors, so that these do not overwrite it. */
static int move_up(int descriptor) {
  if (descriptor < 0 || descriptor > ADJI_HELPER_INPUT) return descriptor;
  int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, ADJI_HELPER_INPUT + 1);
  close(descriptor);
  return moved;
}

static int make_memory(const char *name, uint64_t bytes) {
  int memory = move_up(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory >= 0 && ftruncate(memory, (off_t)bytes)) {
    close(memory);
    return -1;
  }
  return memory;
}

/* Input from a pipe or a gzip file, as a file in memory. *descriptor is -1 if the helper opens the path itself. */
static adj_status pass_input(adji_source *source, adji_helper *helper, int *descriptor) {
  *descriptor = -1;
  if (source->plain_file) return ADJ_OK;
  uint64_t copies = adji_mul(3, source->size); /* the HDF5 library makes two more */
  if (!adji_charge(&source->ctx->memory, copies, "the helper's copies of the input")) return ADJ_E_MEMORY;
  helper->charged += copies;
  int memory = make_memory("adjoin input", source->size);
  void *to = MAP_FAILED;
  if (memory >= 0) to = mmap(NULL, source->size, PROT_WRITE, MAP_SHARED, memory, 0);
  if (to == MAP_FAILED) {
    adj_status status = adji_fail(ADJ_E_MEMORY, "no memory for the helper's copies of the input: %s", strerror(errno));
    if (memory >= 0) close(memory);
    return status;
  }
  memcpy(to, source->bytes, source->size);
  munmap(to, source->size);
  *descriptor = memory;
  return ADJ_OK;
}

/* The environment without variables that change which code HDF5 runs and which files it opens. The setting for file
 * locks is kept: some file systems have no locks. */
static char **clean_environment(void) {
  size_t count = 0, kept = 0;
  while (environ && environ[count])
    count++;
  char **clean = malloc((count + 1) * sizeof *clean);
  if (!clean) return NULL;
  for (size_t i = 0; i < count; i++)
    if (strncmp(environ[i], "HDF5_", 5) != 0 || !strncmp(environ[i], "HDF5_USE_FILE_LOCKING=", 22))
      clean[kept++] = environ[i];
  clean[kept] = NULL;
  return clean;
}

/* Standard output and error are discarded: failures are reported over the channel. */
static int spawn(const char *program, char **arguments, char **environment, int channel, int input, pid_t *process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = posix_spawn_file_actions_adddup2(&actions, channel, ADJI_HELPER_CHANNEL);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (!error) error = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    if (!error && input >= 0) error = posix_spawn_file_actions_adddup2(&actions, input, ADJI_HELPER_INPUT);
    if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
    if (!error) error = posix_spawn(process, program, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

static adj_status run_program(adji_source *source, const adj_open_options *options, adji_helper *helper, int input) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
    return adji_fail(ADJ_E_IO, "hdf5: no socket for the helper: %s", strerror(errno));
  helper->channel = move_up(pair[0]);
  int theirs = move_up(pair[1]);
  char flags[32], memory[32];
  snprintf(flags, sizeof flags, "%d",
           (options->allow_external ? ADJI_HELPER_EXTERNAL : 0) | (input >= 0 ? ADJI_HELPER_DESCRIPTOR : 0));
  snprintf(memory, sizeof memory, "%llu", (unsigned long long)adji_memory_available(&source->ctx->memory));
  char *arguments[] = {(char *)(uintptr_t)options->helper, (char *)(uintptr_t)ADJ_HELPER,       flags, memory,
                       (char *)(uintptr_t)source->path,    (char *)(uintptr_t)options->dataset, NULL};
  char **environment = clean_environment();
  int error = helper->channel < 0 || theirs < 0 ? EMFILE : ENOMEM;
  if (environment && helper->channel >= 0 && theirs >= 0)
    error = spawn(options->helper, arguments, environment, theirs, input, &helper->process);
  free(environment);
  if (theirs >= 0) close(theirs);
  if (!error) return ADJ_OK;
  helper->process = 0;
  return adji_fail(ADJ_E_IO, "hdf5: helper program \"%.200s\" cannot be started: %s", options->helper, strerror(error));
}

static adj_status check_shape(const adji_hdf5_shape *shape) {
  bool good = shape->stored >= 0 && shape->stored < ADJI_STORED_TYPES && shape->dim &&
              shape->block_rows <= shape->count && (!shape->count || shape->block_rows);
  return good ? ADJ_OK : adji_fail(ADJ_E_IO, "hdf5: the helper program reports a shape that cannot be");
}

adj_status adji_helper_start(adji_source *source, const adj_open_options *options, adji_helper *helper,
                             adji_hdf5_shape *shape) {
  *helper = (adji_helper){.ctx = source->ctx, .channel = -1};
  adji_helper_message message;
  int input;
  adj_status status = pass_input(source, helper, &input);
  if (!status) status = run_program(source, options, helper, input);
  if (input >= 0) close(input);
  if (!status) status = receive_message(helper, ADJI_HELPER_SAYS_SHAPE, &message);
  if (!status) status = check_shape(&message.shape);
  if (!status) *shape = message.shape;
  if (status) adji_helper_stop(helper);
  return status;
}

/* ---- Blocks -------------------------------------------------------------------------------------------------- */

adj_status adji_helper_begin(adji_helper *helper, const adji_hdf5_shape *shape, adji_row_range rows) {
  uint64_t row_bytes = adji_mul(shape->dim, adji_stored_size(shape->stored));
  uint64_t bytes = adji_mul(adji_mul(shape->block_rows, row_bytes), ADJI_HELPER_SLOTS);
  if (bytes > (uint64_t)1 << 60) return adji_fail(ADJ_E_MEMORY, "rows of an HDF5 file: exceed any machine");
  if (!adji_charge(&helper->ctx->memory, bytes, "rows of an HDF5 file")) return ADJ_E_MEMORY;
  helper->charged += bytes;
  if (!adji_charge(&helper->ctx->memory, shape->work_bytes, "chunks of an HDF5 file")) return ADJ_E_MEMORY;
  helper->charged += shape->work_bytes;
  /* Sealed, so that the helper cannot shorten the memory that is mapped here. */
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  helper->slot_bytes = (bytes / ADJI_HELPER_SLOTS + page - 1) / page * page;
  int memory = make_memory("adjoin rows", ADJI_HELPER_SLOTS * helper->slot_bytes);
  void *slots = MAP_FAILED;
  if (memory >= 0 && !fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
    slots = mmap(NULL, ADJI_HELPER_SLOTS * helper->slot_bytes, PROT_READ, MAP_SHARED, memory, 0);
  adj_status status = ADJ_OK;
  if (slots == MAP_FAILED)
    status = adji_fail(ADJ_E_MEMORY, "no memory shared with the helper: %s", strerror(errno));
  else
    helper->slots = slots;
  adji_helper_message message = {.kind = ADJI_HELPER_GETS_SLOTS, .number = helper->slot_bytes, .rows = rows};
  if (!status) status = send_message(helper, &message, memory);
  if (memory >= 0) close(memory);
  return status;
}

adj_status adji_helper_block(adji_helper *helper, uint64_t block, const void **bytes) {
  adji_helper_message message;
  adj_status status = receive_message(helper, ADJI_HELPER_SAYS_BLOCK, &message);
  if (status) return status;
  if (message.number != block) return adji_fail(ADJ_E_IO, "hdf5: the helper program sends blocks out of order");
  *bytes = helper->slots + block % ADJI_HELPER_SLOTS * helper->slot_bytes;
  return ADJ_OK;
}

adj_status adji_helper_done(adji_helper *helper, uint64_t block) {
  adji_helper_message message = {.kind = ADJI_HELPER_GETS_TAKEN, .number = block};
  return send_message(helper, &message, -1);
}
