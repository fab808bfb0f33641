/* SPDX-License-Identifier: MIT
 *
 * From a path to a folder and a name: see place.h.
 */
#define _GNU_SOURCE /* O_PATH */
#include "core/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* the kernel's limit */

int adji_fd_above_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  int above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
  close(fd);
  errno = error;
  return above;
}

FILE *adji_open_text(const char *path) {
  int fd = adji_fd_above_standard(open(path, O_RDONLY | O_CLOEXEC));
  FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
  if (!file && fd >= 0) close(fd);
  return file;
}

void adji_place_clear(adji_place *place) {
  if (place->folder >= 0) close(place->folder);
  free(place->name);
  place->folder = -1;
  place->name = NULL;
}

static adj_status refuse(const char *path, int error) {
  if (error == ENOENT)
    return adji_fail(ADJ_E_IO, "%s: cannot be written: its folder does not exist (%s)", path, strerror(error));
  return adji_fail(error == ENOMEM ? ADJ_E_MEMORY : ADJ_E_IO, "%s: cannot be written: %s", path, strerror(error));
}

/* Opens the folder of a path that is relative to the folder `from`, and stores the name in it. Returns an errno. */
static int enter(adji_place *place, int from, const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  char *name = strdup(slash ? slash + 1 : path);
  int error = folder && name ? 0 : ENOMEM, fd = -1;
  if (!error && !*name) error = EISDIR;
  if (!error) {
    const int how = O_DIRECTORY | O_CLOEXEC;
    fd = adji_fd_above_standard(openat(from, folder, how | O_RDONLY));
    place->listable = fd >= 0;
    if (fd < 0 && errno == EACCES) fd = adji_fd_above_standard(openat(from, folder, how | O_PATH));
    if (fd < 0) error = errno;
  }
  free(folder);
  if (error) {
    free(name);
    return error;
  }
  adji_place_clear(place);
  place->folder = fd;
  place->name = name;
  return 0;
}

/* Whether a link in a folder such as /tmp belongs to neither the caller nor the folder's owner. By default kernels
 * refuse to follow such links too. */
static bool is_planted(const adji_place *place, const struct stat *link) {
  struct stat folder;
  const mode_t shared = S_ISVTX | S_IWOTH;
  if (fstat(place->folder, &folder)) return true;
  return (folder.st_mode & shared) == shared && link->st_uid != geteuid() && link->st_uid != folder.st_uid;
}

/* Follows links until the name is not a link. */
static adj_status follow(const char *path, adji_place *place) {
  for (int links = 0; links <= MOST_LINKS; links++) {
    struct stat here;
    char target[PATH_MAX];
    if (fstatat(place->folder, place->name, &here, AT_SYMLINK_NOFOLLOW)) {
      if (errno == ENOENT && !place->exists) return ADJ_OK;
      return refuse(path, errno);
    }
    if (!S_ISLNK(here.st_mode)) {
      /* A link in /proc may lead to a file that no longer has a name. */
      if (place->exists && (here.st_dev != place->about.st_dev || here.st_ino != place->about.st_ino))
        return refuse(path, ESTALE);
      place->exists = true;
      place->about = here;
      return S_ISREG(here.st_mode) ? ADJ_OK : refuse(path, S_ISDIR(here.st_mode) ? EISDIR : ESTALE);
    }
    if (is_planted(place, &here))
      return adji_fail(ADJ_E_IO,
                       "%s: cannot be written: it is a link that user %lu put into a folder where everyone may create "
                       "files; give the path of the file itself",
                       path, (unsigned long)here.st_uid);
    ssize_t length = readlinkat(place->folder, place->name, target, sizeof target);
    if (length < 0 || length == (ssize_t)sizeof target) return refuse(path, length < 0 ? errno : ENAMETOOLONG);
    target[length] = 0;
    int error = enter(place, place->folder, target);
    if (error) return refuse(path, error);
  }
  return refuse(path, ELOOP);
}

/* Anything but a regular file is opened by its path later. Only the first link to it is checked: the next ones may be
 * in /proc, and lead to pipes without a name. */
static adj_status check_special(const char *path, adji_place *place) {
  struct stat link;
  bool planted = !fstatat(place->folder, place->name, &link, AT_SYMLINK_NOFOLLOW) && S_ISLNK(link.st_mode) &&
                 is_planted(place, &link);
  adji_place_clear(place);
  return planted ? refuse(path, EACCES) : ADJ_OK;
}

adj_status adji_place_find(const char *path, adji_place *place) {
  *place = (adji_place){.folder = -1};
  if (!*path) return adji_fail(ADJ_E_ARGUMENT, "path: must not be empty");
  place->exists = !stat(path, &place->about);
  if (!place->exists && errno != ENOENT) return refuse(path, errno);
  if ((place->exists && S_ISDIR(place->about.st_mode)) || path[strlen(path) - 1] == '/') return refuse(path, EISDIR);
  int error = enter(place, AT_FDCWD, path);
  if (error) return refuse(path, error);
  bool special = place->exists && !S_ISREG(place->about.st_mode);
  adj_status status = special ? check_special(path, place) : follow(path, place);
  if (status) adji_place_clear(place);
  return status;
}

bool adji_place_same(const adji_place *a, const adji_place *b) {
  if (a->exists != b->exists) return false;
  struct stat x = a->about, y = b->about;
  if (!a->exists && (strcmp(a->name, b->name) || fstat(a->folder, &x) || fstat(b->folder, &y))) return false;
  return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
