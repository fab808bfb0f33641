/* SPDX-License-Identifier: MIT
 *
 * Tuning strings. The first byte chooses a join, the rest is the text. Settings must be refused with a message, or must
 * not change the result, on the cores, on a device in software, and on both.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "plan/tuning.h"

typedef struct join {
  adj_join_kind kind;
  adj_backend backend;
  const char *algorithm;
  uint32_t dim;
  bool two_sets;
} join;

static const join JOINS[] = {
    {ADJ_RANGE, ADJ_BACKEND_AUTO, NULL, 3, false},     {ADJ_RANGE, ADJ_BACKEND_CPU, NULL, 3, true},
    {ADJ_RANGE, ADJ_BACKEND_CPU, "grid", 5, false},    {ADJ_RANGE, ADJ_BACKEND_CPU, "ego", 3, false},
    {ADJ_RANGE, ADJ_BACKEND_CPU, "brute", 9, false},   {ADJ_RANGE, ADJ_BACKEND_GPU, NULL, 3, false},
    {ADJ_RANGE, ADJ_BACKEND_HYBRID, NULL, 3, false},   {ADJ_RANGE, ADJ_BACKEND_REFERENCE, NULL, 3, false},
    {ADJ_KNN, ADJ_BACKEND_AUTO, NULL, 3, false},       {ADJ_KNN, ADJ_BACKEND_CPU, "kdtree", 3, true},
    {ADJ_KNN, ADJ_BACKEND_CPU, "brute", 9, false},     {ADJ_KNN, ADJ_BACKEND_GPU, NULL, 3, false},
    {ADJ_KNN, ADJ_BACKEND_GPU, "grid", 3, false},      {ADJ_KNN, ADJ_BACKEND_GPU, "brute", 9, false},
    {ADJ_KNN, ADJ_BACKEND_HYBRID, "kdtree", 3, false}, {ADJ_KNN, ADJ_BACKEND_HYBRID, "grid", 3, false},
};
enum { JOIN_COUNT = sizeof JOINS / sizeof *JOINS, POINTS = 60 };

/* ---- The text alone ------------------------------------------------------------------------------------ */

static bool refused(adj_status status) {
  return status == ADJ_E_ARGUMENT || status == ADJ_E_UNSUPPORTED;
}

/* Fits the settings to every kind of join. This must leave a scope, or a message. */
static void fit_everywhere(const adji_tuning *tuning) {
  for (int kind = ADJ_RANGE; kind <= ADJ_KNN; kind++)
    for (int backend = ADJ_BACKEND_AUTO; backend <= ADJ_BACKEND_REFERENCE; backend++)
      for (int algorithm = ADJI_ALGORITHM_AUTO; algorithm <= ADJI_ALGORITHM_BRUTE; algorithm++) {
        adji_tuning_scope scope = {.kind = (adj_join_kind)kind,
                                   .metric = ADJ_L2,
                                   .backend = (adj_backend)backend,
                                   .algorithm = (adji_algorithm)algorithm};
        adj_status status = adji_tuning_fit(tuning, &scope);
        require(!status || (refused(status) && *adj_last_error()));
      }
}

static bool parse(const char *text, adji_tuning *tuning) {
  adj_status status = adji_tuning_parse(text, tuning);
  require(!status || (status == ADJ_E_ARGUMENT && *adj_last_error()));
  adji_tuning again;
  require(adji_tuning_parse(text, &again) == status);
  require(status || !memcmp(&again, tuning, sizeof again));
  return !status;
}

/* ---- The joins ----------------------------------------------------------------------------------------- */

static adj_dataset *points_of(uint32_t dim, uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = POINTS;
  options.dim = dim;
  options.seed = seed;
  adj_dataset *set = NULL;
  require(!adj_dataset_generate(fuzz_context(), &options, &set));
  return set;
}

static adj_status collect(const join *j, const char *tuning, adj_backend backend, adj_result **out) {
  adj_dataset *left = points_of(j->dim, 1), *right = j->two_sets ? points_of(j->dim, 2) : NULL;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = j->kind;
  spec.k = 4;
  spec.radius = j->kind == ADJ_KNN ? INFINITY : 0.1 * j->dim;
  spec.flags = ADJ_WITH_DISTANCE;
  spec.backend = backend;
  if (backend != ADJ_BACKEND_REFERENCE || j->backend == backend) spec.tuning = tuning;
  if (backend != ADJ_BACKEND_REFERENCE) spec.algorithm = j->algorithm;
  adj_plan *plan = NULL;
  adj_status status = adj_plan_create(fuzz_context(), &spec, left, right, &plan);
  if (!status) status = adj_collect(plan, out, NULL, NULL);
  adj_plan_destroy(plan);
  adj_dataset_destroy(right);
  adj_dataset_destroy(left);
  return status;
}

static void require_same(const adj_result *a, const adj_result *b) {
  uint64_t rows = adj_result_rows(a);
  require(adj_result_rows(b) == rows && adj_result_pairs(a) == adj_result_pairs(b));
  const uint64_t *offsets = adj_result_offsets(a);
  require(!memcmp(offsets, adj_result_offsets(b), (rows + 1) * sizeof *offsets));
  require(!memcmp(adj_result_ids(a), adj_result_ids(b), offsets[rows] * sizeof(uint32_t)));
  require(!memcmp(adj_result_distances(a), adj_result_distances(b), offsets[rows] * sizeof(float)));
}

/* Settings may ask for more memory than there is. */
static void join_with(const join *j, const char *tuning) {
  adj_result *expected = NULL, *result = NULL;
  require(!collect(j, NULL, ADJ_BACKEND_REFERENCE, &expected));
  adj_status status = collect(j, tuning, j->backend, &result);
  require(!status || refused(status) || status == ADJ_E_MEMORY || status == ADJ_E_DEVICE_MEMORY);
  require(!status || *adj_last_error());
  if (!status) require_same(result, expected);
  adj_result_destroy(result);
  adj_result_destroy(expected);
  require(adj_ctx_memory_used(fuzz_context()) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  char *text = malloc(size);
  require(text != NULL);
  memcpy(text, data + 1, size - 1);
  text[size - 1] = 0;
  adji_tuning tuning;
  bool good = parse(text, &tuning);
  if (good) fit_everywhere(&tuning);
  if (good) join_with(&JOINS[data[0] % JOIN_COUNT], text);
  free(text);
  return 0;
}
