/* SPDX-License-Identifier: MIT
 *
 * Settings that override the planner, parsed from one string.
 */
#include "plan/tuning.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/papers/access.h"

typedef enum kind { NUMBER, FACTOR, NAME } kind;

/* A name's value is its place in the list, counted from 1. */
static const char *const switches[] = {"on", "off", NULL};
static const char *const filters[] = {"none", "gemm", "vnni", "amx", NULL};
static const char *const accesses[] = {"tiles", "full", "unicomp", "lid-unicomp", NULL};
static const char *const orders[] = {"none", "sortbywl", "workqueue", NULL};
static const char *const powers[] = {"1", "2", "4", "8", "16", "32", NULL};
static const char *const ways[] = {"matrix", "sift", "gemm", NULL};
static const char *const distances[] = {"naive", "tiled", "register", NULL};
static const char *const selections[] = {"short", "bound", "bits", "bitonic", "radix", "sample", "sort", NULL};
static const char *const shares[] = {"rates", "fixed", NULL};

static const struct setting {
  const char *name;
  kind kind;
  size_t offset;
  double least, most;
  const char *const *names;
} settings[] = {
    {"indexed", NUMBER, offsetof(adji_tuning, indexed), 1, 10, NULL},
    {"cell", FACTOR, offsetof(adji_tuning, cell), 1, 1e6, NULL},
    {"fine", NUMBER, offsetof(adji_tuning, fine), 1, 64, NULL},
    {"narrow", NUMBER, offsetof(adji_tuning, narrow), 1, 4, NULL},
    {"batch", NUMBER, offsetof(adji_tuning, batch), 1, 1e9, NULL},
    {"buffer", NUMBER, offsetof(adji_tuning, buffer), 1, 1e15, NULL},
    {"once", NAME, offsetof(adji_tuning, once), 0, 0, switches},
    {"boxes", NAME, offsetof(adji_tuning, boxes), 0, 0, switches},
    {"codes", NAME, offsetof(adji_tuning, codes), 0, 0, switches},
    {"sample", NUMBER, offsetof(adji_tuning, sample), 1, 1e9, NULL},
    {"filter", NAME, offsetof(adji_tuning, filter), 0, 0, filters},
    {"leaf", NUMBER, offsetof(adji_tuning, leaf), 16, 64, NULL},
    {"queue", NAME, offsetof(adji_tuning, queue), 0, 0, switches},
    {"device_batch", NUMBER, offsetof(adji_tuning, device_batch), 1, 1e12, NULL},
    {"device_pairs", NUMBER, offsetof(adji_tuning, device_pairs), 1, 1e12, NULL},
    {"device_chunk", NUMBER, offsetof(adji_tuning, device_chunk), 1, 1e12, NULL},
    {"device_rows", NUMBER, offsetof(adji_tuning, device_rows), 1, 1e12, NULL},
    {"device_blocks", NUMBER, offsetof(adji_tuning, device_blocks), 1, 1e6, NULL},
    {"alone", NAME, offsetof(adji_tuning, alone), 0, 0, switches},
    {"cut", NAME, offsetof(adji_tuning, cut), 0, 0, switches},
    {"budget", NUMBER, offsetof(adji_tuning, budget), 1, 1e9, NULL},
    {"way", NAME, offsetof(adji_tuning, way), 0, 0, ways},
    {"distance", NAME, offsetof(adji_tuning, distance), 0, 0, distances},
    {"select", NAME, offsetof(adji_tuning, select), 0, 0, selections},
    {"mirror", NAME, offsetof(adji_tuning, mirror), 0, 0, switches},
    {"stages", NAME, offsetof(adji_tuning, stages), 0, 0, switches},
    {"marks", NAME, offsetof(adji_tuning, marks), 0, 0, switches},
    {"streams", NUMBER, offsetof(adji_tuning, streams), 1, 8, NULL},
    {"access", NAME, offsetof(adji_tuning, access), 0, 0, accesses},
    {"order", NAME, offsetof(adji_tuning, order), 0, 0, orders},
    {"point_threads", NAME, offsetof(adji_tuning, point_threads), 0, 0, powers},
    {"reorder", NAME, offsetof(adji_tuning, reorder), 0, 0, switches},
    {"shortc", NAME, offsetof(adji_tuning, shortc), 0, 0, switches},
    {"sortidu", NAME, offsetof(adji_tuning, sortidu), 0, 0, switches},
    {"product", NAME, offsetof(adji_tuning, product), 0, 0, switches},
    {"share", NAME, offsetof(adji_tuning, share), 0, 0, shares},
    {"n_large", FACTOR, offsetof(adji_tuning, n_large), 1e-9, 1, NULL},
    {"n_cwin", FACTOR, offsetof(adji_tuning, n_cwin), 1e-9, 1, NULL},
    {"n_small", FACTOR, offsetof(adji_tuning, n_small), 1e-9, 1, NULL},
    {"n_cpu", FACTOR, offsetof(adji_tuning, n_cpu), 1e-9, 1, NULL},
    {"bins", NUMBER, offsetof(adji_tuning, bins), 1, 10000, NULL},
    {"mean_part", FACTOR, offsetof(adji_tuning, mean_part), 1e-9, 1, NULL},
    {"epsilon", FACTOR, offsetof(adji_tuning, epsilon), 1e-6, 1e6, NULL},
    {"widen", FACTOR, offsetof(adji_tuning, widen), 1e-6, 1e6, NULL},
    {"failures", FACTOR, offsetof(adji_tuning, failures), 1e-9, 1, NULL},
    {"tail", FACTOR, offsetof(adji_tuning, tail), 1e-9, 1, NULL},
    {"stall", FACTOR, offsetof(adji_tuning, stall), 1e-9, 1, NULL},
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
  if (*end || !(number >= s->least && number <= s->most) || (s->kind == NUMBER && number != floor(number))) {
    snprintf(text, sizeof text, "is no %snumber from %.9g to %.9g", s->kind == NUMBER ? "whole " : "", s->least,
             s->most);
    return refuse(item, length, text);
  }
  if (s->kind == FACTOR)
    memcpy((char *)out + s->offset, &number, sizeof number);
  else
    *(uint64_t *)(void *)((char *)out + s->offset) = (uint64_t)number;
  return ADJ_OK;
}

