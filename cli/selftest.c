/* SPDX-License-Identifier: MIT
 *
 * adjoin selftest: runs the list of cases on this machine, on every backend and instruction set it
 * offers, and compares each whole result with a reference that shares no code with the library.
 *
 * A case is a row of the table. Lanes, which are threads with their own contexts, take one row at a time: they build
 * its points, compute the reference result once, and compare every setup of every column with it. Rows are printed in
 * the order of the list.
 */
#include <adjoin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compare.h"
#include "join.h"
#include "selftest_setups.h"

int adjoin_selftest(int argc, char **argv);

enum { MOST_COLUMNS = 8, MOST_LANES = 8, JOIN_THREADS = 3, CELL = 16 };

/* NOT_HERE: the exit status if the requested backend needs a device and there is none; ctest counts it as a skipped
 * test. A device that exists but cannot be used is a failure. */
enum { FAILED = 1, NOT_HERE = 77 };

/* How many cases took or refused a setup, which is an algorithm with a tuning. */
typedef struct setup_use {
  atomic_uint taken, refused;
} setup_use;

/* One column of the table: a backend with an instruction set. */
typedef struct column {
  char title[32];
  adj_backend backend;
  adj_ctx *lanes[MOST_LANES];
  setup_use uses[2][MOST_SETUPS]; /* of range joins, of kNN joins               */
  atomic_uint without, faults;    /* hybrid: joins without a device; device faults */
} column;

typedef struct request {
  const char *backend, *isa;                        /* NULL: all available */
  const char *only;                                 /* NULL: all cases     */
  uint32_t threads;                                 /* of one join         */
  uint32_t part, parts;                             /* one case in `parts`, from number part - 1 on */
  int32_t devices[JOIN_MOST_DEVICES], device_count; /* -1: all, with the setups of one device */
  bool quick;
} request;

typedef struct cell {
  join_verdict verdict;
  char message[512];
} cell;

typedef struct row {
  bool done, wanted;
  char name[80];
  cell cells[MOST_COLUMNS];
} row;

typedef struct table {
  column columns[MOST_COLUMNS];
  int count;
  uint32_t lanes;
  const request *asked;
  uint64_t passed, failed, skipped;
  uint32_t row_count;
  row *rows;
  atomic_uint next; /* row to be taken */
  atomic_bool out_of_memory;
  pthread_mutex_t lock; /* guards the members below, and row.done */
  uint32_t printed;
  double reference_s; /* time that lanes spent in the reference */
} table;

typedef struct lane {
  table *t;
  uint32_t number;
  pthread_t thread;
} lane;

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
    "adjoin selftest: check every backend against the reference\n"
    "\n"
    "Usage: adjoin selftest [--backend auto|cpu|gpu|hybrid|reference] [--isa NAME] [--threads N]\n"
    "                       [--devices LIST] [--case TEXT] [--part I/N] [--quick]\n"
    "\n"
    "Joins a list of small, difficult sets on this machine and compares every id and every bit of\n"
    "every distance with plain nested loops. Without options: every backend and instruction set\n"
    "there is. Exit status 1 when a result differs or a device fails, 77 when there is no device for\n"
    "--backend gpu or hybrid.\n"
    "\n"
    "  --backend NAME   only this backend\n"
    "  --isa NAME       only this instruction set (see adjoin info)\n"
    "  --threads N      threads of each join, 3 by default; several joins run at a time\n"
    "  --devices LIST   the GPUs to use, such as 0 or 0,1; of several, joins that they share are\n"
    "                   tested, and one may be named twice\n"
    "  --case TEXT      only the cases whose names hold this text\n"
    "  --part I/N       only case I and every N-th after it: N machines share the list\n"
    "  --quick          the smaller cases only, a few seconds\n"
    "  -h, --help       this text\n";

/* ---- The command line ------------------------------------------------------------------------------- */

static int usage(const char *what, const char *argument) {
  fprintf(stderr, "adjoin selftest: %s%s\nTry 'adjoin selftest --help'.\n", what, argument);
  return 2;
}

