/* SPDX-License-Identifier: MIT
 *
 * Part files: see part.h. Their names end in ".part-adjoin-", eight digits of the host, "-" and sixteen random digits.
 */
#define _GNU_SOURCE /* renameat2, sync_file_range */
#include "core/part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "core/threads.h"

/* Bytes to synchronise at a time: adj_cancel is checked in between. A slow disk takes a third of a second for them. */
static const uint64_t SYNC_BYTES = (uint64_t)32 << 20;

static const char MARK[] = ".part-adjoin-";

enum {
  HOST_DIGITS = 8,
  RANDOM_DIGITS = 16,
  ENDING = (int)sizeof MARK - 1 + HOST_DIGITS + 1 + RANDOM_DIGITS,
  ATTEMPTS = 100,
  MOST_ENTRIES = 100000, /* of a folder that are checked for garbage */
  FOREIGN_SECONDS = 86400,
};

static adj_status fail(const adji_part *part, const char *doing, int error) {
  return adji_fail(error == ENOMEM ? ADJ_E_MEMORY : ADJ_E_IO, "%s: %s: %s", part->path, doing, strerror(error));
}

static adj_status exists(const adji_part *part) {
  return adji_fail(ADJ_E_IO, "%s: exists already, and is not to be replaced", part->path);
}

/* ---- Names ------------------------------------------------------------------------------------ */

/* On network file systems locks may not be visible to other hosts, so a name says which host it is from. */
static uint32_t host_number(void) {
  char name[256] = "";
  uint32_t hash = 2166136261u;
  gethostname(name, sizeof name - 1);
  for (const char *at = name; *at; at++)
    hash = (hash ^ (unsigned char)*at) * 16777619u;
  return hash;
}

static uint64_t random_number(void) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number) return number;
  /* Reached only early in the boot. The file is created exclusively, so a guessable number does no harm. */
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return ((uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec) * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid();
}

/* The length of the longest prefix of the name that fits and ends between two UTF-8 characters. */
static size_t kept_bytes(const adji_place *place) {
  long most = fpathconf(place->folder, _PC_NAME_MAX);
  size_t room = (most > ENDING ? (size_t)most : 255) - ENDING, length = strlen(place->name);
  if (length <= room) return length;
  while (room && ((unsigned char)place->name[room] & 0xc0) == 0x80)
    room--;
  return room;
}

/* Whether the name is that of a part file; *host: whether it is from this host. */
static bool is_part_name(const char *name, bool *host) {
  static const char digits[] = "0123456789abcdef";
  size_t length = strlen(name);
  if (length < ENDING) return false;
  const char *mark = name + length - ENDING, *host_at = mark + sizeof MARK - 1, *random_at = host_at + HOST_DIGITS + 1;
  if (strncmp(mark, MARK, sizeof MARK - 1) != 0 || random_at[-1] != '-') return false;
  if (strspn(host_at, digits) != HOST_DIGITS || strspn(random_at, digits) != RANDOM_DIGITS) return false;
  char own[HOST_DIGITS + 1];
  snprintf(own, sizeof own, "%08x", host_number());
  *host = !strncmp(host_at, own, HOST_DIGITS);
  return true;
}

/* ---- Garbage ---------------------------------------------------------------------------------- */

/* Removes a part file that no process has locked. A process that has created one and not yet locked it notices: see
 * lock_part(). */
static void remove_abandoned(int folder, const char *name) {
  struct stat before, after;
  bool host;
  if (!is_part_name(name, &host) || fstatat(folder, name, &before, AT_SYMLINK_NOFOLLOW)) return;
  if (!S_ISREG(before.st_mode) || before.st_uid != geteuid() || before.st_nlink != 1) return;
  if (!host && time(NULL) - before.st_mtime < FOREIGN_SECONDS) return;
  int fd = adji_fd_above_standard(openat(folder, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd < 0) return;
  bool dead = !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &after) && after.st_ino == before.st_ino &&
              after.st_dev == before.st_dev && after.st_uid == before.st_uid && after.st_nlink == 1;
  if (dead) unlinkat(folder, name, 0);
  close(fd);
}

