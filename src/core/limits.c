/* SPDX-License-Identifier: MIT
 *
 * Memory and cores that this process may use. Two files tell where its control groups are: /proc/self/cgroup names a
 * group per hierarchy; /proc/self/mountinfo says where each hierarchy is mounted, and which of its groups is at the top
 * of the mount. In a container /proc/self/cgroup may name a path of the host, which the mount does not show; then the
 * top of the mount is the container's own group.
 *
 * Every file is read by lines of bounded length, and a bounded number of these.
 */
#include "core/limits.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/place.h"

enum { LINE = 4096, MOST_LINES = 65536, FOLDER = 1024 };

/* Numbers from this one on are how version 1 says that there is no limit. */
static const uint64_t NO_LIMIT = (uint64_t)1 << 60;

typedef struct lines {
  FILE *file;
  int count;
  char text[LINE];
} lines;

static bool open_lines(lines *l, const char *root, const char *folder, const char *name) {
  char path[2 * LINE];
  int length = snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
  l->count = 0;
  l->file = length > 0 && (size_t)length < sizeof path ? adji_open_text(path) : NULL;
  return l->file != NULL;
}

/* The next line that is not too long, without its end. Closes the file after the last. */
static bool next_line(lines *l) {
  bool whole = true;
  while (l->count++ < MOST_LINES && fgets(l->text, sizeof l->text, l->file)) {
    size_t length = strlen(l->text);
    bool ends = length && l->text[length - 1] == '\n', begins = whole;
    whole = ends || length + 1 < sizeof l->text;
    if (ends) l->text[length - 1] = 0;
    if (begins && whole) return true;
  }
  fclose(l->file);
  return false;
}

static void close_lines(lines *l) {
  fclose(l->file);
}

/* Reads a decimal number at *text, and advances *text past it. */
static bool take_number(const char **text, uint64_t *value) {
  char *end;
  if (!isdigit((unsigned char)**text)) return false;
  errno = 0;
  *value = strtoull(*text, &end, 10);
  *text = end;
  return errno == 0;
}

