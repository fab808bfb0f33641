/* SPDX-License-Identifier: MIT
 *
 * Settings that override the planner, parsed from one string.
 *
 * The table ADJI_SETTINGS says what each setting is for: the kind of join, the backends, the algorithms. A setting that
 * does not apply to a join is refused by name; none is ignored or replaced.
 */
#include "plan/tuning.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/brute/brute.h"
#include "gpu/papers/access.h"

typedef enum value_type { NUMBER, FACTOR, NAME } value_type;

/* Where a setting applies. No backend: not to this kind of join. */
typedef struct scope {
  uint32_t backends, algorithms;
} scope;

enum {
  CPU = ADJI_BIT(ADJ_BACKEND_CPU),
  GPU = ADJI_BIT(ADJ_BACKEND_GPU),
  HYBRID = ADJI_BIT(ADJ_BACKEND_HYBRID),
  REFERENCE = ADJI_BIT(ADJ_BACKEND_REFERENCE),
  CORES = CPU | HYBRID,
  DEVICE = GPU | HYBRID,
  PLANNED = CPU | GPU | HYBRID,
  EVERYWHERE = PLANNED | REFERENCE,
  GRID = ADJI_BIT(ADJI_ALGORITHM_GRID),
  EGO = ADJI_BIT(ADJI_ALGORITHM_EGO),
  KDTREE = ADJI_BIT(ADJI_ALGORITHM_KDTREE),
  BRUTE = ADJI_BIT(ADJI_ALGORITHM_BRUTE),
  TREES = KDTREE | GRID, /* the grid of a kNN join passes failed queries to a tree */
  ANY = GRID | EGO | KDTREE | BRUTE
};

/* A name's value is its place in the list, counted from 1. */
static const char *const switches[] = {"on", "off", NULL};
static const char *const prefilters[] = {"off", "codes", "tensor", "gemm", "vnni", "amx", NULL};
static const char *const shares[] = {"rates", "fixed", "results", "entities", NULL};
static const char *const accesses[] = {"tiles", "full", "unicomp", "lid-unicomp", NULL};
static const char *const orders[] = {"none", "sortbywl", "workqueue", NULL};
static const char *const indexings[] = {"memory", NULL};
static const char *const queues[] = {"on", "off", "points", "cells", NULL};
static const char *const powers[] = {"1", "2", "4", "8", "16", "32", NULL};
static const char *const leaves[] = {"16", "32", "64", NULL};
static const char *const ego_sorts[] = {"qsort", "parallel", NULL};
static const char *const ego_threads[] = {"producer", "queue", NULL};
static const char *const distances[] = {"naive", "tiled", "register", "fused", NULL};
static const char *const selections[] = {"short",        "bound",       "bits",       "bitonic",       "radix",
                                         "sample",       "sort",        "block-bits", "block-bitonic", "block-radix",
                                         "block-sample", "stream-sort", NULL};

static const struct setting {
  const char *name;
  value_type type;
  size_t offset;
  double least, most;
  const char *const *names;
  scope range, knn;
} settings[] = {
#define SETTING(type, kind, member, name, least, most, names, b, a, kb, ka) \
  {name, kind, offsetof(adji_tuning, member), least, most, names, {b, a}, {kb, ka}},
    ADJI_SETTINGS(SETTING)
#undef SETTING
};
enum { SETTINGS = sizeof settings / sizeof *settings };
_Static_assert(SETTINGS <= 128, "a bit for each");

/* Each prefilter is for some joins; every join can do without one. */
static const struct {
  scope range, knn;
} prefilter_scopes[] = {
    [ADJI_PREFILTER_OFF] = {{PLANNED, ANY}, {PLANNED, ANY}}, [ADJI_PREFILTER_CODES] = {{CORES, GRID | EGO}, {0, 0}},
    [ADJI_PREFILTER_TENSOR] = {{DEVICE, ANY}, {GPU, BRUTE}}, [ADJI_PREFILTER_GEMM] = {{0, 0}, {CPU | GPU, BRUTE}},
    [ADJI_PREFILTER_VNNI] = {{0, 0}, {CPU, BRUTE}},          [ADJI_PREFILTER_AMX] = {{0, 0}, {CPU, BRUTE}},
};

