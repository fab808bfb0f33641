/* SPDX-License-Identifier: MIT
 *
 * The differential test: random joins, each run in several ways and compared as a whole with the reference, which
 * shares no code with the library. The test draws the case (random_cases.h), the backend, the algorithm, the settings,
 * the instruction set, the number of threads, the order, and limits of memory.
 *
 *   attack [--cases N] [--seconds S] [--seed N] [--coverage] [--need-device]
 *
 * Cases have consecutive seeds. --cases N (default 400) runs the same cases every time. --seconds S runs for that long,
 * from a seed taken from the clock unless one is given. --coverage fails if a metric, backend, algorithm, instruction
 * set or number of threads was never compared. A failure prints the seed that repeats it, and the smallest set of
 * points found that still fails. Exit status 0: all results match the reference; 1: some differ; 77: --need-device was
 * given, and there is no device.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/selftest_setups.h"
#include "compare.h"
#include "random_cases.h"
#include "tunings.h"

enum { LEAST_DEVICE_BYTES = 1 << 24 };
enum { MOST_CONTEXTS = 16, MOST_THREADS = 3, WAYS = 5, MOST_FAILURES = 5, MOST_KINDS = 128, NO_DEVICE = 77 };

typedef struct request {
  uint64_t cases, seed;
  double seconds; /* 0: run a number of cases instead */
  bool coverage, need_device;
} request;

/* How many joins of a kind were compared, and how many were refused. */
typedef struct kind {
  const char *of, *name; /* "metric", "L2" */
  uint64_t compared, refused;
} kind;

typedef struct attack {
  adj_ctx *contexts[MOST_CONTEXTS];
  int context_count;
  bool device;
  kind kinds[MOST_KINDS];
  int kind_count;
  uint64_t cases, pairs, failures;
} attack;

/* One way to run a case. */
typedef struct way {
  join_setup setup;
  test_setup named;      /* for devices: owns the text of the tuning */
  uint64_t memory_limit; /* 0: none */
  bool several;          /* the context names the device twice */
  adj_ctx *ctx;          /* used unless several or memory_limit is set */
  const char *isa;
  uint32_t threads;
} way;

static const char *const METRICS[] = {"", "L2", "L1", "Linf", "Lp", "cosine", "dot", "haversine"};
static const char *const BACKENDS[] = {"auto", "cpu", "gpu", "hybrid", "reference"};
static const char *const ORDERS[] = {"id", "distance", "any"};
static const char *const THREADS[] = {"", "1", "2", "3"};
static const char *const LIMITS[] = {"none", "some"};

static void need(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "attack: %s: %s\n", what, adj_last_error());
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- What was compared --------------------------------------------------------------------------------- */

static kind *kind_of(attack *a, const char *of, const char *name) {
  for (int i = 0; i < a->kind_count; i++)
    if (!strcmp(a->kinds[i].of, of) && !strcmp(a->kinds[i].name, name)) return &a->kinds[i];
  need(a->kind_count < MOST_KINDS, "too many kinds");
  a->kinds[a->kind_count] = (kind){of, name, 0, 0};
  return &a->kinds[a->kind_count++];
}

static void count_kind(attack *a, const char *of, const char *name, bool refused) {
  kind *k = kind_of(a, of, name);
  ++*(refused ? &k->refused : &k->compared);
}

static void count_way(attack *a, const join_case *c, const way *w, bool refused) {
  const char *tuning = w->setup.tuning ? w->setup.tuning : "none";
  count_kind(a, "join", c->k ? "kNN" : "range", refused);
  count_kind(a, "type", c->left.type == ADJ_F64 ? "f64" : "f32", refused);
  count_kind(a, "metric", METRICS[c->metric], refused);
  count_kind(a, "periodic box", c->box_count ? "yes" : "no", refused);
  count_kind(a, "backend", BACKENDS[w->setup.backend], refused);
  count_kind(a, "instruction set", w->isa, refused);
  count_kind(a, "threads", THREADS[w->threads], refused);
  count_kind(a, "order", ORDERS[w->setup.order], refused);
  count_kind(a, "memory limit", LIMITS[w->memory_limit > 0], refused);
  count_kind(a, c->k ? "kNN algorithm" : "range algorithm", w->setup.algorithm ? w->setup.algorithm : "auto", refused);
  if (w->setup.backend != ADJ_BACKEND_CPU) return; /* those of devices are combined from parts: too many to count */
  count_kind(a, c->k ? "kNN setting of cores" : "range setting of cores", tuning, refused);
}

static int by_kind(const void *left, const void *right) {
  const kind *a = left, *b = right;
  int order = strcmp(a->of, b->of);
  return order ? order : strcmp(a->name, b->name);
}

