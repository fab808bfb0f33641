/* SPDX-License-Identifier: MIT
 *
 * The driver of the papers' experiments, on adjoin.h alone. It reads one join per line and answers each with a JSON
 * object on a line.
 *
 *   data=Expo2D2M count=200000 kind=range mean=100 backend=gpu system=lbjoin tuning=paper.point_threads=1 repeats=3
 *
 * driver_papers.h lists all words. Times are for the way from points in memory to the whole result in memory: plan,
 * index, join and rows; the median and the smallest of the repeats. kind=points only makes the points, which are kept.
 * `digest` is the same for equal results. A join that is refused, or that takes longer than `limit`, is answered with
 * its status and message.
 */
#include "driver_papers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

enum { LINE = 4096, SETS = 128, MEMORY_PART = 8 };

/* Points are kept for later runs, in up to 1 / MEMORY_PART of the machine's memory. */
typedef struct held {
  char key[256];
  adj_dataset *set;
  papers_survey *survey; /* made when a mean is first asked for */
  uint64_t used, bytes;
} held;

typedef struct driver {
  adj_ctx *own; /* of the points, with one thread per core        */
  adj_ctx *ctx; /* of the request; own unless it names threads    */
  uint32_t threads;
  held sets[SETS];
  uint64_t clock;
  papers_traced traced;
} driver;

/* ---- Requests -------------------------------------------------------------------------------------------- */

static bool set_number(papers_request *r, const char *name, const char *value) {
  struct {
    const char *name;
    uint64_t *whole;
    double *real;
  } all[] = {{"count", &r->count, NULL},     {"queries", &r->queries, NULL},
             {"dim", &r->dim, NULL},         {"threads", &r->threads, NULL},
             {"repeats", &r->repeats, NULL}, {"part", &r->part, NULL},
             {"parts", &r->parts, NULL},     {"k", &r->k, NULL},
             {"radius", NULL, &r->radius},   {"mean", NULL, &r->mean},
             {"limit", NULL, &r->limit}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (strcmp(name, all[i].name) != 0) continue;
    if (all[i].whole) *all[i].whole = strtoull(value, NULL, 10);
    if (all[i].real) *all[i].real = strtod(value, NULL);
    return true;
  }
  return false;
}

static bool set_text(papers_request *r, const char *name, const char *value) {
  struct {
    const char *name, **to;
  } all[] = {{"data", &r->data},     {"type", &r->type},           {"kind", &r->kind},     {"backend", &r->backend},
             {"system", &r->system}, {"algorithm", &r->algorithm}, {"tuning", &r->tuning}, {"order", &r->order}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(name, all[i].name)) {
      *all[i].to = value;
      return true;
    }
  return false;
}

/* Splits the line at blanks. The request points into the line. */
static bool parse(char *line, papers_request *r) {
  *r = (papers_request){.kind = "range", .type = "f32", .repeats = 1};
  for (char *rest = NULL, *word = strtok_r(line, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
    char *value = strchr(word, '=');
    if (!value) return false;
    *value++ = 0;
    if (*value && !set_text(r, word, value) && !set_number(r, word, value)) return false;
  }
  if (r->repeats < 1) r->repeats = 1;
  if (r->repeats > PAPERS_REPEATS) r->repeats = PAPERS_REPEATS;
  return r->data || !strcmp(r->kind, "select");
}

/* Leaves out characters that would end the string. */
void papers_print_text(const char *name, const char *text) {
  printf(", \"%s\": \"", name);
  for (; *text; text++)
    if (*text != '"' && *text != '\\' && (unsigned char)*text >= ' ') putchar(*text);
  putchar('"');
}

void papers_refuse(adj_status status, const char *message) {
  printf("{\"status\": \"%s\"", adj_status_name(status));
  papers_print_text("message", message);
  printf("}\n");
}

/* ---- Context and points ---------------------------------------------------------------------------------- */

static void note_event(void *user, const adj_trace_event *event) {
  papers_traced *t = user;
  if (event->lane < t->first_lane || !event->items) return;
  uint32_t at = __atomic_fetch_add(&t->count, 1, __ATOMIC_RELAXED);
  if (at < PAPERS_BATCHES) t->queries[at] = event->items;
}

static void drop_set(held *h) {
  adj_dataset_destroy(h->set);
  free(h->survey);
  *h = (held){0};
}

static adj_status open_context(driver *d, uint32_t threads, adj_ctx **out) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = threads;
  options.trace = note_event;
  options.trace_user = &d->traced;
  return adj_ctx_create(&options, out);
}

