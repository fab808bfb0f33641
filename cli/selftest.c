/* SPDX-License-Identifier: MIT
 *
 * adjoin selftest: runs the list of cases on this machine, on every backend and instruction set it
 * offers, and compares each whole result with a reference that shares no code with the library.
 */
#include <adjoin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

int adjoin_selftest(int argc, char **argv);

enum { MOST_COLUMNS = 8, CELL = 16 };

/* What is tested: one column of the table. */
typedef struct column {
  char title[32];
  adj_backend backend;
  adj_ctx *ctx;
} column;

typedef struct request {
  const char *backend, *isa; /* NULL: all there are */
  const char *only;          /* NULL: all cases     */
  uint32_t threads;          /* 0: one per core     */
  bool quick;
} request;

typedef struct table {
  column columns[MOST_COLUMNS];
  int count;
  bool quick;
  const char *only;
  uint64_t passed, failed, skipped;
} table;

static const struct {
  const char *name;
  adj_backend backend;
} BACKENDS[] = {{"auto", ADJ_BACKEND_AUTO},
                {"cpu", ADJ_BACKEND_CPU},
                {"gpu", ADJ_BACKEND_GPU},
                {"hybrid", ADJ_BACKEND_HYBRID},
                {"reference", ADJ_BACKEND_REFERENCE}};
enum { BACKEND_COUNT = sizeof BACKENDS / sizeof *BACKENDS };

static const char HELP[] =
    "adjoin selftest: every backend against the definition of right\n"
    "\n"
    "Usage: adjoin selftest [--backend auto|cpu|gpu|hybrid|reference] [--isa NAME] [--threads N]\n"
    "                       [--case TEXT] [--quick]\n"
    "\n"
    "Joins a list of small, difficult sets on this machine and compares every id and every bit of\n"
    "every distance with plain nested loops. Without options: every backend and instruction set\n"
    "there is. Exit status 1 when a result differs.\n"
    "\n"
    "  --backend NAME   only this backend\n"
    "  --isa NAME       only this instruction set (see adjoin info)\n"
    "  --threads N      threads to use; default one per core\n"
    "  --case TEXT      only the cases whose names hold this text\n"
    "  --quick          the smaller cases only, a few seconds\n"
    "  -h, --help       this text\n";

/* ---- The command line ------------------------------------------------------------------------------- */

static int usage(const char *what, const char *argument) {
  fprintf(stderr, "adjoin selftest: %s%s\nTry 'adjoin selftest --help'.\n", what, argument);
  return 2;
}

/* The value of an option given as "--name value" or "--name=value"; NULL when argv[*at] is another. */
static const char *value_of(const char *name, int argc, char **argv, int *at) {
  size_t length = strlen(name);
  if (!argv[*at] || strncmp(argv[*at], name, length)) return NULL;
  if (argv[*at][length] == '=') return argv[*at] + length + 1;
  if (argv[*at][length]) return NULL;
  const char *next = *at + 1 < argc ? argv[*at + 1] : NULL;
  if (!next) return "";
  ++*at;
  return next;
}

static bool known_backend(const char *name) {
  for (int b = 0; b < BACKEND_COUNT; b++)
    if (!strcmp(name, BACKENDS[b].name)) return true;
  return false;
}

/* 0: go on; otherwise 1 + the exit status. */
static int parse(request *wanted, int argc, char **argv) {
  for (int at = 1; at < argc; at++) {
    const char *value;
    if (!strcmp(argv[at], "--help") || !strcmp(argv[at], "-h")) {
      fputs(HELP, stdout);
      return 1;
    }
    if (!strcmp(argv[at], "--quick")) {
      wanted->quick = true;
    } else if ((value = value_of("--backend", argc, argv, &at))) {
      if (!known_backend(value)) return 1 + usage("--backend: there is no ", *value ? value : "name given");
      wanted->backend = value;
    } else if ((value = value_of("--case", argc, argv, &at))) {
      wanted->only = value;
    } else if ((value = value_of("--isa", argc, argv, &at))) {
      wanted->isa = value;
    } else if ((value = value_of("--threads", argc, argv, &at))) {
      char *end;
      unsigned long threads = strtoul(value, &end, 10);
      if (*end || *value < '0' || *value > '9' || threads < 1 || threads > 4096)
        return 1 + usage("--threads: not a number from 1 to 4096: ", value);
      wanted->threads = (uint32_t)threads;
    } else {
      return 1 + usage("unknown argument ", argv[at]);
    }
  }
  return 0;
}

/* ---- What can be tested ------------------------------------------------------------------------------ */