/* ---- Parsing ------------------------------------------------------------------------------------------- */

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
  if (*end || !(number >= s->least && number <= s->most) || (s->type == NUMBER && number != floor(number))) {
    snprintf(text, sizeof text, "is no %snumber from %.9g to %.9g", s->type == NUMBER ? "whole " : "", s->least,
             s->most);
    return refuse(item, length, text);
  }
  if (s->type == FACTOR)
    memcpy((char *)out + s->offset, &number, sizeof number);
  else
    *(uint64_t *)(void *)((char *)out + s->offset) = (uint64_t)number;
  return ADJ_OK;
}

/* A refusal that lists the possible values. */
static adj_status refuse_name(const struct setting *s, const char *item, size_t length) {
  char text[256];
  size_t used = 0;
  bool one = !s->names[1], two = !one && !s->names[2];
  for (int i = 0; s->names[i] && used < sizeof text; i++) {
    const char *before = one               ? "is not "
                         : !i              ? (two ? "is neither " : "is none of ")
                         : two             ? " nor "
                         : s->names[i + 1] ? ", "
                                           : " and ";
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

/* The length of "paper." or "test.", with the dot; 0 for plain names. */
static size_t prefix_length(const char *name, size_t length) {
  const char *dot = memchr(name, '.', length);
  return dot ? (size_t)(dot - name) + 1 : 0;
}

/* A refusal that lists the settings of the same group, or says that the name lacks its prefix. */
static adj_status refuse_unknown(const char *item, size_t length) {
  char text[512];
  size_t used = 0, name = strcspn(item, "=,"), prefix = prefix_length(item, name);
  for (int i = 0; i < SETTINGS && used < sizeof text; i++) {
    size_t skip = prefix_length(settings[i].name, strlen(settings[i].name));
    if (!prefix && skip && strlen(settings[i].name) == skip + name && !strncmp(settings[i].name + skip, item, name)) {
      snprintf(text, sizeof text, "is called %s=", settings[i].name);
      return refuse(item, length, text);
    }
    if (skip != prefix || strncmp(settings[i].name, item, prefix) != 0) continue;
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s=", used ? ", " : "is not one of ", settings[i].name);
  }
  return refuse(item, length, used ? text : "is no setting; their names have no prefix, or paper. or test.");
}

static adj_status parse_item(const char *item, size_t length, adji_tuning *out) {
  const char *equals = memchr(item, '=', length);
  const struct setting *s = equals ? find(item, (size_t)(equals - item)) : NULL;
  if (!s) return refuse_unknown(item, length);
  int i = (int)(s - settings);
  if (adji_tuning_is_given(out, i)) return refuse(item, length, "was given before");
  out->given[i / 64] |= UINT64_C(1) << i % 64;
  if (s->type == NAME) return set_name(s, item, length, equals + 1, out);
  return set_number(s, item, length, equals + 1, out);
}

/* ---- Settings that must fit each other ------------------------------------------------------------------- */

/* Sizes of batches are for hybrid joins that are not shared by rates. */
static adj_status check_sizes(const adji_tuning *t) {
  const char *size = t->n_large > 0                   ? "n_large"
                     : t->n_cwin > 0                  ? "n_cwin"
                     : ADJI_TUNING_IS_ZERO(t, n_cwin) ? "n_cwin"
                     : t->n_small > 0                 ? "n_small"
                     : t->n_cpu > 0                   ? "n_cpu"
                                                      : NULL;
  if (size && t->share != ADJI_SHARE_FIXED)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.%s= is for share=fixed only", size);
  if (t->query_sets && t->share != ADJI_SHARE_ENTITIES)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.query_sets= is for share=entities only");
  return ADJ_OK;
}

/* The papers' kernels, in which a query has its own threads, have their own settings and take none of the others. */
static adj_status check_access(const adji_tuning *t) {
  bool by_point = adji_access_by_point((adji_access)t->access);
  const char *without = t->order                        ? "order"
                        : t->point_threads && t->access ? "point_threads"
                        : t->shortc                     ? "shortc"
                        : t->sortidu                    ? "sortidu"
                        : t->indexed_by                 ? "indexed"
                        : t->paper_streams              ? "streams"
                        : t->batch_size                 ? "batch_size"
                        : t->sample_part > 0            ? "sample_part"
                                                        : NULL;
  if (without && !by_point)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.%s= is for paper.access=full, unicomp and lid-unicomp only",
                     without);
  const char *with = t->single == ADJI_ON                    ? "single=on"
                     : t->prefilter == ADJI_PREFILTER_TENSOR ? "prefilter=tensor"
                     : t->mirrored == ADJI_ON                ? "test.mirrored=on"
                     : t->tile_hits == ADJI_ON               ? "test.tile_hits=on"
                     : t->query_hits == ADJI_ON              ? "test.query_hits=on"
                     : t->narrow > 1                         ? "test.narrow="
                     : t->slices > 1                         ? "test.slices="
                     : t->streams                            ? "test.streams="
                                                             : NULL;
  if (with && by_point) return adji_fail(ADJ_E_ARGUMENT, "tuning: %s is for paper.access=tiles only", with);
  if (t->indexed && t->indexed_by)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: of indexed= and paper.indexed= only one can be");
  if (t->share == ADJI_SHARE_RESULTS && t->access != ADJI_ACCESS_FULL)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: share=results is for paper.access=full only");
  if (t->access == ADJI_ACCESS_UNICOMP && t->fine > 1)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: fine=%llu: paper.access=unicomp takes cells that are a radius wide",
                     (unsigned long long)t->fine);
  return ADJ_OK;
}