static void print_counts(attack *a) {
  qsort(a->kinds, (size_t)a->kind_count, sizeof *a->kinds, by_kind);
  for (int i = 0; i < a->kind_count; i++)
    printf("  %-22s %-45s %10llu compared %8llu refused\n", a->kinds[i].of, a->kinds[i].name,
           (unsigned long long)a->kinds[i].compared, (unsigned long long)a->kinds[i].refused);
}

/* Lists by name what every machine has, and counts what was never drawn. test_cases checks that every setting fits some
 * case, with a list made for that. */
static uint64_t count_missing(attack *a) {
  static const char *const others[][2] = {{"join", "range"},
                                          {"join", "kNN"},
                                          {"type", "f32"},
                                          {"type", "f64"},
                                          {"periodic box", "yes"},
                                          {"threads", "1"},
                                          {"threads", "2"},
                                          {"threads", "3"},
                                          {"memory limit", "some"},
                                          {"range algorithm", "grid"},
                                          {"range algorithm", "ego"},
                                          {"range algorithm", "kdtree"},
                                          {"range algorithm", "brute"},
                                          {"kNN algorithm", "kdtree"},
                                          {"kNN algorithm", "brute"},
                                          {"order", "any"},
                                          {"order", "distance"}};
  for (int m = ADJ_L2; m <= ADJ_HAVERSINE; m++)
    kind_of(a, "metric", METRICS[m]);
  for (int b = ADJ_BACKEND_AUTO; b <= ADJ_BACKEND_REFERENCE; b++)
    if (a->device || (b != ADJ_BACKEND_GPU && b != ADJ_BACKEND_HYBRID)) kind_of(a, "backend", BACKENDS[b]);
  for (uint32_t i = 0; adj_isa_name(i); i++)
    kind_of(a, "instruction set", adj_isa_name(i));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    kind_of(a, others[i][0], others[i][1]);
  uint64_t missing = 0;
  for (int i = 0; i < a->kind_count; i++) {
    const kind *k = &a->kinds[i];
    if (k->compared || strstr(k->of, "setting")) continue;
    printf("never compared: %s %s (%llu refused)\n", k->of, k->name, (unsigned long long)k->refused);
    missing++;
  }
  return missing;
}

/* ---- Ways ------------------------------------------------------------------------------------------------ */

/* devices: how often the first device is named; negative: use all devices. */
static adj_ctx *make_context(const char *isa, uint32_t threads, uint64_t memory_limit, int32_t devices) {
  static const int32_t often[8] = {0};
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.isa = isa;
  options.threads = threads;
  options.memory_limit = memory_limit;
  /* With less memory, a software device computes the same chunks again and again. */
  if (memory_limit) options.device_memory_limit = memory_limit > LEAST_DEVICE_BYTES ? memory_limit : LEAST_DEVICE_BYTES;
  options.devices = devices > 0 ? often : NULL;
  options.device_count = devices;
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(&options, &ctx), "a context");
  return ctx;
}

static adj_backend draw_backend(const attack *a, dice *d) {
  static const adj_backend cores[] = {ADJ_BACKEND_CPU, ADJ_BACKEND_CPU, ADJ_BACKEND_CPU,  ADJ_BACKEND_CPU,
                                      ADJ_BACKEND_CPU, ADJ_BACKEND_CPU, ADJ_BACKEND_AUTO, ADJ_BACKEND_REFERENCE};
  static const adj_backend devices[] = {ADJ_BACKEND_CPU, ADJ_BACKEND_CPU,    ADJ_BACKEND_CPU,  ADJ_BACKEND_GPU,
                                        ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_AUTO, ADJ_BACKEND_REFERENCE};
  uint64_t drawn = dice_below(d, 16);
  if (drawn >= 8) return ADJ_BACKEND_CPU;
  return a->device ? devices[drawn] : cores[drawn];
}

static void draw_way(const attack *a, dice *d, const join_case *c, way *w) {
  *w = (way){0};
  join_setup *setup = &w->setup;
  setup->backend = draw_backend(a, d);
  if (setup->backend == ADJ_BACKEND_CPU) {
    const char *const *names;
    int count = algorithms_for(c, &names);
    setup->algorithm = names[dice_below(d, (uint64_t)count)];
    count = tunings_for(c, &names);
    setup->tuning = dice_below(d, 4) ? names[dice_below(d, (uint64_t)count)] : NULL;
  } else if (setup->backend != ADJ_BACKEND_AUTO) {
    w->several = setup->backend == ADJ_BACKEND_GPU && !dice_below(d, 3);
    int count = setup_count(setup->backend, c->k > 0, w->several);
    setup_choose(setup->backend, c->k > 0, w->several, (int)dice_below(d, (uint64_t)count),
                 (uint32_t)case_random(&d->state), &w->named);
    setup->algorithm = w->named.algorithm;
    setup->tuning = w->named.tuning;
  }
  setup->order = (adj_order)dice_below(d, 3);
  setup->distances = dice_below(d, 2);
  setup->kept = !setup->tuning && dice_below(d, 2);
  /* Half of the runs use the best instruction set, which comes first. */
  w->ctx = a->contexts[dice_below(d, dice_below(d, 2) ? MOST_THREADS : (uint64_t)a->context_count)];
  w->isa = adj_ctx_isa(w->ctx);
  w->threads = adj_ctx_threads(w->ctx);
  if (dice_below(d, 8)) return;
  w->memory_limit = (uint64_t)dice_spread(d, 1 << 16, 1 << 26);
  setup->may_lack_memory = true;
}

