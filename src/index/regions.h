/* SPDX-License-Identifier: MIT
 *
 * The points of a set by region (cuts.h): the points in a region, which are its own, and those that may be within some
 * distance of it, which visit it. A region with the points around it is a join by itself: the rows of its own points
 * are complete.
 *
 * The members of a region ascend by id, so a join that numbers them in this order breaks ties as the whole join does.
 */
#ifndef ADJI_REGIONS_H
#define ADJI_REGIONS_H

#include "index/cuts.h"

/* Members are listed by slices of the set, so one pass over the points makes the lists. 2 bytes per member. */
typedef struct adji_regions {
  adj_ctx *ctx;
  const adj_dataset *set; /* belongs to the caller */
  const adji_cuts *cuts;  /* belongs to the caller */
  uint64_t slice, slices; /* points per slice; number of slices */
  uint16_t **blocks;      /* memory of the lists, up to a NULL */
  uint16_t **members;     /* per slice, region by region: places in the slice, and whether they are the region's own */
  uint32_t *starts;       /* per slice: the beginning of each region, count + 1 entries */
  uint64_t *own, *all;    /* own members, and all members, per region */
  double *low, *high;     /* boxes around each region's own points, dim entries each */
} adji_regions;

/* reaches: per region. A region also has the points that are within this distance of it in every dimension; negative,
 * or NULL: only its own. Memory: 2 bytes per member, 4 per slice and region. Time: one pass over the points. */
adj_status adji_regions_make(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, const double *reaches,
                             adji_regions *out);
/* The same with boxes only, for lists that are made elsewhere. The caller sets own and all. */
adj_status adji_regions_open(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, adji_regions *out);
void adji_regions_clear(adji_regions *regions);

/* Members first .. end - 1 of a region. The points are read when they are copied. */
typedef struct adji_pick {
  const adji_regions *regions;
  uint32_t region;
  uint64_t first, end;
  uint64_t *before;   /* members of the region in earlier slices, slices + 1 entries */
  char *keep;         /* a second destination of copied points; NULL: none */
  const char *points; /* the points, if the caller has gathered them; NULL: they are read from the set */
} adji_pick;
adj_status adji_pick_open(const adji_regions *regions, uint32_t region, uint64_t first, uint64_t end, adji_pick *out);
void adji_pick_clear(adji_pick *pick);
/* The points of a pick as a set for a device, with the bounds of the whole set. The pick must not be moved. */
adj_dataset adji_pick_set(const adji_pick *pick);
/* Copies `count` of a pick's points, packed, from number `first` on. pick: an adji_pick. */
void adji_pick_copy(const void *pick, uint64_t first, uint64_t count, void *to);
/* Lists the ids of a pick's points, and whether they are the region's own. Either array may be NULL. */
adj_status adji_pick_list(const adji_pick *pick, uint32_t *ids, uint8_t *own);

/* Points gathered for several regions at once, one region after the other, packed. The set is read once for all of
 * them, whereas a pick reads most cache lines of the set for a single region. */
typedef void (*adji_stream_fn)(void *to, const void *from, uint64_t bytes); /* adji_kernels.stream_row */
typedef struct adji_gather {
  const adji_regions *regions;
  adji_stream_fn stream;
  uint32_t first, end; /* the gathered regions */
  uint64_t room;       /* bytes; 0: nothing is gathered */
  char *points;
  uint64_t *places; /* per slice: places of the points of each of these regions */
} adji_gather;
/* Memory: up to most_bytes, if that is enough for the largest region, and 8 bytes per slice and region. */
void adji_gather_open(const adji_regions *regions, uint64_t most_bytes, adji_stream_fn stream, adji_gather *out);
void adji_gather_clear(adji_gather *gather);
/* Whether a region is gathered, or nothing is: then adji_gather_region() moves no points. */
static inline bool adji_gather_has(const adji_gather *gather, uint32_t region) {
  return !gather->room || (region >= gather->first && region < gather->end);
}
/* *points: the points of the region's members. If they are not gathered yet, they are now, with as many following
 * regions as there is room for. They stay until another region is gathered. NULL: there is no room for a region. */
adj_status adji_gather_region(adji_gather *gather, uint32_t region, const char **points);

/* Sets to[row] to the value of each row, from the values of all members, region by region. Values of visitors are
 * ignored. *total: the sum of the values of all rows. */
adj_status adji_regions_spread(const adji_regions *regions, const uint32_t *values, uint32_t *to, uint64_t *total);

#endif