/* The value of an option given as "--name value" or "--name=value"; NULL if argv[*at] is another option. */
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

/* A number of at most nine digits that is followed by `after`; 0: the text is not such a number. */
static uint32_t parse_number(const char *text, char after, const char **rest) {
  char *end;
  unsigned long number = strtoul(text, &end, 10);
  bool digits = *text >= '0' && *text <= '9' && end - text <= 9;
  *rest = end + (*end == '/');
  return digits && *end == after ? (uint32_t)number : 0;
}

static bool parse_part(const char *text, request *wanted) {
  const char *rest;
  wanted->part = parse_number(text, '/', &rest);
  wanted->parts = wanted->part ? parse_number(rest, '\0', &rest) : 0;
  return wanted->part && wanted->part <= wanted->parts;
}

/* Returns 0 to continue; otherwise 1 + the exit status. */
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
    } else if ((value = value_of("--part", argc, argv, &at))) {
      if (!parse_part(value, wanted)) return 1 + usage("--part: not I/N with I from 1 to N: ", value);
    } else if ((value = value_of("--devices", argc, argv, &at))) {
      wanted->device_count = join_device_numbers(value, wanted->devices);
      if (wanted->device_count < 0) return 1 + usage("--devices: not a list of GPUs such as 0 or 0,1: ", value);
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

/* ---- Columns ----------------------------------------------------------------------------------------- */

/* Joins two points to find out whether a backend is available. */
static adj_status try_backend(adj_ctx *ctx, adj_backend backend) {
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
  return status;
}

static bool uses_device(const column *c) {
  return c->backend == ADJ_BACKEND_GPU || c->backend == ADJ_BACKEND_HYBRID;
}

/* Counts warnings: the cores do a hybrid join without the device if it cannot help or fails. */
static void note_warning(void *user, adj_log_level level, const char *line) {
  column *c = user;
  if (level != ADJ_LOG_WARN) return;
  if (strstr(line, "the cores do this join alone")) atomic_fetch_add(&c->without, 1);
  if (!strstr(line, " takes no part") && !strstr(line, " failed, and its")) return;
  if (!atomic_fetch_add(&c->faults, 1)) fprintf(stderr, "adjoin selftest: %s: %s\n", c->title, line);
}

/* Lanes share the memory of the devices. */
static uint64_t device_memory_of(const table *t, const column *c) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (!uses_device(c) || adj_device_describe(0, &device)) return 0;
  uint64_t often = t->asked->device_count > 1 ? (uint64_t)t->asked->device_count : 1; /* all may be the same device */
  return device.memory_free / (4 * often * t->lanes); /* two columns use devices; half is for other programs */
}

static void close_column(column *c) {
  for (int i = 0; i < MOST_LANES; i++)
    adj_ctx_destroy(c->lanes[i]);
}

static adj_status open_column(const table *t, column *c, uint32_t threads, const char *isa) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = threads;
  options.isa = isa;
  options.device_memory_limit = device_memory_of(t, c);
  options.devices = t->asked->device_count > 0 ? t->asked->devices : NULL;
  options.device_count = t->asked->device_count;
  options.log = note_warning;
  options.log_user = c;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; !status && i < t->lanes; i++)
    status = adj_ctx_create(&options, &c->lanes[i]);
  /* A hybrid join also runs if the device cannot be opened, so the device is tried first. */
  if (!status && uses_device(c)) status = try_backend(c->lanes[0], ADJ_BACKEND_GPU);
  return status ? status : try_backend(c->lanes[0], c->backend);
}

/* Whether there is no device at all: no GPU, no driver, or no GPU code in this build. */
static bool is_without_device(void) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  return adj_device_describe(0, &device) == ADJ_E_UNSUPPORTED;
}

