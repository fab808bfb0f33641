/* SPDX-License-Identifier: MIT
 *
 * Pinned buffers of the software device. A copy is recorded when it is asked for, and made when the host waits for it.
 */
#include <stdlib.h>
#include <string.h>

#include "software/software.h"

enum { NONSENSE = 0x5a };

static adji_software_pending *pending_of(adji_software_staging *s, uint32_t buffer) {
  bool second = buffer & ADJI_STAGE_SECOND;
  return &s->buffers[second ? buffer - ADJI_STAGE_SECOND : buffer].pending[second];
}

static void copy_pending(adji_software_pending *p) {
  for (uint32_t i = 0; i < p->count; i++)
    if (p->copies[i].bytes) memcpy(p->copies[i].to, p->copies[i].from, p->copies[i].bytes);
  p->count = 0;
  p->looked = false;
}

void adji_software_copy_all(adji_gpu *gpu) {
  adji_software_staging *s = adji_software_staging_of(gpu);
  pthread_mutex_lock(&s->lock);
  for (uint32_t i = 0; i < s->count; i++) {
    copy_pending(&s->buffers[i].pending[0]);
    copy_pending(&s->buffers[i].pending[1]);
  }
  pthread_mutex_unlock(&s->lock);
}

/* ---- Buffers ------------------------------------------------------------------------------------------ */

adj_status adji_staging_open(adji_gpu *gpu, uint32_t count) {
  adji_software_staging *s = adji_software_staging_of(gpu);
  if (s->count >= count) return ADJ_OK;
  adj_status status = adji_software_turn(gpu, "staging_open");
  if (status) return status;
  struct adji_software_buffer *more = realloc(s->buffers, count * sizeof *more);
  if (!more) return adji_fail(ADJ_E_MEMORY, "no memory for staging buffers");
  s->buffers = more;
  for (; s->count < count; s->count++) {
    more[s->count] = (struct adji_software_buffer){.at = malloc(ADJI_STAGE_BYTES)};
    if (!more[s->count].at) return adji_fail(ADJ_E_MEMORY, "no memory for staging buffers");
  }
  return ADJ_OK;
}

void adji_software_staging_close(adji_software_staging *s) {
  for (uint32_t i = 0; i < s->count; i++)
    free(s->buffers[i].at);
  free(s->buffers);
  pthread_mutex_destroy(&s->lock);
}

void *adji_staging_at(adji_gpu *gpu, uint32_t buffer) {
  adji_software_staging *s = adji_software_staging_of(gpu);
  bool second = buffer & ADJI_STAGE_SECOND;
  return second ? s->buffers[buffer - ADJI_STAGE_SECOND].at + ADJI_STAGE_BYTES / 2 : s->buffers[buffer].at;
}

/* ---- Copies ------------------------------------------------------------------------------------------- */

static adj_status note_copy(adji_gpu *gpu, uint32_t buffer, void *to, const void *from, uint64_t bytes) {
  adji_software_staging *s = adji_software_staging_of(gpu);
  adji_software_pending *p = pending_of(s, buffer);
  pthread_mutex_lock(&s->lock);
  bool room = p->count < ADJI_SOFTWARE_COPIES;
  if (room) {
    p->copies[p->count].to = to;
    p->copies[p->count].from = from;
    p->copies[p->count].bytes = bytes;
    p->count++;
    p->looked = false;
  }
  pthread_mutex_unlock(&s->lock);
  return room ? ADJ_OK : adji_fail(ADJ_E_INTERNAL, "buffer %u: nobody waits for its copies", buffer);
}

adj_status adji_staging_send(adji_gpu *gpu, uint32_t buffer, void *to_device, uint64_t bytes) {
  adj_status status = adji_software_turn(gpu, "staging_send");
  return status ? status : note_copy(gpu, buffer, to_device, adji_staging_at(gpu, buffer), bytes);
}

adj_status adji_software_fetch(adji_gpu *gpu, uint32_t buffer, uint64_t to, const void *from, uint64_t bytes) {
  adj_status status = adji_software_turn(gpu, "fetch");
  if (status) return status;
  char *at = (char *)adji_staging_at(gpu, buffer) + to;
  memset(at, NONSENSE, bytes);
  return note_copy(gpu, buffer, at, from, bytes);
}

adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, uint64_t place, const void *from_device,
                                uint64_t bytes) {
  return adji_software_fetch(gpu, buffer, place, from_device, bytes);
}

adj_status adji_staging_wait(adji_gpu *gpu, uint32_t buffer) {
  adji_software_staging *s = adji_software_staging_of(gpu);
  adj_status status = adji_software_turn(gpu, "staging_wait");
  if (status) return status;
  pthread_mutex_lock(&s->lock);
  copy_pending(pending_of(s, buffer));
  pthread_mutex_unlock(&s->lock);
  return ADJ_OK;
}

adj_status adji_staging_here(adji_gpu *gpu, uint32_t buffer, bool *here) {
  adji_software_staging *s = adji_software_staging_of(gpu);
  adji_software_pending *p = pending_of(s, buffer);
  pthread_mutex_lock(&s->lock);
  *here = !p->count || p->looked;
  p->looked = true;
  if (*here) copy_pending(p);
  pthread_mutex_unlock(&s->lock);
  return *here ? adji_software_turn(gpu, "staging_here") : ADJ_OK;
}