/* A join of two points tells whether a backend is there. */
static bool try_backend(adj_ctx *ctx, adj_backend backend) {
  float coordinates[] = {0, 1};
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = 1;
  points.count = 2;
  points.data = coordinates;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  spec.backend = backend;
  adj_dataset *set = NULL;
  adj_plan *plan = NULL;
  adj_status status = adj_dataset_create(ctx, &points, &set);
  if (!status) status = adj_plan_create(ctx, &spec, set, NULL, &plan);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  return status == ADJ_OK;
}

static bool add_column(table *t, const request *wanted, int backend, const char *isa) {
  if (t->count == MOST_COLUMNS) return true;
  column *c = &t->columns[t->count];
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = wanted->threads;
  options.isa = isa;
  if (adj_ctx_create(&options, &c->ctx)) {
    fprintf(stderr, "adjoin selftest: %s\n", adj_last_error());
    return false;
  }
  c->backend = BACKENDS[backend].backend;
  snprintf(c->title, sizeof c->title, "%s%s%s", BACKENDS[backend].name, isa ? "/" : "", isa ? isa : "");
  if (try_backend(c->ctx, c->backend)) {
    t->count++;
    return true;
  }
  printf("%s cannot run here: %s\n", BACKENDS[backend].name, adj_last_error());
  adj_ctx_destroy(c->ctx);
  return wanted->backend == NULL; /* it was only looked for, not asked for */
}

/* The columns asked for; without a request, the reference, the CPU with every instruction set, and
 * whatever devices there are. */
static bool choose_columns(table *t, const request *wanted) {
  for (int b = 0; b < BACKEND_COUNT; b++) {
    bool cpu = BACKENDS[b].backend == ADJ_BACKEND_CPU;
    if (wanted->backend ? strcmp(wanted->backend, BACKENDS[b].name) != 0 : b == 0) continue;
    if (!cpu || wanted->isa) {
      if (!add_column(t, wanted, b, wanted->isa)) return false;
      continue;
    }
    for (uint32_t i = 0; adj_isa_name(i); i++)
      if (!add_column(t, wanted, b, adj_isa_name(i))) return false;
  }
  return true;
}

/* ---- The table --------------------------------------------------------------------------------------- */

/* For range joins a GPU has no other algorithms, but results that fit into one batch and into many, that are kept while
 * they are counted and found again, room that is too small, sets in chunks; and the filter of products. */
static const char *const DEVICE_TUNINGS[] = {NULL,
                                             "device_batch=4000,test.streams=2,single=off",
                                             "device_batch=40000,single=on",
                                             "single=on,test.device_pairs=40",
                                             "device_chunk=250",
                                             "test.mirrored=on",
                                             "test.narrow=2",
                                             "test.narrow=3,single=on",
                                             "test.tile_hits=on",
                                             "test.tile_hits=on,test.narrow=2,test.device_blocks=3",
                                             "test.tile_hits=on,test.device_pairs=40",
                                             "test.query_hits=on",
                                             "test.query_hits=on,test.device_blocks=3",
                                             "test.device_blocks=3",
                                             "test.device_blocks=1,test.mirrored=off,single=on",
                                             "test.mirrored=on,single=on,test.device_pairs=40",
                                             "paper.access=lid-unicomp,device_chunk=400",
                                             "prefilter=tensor",
                                             "prefilter=tensor,device_batch=4000,single=off",
                                             "prefilter=tensor,indexed=3,single=on,test.device_pairs=40"};
enum { DEVICE_TUNING_COUNT = sizeof DEVICE_TUNINGS / sizeof *DEVICE_TUNINGS, POINT_TUNINGS = 4 };

/* For kNN joins. Through trees: warps with one query and with 32, of which none, some or all give up; all rows at once,
 * or some. By brute force: every way, and every kernel for distances and for selection; all of the right set at once,
 * or some. Through a grid: as planned, with few threads a query and with a warp, with cells far too narrow, so that
 * most queries fail, once or many times, and far too wide. A tree or a grid is not for every join; nor is every
 * selection for every k. */
static const struct {
  const char *algorithm, *tuning;
} NEAREST_SETUPS[] = {
    {NULL, NULL},
    {"kdtree", "test.per_query=off,test.cut=on"},
    {"kdtree", "test.per_query=off,test.budget=40,device_rows=300,test.cut=off"},
    {NULL, "device_rows=77"},
    {"kdtree", "test.per_query=off,test.device_blocks=2"},
    {"brute", "prefilter=tensor"},
    {"brute", "prefilter=gemm"},
    {"brute", "prefilter=off"},
    {"brute", "prefilter=off,test.distance=naive,test.select=sort"},
    {"brute", "prefilter=off,test.distance=tiled,test.select=radix,device_rows=77"},
    {"brute", "prefilter=off,test.distance=register,test.select=bits,device_chunk=130"},
    {"brute", "prefilter=off,test.select=short,device_chunk=1000"},
    {"brute", "prefilter=off,test.select=bound"},
    {"brute", "prefilter=off,test.select=bitonic"},
    {"brute", "prefilter=off,test.select=sample,device_chunk=1000"},
    {"brute", "device_chunk=90,device_rows=40"},
    {"grid", NULL},
    {"grid", "paper.point_threads=1,device_rows=300"},
    {"grid", "paper.point_threads=32,paper.epsilon=0.3,paper.failures=0.001,paper.tail=0.001"},
    {"grid", "paper.point_threads=2,paper.epsilon=3,paper.bins=50,paper.sample=20,test.per_query=off"},
    {"grid", "paper.point_threads=4,paper.epsilon=0.01"}};
