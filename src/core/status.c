/* SPDX-License-Identifier: MIT
 *
 * Status codes and their texts, the message of each thread, and structs of other versions.
 */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef adji_fail /* the macro for the analyser is for callers only */

/* One message per thread, like errno: calls in other threads cannot change it. */
static _Thread_local char message[1024];

const char *adj_last_error(void) {
  return message;
}

adj_status adji_fail(adj_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return status;
}

adj_status adji_fail_in(adj_status status, const char *where) {
  char inner[sizeof message];
  memcpy(inner, message, sizeof inner);
  return adji_fail(status, "%s: %.900s", where, inner);
}

const char *adj_status_name(adj_status status) {
  switch (status) {
#define CASE(name, value, text) \
  case name:                    \
    return #name;
    ADJ_STATUS_LIST(CASE)
#undef CASE
  }
  return "ADJ_UNKNOWN";
}

const char *adj_status_text(adj_status status) {
  switch (status) {
#define CASE(name, value, text) \
  case name:                    \
    return text;
    ADJ_STATUS_LIST(CASE)
#undef CASE
  }
  return "unknown status";
}

uint32_t adj_version_number(void) {
  return ADJ_VERSION_MAJOR * 10000 + ADJ_VERSION_MINOR * 100 + ADJ_VERSION_PATCH;
}

const char *adj_version_string(void) {
  return ADJ_VERSION_STRING;
}

/* The smallest struct ever published holds struct_size and one more field. */
static adj_status check_size(uint32_t size, const char *name) {
  if (size < 8 || size > 4096)
    return adji_fail(ADJ_E_STRUCT, "%s: struct_size is %u; was %s_init called?", name, size, name);
  return ADJ_OK;
}

adj_status adji_take_struct(void *ours, size_t our_size, const void *theirs, const char *name) {
  uint32_t their_size;
  memcpy(&their_size, theirs, sizeof their_size);
  adj_status status = check_size(their_size, name);
  if (status) return status;
  for (size_t i = our_size; i < their_size; i++)
    if (((const unsigned char *)theirs)[i])
      return adji_fail(ADJ_E_STRUCT, "%s: uses fields that this library (%s) does not know", name, ADJ_VERSION_STRING);
  memcpy(ours, theirs, their_size < our_size ? their_size : our_size);
  uint32_t known = (uint32_t)our_size;
  memcpy(ours, &known, sizeof known);
  return ADJ_OK;
}

adj_status adji_give_struct(void *theirs, const void *ours, size_t our_size, const char *name) {
  uint32_t their_size;
  memcpy(&their_size, theirs, sizeof their_size);
  adj_status status = check_size(their_size, name);
  if (status) return status;
  memcpy(theirs, ours, their_size < our_size ? their_size : our_size);
  memcpy(theirs, &their_size, sizeof their_size);
  return ADJ_OK;
}

void adji_init_struct(void *theirs, size_t their_size, void *defaults, size_t our_size) {
  uint32_t size = (uint32_t)their_size;
  memset(theirs, 0, their_size);
  memcpy(theirs, defaults, their_size < our_size ? their_size : our_size);
  memcpy(theirs, &size, sizeof size);
}