/* A GPU's count keeps what it finds in one form only, and a kernel of brute force is for one prefilter. */
static adj_status check_kernels(const adji_tuning *t) {
  if (t->single == ADJI_ON && t->staged == ADJI_ON)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: of single=on and staged=on only one can be");
  int kept = (t->single == ADJI_ON) + (t->tile_hits == ADJI_ON) + (t->query_hits == ADJI_ON);
  if (kept > 1)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: of single=on, test.tile_hits=on and test.query_hits=on only one can be");
  if (t->mirrored == ADJI_ON && t->prefilter == ADJI_PREFILTER_TENSOR)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: test.mirrored=on compares without prefilter=tensor");
  if (t->distance && t->prefilter != ADJI_PREFILTER_OFF)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.distance= is for prefilter=off only");
  if (t->skip == ADJI_ON && ((t->prefilter && t->prefilter != ADJI_PREFILTER_TENSOR) || t->distance || t->select))
    return adji_fail(ADJ_E_ARGUMENT, "tuning: test.skip=on is for prefilter=tensor only");
  if (t->select && t->prefilter != ADJI_PREFILTER_OFF && t->prefilter != ADJI_PREFILTER_GEMM)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.select= is for prefilter=off and prefilter=gemm only");
  return ADJ_OK;
}

/* The recursion over pairs of sequences has its own settings, and compares all candidates without a prefilter. */
static adj_status check_dual(const adji_tuning *t) {
  bool dual = t->dual == ADJI_ON;
  const char *without = t->ego_leaf ? "leaf" : t->ego_sort ? "sort" : t->ego_threads ? "threads" : NULL;
  if (without && !dual) return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.%s= is for paper.dual=on only", without);
  const char *with = t->single == ADJI_ON                   ? "single=on"
                     : t->staged == ADJI_ON                 ? "staged=on"
                     : t->prefilter == ADJI_PREFILTER_CODES ? "prefilter=codes"
                     : t->fine > 1                          ? "fine="
                                                            : NULL;
  if (with && dual) return adji_fail(ADJ_E_ARGUMENT, "tuning: %s is not for paper.dual=on", with);
  if (t->batch && t->ego_threads == ADJI_EGO_PRODUCER)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: batch=%llu: paper.threads=producer has no batches of queries",
                     (unsigned long long)t->batch);
  return ADJ_OK;
}

/* Options of selection kernels are for one of these kernels, and the fused kernel selects by itself. */
static adj_status check_selection(const adji_tuning *t) {
  const char *bits = t->partitions ? "partitions" : t->reads ? "reads" : t->prefetch ? "prefetch" : NULL;
  if (bits && t->select != ADJI_SELECT_BLOCK_BITS)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.%s= is for paper.select=block-bits only", bits);
  if (t->sort_streams && t->select != ADJI_SELECT_STREAM_SORT)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.sort_streams= is for paper.select=stream-sort only");
  if (t->distance == ADJI_DISTANCE_FUSED && t->select)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.distance=fused selects by itself, without paper.select=");
  return ADJ_OK;
}

