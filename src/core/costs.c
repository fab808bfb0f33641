/* SPDX-License-Identifier: MIT
 *
 * The costs of a machine in a file:
 *
 *   adjoin costs 1
 *   version 0.1.0
 *   machine Some CPU; 16 cores; avx512; no GPU
 *   index_point_ns 885000e-4
 *   ...
 *   end 24
 *
 * with one line for each cost, in any order, and their number in the last line. A file in any other form is not used at
 * all: half of the figures would be worse than none.
 */
#include "core/costs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/part.h"
#include "core/threads.h"

const adji_costs adji_built_in_costs = {
#define ADJI_COST_VALUE(name, value) .name = (value),
    ADJI_COSTS(ADJI_COST_VALUE)
#undef ADJI_COST_VALUE
};

static const struct {
  const char *name;
  size_t offset;
} lines[] = {
#define ADJI_COST_LINE(name, value) {#name, offsetof(adji_costs, name)},
    ADJI_COSTS(ADJI_COST_LINE)
#undef ADJI_COST_LINE
};
enum { LINES = sizeof lines / sizeof *lines, FORMAT = 1, LONGEST = 512, LARGEST = 64 << 10 };

/* A figure that differs from the built-in one by more than this factor cannot be true of any machine. */
static const double MOST_OFF = 1e4;

static double *cost_at(adji_costs *costs, int i) {
  return (double *)(void *)((char *)costs + lines[i].offset);
}

/* ---- The machine ----------------------------------------------------------------------------------------- */

/* Finds the first line that starts with `begin`; rest receives the text after its colon. */
static bool find_line(const char *path, const char *begin, char *rest, size_t capacity) {
  char line[LONGEST];
  bool found = false;
  FILE *file = adji_open_text(path);
  while (file && !found && fgets(line, sizeof line, file)) {
    found = !strncmp(line, begin, strlen(begin));
    const char *colon = found ? strchr(line, ':') : NULL;
    if (found) snprintf(rest, capacity, "%s", colon ? colon + 1 + strspn(colon + 1, " \t") : "");
    rest[strcspn(rest, "\n")] = 0;
  }
  if (file) fclose(file);
  return found;
}

static int is_device(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

/* The GPUs that the driver lists; needs no CUDA. */
static void find_devices(char *text, size_t capacity) {
  static const char folder[] = "/proc/driver/nvidia/gpus";
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, is_device, alphasort);
  size_t used = 0;
  snprintf(text, capacity, "no GPU");
  for (int i = 0; i < count; i++) {
    char path[LONGEST], model[LONGEST] = "a GPU";
    snprintf(path, sizeof path, "%s/%s/information", folder, entries[i]->d_name);
    find_line(path, "Model", model, sizeof model);
    if (used < capacity) used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", model);
    free(entries[i]);
  }
  free(entries);
}

void adji_machine_text(const char *isa, char *text, size_t capacity) {
  char cpu[LONGEST / 4] = "unknown CPU", devices[LONGEST / 2];
  find_line("/proc/cpuinfo", "model name", cpu, sizeof cpu);
  find_devices(devices, sizeof devices);
  snprintf(text, capacity, "%s; %u cores; %s; %s", cpu, adji_usable_cores(), isa, devices);
}

/* ---- Reading --------------------------------------------------------------------------------------------- */

/* Files of the user or of root, who can change the user's files anyway. */
static bool is_trusted(const struct stat *at) {
  return at->st_uid == geteuid() || at->st_uid == 0;
}

/* Whether only this user and root can change a file or folder, and the link that leads to it. */
static bool is_ours(const char *path) {
  struct stat link, at;
  if (lstat(path, &link) || stat(path, &at) || !is_trusted(&link) || !is_trusted(&at)) return false;
  bool open_to_all = S_ISDIR(at.st_mode) && (at.st_mode & S_IWOTH) && !(at.st_mode & S_ISVTX);
  return !open_to_all;
}

