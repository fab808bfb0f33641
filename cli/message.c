/* SPDX-License-Identifier: MIT
 *
 * Replaces names of the library's arguments in messages by the program's options.
 */
#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void message_print(const char *format, ...) {
  va_list arguments;
  if (!program_speaks()) return;
  va_start(arguments, format);
  fprintf(stderr, "%s: ", program_name);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
}

typedef struct argument {
  const char *name, *option;
} argument;

/* Every argument that the program passes on and the library can refuse. */
static const argument arguments[] = {{"algorithm", "--algorithm"},
                                     {"allow_external", "--allow-external"},
                                     {"backend", "--backend"},
                                     {"box", "--box"},
                                     {"columns", "--columns"},
                                     {"count", "--count"},
                                     {"dataset", "--dataset"},
                                     {"devices", "--devices"},
                                     {"dim", "--dim"},
                                     {"distances", "--distances"},
                                     {"format", "--input-format"},
                                     {"id_column", "--id"},
                                     {"isa", "--isa"},
                                     {"k", "-k"},
                                     {"lambda", "--lambda"},
                                     {"map", "--map"},
                                     {"max_pairs", "--max-pairs"},
                                     {"metric", "--metric"},
                                     {"min_points", "--min-points"},
                                     {"name", "KIND"},
                                     {"normalise", "--normalise"},
                                     {"p", "--p"},
                                     {"path", "--output"},
                                     {"radius", "--radius"},
                                     {"shape", "--shape"},
                                     {"sphere_radius", "--sphere"},
                                     {"system", "--system"},
                                     {"tuning", "--tuning"},
                                     {"type", "--type"}};

/* The argument named by "NAME: " at the beginning of the text, or NULL. */
static const argument *find_argument(const char *text) {
  size_t length = strcspn(text, ": ");
  if (text[length] != ':' || text[length + 1] != ' ') return NULL;
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
    if (strlen(arguments[i].name) == length && !strncmp(arguments[i].name, text, length)) return &arguments[i];
  return NULL;
}

/* The text after "FILE: ", or the whole text. */
static const char *after_file(const char *text, const char *const *files) {
  for (; *files; files++) {
    size_t length = strlen(*files);
    if (!strncmp(text, *files, length) && !strncmp(text + length, ": ", 2)) return text + length + 2;
  }
  return text;
}

/* " NAME=" within a message becomes " --option ": "use type=f64" is "use --type f64". */
static void name_values(char *buffer) {
  static const argument valued[] = {
      {" columns=", " --columns "}, {" id_column=", " --id "}, {" type=", " --type "}, {" metric=", " --metric "}};
  char text[MESSAGE_ROOM];
  for (size_t i = 0; i < sizeof valued / sizeof *valued; i++) {
    for (char *at = strstr(buffer, valued[i].name); at; at = strstr(buffer, valued[i].name)) {
      snprintf(text, sizeof text, "%.*s%s%s", (int)(at - buffer), buffer, valued[i].option,
               at + strlen(valued[i].name));
      memcpy(buffer, text, strlen(text) + 1);
    }
  }
}

const char *message_with_options(const char *said, const char *const *files, char *buffer) {
  for (const char *at = after_file(said, files); at; at = strstr(at, ": ") ? strstr(at, ": ") + 2 : NULL) {
    const argument *found = find_argument(at);
    if (!found) continue;
    snprintf(buffer, MESSAGE_ROOM, "%.*s%s%s", (int)(at - said), said, found->option, at + strlen(found->name));
    name_values(buffer);
    return buffer;
  }
  snprintf(buffer, MESSAGE_ROOM, "%s", said);
  return buffer;
}

const char *message_of_failure(adj_status status, const char *const *files, char *buffer) {
  if (status == ADJ_E_ARGUMENT || status == ADJ_E_UNSUPPORTED || status == ADJ_E_LIMIT)
    return message_with_options(adj_last_error(), files, buffer);
  snprintf(buffer, MESSAGE_ROOM, "%s", adj_last_error());
  return buffer;
}
