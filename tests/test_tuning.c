/* SPDX-License-Identifier: MIT
 *
 * Settings: each is honoured or refused by name. None is replaced by something else.
 */
#include <stdio.h>

#include "check.h"
#include "cpu/range.h"
#include "plan/plan.h"
#include "plan/tuning.h"

/* ---- Parsing -------------------------------------------------------------------------------------------- */

static void names_are_known(void **state) {
  (void)state;
  adji_tuning t;
  must_fail(ADJ_E_ARGUMENT, "\"speed=11\": is not one of batch=, buffer=, ", adji_tuning_parse("speed=11", &t));
  must_fail(ADJ_E_ARGUMENT, "is not one of paper.access=, ", adji_tuning_parse("paper.speed=11", &t));
  must_fail(ADJ_E_ARGUMENT, "is not one of test.boxes=, ", adji_tuning_parse("test.speed=11", &t));
  must_fail(ADJ_E_ARGUMENT, "\"rest.speed=11\": is no setting", adji_tuning_parse("rest.speed=11", &t));
  must_fail(ADJ_E_ARGUMENT, "\"access=full\": is called paper.access=", adji_tuning_parse("access=full", &t));
  must_fail(ADJ_E_ARGUMENT, "\"leaf=16\": is called test.leaf=", adji_tuning_parse("batch=3,leaf=16", &t));
  must_fail(ADJ_E_ARGUMENT, "\"batch=4\": was given before", adji_tuning_parse("batch=3,batch=4", &t));
  must_fail(ADJ_E_ARGUMENT, "\"batch\"", adji_tuning_parse("batch", &t));
  must_fail(ADJ_E_ARGUMENT, "\"=4\"", adji_tuning_parse("=4", &t));
}

static void values_are_in_range(void **state) {
  (void)state;
  adji_tuning t;
  must_fail(ADJ_E_ARGUMENT, "\"indexed=11\": is no whole number from 1 to 10", adji_tuning_parse("indexed=11", &t));
  must_fail(ADJ_E_ARGUMENT, "is no whole number", adji_tuning_parse("fine=1.5", &t));
  must_fail(ADJ_E_ARGUMENT, "is no number from 1 to", adji_tuning_parse("cell=0.5", &t));
  must_fail(ADJ_E_ARGUMENT, "is none of off, codes, tensor, gemm, vnni and amx",
            adji_tuning_parse("prefilter=tea", &t));
  must_fail(ADJ_E_ARGUMENT, "is none of 16, 32 and 64", adji_tuning_parse("test.leaf=20", &t));
  must_fail(ADJ_E_ARGUMENT, "is neither qsort nor parallel", adji_tuning_parse("paper.sort=heap", &t));
  must_fail(ADJ_E_ARGUMENT, "is neither producer nor queue", adji_tuning_parse("paper.threads=4", &t));
  must_fail(ADJ_E_ARGUMENT, "is no whole number from 1 to 65536", adji_tuning_parse("paper.leaf=0", &t));
  must_fail(ADJ_E_ARGUMENT, "is none of rates, fixed, results and entities", adji_tuning_parse("share=half", &t));
}

