/* SPDX-License-Identifier: MIT
 *
 * For every test file: cmocka, and checks that print the library's own message.
 */
#ifndef ADJOIN_TEST_CHECK_H
#define ADJOIN_TEST_CHECK_H

/* cmocka needs these headers before its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "adjoin.h"
#include "reference.h"

/* The call must succeed. */
#define must(call)                                                                                              \
  do {                                                                                                          \
    adj_status must_status_ = (call);                                                                           \
    if (must_status_ != ADJ_OK) fail_msg("%s: %s: %s", #call, adj_status_name(must_status_), adj_last_error()); \
  } while (0)

/* The call must fail with this status, and its message must contain the word. */
#define must_fail(status, word, call)                                                                               \
  do {                                                                                                              \
    adj_status must_status_ = (call);                                                                               \
    if (must_status_ != (status))                                                                                   \
      fail_msg("%s: %s instead of %s", #call, adj_status_name(must_status_), adj_status_name(status));              \
    if (!strstr(adj_last_error(), word)) fail_msg("%s: \"%s\" does not say \"%s\"", #call, adj_last_error(), word); \
  } while (0)

static inline adj_ctx *context_of(uint32_t threads, const char *isa) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = threads;
  options.isa = isa;
  options.device_count = 0;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

/* Uniform points in the unit box. */
static inline adj_dataset *uniform(adj_ctx *ctx, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = dim;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

/* A copy of these points. */
static inline adj_dataset *dataset_with(adj_ctx *ctx, const point_set *set) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = set->type;
  points.dim = set->dim;
  points.count = set->count;
  points.data = set->data;
  adj_dataset *out = NULL;
  must(adj_dataset_create(ctx, &points, &out));
  return out;
}

#endif
