/* SPDX-License-Identifier: MIT
 *
 * The helper process itself: restricts its own rights, opens the dataset, and reads its rows into the given slots.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/hdf5_helper_private.h"

/* Seconds of CPU time for opening the file, and for each block. Bytes for the library's tables beside the chunks. */
enum { STEP_SECONDS = 300, TABLES_BYTES = 256 << 20 };

/* ---- Limits --------------------------------------------------------------------------------------------- */

static void limit(int limited, uint64_t most) {
  struct rlimit now;
  if (getrlimit(limited, &now)) return;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < most) most = now.rlim_max;
  now.rlim_cur = most;
  setrlimit(limited, &now);
}

/* Limits CPU time to STEP_SECONDS from now. After that a signal ends the process. */
static void limit_time(void) {
  struct rusage used;
  if (!getrusage(RUSAGE_SELF, &used))
    limit(RLIMIT_CPU, (uint64_t)used.ru_utime.tv_sec + (uint64_t)used.ru_stime.tv_sec + STEP_SECONDS);
}

/* Limits memory to `more` bytes more than now: memory that is mapped already may be large, as with sanitizers. */
static void limit_memory(uint64_t more) {
  FILE *file = fopen("/proc/self/statm", "r"); /* it begins with the number of pages */
  char line[128] = "";
  if (!file) return;
  const char *got = fgets(line, sizeof line, file);
  fclose(file);
  uint64_t pages = got ? strtoull(line, NULL, 10) : 0;
  if (pages && more < UINT64_MAX / 4) limit(RLIMIT_AS, pages * (uint64_t)sysconf(_SC_PAGESIZE) + more + TABLES_BYTES);
}

static void close_others(int first) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    long number = strtol(entry->d_name, NULL, 10); /* "." and "..": 0 */
    if (number >= first && number != dirfd(folder)) close((int)number);
  }
  closedir(folder);
}

/* The process ends with its parent, and ignores signals to interrupt, as the parent then ends it. It gains no rights by
 * running another program, writes no files or core dumps, and starts no processes. */
static void restrict_process(int first_descriptor) {
  static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    signal(ignored[i], SIG_IGN);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  close_others(first_descriptor);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_NPROC, 0);
}

/* ---- Messages ------------------------------------------------------------------------------------------- */

static bool send_message(adji_helper_message *message) {
  message->magic = adji_helper_magic();
  ssize_t sent;
  do
    sent = send(ADJI_HELPER_CHANNEL, message, sizeof *message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)sizeof *message;
}

static bool send_failure(adj_status status) {
  adji_helper_message message = {.kind = ADJI_HELPER_SAYS_FAILED, .status = (int32_t)status};
  snprintf(message.text, sizeof message.text, "%s", adj_last_error());
  return send_message(&message);
}

/* *descriptor: the descriptor that came with the message, or -1; NULL: none is allowed. False: the other side is
 * gone. */
static bool receive_message(adji_helper_kind wanted, adji_helper_message *message, int *descriptor) {
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } control;
  struct iovec bytes = {message, sizeof *message};
  struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
  if (descriptor) {
    packet.msg_control = &control;
    packet.msg_controllen = sizeof control.room;
    *descriptor = -1;
  }
  ssize_t got;
  do
    got = recvmsg(ADJI_HELPER_CHANNEL, &packet, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got != (ssize_t)sizeof *message || message->magic != adji_helper_magic() || message->kind != (uint32_t)wanted)
    return false;
  struct cmsghdr *head = descriptor ? CMSG_FIRSTHDR(&packet) : NULL;
  if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
    memcpy(descriptor, CMSG_DATA(head), sizeof *descriptor);
  return true;
}

/* ---- The work --------------------------------------------------------------------------------------------- */