static adj_status check_together(const adji_tuning *t) {
  if (t->cell > 1 && (t->fine > 1 || t->narrow > 1))
    return adji_fail(ADJ_E_ARGUMENT, "tuning: cell=%g: with %s= cells are a radius wide", t->cell,
                     t->fine > 1 ? "fine" : "test.narrow");
  adj_status status = check_access(t);
  if (!status) status = check_kernels(t);
  if (!status) status = check_dual(t);
  if (!status) status = check_selection(t);
  return status ? status : check_sizes(t);
}

static adj_status parse_items(const char *text, adji_tuning *out) {
  while (text && *text) {
    size_t length = strcspn(text, ",");
    adj_status status = parse_item(text, length, out);
    if (status) return status;
    text += length + (text[length] == ',');
  }
  return ADJ_OK;
}

adj_status adji_tuning_parse_over(const char *defaults, const char *text, adji_tuning *out) {
  *out = (adji_tuning){0};
  adj_status status = parse_items(defaults, out);
  uint64_t given[2] = {out->given[0], out->given[1]};
  out->given[0] = out->given[1] = 0;
  if (!status) status = parse_items(text, out);
  out->given[0] |= given[0];
  out->given[1] |= given[1];
  return status ? status : check_together(out);
}

adj_status adji_tuning_parse(const char *text, adji_tuning *out) {
  return adji_tuning_parse_over(NULL, text, out);
}

/* ---- Fitting them to the join ---------------------------------------------------------------------------- */

/* paper.queue=off and points: queries are divided among the cores in advance. */
static bool is_without_queue(const adji_tuning *t) {
  return t->queue == 2 || t->queue == 3;
}

/* Several GPUs share joins of every kind. If no backend is requested, cores take part, unless the cores do not have
 * this way of sharing. */
static scope share_scope(const adji_tuning *t, adj_join_kind kind, adj_backend backend) {
  bool gpus = t->share == ADJI_SHARE_RATES || t->share == ADJI_SHARE_ENTITIES;
  if (t->share == ADJI_SHARE_ENTITIES || (gpus && backend == ADJ_BACKEND_GPU)) return (scope){GPU, ANY};
  return (scope){HYBRID, kind == ADJ_KNN ? TREES : ANY};
}

static scope scope_of(const struct setting *s, const adji_tuning *t, adj_join_kind kind, adj_backend backend) {
  bool knn = kind == ADJ_KNN;
  if (s->offset == offsetof(adji_tuning, share)) return share_scope(t, kind, backend);
  if (s->offset == offsetof(adji_tuning, queue) && knn && is_without_queue(t)) return (scope){CPU, KDTREE};
  if (s->offset == offsetof(adji_tuning, prefilter))
    return knn ? prefilter_scopes[t->prefilter].knn : prefilter_scopes[t->prefilter].range;
  /* HEGJoin: EGO-Join on the cores, beside a device with a grid. */
  if (!knn && t->share == ADJI_SHARE_RESULTS && s->range.algorithms == EGO) return (scope){HYBRID, GRID};
  return knn ? s->knn : s->range;
}

const char *adji_tuning_not_for(const adji_tuning *t, adj_join_kind kind, adj_backend backend) {
  for (int i = 0; i < SETTINGS; i++)
    if (adji_tuning_is_given(t, i) && !(scope_of(&settings[i], t, kind, backend).backends & ADJI_BIT(backend)))
      return settings[i].name;
  return NULL;
}

/* "batch=", but "prefilter=codes" and "share=fixed" with their value, since other values are for other joins. */
static const char *label(const struct setting *s, const adji_tuning *t, char *text, size_t capacity) {
  bool prefilter = s->offset == offsetof(adji_tuning, prefilter), share = s->offset == offsetof(adji_tuning, share);
  snprintf(text, capacity, "%s=%s", s->name,
           prefilter ? prefilters[t->prefilter - 1]
           : share   ? shares[t->share - 1]
                     : "");
  return text;
}