/* Makes a context with this many threads; 0: one per core. Points stay, as they belong to the first context. */
static adj_status use_threads(driver *d, uint32_t threads) {
  adj_status status = d->own ? ADJ_OK : open_context(d, 0, &d->own);
  if (!status && (!d->ctx || d->threads != threads)) {
    if (d->ctx != d->own) adj_ctx_destroy(d->ctx);
    d->ctx = d->own;
    if (threads) status = open_context(d, threads, &d->ctx);
    d->threads = threads;
  }
  if (status)
    d->ctx = NULL;
  else
    d->traced.first_lane = adj_ctx_threads(d->ctx);
  return status;
}

static adj_status make_set(driver *d, const papers_request *r, bool left, adj_dataset **out) {
  adj_generate_options options;
  if (strchr(r->data, '/')) return adj_dataset_open(d->own, r->data, NULL, out);
  adj_generate_options_init(&options, sizeof options);
  options.name = r->data;
  options.count = left ? r->queries : r->count;
  options.dim = (uint32_t)r->dim;
  options.type = strcmp(r->type, "f64") ? ADJ_F32 : ADJ_F64;
  if (left) options.seed = 2;
  return adj_dataset_generate(d->own, &options, out);
}

/* Makes room for points by dropping the sets that were not used for the longest time. The last set stays, because this
 * request may use it. Returns an empty place. */
static held *make_room(driver *d, uint64_t bytes) {
  uint64_t most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / MEMORY_PART;
  for (;;) {
    held *oldest = NULL, *empty = NULL;
    uint64_t total = bytes;
    for (held *h = d->sets; h < d->sets + SETS; h++) {
      total += h->bytes;
      if (!h->set) empty = h;
      if (h->set && h->used < d->clock && (!oldest || h->used < oldest->used)) oldest = h;
    }
    if (empty && (total <= most || !oldest)) return empty;
    drop_set(oldest);
  }
}

/* Finds the points of a request among the kept ones, or makes them. */
static adj_status find_set(driver *d, const papers_request *r, bool left, held **out) {
  char key[256];
  snprintf(key, sizeof key, "%s %llu %llu %s %d", r->data, (unsigned long long)(left ? r->queries : r->count),
           (unsigned long long)r->dim, r->type, left);
  held *found = NULL;
  for (held *h = d->sets; h < d->sets + SETS && !found; h++)
    if (h->set && !strcmp(h->key, key)) found = h;
  if (!found) {
    adj_dataset *set;
    adj_status status = make_set(d, r, left, &set);
    if (status) return status;
    uint64_t row = adj_dataset_dim(set) * (adj_dataset_type(set) == ADJ_F64 ? sizeof(double) : sizeof(float));
    found = make_room(d, adj_dataset_count(set) * row);
    *found = (held){.set = set, .bytes = adj_dataset_count(set) * row};
    memcpy(found->key, key, sizeof key);
  }
  found->used = ++d->clock;
  *out = found;
  return ADJ_OK;
}

