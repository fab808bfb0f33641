/* SPDX-License-Identifier: MIT
 *
 * Bins: see bins.h.
 */
#include "cpu/bins.h"

typedef struct adji_bin_slab {
  struct adji_bin_slab *next;
  uint64_t used, bytes; /* of the memory after this header */
} slab;

/* Cuts memory from the newest slab of a lane, or from a new slab. */
static void *cut(const adji_bins *bins, adji_bin_lane *l, uint64_t bytes) {
  slab *from = l->slabs;
  if (!from || from->bytes - from->used < bytes) {
    uint64_t size = sizeof *from + bytes > bins->slab_bytes ? sizeof *from + bytes : bins->slab_bytes;
    from = adji_alloc(&bins->ctx->memory, size, 1, "rows");
    if (!from) return NULL;
    *from = (slab){.next = l->slabs, .bytes = size - sizeof *from};
    l->slabs = from;
  }
  char *at = (char *)(from + 1) + from->used;
  from->used += bytes;
  return at;
}

bool adji_bins_add_chunk(const adji_bins *bins, uint32_t lane, adji_bin *bin, uint64_t words) {
  uint64_t bytes = sizeof(adji_chunk) + words * sizeof(uint32_t);
  if (bytes < bins->chunk_bytes) bytes = bins->chunk_bytes;
  bytes = (bytes + 7) & ~(uint64_t)7;
  adji_chunk *c = cut(bins, &bins->lanes[lane], bytes);
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
 * chunks are not needed: the chunks in use lie close together. */
static void choose_sizes(adji_bins *bins, double bytes) {
  enum { LEAST_CHUNK = 512, MOST_CHUNK = 1 << 16, PART = 8 };
  enum { LEAST_SLAB = 1 << 14, MOST_SLAB = 8 << 20 };
  double part = bytes / bins->ctx->threads / PART, piece = part / (double)bins->count;
  bins->chunk_bytes = piece < LEAST_CHUNK ? LEAST_CHUNK : piece > MOST_CHUNK ? MOST_CHUNK : (uint64_t)piece;
  bins->slab_bytes = part < LEAST_SLAB ? LEAST_SLAB : part > MOST_SLAB ? MOST_SLAB : (uint64_t)part;
  if (bins->slab_bytes < bins->chunk_bytes) bins->slab_bytes = bins->chunk_bytes;
}

adj_status adji_bins_open(adji_bins *bins, double bytes) {
  adji_memory *memory = &bins->ctx->memory;
  uint32_t threads = bins->ctx->threads;
  choose_sizes(bins, bytes);
  bins->lanes = adji_alloc_zero(memory, threads, sizeof *bins->lanes, "rows");
  for (uint32_t l = 0; bins->lanes && l < threads; l++) {
    bins->lanes[l].bins = adji_alloc_zero(memory, bins->count, sizeof(adji_bin), "rows");
    if (!bins->lanes[l].bins) return ADJ_E_MEMORY;
  }
  return bins->lanes ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_bins_close(adji_bins *bins) {
  if (!bins->lanes) return;
  adji_memory *memory = &bins->ctx->memory;
  for (uint32_t l = 0; l < bins->ctx->threads; l++) {
    while (bins->lanes[l].slabs) {
      slab *old = bins->lanes[l].slabs;
      bins->lanes[l].slabs = old->next;
      adji_free(memory, old);
    }
    adji_free(memory, bins->lanes[l].bins);
  }
  adji_free(memory, bins->lanes);
  bins->lanes = NULL;
}