/* Runs a case in one way, and checks that the join gave back all its memory. */
static join_verdict run_way(const attack *a, const join_case *c, const join_answer *answer, const way *w, char *message,
                            size_t capacity) {
  bool own = w->memory_limit || w->several;
  int32_t devices = !a->device ? 0 : w->several ? 2 : -1;
  adj_ctx *ctx = own ? make_context(w->isa, w->threads, w->memory_limit, devices) : w->ctx;
  join_verdict verdict = compare_case(ctx, c, answer, &w->setup, message, capacity);
  bool asked = w->setup.algorithm || w->setup.tuning || w->memory_limit || w->setup.backend == ADJ_BACKEND_GPU ||
               w->setup.backend == ADJ_BACKEND_HYBRID;
  if (verdict == JOIN_REFUSED && !asked) verdict = JOIN_DIFFERS; /* the cores can join every case */
  if (adj_ctx_memory_used(ctx)) {
    snprintf(message, capacity, "%llu bytes were not given back", (unsigned long long)adj_ctx_memory_used(ctx));
    verdict = JOIN_DIFFERS;
  }
  if (own) adj_ctx_destroy(ctx);
  return verdict;
}

/* ---- Failures -------------------------------------------------------------------------------------------- */

/* Removes rows [begin, end) of a set, in place. */
static void remove_rows(point_set *set, uint64_t begin, uint64_t end) {
  uint64_t row = set->dim * type_size(set->type);
  memmove((char *)set->data + begin * row, (char *)set->data + end * row, (set->count - end) * row);
  set->count -= end - begin;
}

static bool still_fails(const attack *a, const join_case *c, const way *w) {
  char message[512];
  join_answer answer;
  need(answer_case(c, &answer), "no memory");
  bool fails = run_way(a, c, &answer, w, message, sizeof message) == JOIN_DIFFERS;
  answer_free(&answer);
  return fails;
}

/* Removes rows of one set, at first half of them at a time, while the join still fails. */
static void shrink_set(const attack *a, join_case *c, point_set *set, const way *w) {
  uint64_t bytes = set->count * set->dim * type_size(set->type);
  void *before = malloc(bytes + 1);
  need(before, "no memory");
  for (uint64_t many = set->count / 2; many; many = many > 1 ? (many + 1) / 2 : 0)
    for (uint64_t begin = 0; begin + many <= set->count;) {
      uint64_t count = set->count;
      memcpy(before, set->data, count * set->dim * type_size(set->type));
      remove_rows(set, begin, begin + many);
      if (still_fails(a, c, w)) continue;
      memcpy(set->data, before, count * set->dim * type_size(set->type));
      set->count = count;
      begin += many;
    }
  free(before);
}

static void print_set(const char *name, const point_set *set) {
  enum { MOST_VALUES = 400 };
  if (set->count * set->dim > MOST_VALUES) {
    printf("  %s: %llu points, too many to print\n", name, (unsigned long long)set->count);
    return;
  }
  printf("  %s:\n", name);
  for (uint64_t i = 0; i < set->count; i++)
    for (uint32_t j = 0; j < set->dim; j++) {
      uint64_t at = i * set->dim + j;
      double x = set->type == ADJ_F64 ? ((const double *)set->data)[at] : (double)((const float *)set->data)[at];
      printf("%s%.17g%s", j ? "," : "    ", x, j + 1 == set->dim ? "\n" : "");
    }
}