/* Returns 0 to continue; otherwise 1 + the exit status. */
static int add_column(table *t, const request *wanted, int backend, const char *isa) {
  if (t->count == MOST_COLUMNS) return 0;
  column *c = &t->columns[t->count];
  c->backend = BACKENDS[backend].backend;
  snprintf(c->title, sizeof c->title, "%s%s%s", BACKENDS[backend].name, isa ? "/" : "", isa ? isa : "");
  adj_status status = open_column(t, c, wanted->threads, isa);
  if (!status) {
    t->count++;
    return 0;
  }
  bool not_here = uses_device(c) && status == ADJ_E_UNSUPPORTED;
  char why[256];
  snprintf(why, sizeof why, "%s", adj_last_error());
  close_column(c);
  memset(c, 0, sizeof *c);
  if (!not_here || (wanted->backend && !is_without_device())) {
    fprintf(stderr, "adjoin selftest: %s: %s\n", BACKENDS[backend].name, why);
    return 1 + FAILED;
  }
  printf("%s cannot run here, and is not tested: %s\n", BACKENDS[backend].name, why);
  return wanted->backend ? 1 + NOT_HERE : 0; /* an automatic choice may find nothing */
}

/* Adds the requested columns; without a request: the reference, the CPU with every instruction set, and all available
 * devices. */
static int choose_columns(table *t, const request *wanted) {
  int exits = 0;
  for (int b = 0; !exits && b < BACKEND_COUNT; b++) {
    bool cpu = BACKENDS[b].backend == ADJ_BACKEND_CPU;
    if (wanted->backend ? strcmp(wanted->backend, BACKENDS[b].name) != 0 : b == 0) continue;
    if (!cpu || wanted->isa) exits = add_column(t, wanted, b, wanted->isa);
    for (uint32_t i = 0; !exits && cpu && !wanted->isa && adj_isa_name(i); i++)
      exits = add_column(t, wanted, b, adj_isa_name(i));
  }
  return exits;
}

/* ---- The table --------------------------------------------------------------------------------------- */

/* Compares the case with a radius for each left point. */
static join_verdict compare_radii(adj_ctx *ctx, const join_case *c, const join_answer *answer, const join_setup *setup,
                                  cell *out) {
  join_case own = *c;
  join_answer radii_answer;
  join_verdict verdict = JOIN_DIFFERS;
  snprintf(out->message, sizeof out->message, "out of memory");
  own.radii = case_radii(c, answer);
  if (own.radii && answer_case(&own, &radii_answer)) {
    verdict = compare_case(ctx, &own, &radii_answer, setup, out->message, sizeof out->message);
    answer_free(&radii_answer);
  }
  free(own.radii);
  return verdict;
}

/* Runs a case in every setup of a column. The order of rows rotates from setup to setup. So do distances, such that f32
 * and f64 cases, which alternate, both run with and without them. The cell keeps the first setup that differs. */
static void run_cell(const table *t, column *col, uint32_t lane_number, const join_case *c, const join_answer *answer,
                     uint32_t number, cell *out) {
  bool nearest = c->k > 0, several = t->asked->device_count > 1;
  uint32_t turn = number;
  for (int a = 0; a < setup_count(col->backend, nearest, several); a++, turn++) {
    if (t->asked->quick && a && turn % 3) continue; /* the planner's own choice and every third setup */
    if (setup_is_left_out(col->backend, nearest, several, a, number / 2)) continue; /* the same for f32 and f64 */
    test_setup chosen;
    setup_choose(col->backend, nearest, several, a, number, &chosen);
    join_setup setup = {.backend = col->backend,
                        .algorithm = chosen.algorithm,
                        .tuning = chosen.tuning,
                        .system = chosen.system,
                        .order = (adj_order)(turn % 3),
                        .distances = turn / 2 % 2 > 0,
                        .kept = chosen.kept};
    join_verdict verdict =
        chosen.radii ? compare_radii(col->lanes[lane_number], c, answer, &setup, out)
                     : compare_case(col->lanes[lane_number], c, answer, &setup, out->message, sizeof out->message);
    setup_use *use = &col->uses[nearest][a];
    atomic_fetch_add(verdict == JOIN_REFUSED ? &use->refused : &use->taken, 1);
    if (verdict == JOIN_SAME || (verdict == JOIN_REFUSED && a)) continue;
    out->verdict = verdict;
    if (verdict == JOIN_DIFFERS) setup_name(&chosen, out->message, sizeof out->message);
    return;
  }
  out->verdict = JOIN_SAME;
}

