/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a kNN join that cores and a GPU share: both have a tree of their own, and the order of the cores'
 * tree numbers the queries for both.
 *
 * A device that first has to be opened is slow to begin: meanwhile the cores build their tree, which then costs
 * nothing. One that is open may be done before the cores have a tree. So it is asked to search for some queries; where
 * it needs less than 2.5 times what the tree takes, it does the join alone. (With the tree built in b seconds, the join
 * done in g by the device and in c by the cores, sharing pays if b + g c / (g + c) < g. For c = 4 b, which is about
 * what cores need in three dimensions, that is b < 0.39 g.)
 */
#include "plan/plan_hybrid.h"

#include <stdio.h>
#include <string.h>

#include "cpu/nearest.h"
#include "gpu/nearest_partner.h"
#include "plan/plan_nearest.h"

static const double TREE_PAYS = 0.39;

/* A device that is opened in a thread of its own. */
typedef struct opening {
  adji_nearest_wish wish;
  adji_partner partner;
  pthread_t thread;
  bool threaded;
  adj_status status;
  char message[512];
} opening;

static void *open_partner(void *argument) {
  opening *o = argument;
  o->status = adji_gpu_partner_create(&o->wish, &o->partner);
  if (o->status) snprintf(o->message, sizeof o->message, "%s", adj_last_error());
  return NULL;
}

static void begin_opening(opening *o, bool beside) {
  o->threaded = beside && !pthread_create(&o->thread, NULL, open_partner, o);
  if (!o->threaded) open_partner(o);
}

static adj_status end_opening(opening *o) {
  if (o->threaded) pthread_join(o->thread, NULL);
  o->threaded = false;
  return o->status ? adji_fail(o->status, "%s", o->message) : ADJ_OK;
}

static void drop_partner(opening *o) {
  end_opening(o);
  if (o->partner.destroy) o->partner.destroy(o->partner.state);
}

static bool device_is_open(adj_ctx *ctx) {
  pthread_mutex_lock(&ctx->device_lock);
  bool open = ctx->gpu != NULL;
  pthread_mutex_unlock(&ctx->device_lock);
  return open;
}

/* The device alone, if it is done soon enough; plan->engine tells. */
static adj_status choose_alone(adj_plan *plan, opening *o) {
  double device_s = 0, tree_s = adji_tree_seconds(plan);
  adj_status status = end_opening(o);
  if (!status) status = adji_gpu_partner_try(&o->partner, &device_s);
  if (status || tree_s < TREE_PAYS * device_s) return status;
  status = adji_gpu_partner_alone(&o->partner, &plan->engine);
  plan->choice.algorithm = "tree";
  plan->estimated_seconds = device_s;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone: it needs about %.2g s, and the cores as much as %.2g s for their tree", device_s, tree_s);
  return status;
}

static adji_share_options share_of(const adji_tuning *t) {
  return (adji_share_options){t->share == ADJI_SHARE_FIXED, t->n_large, t->n_cwin, t->n_small, t->n_cpu};
}

/* The trees of the cores, and the engine that has the device as a partner. */
static adj_status make_shared(adj_plan *plan, opening *o) {
  adj_status status = adji_build_trees(plan);
  adj_status opened = end_opening(o); /* whatever happens to the trees */
  if (!status) status = opened;
  const adji_tree *left = plan->self_join ? &plan->right_tree : &plan->left_tree;
  if (!status) status = adji_gpu_partner_follow(&o->partner, left->ids);
  if (status) return status;
  adji_nearest_options options = {.left = left,
                                  .right = &plan->right_tree,
                                  .batch = plan->tuning.batch,
                                  .partners = &o->partner,
                                  .partner_count = 1,
                                  .share = share_of(&plan->tuning)};
  status = adji_nearest_create(&plan->join, &options, &plan->engine);
  if (status) return status;
  o->partner = (adji_partner){0}; /* the engine's now */
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "cores and GPU have a tree each; they share the queries %s",
           options.share.fixed ? "in batches of fixed sizes" : "by what each gets done");
  return adji_estimate_tree(plan);
}

/* What a GPU cannot do, cores do alone. */
static adj_status without_device(adj_plan *plan, const char *algorithm) {
  char why[256];
  snprintf(why, sizeof why, "%s", adj_last_error());
  adji_log(plan->ctx, ADJ_LOG_WARN, "the cores do this join alone: %s", why);
  return adji_plan_nearest(plan, algorithm);
}

adj_status adji_plan_nearest_hybrid(adj_plan *plan, const char *algorithm) {
  uint64_t begin = adji_now_ns();
  opening o = {.wish = adji_nearest_wish_of(plan)};
  if (adji_gpu_partner_can(&o.wish)) return without_device(plan, algorithm);
  plan->choice.backend = "hybrid";
  plan->choice.algorithm = "kdtree";
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  bool beside = plan->tuning.share || !device_is_open(plan->ctx);
  begin_opening(&o, beside);
  adj_status status = beside ? ADJ_OK : choose_alone(plan, &o);
  if (!status && !plan->engine.state) status = make_shared(plan, &o);
  drop_partner(&o);
  plan->index_s = (double)(adji_now_ns() - begin) * 1e-9 - plan->plan_s;
  return status;
}