enum { NEAREST_SETUP_COUNT = sizeof NEAREST_SETUPS / sizeof *NEAREST_SETUPS, ROTATING_SETUPS = 6 };

/* For kNN joins that cores and a GPU share: as planned, by rates and by fixed sizes, with the smallest batches, where
 * the GPU has nearly all and where it has some, all rows at once, or few; and through a grid, where some queries, most
 * or none come back to the cores. */
static const struct {
  const char *algorithm, *tuning;
} HYBRID_SETUPS[] = {
    {NULL, NULL},
    {NULL, "share=rates,batch=16"},
    {NULL, "share=fixed,batch=16,device_rows=77"},
    {NULL, "share=fixed,paper.n_large=1,paper.n_cwin=0.001,test.per_query=off,test.budget=40"},
    {"grid", "share=fixed,paper.n_large=1,paper.n_cwin=0.001,batch=16"},
    {"grid", "share=fixed,paper.n_large=0.9,paper.n_cwin=0.1,paper.epsilon=0.5,batch=16,device_rows=77"},
    {"grid", "share=rates,paper.epsilon=3"}};
enum { HYBRID_SETUP_COUNT = sizeof HYBRID_SETUPS / sizeof *HYBRID_SETUPS };

/* The same for range joins: lists of many queries and of few pairs, the filter of products, and pairs that are found
 * once. */
static const char *const HYBRID_RANGE_TUNINGS[] = {
    NULL,
    "share=rates,batch=16",
    "share=fixed,batch=16,device_batch=4000",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.001,paper.n_small=1",
    "share=fixed,paper.n_large=1,paper.n_cwin=0.001,test.narrow=2,device_batch=40000",
    "share=rates,prefilter=tensor",
    "share=rates,batch=16,single=on,test.mirrored=on,prefilter=off",
    "share=fixed,paper.n_large=0.5,batch=16,single=on,test.mirrored=on,prefilter=off"};
enum { HYBRID_RANGE_TUNING_COUNT = sizeof HYBRID_RANGE_TUNINGS / sizeof *HYBRID_RANGE_TUNINGS };

/* The kernels by point (docs/tuning.md, "The papers' configurations"): combination number n of access, order and
 * threads, of which there are 54, and the switches in turns, in batches small and large. Where cells are met once a
 * batch evaluates all queries, so there must not be too many. */
static const char *point_tuning(uint32_t n, char *text, size_t capacity) {
  static const char *const accesses[] = {"full", "unicomp", "lid-unicomp"};
  static const char *const orders[] = {"none", "sortbywl", "workqueue"};
  static const char *const reorders[] = {"", ",paper.reorder=on", ",paper.reorder=off,indexed=2"};
  uint32_t threads = n / 9 % 6, round = n / POINT_TUNINGS;
  snprintf(text, capacity, "paper.access=%s,paper.order=%s,paper.point_threads=%u%s%s%s%s", accesses[n % 3],
           orders[n / 3 % 3], 1u << threads, round % 2 ? ",paper.shortc=on" : "",
           round / 2 % 2 ? ",paper.sortidu=on" : "", reorders[round / 4 % 3],
           n % 2   ? ""
           : n % 3 ? ",device_batch=60000"
                   : ",device_batch=4000");
  return text;
}

/* Every algorithm (quick: the automatic one and one more), in rotating order of the rows and with and
 * without distances. */
