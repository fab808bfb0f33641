/* SPDX-License-Identifier: MIT
 *
 * Times `auto` and each backend that can be asked for: one command, one table.
 *
 *   bench/gpu --auto-sets [--quick] [--case NAME] [--repeats N]
 *   bench/gpu --auto-cold [--quick] [--case NAME] [--repeats N]
 *
 * Range joins with rows by id and kNN joins with distances, f32, from host memory to host memory: milliseconds of
 * adj_plan_create and adj_collect together, smallest of the repeats. The ways take turns in the repeats, which end when
 * a join has taken MOST_S. r: a range join with this mean number of neighbours; k: this many nearest.
 *
 *   cpu, gpu, hybrid   that backend; the time of adj_plan_create in brackets
 *   auto               the same, and what it chose
 *   ratio              auto over the best of the three; the last line has the worst of all
 *
 * --auto-sets: in a context whose device is open. --auto-cold: every join in a process of its own, which has a context
 * and its points but has not used CUDA; the times include loading CUDA. --quick: leaves out joins that take the cores
 * long. --case: only the points of that name; with --auto-sets any name will do. Every result is compared with that of
 * the CPU.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"

static const double MOST_S = 0.4;           /* for the repeats of a join */
static const double MOST_PAIRS = 500000000; /* of a result, 2 GB   */

typedef enum way { CPU, GPU, HYBRID, AUTO, WAYS } way;
static const adj_backend BACKENDS[] = {ADJ_BACKEND_CPU, ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_AUTO};
static const char *const NAMES[] = {"cpu", "gpu", "hybrid", "auto"};

typedef struct one_case {
  const char *points;
  double mean; /* of a range join */
  uint32_t k;  /* 0: a range join */
  bool slow;   /* for cores       */
} one_case;

/* Joins besides those of Unif and Expo in two, three and six dimensions: see run_auto_sets. */
static const one_case OTHERS[] = {
    {"Unif2D10M", 0, 8, false},    {"Unif2D10M", 0, 32, false},     {"Unif3D10M", 0, 8, false},
    {"Unif3D10M", 0, 32, true},    {"Expo6D10M", 0, 8, true},       {"Expo6D10M", 0, 32, true},
    {"Syn16D10K", 100, 0, false},  {"Syn16D200K", 30, 0, false},    {"Syn32D10K", 100, 0, false},
    {"Syn32D200K", 30, 0, false},  {"Expo16D10K", 0, 8, false},     {"Expo16D100K", 0, 8, false},
    {"Unif128D20K", 0, 8, false},  {"Unif128D20K", 0, 32, false},   {"Unif128D100K", 0, 8, false},
    {"Unif128D100K", 0, 32, true}, {"Normal128D100K", 0, 10, false}};

static const one_case COLD[] = {{"Unif2D10K", 10, 0, false},  {"Unif3D200K", 100, 0, false},
                                {"Unif2D2M", 10, 0, false},   {"Expo6D2M", 100, 0, true},
                                {"Unif3D10K", 0, 8, false},   {"Unif3D200K", 0, 32, false},
                                {"Unif2D10M", 0, 8, false},   {"Expo6D2M", 0, 32, true},
                                {"Unif128D20K", 0, 8, false}, {"Normal128D100K", 0, 10, true}};

typedef struct best {
  double all_ms, plan_ms;
  char chose[16];
} best;

/* The worst ratio so far, and its join. */
typedef struct worst {
  double ratio;
  char whose[64];
} worst;

/* ---- Joins --------------------------------------------------------------------------------------------- */

static adj_result *collect(const bench *b, const one_case *c, way how, best *to) {
  adj_join_spec spec = spec_of_any(b, c->k);
  spec.backend = BACKENDS[how];
  timed t;
  adj_result *result = collect_timed(b, &spec, &t);
  double all = (t.plan_s + t.join_s) * 1e3;
  if (all < to->all_ms) {
    to->all_ms = all;
    to->plan_ms = t.plan_s * 1e3;
    snprintf(to->chose, sizeof to->chose, "%s", t.stats.backend);
  }
  return result;
}

static void begin_case(best *all) {
  for (int w = 0; w < WAYS; w++)
    all[w] = (best){.all_ms = INFINITY};
}

static void print_heading(void) {
  printf("%-14s %5s", "points", "r, k");
  for (int w = 0; w < WAYS; w++)
    printf(" | %9s %9s", NAMES[w], "(plan)");
  printf(" %-6s | ratio\n", "chose");
}

static void end_case(bench *b, const one_case *c, const best *all, bool equal, worst *w) {
  double least = fmin(fmin(all[CPU].all_ms, all[GPU].all_ms), all[HYBRID].all_ms), ratio = all[AUTO].all_ms / least;
  char what[8];
  snprintf(what, sizeof what, "%s%.0f", c->k ? "k" : "r", c->k ? c->k : c->mean);
  if (ratio > w->ratio) {
    w->ratio = ratio;
    snprintf(w->whose, sizeof w->whose, "%s %s", b->name, what);
  }
  printf("%-14s %5s", b->name, what);
  for (int i = 0; i < WAYS; i++)
    printf(" | %9.2f %9.2f", all[i].all_ms, all[i].plan_ms);
  printf(" %-6s | %5.2f%s\n", all[AUTO].chose, ratio, equal ? "" : " DIFFERS");
  fflush(stdout);
  b->faults += !equal;
}

/* ---- With the device open ------------------------------------------------------------------------------ */

