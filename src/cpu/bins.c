/* SPDX-License-Identifier: MIT
 *
 * Bins: see bins.h.
 */
#include "cpu/bins.h"

typedef struct adji_bin_slab {
  struct adji_bin_slab *next;
  uint64_t used, bytes; /* of the memory after this header */
} slab;

static uint64_t group_count(const adji_bins *bins) {
  return bins->group_count ? bins->group_count : 1;
}

/* Cuts memory from the newest slab of a lane and a group, or from a new slab. */
static void *cut(const adji_bins *bins, slab **slabs, uint64_t bytes) {
  slab *from = *slabs;
  if (!from || from->bytes - from->used < bytes) {
    uint64_t size = sizeof *from + bytes > bins->slab_bytes ? sizeof *from + bytes : bins->slab_bytes;
    from = adji_alloc(&bins->ctx->memory, size, 1, "rows");
    if (!from) return NULL;
    *from = (slab){.next = *slabs, .bytes = size - sizeof *from};
    *slabs = from;
  }
  char *at = (char *)(from + 1) + from->used;
  from->used += bytes;
  return at;
}

bool adji_bins_add_chunk(const adji_bins *bins, uint32_t lane, adji_bin *bin, uint64_t words) {
  uint64_t bytes = sizeof(adji_chunk) + words * sizeof(uint32_t);
  if (bytes < bins->chunk_bytes) bytes = bins->chunk_bytes;
  bytes = (bytes + 7) & ~(uint64_t)7;
  const adji_bin_lane *l = &bins->lanes[lane];
  adji_chunk *c = cut(bins, &l->slabs[bins->groups ? bins->groups[bin - l->bins] : 0], bytes);
  if (!c) return false;
  if (bin->chunks) bin->chunks->end = bin->at;
  c->next = bin->chunks;
  c->end = NULL;
  bin->chunks = c;
  bin->at = c->words;
  bin->end = (uint32_t *)(void *)((char *)c + bytes);
  return true;
}

/* A chunk is an eighth of what its bin is expected to hold, since on average half of the last chunk stays empty. Large
 * chunks are not needed: the chunks in use lie close together. The same holds for the slabs of a group; large ones are
 * whole huge pages. */
static void choose_sizes(adji_bins *bins, double bytes) {
  enum { LEAST_CHUNK = 512, MOST_CHUNK = 1 << 16, PART = 8 };
  enum { LEAST_SLAB = 1 << 14, MOST_SLAB = 8 << 20 };
  double part = bytes / bins->ctx->threads / PART, piece = part / (double)bins->count;
  part /= (double)group_count(bins);
  bins->chunk_bytes = piece < LEAST_CHUNK ? LEAST_CHUNK : piece > MOST_CHUNK ? MOST_CHUNK : (uint64_t)piece;
  bins->slab_bytes = part < LEAST_SLAB ? LEAST_SLAB : part > MOST_SLAB ? MOST_SLAB : (uint64_t)part;
  if (bins->slab_bytes > ADJI_HUGE_PAGE / 4)
    bins->slab_bytes = (bins->slab_bytes + ADJI_HUGE_PAGE - 1) / ADJI_HUGE_PAGE * ADJI_HUGE_PAGE;
  if (bins->slab_bytes < bins->chunk_bytes) bins->slab_bytes = bins->chunk_bytes;
}

adj_status adji_bins_open(adji_bins *bins, double bytes) {
  adji_memory *memory = &bins->ctx->memory;
  uint32_t threads = bins->ctx->threads;
  choose_sizes(bins, bytes);
  bins->lanes = adji_alloc_zero(memory, threads, sizeof *bins->lanes, "rows");
  for (uint32_t l = 0; bins->lanes && l < threads; l++) {
    adji_bin_lane *lane = &bins->lanes[l];
    lane->bins = adji_alloc_zero(memory, bins->count, sizeof *lane->bins, "rows");
    lane->slabs = adji_alloc_zero(memory, group_count(bins), sizeof(slab *), "rows");
    if (!lane->bins || !lane->slabs) return ADJ_E_MEMORY;
  }
  return bins->lanes ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_bins_drop(const adji_bins *bins, uint64_t group) {
  for (uint32_t l = 0; l < bins->ctx->threads; l++) {
    slab **slabs = bins->lanes[l].slabs;
    while (slabs && slabs[group]) {
      slab *old = slabs[group];
      slabs[group] = old->next;
      adji_free(&bins->ctx->memory, old);
    }
  }
}

void adji_bins_close(adji_bins *bins) {
  if (!bins->lanes) return;
  adji_memory *memory = &bins->ctx->memory;
  for (uint64_t i = 0; i < group_count(bins); i++)
    adji_bins_drop(bins, i);
  for (uint32_t l = 0; l < bins->ctx->threads; l++) {
    adji_free(memory, bins->lanes[l].bins);
    adji_free(memory, bins->lanes[l].slabs);
  }
  adji_free(memory, bins->lanes);
  bins->lanes = NULL;
}