static void print_way(const join_case *c, const way *w) {
  printf("  %s join, %s, metric %s, p %g, radius %a (%.17g), k %u, flags %u, angle %d, unit %d\n",
         c->k ? "kNN" : "range", c->left.type == ADJ_F64 ? "f64" : "f32", METRICS[c->metric], c->p, c->radius,
         c->radius, c->k, c->flags, (int)c->angle, (int)c->unit);
  for (uint32_t j = 0; j < c->box_count; j++)
    printf("%s%.17g%s", j ? "," : "  box ", c->box[j], j + 1 == c->box_count ? "\n" : "");
  if (w->setup.kept) printf("  on a kept index\n");
  printf("  backend %s, algorithm %s, tuning %s, order %s, %s distances, isa %s, %u threads, memory limit %llu\n",
         BACKENDS[w->setup.backend], w->setup.algorithm ? w->setup.algorithm : "auto",
         w->setup.tuning ? w->setup.tuning : "none", ORDERS[w->setup.order], w->setup.distances ? "with" : "without",
         w->isa, w->threads, (unsigned long long)w->memory_limit);
}

/* Shrinks the case. */
static void report_failure(const attack *a, uint64_t seed, join_case *c, const way *w, const char *message) {
  printf("FAILED: %s: %s\n  repeat it: attack --seed %llu --cases 1\n", c->name, message, (unsigned long long)seed);
  print_way(c, w);
  if (still_fails(a, c, w)) {
    shrink_set(a, c, &c->left, w);
    if (!c->self_join) shrink_set(a, c, &c->right, w);
  } else {
    printf("  it does not fail every time\n");
  }
  print_set("points", &c->left);
  if (!c->self_join) print_set("right points", &c->right);
  fflush(stdout);
}

/* ---- The attack ------------------------------------------------------------------------------------------ */

static void one_case(attack *a, uint64_t seed) {
  dice d;
  join_case c;
  join_answer answer;
  char message[512] = "";
  need(random_case(seed, &d, &c), "no memory");
  need(answer_case(&c, &answer), "no memory");
  a->cases++;
  a->pairs += answer.by_id.offsets[answer.by_id.rows];
  for (int i = 0; i < WAYS; i++) {
    way w;
    draw_way(a, &d, &c, &w);
    join_verdict verdict = run_way(a, &c, &answer, &w, message, sizeof message);
    if (verdict != JOIN_DIFFERS) {
      count_way(a, &c, &w, verdict == JOIN_REFUSED);
      continue;
    }
    a->failures++;
    report_failure(a, seed, &c, &w, message);
    break;
  }
  answer_free(&answer);
  case_free(&c);
}

static void start(attack *a) {
  *a = (attack){0};
  adj_device device;
  adj_device_init(&device, sizeof device);
  a->device = !adj_device_describe(0, &device);
  for (uint32_t i = 0; adj_isa_name(i); i++)
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
      need(a->context_count < MOST_CONTEXTS, "too many instruction sets");
      a->contexts[a->context_count++] = make_context(adj_isa_name(i), threads, 0, a->device ? -1 : 0);
    }
}

static void stop(attack *a) {
  for (int i = 0; i < a->context_count; i++)
    adj_ctx_destroy(a->contexts[i]);
}

static int run(const request *o) {
  static attack a;
  start(&a);
  if (o->need_device && !a.device) {
    printf("%s\n", adj_last_error());
    stop(&a);
    return NO_DEVICE;
  }
  printf("seed %llu, %s\n", (unsigned long long)o->seed, a.device ? "with a device" : "without a device");
  fflush(stdout);
  double begin = now();
  for (uint64_t i = 0; a.failures < MOST_FAILURES; i++) {
    if (o->seconds > 0 ? now() - begin >= o->seconds : i >= o->cases) break;
    one_case(&a, o->seed + i);
  }
  print_counts(&a);
  printf("%llu cases in %.0f s, %llu pairs, %llu failed\n", (unsigned long long)a.cases, now() - begin,
         (unsigned long long)a.pairs, (unsigned long long)a.failures);
  uint64_t missing = o->coverage ? count_missing(&a) : 0;
  stop(&a);
  return a.failures || missing || !a.cases;
}

static int usage(void) {
  fprintf(stderr, "usage: attack [--cases N] [--seconds S] [--seed N] [--coverage] [--need-device]\n");
  return 2;
}

/* Returns false if there is no such option. */
static bool take_option(request *o, const char *name, const char *value) {
  if (!strcmp(name, "--cases"))
    o->cases = strtoull(value, NULL, 10);
  else if (!strcmp(name, "--seconds"))
    o->seconds = strtod(value, NULL);
  else if (!strcmp(name, "--seed"))
    o->seed = strtoull(value, NULL, 10);
  else
    return false;
  return true;
}

int main(int argc, char **argv) {
  request o = {.cases = 400};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--coverage"))
      o.coverage = true;
    else if (!strcmp(argv[i], "--need-device"))
      o.need_device = true;
    else if (i + 1 == argc || !take_option(&o, argv[i], argv[i + 1]))
      return usage();
    else
      i++;
  }
  if (!o.seed) o.seed = o.seconds > 0 ? (uint64_t)time(NULL) << 20 : 1;
  return run(&o);
}
