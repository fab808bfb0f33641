/* SPDX-License-Identifier: MIT
 *
 * For programs, before and after a join: adj_paths_check checks the files, adj_text_save writes a report.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/place.h"
#include "io/output.h"

enum { MOST_PATHS = 16 };

/* Whether two paths may not share this file. Sockets and devices, such as a terminal or /dev/null, may be shared. */
static bool is_exclusive(const adji_place *place) {
  mode_t mode = place->about.st_mode;
  return !place->exists || S_ISREG(mode) || S_ISBLK(mode) || S_ISFIFO(mode);
}

static void find_standard(int fd, adji_place *place) {
  *place = (adji_place){.folder = -1};
  place->exists = !fstat(fd, &place->about);
}

static adj_status find_output(const char *path, uint32_t flags, adji_place *place) {
  if (!strcmp(path, "-")) {
    find_standard(STDOUT_FILENO, place);
    return ADJ_OK;
  }
  adj_status status = adji_place_find(path, place);
  if (status || place->folder < 0) return status;
  if (place->exists && (flags & ADJ_NO_CLOBBER))
    status = adji_fail(ADJ_E_IO, "%s: exists already, and is not to be replaced", path);
  else if (faccessat(place->folder, ".", W_OK | X_OK, AT_EACCESS) ||
           (place->exists && faccessat(place->folder, place->name, W_OK, AT_EACCESS)))
    status = adji_fail(ADJ_E_IO, "%s: cannot be written: %s", path, strerror(errno));
  if (status) adji_place_clear(place);
  return status;
}

/* The input that is the same file as the output, or NULL. */
static const char *find_input(const char *const *inputs, const adji_place *output) {
  for (; inputs && *inputs; inputs++) {
    adji_place place = {.folder = -1};
    if (!strcmp(*inputs, "-"))
      find_standard(STDIN_FILENO, &place);
    else
      place.exists = !stat(*inputs, &place.about);
    if (place.exists && is_exclusive(&place) && adji_place_same(&place, output)) return *inputs;
  }
  return NULL;
}

/* Refuses output number `last` if it is the same file as an input or an earlier output. */
static adj_status check_output(const char *const *inputs, const char *const *outputs, const adji_place *places,
                               uint32_t last) {
  const adji_place *checked = &places[last];
  if (!is_exclusive(checked)) return ADJ_OK;
  const char *input = find_input(inputs, checked);
  if (input)
    return adji_fail(ADJ_E_ARGUMENT, "%s: is the same file as the input %s; an output needs a file of its own",
                     outputs[last], input);
  for (uint32_t i = 0; i < last; i++)
    if (is_exclusive(&places[i]) && adji_place_same(&places[i], checked))
      return adji_fail(ADJ_E_ARGUMENT, "%s: is the same file as the output %s; each needs a file of its own",
                       outputs[last], outputs[i]);
  return ADJ_OK;
}

adj_status adj_paths_check(const char *const *inputs, const char *const *outputs, uint32_t flags) {
  adji_place places[MOST_PATHS];
  uint32_t count = 0;
  adj_status status = ADJ_OK;
  for (; !status && outputs && outputs[count]; count += !status) {
    if (count == MOST_PATHS) {
      status = adji_fail(ADJ_E_ARGUMENT, "outputs: there are more than %d", (int)MOST_PATHS);
      break;
    }
    status = find_output(outputs[count], flags, &places[count]);
    if (status) break;
    status = check_output(inputs, outputs, places, count);
    if (status) adji_place_clear(&places[count]);
  }
  while (count)
    adji_place_clear(&places[--count]);
  return status;
}

adj_status adj_text_save(adj_ctx *ctx, const char *path, const char *text, uint64_t bytes, uint32_t flags) {
  if (!ctx || !path || (!text && bytes)) return adji_fail(ADJ_E_ARGUMENT, "ctx, path and text: none may be NULL");
  adji_output *output = NULL;
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = adji_output_open(ctx, path, flags, &output);
  if (!status) status = adji_output_close(output, adji_output_write(output, text, bytes));
  adji_call_set(outer);
  return status;
}