/* A refusal that lists what could have been given. */
static adj_status refuse_name(const struct setting *s, const char *item, size_t length) {
  char text[256];
  size_t used = 0;
  bool two = !s->names[2];
  for (int i = 0; s->names[i] && used < sizeof text; i++) {
    const char *before = !i ? (two ? "is neither " : "is none of ") : two ? " nor " : s->names[i + 1] ? ", " : " and ";
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", before, s->names[i]);
  }
  return refuse(item, length, text);
}

static adj_status set_name(const struct setting *s, const char *item, size_t length, const char *value,
                           adji_tuning *out) {
  size_t value_length = length - (size_t)(value - item);
  uint64_t place = 1;
  for (const char *const *name = s->names; *name; name++, place++) {
    if (strlen(*name) != value_length || strncmp(*name, value, value_length)) continue;
    *(uint64_t *)(void *)((char *)out + s->offset) = place;
    return ADJ_OK;
  }
  return refuse_name(s, item, length);
}

static adj_status refuse_unknown(const char *item, size_t length) {
  char text[512];
  size_t used = 0;
  for (int i = 0; i < SETTINGS && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=", i ? ", " : "is not one of ", settings[i].name);
  return refuse(item, length, text);
}

static adj_status parse_item(const char *item, size_t length, adji_tuning *out) {
  const char *equals = memchr(item, '=', length);
  const struct setting *s = equals ? find(item, (size_t)(equals - item)) : NULL;
  if (!s) return refuse_unknown(item, length);
  if (s->kind == NAME) return set_name(s, item, length, equals + 1, out);
  return set_number(s, item, length, equals + 1, out);
}

/* Sizes of batches are for hybrid joins that do not go by rates. */
static adj_status check_sizes(const adji_tuning *t) {
  const char *size = t->n_large > 0   ? "n_large"
                     : t->n_cwin > 0  ? "n_cwin"
                     : t->n_small > 0 ? "n_small"
                     : t->n_cpu > 0   ? "n_cpu"
                                      : NULL;
  if (size && t->share != ADJI_SHARE_FIXED)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: %s= is for share=fixed only", size);
  return ADJ_OK;
}

/* Settings that only mean something together. */
static adj_status check_together(const adji_tuning *t) {
  bool by_point = adji_access_by_point((adji_access)t->access);
  const char *alone = t->order                        ? "order"
                      : t->point_threads && t->access ? "point_threads"
                      : t->shortc                     ? "shortc"
                      : t->sortidu                    ? "sortidu"
                                                      : NULL;
  if (alone && !by_point)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: %s= is for access=full, unicomp and lid-unicomp only", alone);
  if (by_point && t->once == ADJI_ON) return adji_fail(ADJ_E_ARGUMENT, "tuning: once=on is for access=tiles only");
  if (t->access == ADJI_ACCESS_UNICOMP && t->fine > 1)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: fine=%llu: access=unicomp takes cells that are a radius wide",
                     (unsigned long long)t->fine);
  return check_sizes(t);
}

adj_status adji_tuning_parse(const char *text, adji_tuning *out) {
  *out = (adji_tuning){0};
  while (text && *text) {
    size_t length = strcspn(text, ",");
    adj_status status = parse_item(text, length, out);
    if (status) return status;
    text += length + (text[length] == ',');
  }
  return check_together(out);
}

adj_status adji_tuning_fits(const adji_tuning *t, adj_join_kind join, const char *algorithm) {
  if (join == ADJ_KNN && algorithm && !strcmp(algorithm, "grid")) return ADJ_OK;
  const char *name = t->bins            ? "bins"
                     : t->mean_part > 0 ? "mean_part"
                     : t->epsilon > 0   ? "epsilon"
                     : t->widen > 0     ? "widen"
                     : t->failures > 0  ? "failures"
                     : t->tail > 0      ? "tail"
                     : t->stall > 0     ? "stall"
                                        : NULL;
  if (name) return adji_fail(ADJ_E_ARGUMENT, "tuning: %s= is for kNN joins with the algorithm grid only", name);
  if (t->point_threads && !adji_access_by_point((adji_access)t->access))
    return adji_fail(ADJ_E_ARGUMENT,
                     "tuning: point_threads= is for access=full, unicomp and lid-unicomp, and for kNN joins with the "
                     "algorithm grid only");
  return ADJ_OK;
}
