/* SPDX-License-Identifier: MIT
 *
 * Arguments of the library as options of the program.
 */
#include "message.h"

#include <stdio.h>
#include <string.h>

typedef struct argument {
  const char *name, *option;
} argument;

/* Every argument that the program passes on and the library can refuse. */
static const argument arguments[] = {{"algorithm", "--algorithm"},
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
                                     {"max_pairs", "--max-pairs"},
                                     {"metric", "--metric"},
                                     {"name", "KIND"},
                                     {"p", "--p"},
                                     {"path", "--output"},
                                     {"radius", "--radius"},
                                     {"shape", "--shape"},
                                     {"sphere_radius", "--sphere"},
                                     {"tuning", "--tuning"},
                                     {"type", "--type"}};

/* The argument that "NAME: " at the beginning of the text names, or NULL. */
static const argument *find_argument(const char *text) {
  size_t length = strcspn(text, ": ");
  if (text[length] != ':' || text[length + 1] != ' ') return NULL;
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
    if (strlen(arguments[i].name) == length && !strncmp(arguments[i].name, text, length)) return &arguments[i];
  return NULL;
}

const char *message_with_options(const char *said, char *buffer) {
  for (const char *at = said; at; at = strstr(at, ": ") ? strstr(at, ": ") + 2 : NULL) {
    const argument *found = find_argument(at);
    if (!found) continue;
    snprintf(buffer, MESSAGE_ROOM, "%.*s%s%s", (int)(at - said), said, found->option, at + strlen(found->name));
    return buffer;
  }
  snprintf(buffer, MESSAGE_ROOM, "%s", said);
  return buffer;
}

const char *message_of_failure(adj_status status, char *buffer) {
  if (status == ADJ_E_ARGUMENT || status == ADJ_E_UNSUPPORTED || status == ADJ_E_LIMIT)
    return message_with_options(adj_last_error(), buffer);
  snprintf(buffer, MESSAGE_ROOM, "%s", adj_last_error());
  return buffer;
}