static void print_cell(const table *t, int column_number, const char *text) {
  printf(" %-*s", column_number + 1 < t->count ? CELL : 0, text);
}

static void print_row(table *t, const row *r) {
  printf("%-52s", r->name);
  bool failed[MOST_COLUMNS] = {false};
  for (int i = 0; i < t->count; i++) {
    join_verdict verdict = r->cells[i].verdict;
    /* A device may refuse a join; a CPU may not. */
    bool skipped = verdict == JOIN_REFUSED && uses_device(&t->columns[i]);
    failed[i] = verdict != JOIN_SAME && !skipped;
    print_cell(t, i, failed[i] ? "FAILED" : skipped ? "-" : "ok");
    ++*(failed[i] ? &t->failed : skipped ? &t->skipped : &t->passed);
  }
  putchar('\n');
  for (int i = 0; i < t->count; i++)
    if (failed[i]) printf("    %s: %s\n", t->columns[i].title, r->cells[i].message);
}

/* ---- The lanes --------------------------------------------------------------------------------------- */

/* Seconds of a clock: this thread's CPU time, or real time. */
static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Marks a row as done, and prints all rows that are next in order. */
static void finish_row(table *t, row *r, double reference_s) {
  pthread_mutex_lock(&t->lock);
  r->done = true;
  t->reference_s += reference_s;
  for (; t->printed < t->row_count && t->rows[t->printed].done; t->printed++)
    if (t->rows[t->printed].wanted) print_row(t, &t->rows[t->printed]);
  pthread_mutex_unlock(&t->lock);
}

static bool is_wanted(const request *asked, const join_case *c, uint32_t number) {
  return (!asked->quick || c->quick) && (!asked->only || strstr(c->name, asked->only)) &&
         number % asked->parts == asked->part - 1;
}

static bool run_row(lane *l, uint32_t number) {
  table *t = l->t;
  row *r = &t->rows[number];
  join_case c;
  join_answer answer = {0};
  if (!case_build(number, &c)) return false;
  snprintf(r->name, sizeof r->name, "%s", c.name);
  r->wanted = is_wanted(t->asked, &c, number);
  double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
  bool fine = !r->wanted || answer_case(&c, &answer);
  double reference_s = seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
  for (int i = 0; fine && r->wanted && i < t->count; i++)
    run_cell(t, &t->columns[i], l->number, &c, &answer, number, &r->cells[i]);
  answer_free(&answer);
  case_free(&c);
  if (fine) finish_row(t, r, reference_s);
  return fine;
}

static void *run_lane(void *given) {
  lane *l = given;
  for (;;) {
    uint32_t number = atomic_fetch_add(&l->t->next, 1);
    if (number >= l->t->row_count || atomic_load(&l->t->out_of_memory)) return NULL;
    if (!run_row(l, number)) atomic_store(&l->t->out_of_memory, true);
  }
}

static bool run_table(table *t) {
  printf("%-52s", "case");
  for (int i = 0; i < t->count; i++)
    print_cell(t, i, t->columns[i].title);
  putchar('\n');
  t->row_count = case_count();
  t->rows = calloc(t->row_count, sizeof *t->rows);
  if (!t->rows) return false;
  lane lanes[MOST_LANES];
  uint32_t started = 0;
  for (uint32_t i = 0; i < MOST_LANES; i++)
    lanes[i] = (lane){.t = t, .number = i};
  while (started + 1 < t->lanes && !pthread_create(&lanes[started + 1].thread, NULL, run_lane, &lanes[started + 1]))
    started++;
  run_lane(&lanes[0]);
  for (uint32_t i = 1; i <= started; i++)
    pthread_join(lanes[i].thread, NULL);
  free(t->rows);
  return !atomic_load(&t->out_of_memory);
}