static void contradictions_are_refused(void **state) {
  (void)state;
  adji_tuning t;
  must_fail(ADJ_E_ARGUMENT, "cell=2: with fine=", adji_tuning_parse("cell=2,fine=3", &t));
  must_fail(ADJ_E_ARGUMENT, "cell=2: with test.narrow=", adji_tuning_parse("cell=2,test.narrow=3", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.n_small= is for share=fixed", adji_tuning_parse("share=rates,paper.n_small=1", &t));
  must_fail(ADJ_E_ARGUMENT, "only one can be", adji_tuning_parse("single=on,test.tile_hits=on", &t));
  must_fail(ADJ_E_ARGUMENT, "only one can be", adji_tuning_parse("single=on,staged=on", &t));
  must_fail(ADJ_E_ARGUMENT, "prefilter=tensor is for paper.access=tiles",
            adji_tuning_parse("paper.access=full,prefilter=tensor", &t));
  must_fail(ADJ_E_ARGUMENT, "test.slices= is for paper.access=tiles",
            adji_tuning_parse("paper.access=full,test.slices=2", &t));
  must_fail(ADJ_E_ARGUMENT, "test.mirrored=on compares without",
            adji_tuning_parse("test.mirrored=on,prefilter=tensor", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.threads= is for paper.dual=on only",
            adji_tuning_parse("paper.dual=off,paper.threads=queue", &t));
  must_fail(ADJ_E_ARGUMENT, "staged=on is not for paper.dual=on", adji_tuning_parse("paper.dual=on,staged=on", &t));
  must_fail(ADJ_E_ARGUMENT, "batch=5: paper.threads=producer has no batches",
            adji_tuning_parse("paper.dual=on,batch=5,paper.threads=producer", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.n_cwin= is for share=fixed", adji_tuning_parse("paper.n_cwin=0", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.reads= is for paper.select=block-bits",
            adji_tuning_parse("prefilter=off,paper.select=bits,paper.reads=2", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.prefetch= is for paper.select=block-bits",
            adji_tuning_parse("prefilter=off,paper.prefetch=off", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.partitions= is for paper.select=block-bits",
            adji_tuning_parse("prefilter=off,paper.select=block-bitonic,paper.partitions=2", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.sort_streams= is for paper.select=stream-sort",
            adji_tuning_parse("prefilter=off,paper.select=sort,paper.sort_streams=2", &t));
  must_fail(ADJ_E_ARGUMENT, "paper.distance=fused selects by itself",
            adji_tuning_parse("prefilter=off,paper.distance=fused,paper.select=sort", &t));
  must(adji_tuning_parse("share=fixed,paper.n_cwin=0", &t));
  must(adji_tuning_parse("cell=1,fine=3,single=off,test.tile_hits=on", &t));
  must(adji_tuning_parse("paper.dual=on,paper.threads=queue,batch=5,single=off,cell=2", &t));
}

/* ---- The join ------------------------------------------------------------------------------------------- */

static adj_status fit(const char *text, adj_join_kind kind, adj_backend backend, adji_algorithm algorithm,
                      adji_tuning_scope *out) {
  adji_tuning t;
  must(adji_tuning_parse(text, &t));
  *out = (adji_tuning_scope){kind, ADJ_L2, backend, algorithm, 0};
  return adji_tuning_fit(&t, out);
}

/* Settings for another kind of join, another backend or another algorithm are refused. */
static void other_joins_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    adj_join_kind kind;
    adj_backend backend;
    adji_algorithm algorithm;
    adj_status status;
    const char *message;
  } cases[] = {
      {"paper.access=full", ADJ_RANGE, ADJ_BACKEND_CPU, 0, ADJ_E_UNSUPPORTED,
       "paper.access= is for the backend gpu and hybrid, not cpu"},
      {"paper.access=full,paper.order=workqueue", ADJ_RANGE, ADJ_BACKEND_HYBRID, 0, ADJ_E_ARGUMENT,
       "paper.order= of a hybrid join is for share=results"},
      {"test.slices=9", ADJ_RANGE, ADJ_BACKEND_HYBRID, 0, ADJ_E_UNSUPPORTED, "test.slices= is for the backend gpu"},
      {"test.slices=9", ADJ_KNN, ADJ_BACKEND_GPU, 0, ADJ_E_ARGUMENT, "test.slices= is for range joins only"},
      {"device_chunk=9", ADJ_RANGE, ADJ_BACKEND_HYBRID, 0, ADJ_E_UNSUPPORTED, "device_chunk= is for the backend gpu"},
      {"device_batch=9", ADJ_RANGE, ADJ_BACKEND_CPU, 0, ADJ_E_UNSUPPORTED,
       "device_batch= is for the backend gpu and hybrid, not cpu"},
      {"batch=9", ADJ_RANGE, ADJ_BACKEND_GPU, 0, ADJ_E_UNSUPPORTED,
       "batch= is for the backend cpu and hybrid, not gpu"},
      {"share=fixed", ADJ_KNN, ADJ_BACKEND_GPU, 0, ADJ_E_UNSUPPORTED, "share=fixed is for the backend hybrid, not gpu"},
      {"share=entities", ADJ_RANGE, ADJ_BACKEND_HYBRID, 0, ADJ_E_UNSUPPORTED,
       "share=entities is for the backend gpu, not hybrid"},
      {"share=rates", ADJ_KNN, ADJ_BACKEND_HYBRID, ADJI_ALGORITHM_BRUTE, ADJ_E_UNSUPPORTED, "share=rates is for the"},
      {"batch=9", ADJ_RANGE, ADJ_BACKEND_REFERENCE, 0, ADJ_E_UNSUPPORTED, "not reference"},
      {"indexed=2", ADJ_KNN, ADJ_BACKEND_CPU, 0, ADJ_E_ARGUMENT, "indexed= is for range joins only"},
      {"test.leaf=16", ADJ_RANGE, ADJ_BACKEND_CPU, 0, ADJ_E_ARGUMENT, "test.leaf= is for kNN joins only"},
      {"prefilter=codes", ADJ_KNN, ADJ_BACKEND_CPU, 0, ADJ_E_ARGUMENT, "prefilter=codes is for range joins only"},
      {"prefilter=amx", ADJ_RANGE, ADJ_BACKEND_CPU, 0, ADJ_E_ARGUMENT, "prefilter=amx is for kNN joins only"},
      {"prefilter=tensor", ADJ_RANGE, ADJ_BACKEND_CPU, 0, ADJ_E_UNSUPPORTED, "prefilter=tensor is for the backend gpu"},
      {"prefilter=vnni", ADJ_KNN, ADJ_BACKEND_GPU, 0, ADJ_E_UNSUPPORTED, "prefilter=vnni is for the backend cpu"},
      {"indexed=2", ADJ_RANGE, ADJ_BACKEND_CPU, ADJI_ALGORITHM_BRUTE, ADJ_E_UNSUPPORTED,
       "indexed= is for the algorithm grid and ego, not brute"},
      {"test.boxes=off", ADJ_RANGE, ADJ_BACKEND_CPU, ADJI_ALGORITHM_EGO, ADJ_E_UNSUPPORTED,
       "test.boxes= is for the algorithm grid and brute, not ego"},
      {"prefilter=gemm", ADJ_KNN, ADJ_BACKEND_CPU, ADJI_ALGORITHM_KDTREE, ADJ_E_UNSUPPORTED,
       "prefilter=gemm is for the algorithm brute, not kdtree"},
      {"test.tile_hits=on,batch=9", ADJ_RANGE, ADJ_BACKEND_AUTO, 0, ADJ_E_UNSUPPORTED,
       "which another setting is not for"},
      {"test.leaf=16,prefilter=gemm", ADJ_KNN, ADJ_BACKEND_CPU, 0, ADJ_E_UNSUPPORTED,
       "which another setting is not for"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    adji_tuning_scope scope;
    must_fail(cases[i].status, cases[i].message,
              fit(cases[i].text, cases[i].kind, cases[i].backend, cases[i].algorithm, &scope));
  }
}

/* A setting leaves only the choices that it fits. */
static void settings_narrow_the_choice(void **state) {
  (void)state;
  static const struct {
    const char *text;
    adj_join_kind kind;
    adj_backend backend;
    adji_algorithm algorithm;
    uint32_t backends;
  } cases[] = {
      {"", ADJ_RANGE, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_AUTO, 14},
      {"buffer=9,single=on,indexed=2", ADJ_RANGE, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_AUTO, 14},
      {"batch=9", ADJ_KNN, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_AUTO, 10},
      {"staged=on", ADJ_RANGE, ADJ_BACKEND_CPU, ADJI_ALGORITHM_AUTO, 2},
      {"device_batch=9", ADJ_RANGE, ADJ_BACKEND_HYBRID, ADJI_ALGORITHM_AUTO, 12},
      {"paper.access=full", ADJ_RANGE, ADJ_BACKEND_GPU, ADJI_ALGORITHM_GRID, 4},
      {"share=fixed", ADJ_RANGE, ADJ_BACKEND_HYBRID, ADJI_ALGORITHM_AUTO, 8},
      {"paper.queue=off", ADJ_KNN, ADJ_BACKEND_CPU, ADJI_ALGORITHM_KDTREE, 2},
      {"test.leaf=32", ADJ_KNN, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_KDTREE, 10},
      {"prefilter=gemm", ADJ_KNN, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_BRUTE, 6},
      {"prefilter=off", ADJ_KNN, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_AUTO, 14},
      {"test.boxes=off", ADJ_RANGE, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_GRID, 10},
      {"paper.bins=50", ADJ_KNN, ADJ_BACKEND_HYBRID, ADJI_ALGORITHM_GRID, 12},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    adji_tuning_scope scope;
    must(fit(cases[i].text, cases[i].kind, ADJ_BACKEND_AUTO, ADJI_ALGORITHM_AUTO, &scope));
    assert_int_equal(scope.backend, cases[i].backend);
    assert_int_equal(scope.algorithm, cases[i].algorithm);
    assert_int_equal(scope.backends, cases[i].backends);
  }
}

/* Settings that would be ignored if the cores did the join because there is no GPU. */
static void settings_of_devices_are_known(void **state) {
  (void)state;
  adji_tuning t;
  must(adji_tuning_parse("batch=9,share=rates,device_rows=5", &t));
  assert_string_equal(adji_tuning_not_for(&t, ADJ_KNN, ADJ_BACKEND_CPU), "share");
  assert_string_equal(adji_tuning_not_for(&t, ADJ_KNN, ADJ_BACKEND_GPU), "batch");
  must(adji_tuning_parse("batch=9,prefilter=off", &t));
  assert_null(adji_tuning_not_for(&t, ADJ_KNN, ADJ_BACKEND_CPU));
  must(adji_tuning_parse("prefilter=tensor", &t));
  assert_string_equal(adji_tuning_not_for(&t, ADJ_RANGE, ADJ_BACKEND_CPU), "prefilter");
}

/* ---- Plans ---------------------------------------------------------------------------------------------- */

typedef struct wish {
  adj_backend backend;
  adj_metric metric;
  const char *tuning, *algorithm;
  double radius;
  uint32_t k;
  double box; /* 0: none */
} wish;

static adj_status plan_for(adj_ctx *ctx, const adj_dataset *set, const wish *w, adj_plan **out) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.backend = w->backend;
  if (w->metric) spec.metric = w->metric;
  spec.kind = w->k ? ADJ_KNN : ADJ_RANGE;
  spec.k = w->k;
  if (w->radius > 0) spec.radius = w->radius;
  spec.tuning = w->tuning;
  spec.algorithm = w->algorithm;
  if (w->box > 0) {
    spec.box = &w->box;
    spec.box_count = 1;
  }
  return adj_plan_create(ctx, &spec, set, NULL, out);
}

/* As many dimensions are indexed as asked for, even if they are of little use. */
static void indexed_is_honoured(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = uniform(ctx, 3000, 8);
  static const double radii[] = {0.05, 0.6, 3};
  for (uint32_t wanted = 1; wanted <= 8; wanted++)
    for (int r = 0; r < 3; r++)
      for (int reorder = 0; reorder < 3; reorder++) {
        static const char *const reorders[] = {"", ",paper.reorder=on", ",paper.reorder=off"};
        char text[64];
        snprintf(text, sizeof text, "indexed=%u%s", wanted, reorders[reorder]);
        adj_plan *plan = NULL;
        must(plan_for(ctx, set, &(wish){.backend = ADJ_BACKEND_CPU, .tuning = text, .radius = radii[r]}, &plan));
        assert_int_equal(adji_range_index_of(&plan->engine)->grid.axis_count, wanted);
        adj_plan_destroy(plan);
      }
  adj_plan *plan = NULL;
  adj_dataset *flat = uniform(ctx, 100, 3);
  must_fail(ADJ_E_UNSUPPORTED, "indexed=4: of these 3 dimensions only 3 can be indexed",
            plan_for(ctx, flat, &(wish){.backend = ADJ_BACKEND_CPU, .tuning = "indexed=4", .radius = 0.1}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "indexed=6: of these 8 dimensions in a periodic box only 5",
            plan_for(ctx, set, &(wish){ADJ_BACKEND_CPU, 0, "indexed=6", NULL, 0.1, 0, 1}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "inner products are for brute",
            plan_for(ctx, set, &(wish){ADJ_BACKEND_CPU, ADJ_DOT, "indexed=2", NULL, 0.1, 0, 0}, &plan));
  assert_null(plan);
  adj_dataset_destroy(flat);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Settings that are refused when the points are known. Nothing leaks. */
static void points_are_refused(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, "scalar");
  adj_dataset *set = uniform(ctx, 400, 3);
  adj_plan *plan = NULL;
  must_fail(ADJ_E_UNSUPPORTED, "single=on: with a grid in a periodic box",
            plan_for(ctx, set, &(wish){ADJ_BACKEND_CPU, 0, "single=on", "grid", 0.1, 0, 1}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "single=on: inner products",
            plan_for(ctx, set, &(wish){ADJ_BACKEND_CPU, ADJ_DOT, "single=on", NULL, 0.1, 0, 0}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "prefilter=codes: this CPU",
            plan_for(ctx, set, &(wish){.backend = ADJ_BACKEND_CPU, .tuning = "prefilter=codes", .radius = 0.1}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "prefilter=amx: this CPU",
            plan_for(ctx, set, &(wish){.backend = ADJ_BACKEND_CPU, .tuning = "prefilter=amx", .k = 3}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "prefilter=gemm is for L2",
            plan_for(ctx, set, &(wish){.metric = ADJ_L1, .tuning = "prefilter=gemm", .k = 3}, &plan));
  must_fail(ADJ_E_UNSUPPORTED, "test.boxes=on: boxes do not bound inner products",
            plan_for(ctx, set, &(wish){ADJ_BACKEND_CPU, ADJ_DOT, "test.boxes=on", NULL, 0.1, 0, 0}, &plan));
  assert_null(plan);
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* GPU kernels that do not exist for such joins are refused before a device is looked for. */
static void kernels_are_refused(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *two = uniform(ctx, 400, 2), *six = uniform(ctx, 400, 6);
  const adj_backend gpu = ADJ_BACKEND_GPU, hybrid = ADJ_BACKEND_HYBRID;
  const struct {
    const adj_dataset *set;
    wish w;
    const char *message;
  } cases[] = {
      {two, {gpu, 0, "test.mirrored=on", NULL, 0.1, 0, 0}, "test.mirrored=on is for"},
      {two, {hybrid, 0, "test.mirrored=on", NULL, 0.1, 0, 0}, "test.mirrored=on is for"},
      {six, {gpu, 0, "test.all_pairs=on", NULL, 0.1, 0, 0}, "test.all_pairs=on is for"},
      {six, {hybrid, ADJ_L1, "test.all_pairs=on", NULL, 0.1, 0, 0}, "test.all_pairs=on is for"},
      {six, {gpu, 0, "test.tile_hits=on", NULL, 0.1, 0, 0}, "test.tile_hits=on is for"},
      {two, {gpu, 0, "test.query_hits=on,test.narrow=2", NULL, 0.1, 0, 0}, "test.query_hits=on is for"},
      {six, {gpu, 0, "test.narrow=2", NULL, 0.1, 0, 0}, "test.narrow=2 is for"},
      {two, {gpu, ADJ_L1, "prefilter=tensor", NULL, 0.1, 0, 0}, "prefilter=tensor is for L2 in f32"},
      {two, {gpu, 0, "prefilter=tensor", NULL, 0, 3000, 0}, "prefilter=tensor is for L2 in up to"},
      {two, {gpu, ADJ_L1, "prefilter=gemm", NULL, 0, 3, 0}, "prefilter=gemm is for L2 in up to"},
      {two, {gpu, ADJ_L1, "test.skip=on", "brute", 0, 3, 0}, "test.skip=on is for L2 in up to"},
      {two, {gpu, 0, "test.skip=on", "brute", 0, 3000, 0}, "test.skip=on is for L2 in up to"},
      {two, {gpu, 0, "test.per_query=off", NULL, 0, 161, 0}, "test.per_query=off is for"},
      {six, {gpu, 0, "test.per_query=off", NULL, 0, 33, 0}, "test.per_query=off is for"},
      {two, {gpu, 0, "prefilter=off,paper.distance=fused", "brute", 0, 65, 0}, "paper.distance=fused is for"},
      {two, {gpu, ADJ_DOT, "prefilter=off,paper.distance=fused", "brute", 0, 5, 0}, "paper.distance=fused is for"},
      {two,
       {gpu, 0, "prefilter=off,paper.select=block-bits,paper.partitions=2", "brute", 0, 2049, 0},
       "paper.partitions= is for k up to"},
      {two, {gpu, 0, "prefilter=off,paper.select=block-bitonic", "brute", 0, 2049, 0}, "are for k above 2048"},
      {two, {ADJ_BACKEND_AUTO, 0, "paper.access=full", NULL, 0.1, 0, 0}, "GPU"},
      {two, {ADJ_BACKEND_AUTO, 0, "share=rates", NULL, 0.1, 0, 0}, "GPU"},
      {two, {ADJ_BACKEND_AUTO, 0, "paper.access=full", "ego", 0.1, 0, 0}, "is for the algorithm grid, not ego"},
      {two, {ADJ_BACKEND_AUTO, 0, "test.streams=2", "ego", 0.1, 0, 0}, "\"ego\" does not run on the backend gpu"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    adj_plan *plan = NULL;
    must_fail(ADJ_E_UNSUPPORTED, cases[i].message, plan_for(ctx, cases[i].set, &cases[i].w, &plan));
    assert_null(plan);
  }
  adj_dataset_destroy(six);
  adj_dataset_destroy(two);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_known),
      cmocka_unit_test(values_are_in_range),
      cmocka_unit_test(contradictions_are_refused),
      cmocka_unit_test(other_joins_are_refused),
      cmocka_unit_test(settings_narrow_the_choice),
      cmocka_unit_test(settings_of_devices_are_known),
      cmocka_unit_test(indexed_is_honoured),
      cmocka_unit_test(points_are_refused),
      cmocka_unit_test(kernels_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