/* Takes every parts-th point of a set: one entity partition (GPU-Join 6.2). */
static adj_status take_part(driver *d, const papers_request *r, const adj_dataset *from, adj_dataset **out) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = adj_dataset_type(from);
  points.dim = adj_dataset_dim(from);
  points.count = (adj_dataset_count(from) + r->parts - 1 - r->part) / r->parts;
  size_t row = points.dim * (points.type == ADJ_F64 ? sizeof(double) : sizeof(float));
  char *rows = malloc(points.count * row + 1);
  if (!rows) return ADJ_E_MEMORY;
  adj_status status = ADJ_OK;
  for (uint64_t i = 0; i < points.count && !status; i++)
    status = adj_dataset_row(from, r->part + i * r->parts, rows + i * row);
  points.data = rows;
  if (!status) status = adj_dataset_create(d->own, &points, out);
  free(rows);
  return status;
}

static adj_status find_sets(driver *d, papers_request *r, papers_sets *out) {
  held *points, *queries = NULL;
  *out = (papers_sets){0};
  adj_status status = find_set(d, r, false, &points);
  if (!status && r->queries) status = find_set(d, r, true, &queries);
  if (!status && queries) points->used = d->clock; /* both sets count as used now */
  if (!status && r->mean > 0 && !points->survey) {
    points->survey = papers_survey_of(points->set, adj_ctx_threads(d->own));
    if (!points->survey) status = ADJ_E_MEMORY;
  }
  if (!status && r->parts) status = take_part(d, r, points->set, &out->part);
  if (status) return status;
  if (r->mean > 0) r->radius = papers_radius_of(points->survey, r->mean);
  adj_dataset *left = out->part ? out->part : queries ? queries->set : NULL;
  out->left = left ? left : points->set;
  out->right = left ? points->set : NULL;
  return ADJ_OK;
}

/* kind=machine. */
static void print_machine(const driver *d) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  printf("{\"status\": \"ok\", \"threads\": %u", adj_ctx_threads(d->ctx));
  if (!adj_device_describe(0, &device)) papers_print_text("device", device.name);
  printf("}\n");
}

static void answer_join(driver *d, papers_request *r) {
  papers_sets s;
  double begin = bench_now();
  if (!find_sets(d, r, &s)) {
    if (!strcmp(r->kind, "points"))
      printf("{\"status\": \"ok\", \"seconds\": %.6f}\n", bench_now() - begin);
    else
      papers_join(d->ctx, r, &s, &d->traced);
    adj_dataset_destroy(s.part);
    return;
  }
  printf("{\"status\": \"points\""); /* no such points: the experiment is wrong */
  papers_print_text("message", adj_last_error());
  printf("}\n");
}

#ifdef BENCH_CUDA
static void answer_select(driver *d, papers_request *r) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  adj_status status = adj_device_describe(0, &device);
  if (status)
    papers_refuse(status, adj_last_error());
  else
    papers_select(d->ctx, r);
}
#endif

static void answer(driver *d, papers_request *r) {
  adj_status status = use_threads(d, (uint32_t)r->threads);
  if (status) {
    papers_refuse(status, adj_last_error());
  } else if (!strcmp(r->kind, "machine")) {
    print_machine(d);
  } else if (!strcmp(r->kind, "select")) {
#ifdef BENCH_CUDA
    answer_select(d, r);
#else
    papers_refuse(ADJ_E_UNSUPPORTED, "built without CUDA");
#endif
  } else {
    answer_join(d, r);
  }
}

int main(void) {
  driver d = {0};
  char line[LINE];
  papers_request request;
  papers_cache_open();
  while (fgets(line, sizeof line, stdin)) {
    if (parse(line, &request))
      answer(&d, &request);
    else
      papers_refuse(ADJ_E_ARGUMENT, "a word of the line is not NAME=VALUE of a known name, or data is missing");
    fflush(stdout);
  }
  for (held *h = d.sets; h < d.sets + SETS; h++)
    drop_set(h);
  if (d.ctx != d.own) adj_ctx_destroy(d.ctx);
  adj_ctx_destroy(d.own);
  return 0;
}