/* ---- The summary ------------------------------------------------------------------------------------- */

/* Some cases may refuse a setup. A setup that no case takes tests nothing: the setting is gone, or the library refuses
 * too much. One such setup in a column is allowed: cuBLAS is not on every machine. */
static bool check_uses(table *t) {
  enum { MOST_UNUSED = 1 };
  uint32_t taken = 0, refused = 0;
  bool fine = true, several = t->asked->device_count > 1;
  for (int i = 0; i < t->count; i++) {
    int unused = 0;
    for (int kind = 0; kind < 2; kind++)
      for (int a = 0; a < setup_count(t->columns[i].backend, kind, several); a++) {
        const setup_use *use = &t->columns[i].uses[kind][a];
        test_setup setup;
        char text[400] = "";
        setup_choose(t->columns[i].backend, kind, several, a, 0, &setup);
        setup_name(&setup, text, sizeof text);
        taken += use->taken;
        refused += use->refused;
        if (use->taken || !use->refused) continue;
        unused++;
        printf("%s: no case takes setup %d of %s joins%s\n", t->columns[i].title, a, kind ? "kNN" : "range", text);
      }
    if (unused > MOST_UNUSED) fine = false;
  }
  printf("%u setups of cases compared, %u left out because the library refuses them\n", taken, refused);
  return fine || t->asked->quick || t->asked->only || t->asked->parts > 1;
}

/* Reports hybrid joins that ran without a device, and so do not test it. */
static bool check_devices(const table *t) {
  bool fine = true;
  for (int i = 0; i < t->count; i++) {
    const column *c = &t->columns[i];
    if (c->without) printf("%s: cores did %u joins alone, which a device cannot do\n", c->title, c->without);
    if (c->faults) printf("%s: a device failed in %u joins\n", c->title, c->faults);
    fine = fine && !c->faults;
  }
  return fine;
}

static uint32_t lanes_for(uint32_t threads) {
  adj_ctx *ctx = NULL;
  if (adj_ctx_create(NULL, &ctx)) return 1;
  uint32_t cores = adj_ctx_threads(ctx);
  adj_ctx_destroy(ctx);
  if (threads > JOIN_THREADS) cores /= threads;
  return cores < 1 ? 1 : cores > MOST_LANES ? MOST_LANES : cores;
}

static int summarise(table *t, double begin) {
  if (t->asked->only && !t->passed && !t->failed && !t->skipped)
    return usage(t->asked->parts > 1 ? "--case: no case of this part has this in its name: "
                                     : "--case: no case has this in its name: ",
                 t->asked->only);
  bool used = check_uses(t), took_part = check_devices(t);
  printf("%.1f s, and %.1f s of CPU time in the reference\n", seconds(CLOCK_MONOTONIC) - begin, t->reference_s);
  printf("%llu passed, %llu failed", (unsigned long long)t->passed, (unsigned long long)t->failed);
  if (t->skipped) printf(", %llu that a device cannot do", (unsigned long long)t->skipped);
  putchar('\n');
  return t->failed > 0 || !used || !took_part ? FAILED : 0;
}

int adjoin_selftest(int argc, char **argv) {
  request wanted = {.threads = JOIN_THREADS, .part = 1, .parts = 1, .device_count = -1};
  int exits = parse(&wanted, argc, argv);
  if (exits) return exits - 1;
  double begin = seconds(CLOCK_MONOTONIC);
  table t = {.asked = &wanted, .lanes = lanes_for(wanted.threads)};
  pthread_mutex_init(&t.lock, NULL);
  exits = choose_columns(&t, &wanted);
  if (!exits && !run_table(&t)) {
    fprintf(stderr, "adjoin selftest: out of memory\n");
    exits = 1 + FAILED;
  }
  for (int i = 0; i < t.count; i++)
    close_column(&t.columns[i]);
  pthread_mutex_destroy(&t.lock);
  return exits ? exits - 1 : summarise(&t, begin);
}