static join_verdict run_cell(const column *col, const join_case *c, const join_answer *answer, const table *t,
                             uint32_t turn, char *message, size_t capacity) {
  static const char *const range[] = {NULL, "grid", "ego", "brute"}, *const nearest[] = {NULL, "kdtree", "brute"};
  const char *const *algorithms = c->k ? nearest : range;
  bool device = col->backend == ADJ_BACKEND_GPU || col->backend == ADJ_BACKEND_HYBRID;
  bool hybrid = col->backend == ADJ_BACKEND_HYBRID;
  int last = device && c->k                    ? hybrid ? HYBRID_SETUP_COUNT : NEAREST_SETUP_COUNT
             : hybrid                          ? HYBRID_RANGE_TUNING_COUNT
             : device                          ? DEVICE_TUNING_COUNT + POINT_TUNINGS
             : col->backend != ADJ_BACKEND_CPU ? 1
             : c->k                            ? 3
                                               : 4;
  uint32_t point = turn * POINT_TUNINGS, number = turn / 2; /* f32 and f64 have the same */
  for (int a = 0; a < last; a++, turn++) {
    if (t->quick && a && turn % 3) continue;
    if (last == NEAREST_SETUP_COUNT && a >= ROTATING_SETUPS && (number + (uint32_t)a) % 2) continue;
    char text[256];
    const char *tuning = !device                   ? NULL
                         : c->k                    ? hybrid ? HYBRID_SETUPS[a].tuning : NEAREST_SETUPS[a].tuning
                         : hybrid                  ? HYBRID_RANGE_TUNINGS[a]
                         : a < DEVICE_TUNING_COUNT ? DEVICE_TUNINGS[a]
                                                   : point_tuning(point++, text, sizeof text);
    const char *algorithm = !device  ? algorithms[a]
                            : !c->k  ? NULL
                            : hybrid ? HYBRID_SETUPS[a].algorithm
                                     : NEAREST_SETUPS[a].algorithm;
    join_setup setup = {col->backend, algorithm, tuning, (adj_order)(turn % 3), turn % 2};
    join_verdict verdict = compare_case(col->ctx, c, answer, &setup, message, capacity);
    size_t used = strlen(message);
    if (verdict == JOIN_DIFFERS && device && (algorithm || tuning))
      snprintf(message + used, capacity - used, " (%s%s%s)", algorithm ? algorithm : "",
               algorithm && tuning ? ", " : "", tuning ? tuning : "");
    if (verdict == JOIN_DIFFERS || (verdict == JOIN_REFUSED && a == 0)) return verdict;
  }
  return JOIN_SAME;
}

static void print_cell(const table *t, int column_number, const char *text) {
  printf(" %-*s", column_number + 1 < t->count ? CELL : 0, text);
}

static bool run_row(table *t, const join_case *c, uint32_t number) {
  join_answer answer;
  if (!answer_case(c, &answer)) {
    fprintf(stderr, "adjoin selftest: out of memory\n");
    return false;
  }
  char messages[MOST_COLUMNS][512] = {{0}};
  bool failed[MOST_COLUMNS] = {false};
  printf("%-52s", c->name);
  for (int i = 0; i < t->count; i++) {
    const column *col = &t->columns[i];
    join_verdict verdict = run_cell(col, c, &answer, t, number, messages[i], sizeof messages[i]);
    /* A device may say that it cannot do a join; a CPU may not. */
    bool skipped = verdict == JOIN_REFUSED && (col->backend == ADJ_BACKEND_GPU || col->backend == ADJ_BACKEND_HYBRID);
    failed[i] = verdict != JOIN_SAME && !skipped;
    print_cell(t, i, failed[i] ? "FAILED" : skipped ? "-" : "ok");
    if (skipped)
      t->skipped++;
    else if (failed[i])
      t->failed++;
    else
      t->passed++;
  }
  putchar('\n');
  for (int i = 0; i < t->count; i++)
    if (failed[i]) printf("    %s: %s\n", t->columns[i].title, messages[i]);
  answer_free(&answer);
  return true;
}

static bool run_table(table *t) {
  printf("%-52s", "case");
  for (int i = 0; i < t->count; i++)
    print_cell(t, i, t->columns[i].title);
  putchar('\n');
  for (uint32_t number = 0; number < case_count(); number++) {
    join_case c;
    if (!case_build(number, &c)) {
      fprintf(stderr, "adjoin selftest: out of memory\n");
      return false;
    }
    bool wanted = (!t->quick || c.quick) && (!t->only || strstr(c.name, t->only));
    bool done = !wanted || run_row(t, &c, number);
    case_free(&c);
    if (!done) return false;
  }
  return true;
}

int adjoin_selftest(int argc, char **argv) {
  request wanted = {0};
  int exits = parse(&wanted, argc, argv);
  if (exits) return exits - 1;
  table t = {.quick = wanted.quick, .only = wanted.only};
  bool done = choose_columns(&t, &wanted) && t.count > 0 && run_table(&t);
  for (int i = 0; i < t.count; i++)
    adj_ctx_destroy(t.columns[i].ctx);
  if (!done) return 1;
  if (wanted.only && !t.passed && !t.failed && !t.skipped)
    return usage("--case: no case has this in its name: ", wanted.only);
  printf("%llu passed, %llu failed", (unsigned long long)t.passed, (unsigned long long)t.failed);
  if (t.skipped) printf(", %llu that a device cannot do", (unsigned long long)t.skipped);
  putchar('\n');
  return t.failed > 0;
}