/* The same for the folders of a path from character `from` on, up to the first that is missing. */
static bool folders_are_ours(const char *path, size_t from) {
  char folder[LONGEST];
  struct stat at;
  snprintf(folder, sizeof folder, "%s", path);
  for (char *slash = strchr(folder + from, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (lstat(folder, &at)) return errno == ENOENT;
    if (!is_ours(folder)) return false;
    *slash = '/';
  }
  return true;
}

bool adji_costs_path(char *path, size_t capacity, bool *asked) {
  const char *given = getenv("ADJOIN_COSTS"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int length = -1;
  size_t base = 0;
  *asked = given && *given;
  if (*asked && !strcmp(given, "none")) return false;
  if (*asked) {
    length = snprintf(path, capacity, "%s", given);
  } else if (cache && *cache == '/') {
    length = snprintf(path, capacity, "%s/adjoin/costs", cache);
    base = strlen(cache);
  } else if (home && *home == '/') {
    length = snprintf(path, capacity, "%s/.cache/adjoin/costs", home);
    base = strlen(home);
  }
  if (length <= 0 || (size_t)length >= capacity) return false;
  return *asked || folders_are_ours(path, base);
}

/* In a line "name value", the value; NULL if the line begins with another name. */
static const char *value_of(const char *line, const char *name) {
  size_t length = strlen(name);
  return !strncmp(line, name, length) && line[length] == ' ' ? line + length + 1 : NULL;
}

static bool take_cost(const char *line, adji_costs *costs, bool *seen) {
  for (int i = 0; i < LINES; i++) {
    const char *text = value_of(line, lines[i].name);
    if (!text) continue;
    char *end;
    double value = strtod(text, &end), usual = *cost_at(costs, i);
    if (seen[i] || end == text || *end || !(value > usual / MOST_OFF && value < usual * MOST_OFF)) return false;
    seen[i] = true;
    *cost_at(costs, i) = value;
    return true;
  }
  return false;
}

static bool next_line(FILE *file, char *line) {
  if (!fgets(line, LONGEST, file)) return false;
  size_t length = strlen(line);
  if (!length || line[length - 1] != '\n') return false;
  line[length - 1] = 0;
  return true;
}

/* Reads the lines after the header, up to the last. */
static bool take_costs(FILE *file, char *line, adji_costs *costs) {
  bool seen[LINES] = {false};
  int count = 0;
  while (next_line(file, line)) {
    const char *end = value_of(line, "end");
    char number[16];
    snprintf(number, sizeof number, "%d", count);
    if (end) return !strcmp(end, number) && fgetc(file) == EOF;
    if (!take_cost(line, costs, seen)) return false;
    count++;
  }
  snprintf(line, LONGEST, "it ends too early");
  return false;
}

static adji_costs_read read_costs(FILE *file, const char *isa, adji_costs *out, char *line) {
  char head[32], machine[LONGEST];
  adji_costs costs = adji_built_in_costs;
  snprintf(head, sizeof head, "adjoin costs ");
  if (!next_line(file, line) || strncmp(line, head, strlen(head)) != 0) return ADJI_COSTS_DAMAGED;
  snprintf(head, sizeof head, "adjoin costs %d", (int)FORMAT);
  if (strcmp(line, head) != 0) return ADJI_COSTS_OTHER;
  const char *value = next_line(file, line) ? value_of(line, "version") : NULL;
  if (!value) return ADJI_COSTS_DAMAGED;
  if (strcmp(value, adj_version_string()) != 0) return ADJI_COSTS_OTHER;
  value = next_line(file, line) ? value_of(line, "machine") : NULL;
  if (!value) return ADJI_COSTS_DAMAGED;
  adji_machine_text(isa, machine, sizeof machine - 16);
  if (strcmp(value, machine) != 0) return ADJI_COSTS_OTHER;
  if (!take_costs(file, line, &costs)) return ADJI_COSTS_DAMAGED;
  *out = costs;
  return ADJI_COSTS_READ;
}

/* Opens a file that is the user's and small. Opening never blocks, whatever kind of file it is. */
static FILE *open_ours(const char *path, const char **why) {
  struct stat at;
  int descriptor = adji_fd_above_standard(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  *why = NULL;
  if (descriptor < 0) return NULL;
  if (fstat(descriptor, &at) || !S_ISREG(at.st_mode))
    *why = "it is not a regular file";
  else if (!is_trusted(&at) || !is_ours(path))
    *why = "it belongs to another user";
  else if (at.st_size > LARGEST)
    *why = "it is larger than 64 KiB";
  FILE *file = *why ? NULL : fdopen(descriptor, "r");
  if (!file) close(descriptor);
  return file;
}

adji_costs_read adji_costs_load(const char *path, const char *isa, adji_costs *out, char *why, size_t capacity) {
  char line[LONGEST] = "it is empty";
  const char *refused;
  FILE *file = open_ours(path, &refused);
  snprintf(why, capacity, "%s", file ? "" : refused ? refused : strerror(errno));
  if (!file) return refused ? ADJI_COSTS_REFUSED : ADJI_COSTS_MISSING;
  adji_costs_read read = read_costs(file, isa, out, line);
  fclose(file);
  snprintf(why, capacity, "\"%.200s\"", line);
  return read;
}

/* ---- Writing --------------------------------------------------------------------------------------------- */

static adj_status refuse(const char *path) {
  return adji_fail(ADJ_E_IO, "%s: %s", path, strerror(errno));
}

void adji_costs_make_folders(const char *path) {
  char folder[LONGEST];
  snprintf(folder, sizeof folder, "%s", path);
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(folder, 0700); /* it may exist; other failures show when the file is opened */
    *slash = '/';
  }
}

/* Six digits without a decimal point, which is a comma in some locales: strtod reads this in all of them. */
static void write_number(FILE *file, const char *name, double value) {
  int exponent = (int)floor(log10(value)) - 5;
  fprintf(file, "%s %.0fe%d\n", name, value * pow(10, -exponent), exponent);
}

static bool write_costs(FILE *file, const char *isa, const adji_costs *costs) {
  char machine[LONGEST];
  adji_costs copy = *costs;
  adji_machine_text(isa, machine, sizeof machine - 16);
  fprintf(file, "adjoin costs %d\nversion %s\nmachine %s\n", (int)FORMAT, adj_version_string(), machine);
  for (int i = 0; i < LINES; i++)
    write_number(file, lines[i].name, *cost_at(&copy, i));
  fprintf(file, "end %d\n", (int)LINES);
  return !ferror(file);
}

/* Closes a copy of the part's descriptor; the part keeps its own. */
static bool fill_part(const adji_part *part, const char *isa, const adji_costs *costs) {
  int fd = fcntl(part->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!file && fd >= 0) close(fd);
  bool written = file && write_costs(file, isa, costs);
  return file && !fclose(file) && written;
}

/* Does not wait for the disk, since costs are measured again in ten seconds. A link is replaced, unlike that of an
 * output, since no user has named this file. */
adj_status adji_costs_save(const char *path, const char *isa, const adji_costs *costs) {
  struct stat at;
  adji_place place;
  adji_part part = {0};
  if (strlen(path) >= LONGEST) return adji_fail(ADJ_E_ARGUMENT, "path: \"%s\" is too long", path);
  adji_costs_make_folders(path);
  if (!lstat(path, &at) && S_ISLNK(at.st_mode)) (void)unlink(path);
  adj_status status = adji_place_find(path, &place);
  if (!status && place.folder < 0) status = adji_fail(ADJ_E_IO, "%s: is not a file", path);
  if (!status) status = adji_part_create(path, &place, ADJ_NO_SYNC, &part);
  if (!status && !fill_part(&part, isa, costs)) status = refuse(path);
  if (!status) status = adji_part_finish(&part, NULL, NULL);
  if (!status) status = adji_part_commit(&part);
  adji_part_discard(&part);
  return status;
}
