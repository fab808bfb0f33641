/* SPDX-License-Identifier: MIT
 *
 * Settings that override the planner, parsed from one string.
 */
#include "plan/tuning.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { NUMBER, FACTOR, SWITCH } kind;

static const struct setting {
  const char *name;
  kind kind;
  size_t offset;
  double least, most;
} settings[] = {
    {"indexed", NUMBER, offsetof(adji_tuning, indexed), 1, 10}, {"cell", FACTOR, offsetof(adji_tuning, cell), 1, 1e6},
    {"fine", NUMBER, offsetof(adji_tuning, fine), 1, 64},       {"batch", NUMBER, offsetof(adji_tuning, batch), 1, 1e9},
    {"buffer", NUMBER, offsetof(adji_tuning, buffer), 1, 1e15}, {"once", SWITCH, offsetof(adji_tuning, once), 0, 0},
    {"boxes", SWITCH, offsetof(adji_tuning, boxes), 0, 0},      {"codes", SWITCH, offsetof(adji_tuning, codes), 0, 0},
    {"sample", NUMBER, offsetof(adji_tuning, sample), 1, 1e9},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

static const struct setting *find(const char *name, size_t length) {
  for (int i = 0; i < SETTINGS; i++)
    if (strlen(settings[i].name) == length && !strncmp(settings[i].name, name, length)) return &settings[i];
  return NULL;
}

static adj_status refuse(const char *item, size_t length, const char *wanted) {
  return adji_fail(ADJ_E_ARGUMENT, "tuning: \"%.*s\": %s", (int)length, item, wanted);
}

static adj_status set_number(const struct setting *s, const char *item, size_t length, const char *value,
                             adji_tuning *out) {
  char text[64], *end;
  size_t value_length = length - (size_t)(value - item);
  if (!value_length || value_length >= sizeof text) return refuse(item, length, "needs a number");
  memcpy(text, value, value_length);
  text[value_length] = 0;
  double number = strtod(text, &end);
  if (*end || !(number >= s->least && number <= s->most)) return refuse(item, length, "is out of range or no number");
  if (s->kind == NUMBER && number != (double)(uint64_t)number) return refuse(item, length, "needs a whole number");
  if (s->kind == FACTOR)
    memcpy((char *)out + s->offset, &number, sizeof number);
  else
    *(uint64_t *)(void *)((char *)out + s->offset) = (uint64_t)number;
  return ADJ_OK;
}

static adj_status parse_item(const char *item, size_t length, adji_tuning *out) {
  const char *equals = memchr(item, '=', length);
  const struct setting *s = equals ? find(item, (size_t)(equals - item)) : NULL;
  if (!s)
    return refuse(item, length,
                  "is not one of indexed=, cell=, fine=, batch=, buffer=, once=, boxes=, codes=, sample=");
  const char *value = equals + 1;
  size_t value_length = length - (size_t)(value - item);
  if (s->kind != SWITCH) return set_number(s, item, length, value, out);
  uint64_t *to = (uint64_t *)(void *)((char *)out + s->offset);
  if (value_length == 2 && !strncmp(value, "on", 2))
    *to = ADJI_ON;
  else if (value_length == 3 && !strncmp(value, "off", 3))
    *to = ADJI_OFF;
  else
    return refuse(item, length, "is neither on nor off");
  return ADJ_OK;
}

adj_status adji_tuning_parse(const char *text, adji_tuning *out) {
  *out = (adji_tuning){0};
  while (text && *text) {
    size_t length = strcspn(text, ",");
    adj_status status = parse_item(text, length, out);
    if (status) return status;
    text += length + (text[length] == ',');
  }
  return ADJ_OK;
}