/* The ways take turns, so that none has a warmer machine. Each way's first result is compared. */
static void run_case(bench *b, const one_case *c, worst *w) {
  best all[WAYS];
  begin_case(all);
  if (!c->k) find_radius(b, c->mean);
  bool equal = true;
  double begin = now();
  for (int i = 0; i < b->options.repeats && (i < 2 || now() - begin < MOST_S); i++) {
    adj_result *cpu = collect(b, c, CPU, &all[CPU]);
    for (int way_of = GPU; way_of < WAYS; way_of++) {
      adj_result *other = collect(b, c, (way)way_of, &all[way_of]);
      equal = equal && (i || same_result(b, cpu, other));
      adj_result_destroy(other);
    }
    adj_result_destroy(cpu);
  }
  end_case(b, c, all, equal, w);
}

static bool wanted(const bench *b, const char *points, bool slow) {
  return b->options.name ? !strcmp(b->options.name, points) : !(slow && b->options.quick);
}

/* Runs all joins of one set of points. */
static void run_set(bench *b, const one_case *cases, size_t count, worst *w) {
  b->name = cases[0].points;
  open_points(b);
  for (size_t i = 0; i < count; i++) {
    double entries = cases[i].mean * (double)b->count;
    if (entries < MOST_PAIRS && cases[i].mean < (double)b->count / 4) run_case(b, &cases[i], w);
  }
  close_points(b);
}

static void run_usual(bench *b, const char *points, worst *w) {
  one_case cases[] = {{points, 10, 0, false},
                      {points, 100, 0, false},
                      {points, 1000, 0, false},
                      {points, 0, 8, false},
                      {points, 0, 32, false}};
  run_set(b, cases, sizeof cases / sizeof *cases, w);
}

void run_auto_sets(bench *b) {
  static const char *const families[] = {"Unif", "Expo"}, *const sizes[] = {"1K", "10K", "200K", "2M"};
  static const int dims[] = {2, 3, 6};
  worst w = {0};
  print_heading();
  if (b->options.name) run_usual(b, b->options.name, &w);
  for (int i = 0; i < 24 && !b->options.name; i++) {
    char points[32];
    int dim = dims[i / 4 % 3];
    snprintf(points, sizeof points, "%s%dD%s", families[i / 12], dim, sizes[i % 4]);
    if (wanted(b, points, dim == 6 && i % 4 == 3)) run_usual(b, points, &w);
  }
  for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS && !b->options.name; i++)
    if (wanted(b, OTHERS[i].points, OTHERS[i].slow)) run_set(b, &OTHERS[i], 1, &w);
  printf("worst ratio %.2f: %s\n", w.ratio, w.whose);
}

/* ---- Cold ---------------------------------------------------------------------------------------------- */

/* Runs one join in this process. Prints its times, what was chosen and a digest of the result, for its parent. */
int run_auto_once(bench *b) {
  one_case c = {b->options.name, 0, b->options.neighbours, false};
  best mine = {.all_ms = INFINITY};
  int how = CPU;
  while (how < AUTO && strcmp(NAMES[how], b->options.backend))
    how++;
  b->name = c.points;
  b->radius = b->options.radius;
  generate_points(b);
  adj_result *result = collect(b, &c, (way)how, &mine);
  uint64_t entries = adj_result_offsets(result)[adj_result_rows(result)], digest = entries;
  for (uint64_t i = 0; i < entries; i++)
    digest = (digest ^ adj_result_ids(result)[i]) * UINT64_C(0x9e3779b97f4a7c15);
  printf("%.4f %.4f %s %llx\n", mine.all_ms, mine.plan_ms, mine.chose, (unsigned long long)digest);
  adj_result_destroy(result);
  adj_dataset_destroy(b->set);
  return 0;
}

/* Starts such a process and reads what it prints. */
static bool start_once(const bench *b, const one_case *c, way how, best *to, unsigned long long *digest) {
  char program[512], command[1024];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0) return false;
  program[length] = 0;
  snprintf(command, sizeof command, "'%s' --backend %s --case %s --neighbours %u --radius %.9g", program, NAMES[how],
           c->points, c->k, b->radius);
  FILE *child = popen(command, "r");
  if (!child) return false;
  best mine;
  bool read = fscanf(child, "%lf %lf %15s %llx", &mine.all_ms, &mine.plan_ms, mine.chose, digest) == 4;
  bool ended = !pclose(child);
  if (read && mine.all_ms < to->all_ms) *to = mine;
  return read && ended;
}

static void run_cold_case(bench *b, const one_case *c, worst *w) {
  best all[WAYS];
  begin_case(all);
  b->name = c->points;
  b->radius = 0;
  if (!c->k) {
    open_points(b);
    find_radius(b, c->mean);
    close_points(b);
  }
  bool equal = true;
  for (int i = 0; i < b->options.repeats; i++) {
    unsigned long long cpu = 0, other = 0;
    equal = start_once(b, c, CPU, &all[CPU], &cpu) && equal;
    for (int how = GPU; how < WAYS; how++)
      equal = start_once(b, c, (way)how, &all[how], &other) && other == cpu && equal;
  }
  end_case(b, c, all, equal, w);
}

void run_auto_cold(bench *b) {
  worst w = {0};
  print_heading();
  for (size_t i = 0; i < sizeof COLD / sizeof *COLD; i++)
    if (wanted(b, COLD[i].points, COLD[i].slow)) run_cold_case(b, &COLD[i], &w);
  printf("worst ratio %.2f: %s\n", w.ratio, w.whose);
}
