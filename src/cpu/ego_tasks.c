/* SPDX-License-Identifier: MIT
 *
 * The threads of Super-EGO: see ego_tasks.h.
 */
#include "cpu/ego_tasks.h"

adj_status adji_ego_tasks_init(adji_ego_tasks *t, adj_ctx *ctx, const adji_ego_pair *first) {
  *t = (adji_ego_tasks){.ctx = ctx, .room = ctx->threads};
  t->waiting = adji_alloc(&ctx->memory, t->room, sizeof *t->waiting, "pairs of sequences");
  if (!t->waiting) return ADJ_E_MEMORY;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->changed, NULL);
  t->waiting[0] = *first;
  atomic_store(&t->count, 1);
  return ADJ_OK;
}

void adji_ego_tasks_clear(adji_ego_tasks *t) {
  if (!t->waiting) return;
  pthread_cond_destroy(&t->changed);
  pthread_mutex_destroy(&t->lock);
  adji_free(&t->ctx->memory, t->waiting);
  t->waiting = NULL;
}

bool adji_ego_tasks_offer(adji_ego_tasks *t, const adji_ego_pair *pair) {
  if (atomic_load_explicit(&t->count, memory_order_relaxed) >= t->room) return false;
  pthread_mutex_lock(&t->lock);
  uint32_t count = atomic_load(&t->count);
  bool taken = count < t->room && !t->failed;
  if (taken) {
    t->waiting[(t->first + count) % t->room] = *pair;
    atomic_store(&t->count, count + 1);
    pthread_cond_signal(&t->changed);
  }
  pthread_mutex_unlock(&t->lock);
  return taken;
}

/* Takes the next pair. False: there will be no more. */
static bool take(adji_ego_tasks *t, adji_ego_pair *pair) {
  pthread_mutex_lock(&t->lock);
  while (!t->failed && !atomic_load(&t->count) && t->active)
    pthread_cond_wait(&t->changed, &t->lock);
  uint32_t count = atomic_load(&t->count);
  bool some = count && !t->failed;
  if (some) {
    *pair = t->waiting[t->first];
    t->first = (t->first + 1) % t->room;
    atomic_store(&t->count, count - 1);
    t->active++;
  }
  pthread_mutex_unlock(&t->lock);
  return some;
}

static void finish(adji_ego_tasks *t, adj_status status) {
  pthread_mutex_lock(&t->lock);
  t->active--;
  if (status) t->failed = true;
  if (t->failed || !t->active) pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

adj_status adji_ego_tasks_work(adji_ego_tasks *t, adji_ego_searcher *searcher) {
  adji_ego_pair pair;
  adj_status status = ADJ_OK;
  while (!status && take(t, &pair)) {
    status = adji_ego_join(searcher, pair);
    finish(t, status);
  }
  return status;
}