static void remove_garbage(const adji_place *place) {
  if (!place->listable) return;
  int fd = adji_fd_above_standard(openat(place->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (!folder) {
    if (fd >= 0) close(fd);
    return;
  }
  const struct dirent *entry;
  for (int i = 0; i < MOST_ENTRIES && (entry = readdir(folder)); i++)
    remove_abandoned(place->folder, entry->d_name);
  closedir(folder);
}

/* ---- Creating --------------------------------------------------------------------------------- */

/* Locks a file that was just created. EAGAIN: another process has removed it as garbage; a new one is needed. A file
 * system without locks is fine: nobody else can lock the file there, and so nobody removes it. */
static int lock_part(int fd) {
  struct stat about;
  if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return EAGAIN;
  if (fstat(fd, &about)) return errno;
  return about.st_nlink ? 0 : EAGAIN;
}

/* Creates the part file. If it replaces a file, only its owner has access until it gets the other file's access
 * rights. */
static int open_part(adji_part *part) {
  size_t kept = kept_bytes(&part->place), room = kept + ENDING + 1;
  part->name = malloc(room);
  if (!part->name) return ENOMEM;
  int error = EEXIST;
  for (int i = 0; i < ATTEMPTS && (error == EEXIST || error == EAGAIN); i++) {
    snprintf(part->name, room, "%.*s%s%08x-%016llx", (int)kept, part->place.name, MARK, host_number(),
             (unsigned long long)random_number());
    int fd = openat(part->place.folder, part->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    part->place.exists ? 0600 : 0666);
    part->fd = adji_fd_above_standard(fd);
    error = part->fd < 0 ? errno : lock_part(part->fd);
    if (!error) return 0;
    if (part->fd >= 0) {
      unlinkat(part->place.folder, part->name, 0);
      close(part->fd);
    }
    part->fd = -1;
  }
  free(part->name);
  part->name = NULL;
  return error;
}

/* Opens the file that would be replaced for writing, without writing to it: whether that is allowed depends on more
 * than its mode. Returns the descriptor, or -1 and errno. */
static int open_replaced(const adji_place *place) {
  return adji_fd_above_standard(openat(place->folder, place->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

adj_status adji_part_create(const char *path, adji_place *place, uint32_t flags, adji_part *part) {
  *part = (adji_part){.path = path, .place = *place, .fd = -1, .held = -1, .flags = flags};
  *place = (adji_place){.folder = -1};
  adj_status status = ADJ_OK;
  if (part->place.exists && (flags & ADJ_NO_CLOBBER)) {
    status = exists(part);
  } else if (part->place.exists) {
    int old = open_replaced(&part->place);
    if (old < 0) status = fail(part, "cannot be written", errno);
    if (old >= 0) close(old);
  }
  if (!status) {
    remove_garbage(&part->place);
    int error = open_part(part);
    if (error) status = fail(part, "cannot be created", error);
  }
  if (status) adji_part_discard(part);
  return status;
}

void adji_part_discard(adji_part *part) {
  if (!part->path) return;
  if (part->name) unlinkat(part->place.folder, part->name, 0);
  free(part->name);
  if (part->fd >= 0) close(part->fd);
  if (part->held >= 0) close(part->held);
  adji_place_clear(&part->place);
  *part = (adji_part){.path = NULL};
}

/* ---- Access rights ---------------------------------------------------------------------------- */

/* Copies the access control list, if the file has one. With a list the middle bits of the mode mean something else, so
 * a mode without its list could let the group in. */
static bool copy_acl(int from, int to) {
  static const char acl[] = "system.posix_acl_access";
  char list[4096];
  ssize_t bytes = fgetxattr(from, acl, list, sizeof list);
  if (bytes > 0) return !fsetxattr(to, acl, list, (size_t)bytes, 0);
  bool none = errno == ENODATA || errno == ENOTSUP;
  if (none) fremovexattr(to, acl); /* a default list that new files get in this folder */
  return none;
}

/* Copies owner, group and mode of the file that is replaced, as far as the system allows. No user gains access: if the
 * group cannot be set, the file's group gets the rights of all others. */
static int copy_access(int from, int to) {
  struct stat old;
  if (fstat(from, &old)) return errno;
  mode_t mode = old.st_mode & 0777;
  struct stat own;
  if (fstat(to, &own)) return errno;
  bool same = own.st_uid == old.st_uid && own.st_gid == old.st_gid;
  if (!same && fchown(to, old.st_uid, old.st_gid) && fchown(to, (uid_t)-1, old.st_gid))
    mode = (mode & 0707) | (mode & 07) << 3;
  if (!copy_acl(from, to)) mode = (mode & 0707) | (mode & 07) << 3;
  return fchmod(to, mode) ? errno : 0;
}

/* Takes the access rights of the file that exists now, not of the one when the part was created. */
static adj_status set_access(adji_part *part) {
  int old = open_replaced(&part->place);
  if (old < 0 && errno == ENOENT) return ADJ_OK;
  if (old < 0) return fail(part, "cannot be written", errno);
  int error = copy_access(old, part->fd);
  close(old);
  return error ? fail(part, "its access rights cannot be set", error) : ADJ_OK;
}

/* ---- Synchronising ---------------------------------------------------------------------------- */

/* Not every file system can synchronise; that is no failure. */
static bool cannot_sync(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ESPIPE;
}

/* fsync cannot be interrupted, so most of its work is done before it, a chunk at a time. */
static adj_status sync_chunks(const adji_part *part, uint64_t size, adji_synced_fn synced, void *user) {
  const unsigned how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (uint64_t at = 0; at < size; at += SYNC_BYTES) {
    uint64_t bytes = size - at < SYNC_BYTES ? size - at : SYNC_BYTES;
    if (adji_call_cancelled()) return adji_fail(ADJ_CANCELLED, "stopped by the caller");
    if (sync_file_range(part->fd, (off_t)at, (off_t)bytes, how)) {
      if (cannot_sync(errno)) return ADJ_OK;
      return fail(part, "cannot be synchronised with the disk", errno);
    }
    adj_status status = synced ? synced(user, bytes) : ADJ_OK;
    if (status) return status;
  }
  return adji_call_cancelled() ? adji_fail(ADJ_CANCELLED, "stopped by the caller") : ADJ_OK;
}

static adj_status sync_part(const adji_part *part, adji_synced_fn synced, void *user) {
  struct stat about;
  if (part->flags & ADJ_NO_SYNC) return ADJ_OK;
  if (fstat(part->fd, &about)) return fail(part, "cannot be written", errno);
  adj_status status = sync_chunks(part, (uint64_t)about.st_size, synced, user);
  if (!status && fsync(part->fd) && !cannot_sync(errno))
    status = fail(part, "cannot be synchronised with the disk", errno);
  return status;
}

/* Whether the name is still this part's file: in a folder that others may write to, it could be another file by now. */
static bool is_ours(const adji_part *part, const char *name) {
  struct stat named, held;
  return !fstatat(part->place.folder, name, &named, AT_SYMLINK_NOFOLLOW) && !fstat(part->held, &held) &&
         named.st_dev == held.st_dev && named.st_ino == held.st_ino;
}

adj_status adji_part_finish(adji_part *part, adji_synced_fn synced, void *user) {
  adj_status status = set_access(part);
  if (!status) status = sync_part(part, synced, user);
  if (status) return status;
  /* Some file systems report a write error only on close. The copy of the descriptor keeps the lock. */
  part->held = fcntl(part->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (part->held < 0) return fail(part, "cannot be written", errno);
  int fd = part->fd;
  part->fd = -1;
  if (close(fd)) return fail(part, "cannot be written", errno);
  return is_ours(part, part->name) ? ADJ_OK : fail(part, "its part file cannot be found", ENOENT);
}

/* ---- Renaming --------------------------------------------------------------------------------- */

/* Renames, but fails if the name exists. Not every file system supports that; most of the others support linking. */
static int rename_new(const adji_part *part) {
  const adji_place *place = &part->place;
  struct stat about;
  if (!renameat2(place->folder, part->name, place->folder, place->name, RENAME_NOREPLACE)) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  if (!linkat(place->folder, part->name, place->folder, place->name, 0)) {
    unlinkat(place->folder, part->name, 0);
    return 0;
  }
  if (errno == EEXIST || !fstatat(place->folder, place->name, &about, AT_SYMLINK_NOFOLLOW)) return EEXIST;
  return renameat(place->folder, part->name, place->folder, place->name) ? errno : 0;
}

static bool exchange(const adji_part *part) {
  const adji_place *place = &part->place;
  return !renameat2(place->folder, part->name, place->folder, place->name, RENAME_EXCHANGE);
}

/* Exchanges an old file with the new one, so that this can be undone. */
static int replace(adji_part *part) {
  const adji_place *place = &part->place;
  struct stat old;
  bool replaces = !fstatat(place->folder, place->name, &old, AT_SYMLINK_NOFOLLOW);
  part->swapped = replaces && S_ISREG(old.st_mode) && exchange(part);
  if (part->swapped) return 0;
  part->lost = replaces;
  return renameat(place->folder, part->name, place->folder, place->name) ? errno : 0;
}

bool adji_part_take_back(adji_part *part) {
  const adji_place *place = &part->place;
  if (!part->appeared || part->lost || !is_ours(part, place->name)) return false;
  bool done = part->swapped ? exchange(part) : !unlinkat(place->folder, place->name, 0);
  if (done) part->appeared = part->swapped = false;
  return done;
}

adj_status adji_part_commit(adji_part *part) {
  const adji_place *place = &part->place;
  bool must_be_new = part->flags & ADJ_NO_CLOBBER;
  int error = must_be_new ? rename_new(part) : replace(part);
  if (must_be_new && error == EEXIST) return exists(part);
  if (error) return fail(part, "cannot be renamed", error);
  part->appeared = true;
  if (!part->swapped) {
    free(part->name);
    part->name = NULL;
  }
  if ((part->flags & ADJ_NO_SYNC) || !place->listable || !fsync(place->folder) || cannot_sync(errno)) return ADJ_OK;
  error = errno;
  return fail(part,
              adji_part_take_back(part) ? "its folder cannot be synchronised with the disk"
                                        : "is complete, but its folder cannot be synchronised with the disk",
              error);
}