/* Reads a file whose only line is a number. */
static bool read_number(const char *root, const char *folder, const char *name, uint64_t *value) {
  lines l;
  if (!open_lines(&l, root, folder, name)) return false;
  if (!next_line(&l)) return false;
  const char *at = l.text;
  bool found = take_number(&at, value) && !*at;
  close_lines(&l);
  return found;
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

/* The sum of the values of these names in a table of lines "name value". */
static uint64_t sum_of(const char *root, const char *folder, const char *file, const char *const *names) {
  lines l;
  uint64_t sum = 0, value;
  if (!open_lines(&l, root, folder, file)) return 0;
  while (next_line(&l)) {
    for (int i = 0; names[i]; i++) {
      size_t length = strlen(names[i]);
      const char *at = l.text + length;
      if (strncmp(l.text, names[i], length) != 0 || !isspace((unsigned char)*at)) continue;
      at += strspn(at, " \t");
      if (take_number(&at, &value) && value < NO_LIMIT) sum += value;
    }
  }
  return sum;
}

/* The memory that is available without swapping; half of all memory if the system does not say. */
static uint64_t machine_memory(const char *root) {
  static const char *const names[] = {"MemAvailable:", NULL};
  uint64_t kib = sum_of(root, "/proc", "meminfo", names);
  if (kib) return kib * 1024;
  return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

/* The memory that a group with a limit can still get: what it does not use, and its cached files, which the system can
 * reclaim. A full group still gets a sixteenth: the system may reclaim more. */
static uint64_t group_available(const char *root, const char *folder, bool second, uint64_t limit) {
  static const char *const first_names[] = {"total_inactive_file", "total_active_file", NULL};
  static const char *const second_names[] = {"inactive_file", "active_file", NULL};
  uint64_t used = 0, least = limit / 16;
  if (!read_number(root, folder, second ? "memory.current" : "memory.usage_in_bytes", &used)) return limit;
  uint64_t files = sum_of(root, folder, "memory.stat", second ? second_names : first_names);
  used = used > files ? used - files : 0;
  return used < limit - least ? limit - used : least;
}

/* Takes the limit of folder/name if it leaves less than the limits found before. */
static void take_memory(const char *root, const char *folder, const char *name, uint64_t limit, adji_limits *out) {
  bool second = strcmp(name, "memory.max") == 0 || strcmp(name, "memory.high") == 0;
  if (!limit || limit >= NO_LIMIT) return;
  uint64_t available = group_available(root, folder, second, limit);
  if (available >= out->available) return;
  out->available = available;
  out->group_memory = limit;
  snprintf(out->memory_file, sizeof out->memory_file, "%s/%s", folder, name);
}

/* Version 2: a limit that is enforced (max), and one above which the system slows the group down to a crawl (high). */
static void take_memory_max(const char *root, const char *folder, adji_limits *out) {
  uint64_t limit;
  if (read_number(root, folder, "memory.max", &limit)) take_memory(root, folder, "memory.max", limit, out);
  if (read_number(root, folder, "memory.high", &limit)) take_memory(root, folder, "memory.high", limit, out);
}

/* Version 1: the group's own limit, and the lowest limit of all groups above it, which may lie outside of a container's
 * mount. */
static void take_memory_limit(const char *root, const char *folder, adji_limits *out) {
  static const char *const names[] = {"hierarchical_memory_limit", NULL};
  uint64_t limit;
  if (read_number(root, folder, "memory.limit_in_bytes", &limit))
    take_memory(root, folder, "memory.limit_in_bytes", limit, out);
  take_memory(root, folder, "memory.stat", sum_of(root, folder, "memory.stat", names), out);
}

/* ---- Cores --------------------------------------------------------------------------------------------------- */

static void take_quota(const char *folder, const char *name, uint64_t quota, uint64_t period, adji_limits *out) {
  if (!quota || !period || quota >= NO_LIMIT) return;
  double cores = (double)quota / (double)period;
  if (out->quota > 0 && cores >= out->quota) return;
  out->quota = cores;
  snprintf(out->quota_file, sizeof out->quota_file, "%s/%s", folder, name);
}

/* Version 2 has "quota period" in one file; the quota may be "max". */
static void take_cpu_max(const char *root, const char *folder, adji_limits *out) {
  lines l;
  uint64_t quota, period;
  if (!open_lines(&l, root, folder, "cpu.max")) return;
  if (!next_line(&l)) return;
  const char *at = l.text;
  if (take_number(&at, &quota) && *at++ == ' ' && take_number(&at, &period) && !*at)
    take_quota(folder, "cpu.max", quota, period, out);
  close_lines(&l);
}

/* Version 1 has two files; the quota may be -1. */
static void take_cfs_quota(const char *root, const char *folder, adji_limits *out) {
  uint64_t quota, period;
  if (read_number(root, folder, "cpu.cfs_quota_us", &quota) && read_number(root, folder, "cpu.cfs_period_us", &period))
    take_quota(folder, "cpu.cfs_quota_us", quota, period, out);
}

/* ---- Groups -------------------------------------------------------------------------------------------------- */

/* A hierarchy: version 2, which has all controllers, or one controller of version 1. */
typedef enum hierarchy { UNIFIED, MEMORY, CPU } hierarchy;
static const char *const controllers[] = {"", "memory", "cpu"};

static void take_group(const char *root, const char *folder, hierarchy which, adji_limits *out) {
  if (which == UNIFIED) {
    take_memory_max(root, folder, out);
    take_cpu_max(root, folder, out);
  } else if (which == MEMORY) {
    take_memory_limit(root, folder, out);
  } else {
    take_cfs_quota(root, folder, out);
  }
}

/* Takes the limits of the group and of all groups above it, up to the top of the mount. */
static void climb(const char *root, const char *mount, const char *group, hierarchy which, adji_limits *out) {
  char folder[FOLDER];
  size_t top = strlen(mount);
  int length = snprintf(folder, sizeof folder, "%s%s", mount, group);
  if (length < 0 || (size_t)length >= sizeof folder) return;
  for (;;) {
    size_t end = strlen(folder);
    while (end > top && folder[end - 1] == '/')
      folder[--end] = 0;
    take_group(root, folder, which, out);
    char *slash = end > top ? strrchr(folder + top, '/') : NULL;
    if (!slash) return;
    *slash = 0;
  }
}

/* Whether a comma-separated list contains the word. */
static bool lists(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (!strncmp(at, word, length) && (!at[length] || at[length] == ',')) return true;
  return false;
}

/* This process's group in a hierarchy, as in "4:memory:/user/7" and "0::/user/7". */
static bool find_group(const char *root, hierarchy which, char *group) {
  lines l;
  bool found = false;
  if (!open_lines(&l, root, "/proc/self", "cgroup")) return false;
  while (next_line(&l)) {
    char *names = strchr(l.text, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    names++;
    if (which == UNIFIED ? *names != 0 : !lists(names, controllers[which])) continue;
    int length = snprintf(group, FOLDER, "%s", path);
    found = *path == '/' && length < FOLDER;
  }
  return found;
}

/* Replaces octal escapes, such as those of blanks, by characters. */
static void unescape(char *text) {
  char *to = text;
  for (const char *at = text; *at; to++) {
    bool octal =
        at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' && at[3] >= '0' && at[3] <= '7';
    *to = octal ? (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0')) : *at;
    at += octal ? 4 : 1;
  }
  *to = 0;
}

/* The fields used from a line of mountinfo: "36 35 0:32 TOP PLACE options ... - TYPE source OPTIONS". */
typedef struct mounted {
  char *top, *place, *type, *options;
} mounted;

static bool split_mount(char *line, mounted *m) {
  char *rest = strstr(line, " - "), *save = NULL;
  if (!rest) return false;
  *rest = 0;
  rest += 3;
  for (int i = 0; i < 3; i++)
    if (!strtok_r(i ? NULL : line, " ", &save)) return false;
  m->top = strtok_r(NULL, " ", &save);
  m->place = strtok_r(NULL, " ", &save);
  m->type = strtok_r(rest, " ", &save);
  char *source = strtok_r(NULL, " ", &save);
  m->options = strtok_r(NULL, " ", &save);
  if (!m->top || !m->place || !m->type || !source || !m->options) return false;
  unescape(m->top);
  unescape(m->place);
  return true;
}

/* The group's path below the place where its hierarchy is mounted. */
static const char *below_mount(const char *top, const char *group) {
  size_t length = strcmp(top, "/") ? strlen(top) : 0;
  bool inside = !strncmp(group, top, length) && (group[length] == '/' || !group[length]);
  return inside && !strstr(group, "/..") ? group + length : "";
}

static void take_hierarchy(const char *root, hierarchy which, adji_limits *out) {
  lines l;
  char group[FOLDER];
  if (!find_group(root, which, group) || !open_lines(&l, root, "/proc/self", "mountinfo")) return;
  while (next_line(&l)) {
    mounted m;
    if (!split_mount(l.text, &m)) continue;
    if (strcmp(m.type, which == UNIFIED ? "cgroup2" : "cgroup") != 0) continue;
    if (which != UNIFIED && !lists(m.options, controllers[which])) continue;
    climb(root, m.place, below_mount(m.top, group), which, out);
  }
}

void adji_limits_read(const char *root, adji_limits *out) {
  memset(out, 0, sizeof *out);
  out->available = machine_memory(root);
  take_hierarchy(root, UNIFIED, out);
  take_hierarchy(root, MEMORY, out);
  take_hierarchy(root, CPU, out);
}

uint32_t adji_limits_threads(const adji_limits *limits, uint32_t cores) {
  if (limits->quota <= 0 || limits->quota >= cores) return cores;
  uint32_t whole = (uint32_t)limits->quota;
  return whole + (limits->quota > whole ? 1 : 0);
}