/* Checks that a setting is for the join, and narrows the remaining choices. */
static adj_status fit_one(const struct setting *s, const adji_tuning *t, adji_tuning_scope *to, scope *remaining) {
  char name[64], wanted[64];
  scope its = scope_of(s, t, to->kind, to->backend);
  label(s, t, name, sizeof name);
  if (!its.backends)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: %s is for %s joins only", name, to->kind == ADJ_KNN ? "range" : "kNN");
  its.algorithms &= adji_algorithms_of(to->kind);
  remaining->backends &= its.backends;
  remaining->algorithms &= its.algorithms;
  if (!remaining->backends)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: %s is for the backend %s, %s%s", name,
                     adji_backends_text(its.backends, " and ", wanted, sizeof wanted),
                     to->backend ? "not " : "which another setting is not for",
                     to->backend ? adji_backend_name(to->backend) : "");
  if (!remaining->algorithms)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: %s is for the algorithm %s, %s%s", name,
                     adji_algorithms_text(its.algorithms, " and ", wanted, sizeof wanted),
                     to->metric == ADJ_DOT ? "and inner products are for "
                     : to->algorithm       ? "not "
                                           : "which another setting is not for",
                     to->metric == ADJ_DOT ? "brute"
                     : to->algorithm       ? adji_algorithm_name(to->algorithm)
                                           : "");
  return ADJ_OK;
}

/* The planner chooses among all algorithms of the kind that need no GPU; if the settings exclude some of them, the
 * first remaining one is requested. */
static adji_algorithm narrowed(adj_join_kind kind, uint32_t algorithms) {
  bool knn = kind == ADJ_KNN;
  uint32_t usual = knn ? KDTREE | BRUTE : GRID | EGO;
  if ((algorithms & usual) == usual) return ADJI_ALGORITHM_AUTO;
  adji_algorithm first = knn ? ADJI_ALGORITHM_KDTREE : ADJI_ALGORITHM_GRID;
  if (algorithms & ADJI_BIT(first)) return first;
  return algorithms & BRUTE ? ADJI_ALGORITHM_BRUTE : knn ? ADJI_ALGORITHM_GRID : ADJI_ALGORITHM_EGO;
}

adj_status adji_tuning_fit(const adji_tuning *t, adji_tuning_scope *to) {
  scope remaining = {to->backend ? ADJI_BIT(to->backend) : (uint32_t)PLANNED,
                     to->algorithm ? ADJI_BIT(to->algorithm) : adji_algorithms_of(to->kind)};
  if (to->metric == ADJ_DOT) remaining.algorithms &= BRUTE;
  adj_status status = ADJ_OK;
  for (int i = 0; i < SETTINGS && !status; i++)
    if (adji_tuning_is_given(t, i)) status = fit_one(&settings[i], t, to, &remaining);
  if (status) return status;
  bool access = adji_access_by_point((adji_access)t->access);
  if (t->point_threads && to->kind == ADJ_RANGE && !access)
    return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.point_threads= is for paper.access=full, unicomp and lid-unicomp");
  if (t->ego_threads == ADJI_EGO_PRODUCER) remaining.backends &= CPU;
  if (!remaining.backends)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.threads=producer is for the backend cpu, not %s",
                     adji_backend_name(to->backend));
  if (access && remaining.backends & GPU) remaining.backends = GPU; /* papers' range joins, unless cores take part */
  to->backends = remaining.backends;
  if (!to->backend && !(remaining.backends & CPU))
    to->backend = remaining.backends & HYBRID ? ADJ_BACKEND_HYBRID : ADJ_BACKEND_GPU;
  if (to->backend == ADJ_BACKEND_HYBRID && t->share != ADJI_SHARE_RESULTS) {
    const char *queued = t->order > ADJI_WORK_INDEX_ORDER ? "order"
                         : t->paper_streams               ? "streams"
                         : t->batch_size                  ? "batch_size"
                         : t->sample_part > 0             ? "sample_part"
                                                          : NULL;
    if (queued) return adji_fail(ADJ_E_ARGUMENT, "tuning: paper.%s= of a hybrid join is for share=results", queued);
  }
  if (!to->backend && remaining.backends == CPU) to->backend = ADJ_BACKEND_CPU;
  if (!to->algorithm && to->metric != ADJ_DOT) to->algorithm = narrowed(to->kind, remaining.algorithms);
  return ADJ_OK;
}