/* Maps the shared memory. NULL: the other side is gone or sent none. */
static char *get_slots(uint64_t *slot_bytes, adji_row_range *rows) {
  adji_helper_message message;
  int memory;
  if (!receive_message(ADJI_HELPER_GETS_SLOTS, &message, &memory) || memory < 0) return NULL;
  *slot_bytes = message.number;
  *rows = message.rows;
  void *slots = mmap(NULL, ADJI_HELPER_SLOTS * *slot_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  close(memory);
  return slots == MAP_FAILED ? NULL : slots;
}

/* Reads block after block. A slot is free again when the block that is SLOTS earlier was taken. False after a
 * failure. */
static bool send_blocks(const adji_hdf5_table *table, adji_row_range rows, char *slots, uint64_t slot_bytes) {
  uint64_t taken = 0, end = rows.first + rows.count;
  adji_helper_message message;
  for (uint64_t block = 0, first = rows.first, many; first < end; block++, first += many) {
    for (; block >= taken + ADJI_HELPER_SLOTS; taken++)
      if (!receive_message(ADJI_HELPER_GETS_TAKEN, &message, NULL)) return false;
    limit_time();
    many = adji_hdf5_block(&table->shape, rows, first);
    adj_status status = adji_hdf5_rows(table, first, many, slots + block % ADJI_HELPER_SLOTS * slot_bytes);
    if (status) {
      send_failure(status);
      return false;
    }
    message = (adji_helper_message){.kind = ADJI_HELPER_SAYS_BLOCK, .number = block};
    if (!send_message(&message)) return false;
  }
  /* Once all blocks are taken, this process is killed or the channel is closed. */
  while (receive_message(ADJI_HELPER_GETS_TAKEN, &message, NULL)) {
  }
  return true;
}

static bool send_table(const adji_hdf5_input *input) {
  adji_hdf5_table table;
  adj_status status = adji_hdf5_open(input, &table);
  if (status) {
    send_failure(status);
    return false;
  }
  adji_helper_message message = {.kind = ADJI_HELPER_SAYS_SHAPE, .shape = table.shape};
  uint64_t slot_bytes = 0;
  adji_row_range rows = {0, 0};
  char *slots = send_message(&message) ? get_slots(&slot_bytes, &rows) : NULL;
  if (slots) limit_memory(table.shape.work_bytes);
  bool done = slots && send_blocks(&table, rows, slots, slot_bytes);
  adji_hdf5_close(&table);
  return done;
}

/* Loads the library before memory is limited: its own size does not count. */
static bool load_library(void) {
  const adji_hdf5 *h5;
  adj_status status = adji_hdf5_enter(&h5);
  if (status) {
    send_failure(status);
    return false;
  }
  adji_hdf5_leave();
  return true;
}

/* Maps the bytes of input that is not a plain file. The library could not open them by the name of the descriptor,
 * since it follows links. */
static bool map_input(adji_hdf5_input *input) {
  struct stat about;
  void *bytes = MAP_FAILED;
  if (!fstat(ADJI_HELPER_INPUT, &about) && about.st_size > 0)
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, ADJI_HELPER_INPUT, 0);
  if (bytes == MAP_FAILED) {
    send_failure(adji_fail(ADJ_E_MEMORY, "no memory for the helper's copies of the input: %s", strerror(errno)));
    return false;
  }
  input->bytes = bytes;
  input->size = (uint64_t)about.st_size;
  return true;
}

int adj_helper_main(int argc, char **argv) {
  struct stat channel;
  if (argc < ADJI_HELPER_ARGUMENTS || argc > ADJI_HELPER_ARGUMENTS + 1 || strcmp(argv[1], ADJ_HELPER) != 0 ||
      fstat(ADJI_HELPER_CHANNEL, &channel) || !S_ISSOCK(channel.st_mode))
    return 2;
  unsigned long flags = strtoul(argv[2], NULL, 10);
  bool descriptor = flags & ADJI_HELPER_DESCRIPTOR;
  adji_hdf5_input input = {.path = descriptor ? NULL : argv[4],
                           .dataset = argc > ADJI_HELPER_ARGUMENTS ? argv[5] : NULL,
                           .allow_external = flags & ADJI_HELPER_EXTERNAL,
                           .memory = strtoull(argv[3], NULL, 10)};
  restrict_process(descriptor ? ADJI_HELPER_INPUT + 1 : ADJI_HELPER_INPUT);
  limit_time();
  if (!load_library() || (descriptor && !map_input(&input))) return 1;
  limit_memory(input.memory + 2 * input.size);
  return send_table(&input) ? 0 : 1;
}
