/* SPDX-License-Identifier: MIT
 *
 * A growing JSON text.
 */
#include "json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool make_room(json_writer *json, size_t more) {
  if (json->failed) return false;
  if (json->length + more < json->room) return true;
  size_t room = 2 * json->room + more + 1024;
  char *text = realloc(json->text, room);
  if (!text) {
    json->failed = true;
    return false;
  }
  json->text = text;
  json->room = room;
  return true;
}

void json_raw(json_writer *json, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  if (length >= 0 && make_room(json, (size_t)length + 1)) {
    vsnprintf(json->text + json->length, (size_t)length + 1, format, again);
    json->length += (size_t)length;
  }
  va_end(again);
  va_end(arguments);
}

void json_text(json_writer *json, const char *text) {
  if (!text) {
    json_raw(json, "null");
    return;
  }
  json_raw(json, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      json_raw(json, "\\%c", c);
    else if (c < 32)
      json_raw(json, "\\u%04x", c);
    else
      json_raw(json, "%c", c);
  }
  json_raw(json, "\"");
}

void json_real(json_writer *json, double value) {
  if (!isfinite(value)) {
    json_raw(json, "null");
    return;
  }
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  json_raw(json, "%s", text);
}
