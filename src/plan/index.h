/* SPDX-License-Identifier: MIT
 *
 * The index: a set of points with a metric and a box, and the structures built to search it. Questions share it: a plan
 * is an index and a question. adj_plan_create makes an index for one question; adj_index_create makes one that is kept
 * ("kept index").
 *
 * A structure is built when a question first needs it, and is read-only from then on. Other questions that need it
 * meanwhile wait. It is lent to the workers of a plan, which give it back. A kept index keeps structures that are not
 * in use: the tree and the points of brute force, which serve every k and radius, as long as the index exists; grids,
 * each of which serves a range of radii, while there is memory. The least recently used grid is dropped first. An index
 * for one question frees a structure as soon as it is not in use.
 *
 * A kept index has the same structures on devices, made by the first question that needs them there: see
 * index_device.c.
 */
#ifndef ADJI_PLAN_INDEX_H
#define ADJI_PLAN_INDEX_H

#include "core/names.h"
#include "cpu/brute.h"
#include "cpu/range_index.h"
#include "gpu/index/right.h"
#include "index/tree.h"

typedef struct adji_kept_grid {
  adji_range_base base; /* the first member: lent objects point to it */
  struct adji_kept_grid *next;
  adji_algorithm algorithm;
  double limit; /* the largest limit that it serves */
  char reason[192];
  uint32_t users;
  uint64_t used_at; /* by the clock of the index */
} adji_kept_grid;

/* Right sets on a device: see index_device.c. */
typedef struct adji_device_part adji_device_part;
typedef struct adji_index_device {
  adji_device_part *parts;
  uint64_t refused[ADJI_RIGHT_GRID + 1]; /* by form: bytes that were available when it did not fit; 0: it fitted */
} adji_index_device;

/* A caller's points on the context's first device: sets without data, but with bounds. */
typedef struct adji_index_origin {
  adj_dataset set, points; /* as given; as searched, derived for some metrics */
  adj_dataset sample;      /* some of these, with data: a grid is chosen from them */
  double *bounds;          /* of all sets */
  void *rows;              /* of the sample */
  adji_gpu_points derived; /* gpu NULL: none */
} adji_index_origin;

typedef struct adji_scratch adji_scratch; /* buffers of one small question: plan/index_query.c */

struct adj_index {
  adj_ctx *ctx;
  const adj_dataset *set; /* the caller's */
  adj_dataset *derived;   /* NULL where the caller's points are searched */
  const adj_dataset *points;
  adj_join_spec spec; /* metric, its parameters and backend; no question is set */
  adji_measure measure;
  void *box; /* lengths of the measure's box, or NULL */
  bool kept;
  ADJI_ATOMIC(uint32_t) references; /* the caller's and those of plans */
  pthread_mutex_t building;         /* held while a structure is built */
  pthread_mutex_t lock;             /* guards the members below; never held for long */
  adji_tree *_Atomic tree;          /* NULL: not built */
  adji_brute_base *brute;
  adji_kept_grid *grids;
  uint32_t tree_users, brute_users;
  ADJI_ATOMIC(uint32_t) knn_choices[33]; /* by the bits of k: the algorithm that a trial chose; 0: no trial yet */
  adji_index_origin *origin;             /* NULL: the points are on the host */
  adji_gpu_rows rows;                    /* of an origin: the points that are searched */
  adji_index_device devices[ADJI_MOST_GPUS];
  uint64_t clock;
  pthread_mutex_t scratch_lock;
  adji_scratch *scratch; /* buffers that are not in use */
};

/* Fills in what a metric measures; *box receives the lengths of a box in the type of the points, or NULL. */
adj_status adji_describe_measure(adj_ctx *ctx, const adj_join_spec *spec, adj_type type, uint32_t dim,
                                 adji_measure *measure, void **box);
/* Fails if a coordinate is outside of the box; the message names the first one. */
adj_status adji_check_inside(const adj_dataset *set, const adji_measure *measure);
ADJI_SHARED bool adji_metric_derives(adj_metric metric);

/* spec has been checked. name: that of the set in messages, or NULL. The first reference is the caller's. */
adj_status adji_index_make(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *set, bool kept, const char *name,
                           adj_index **out);
/* The same for points on the context's first device. The origin is taken over, even on failure. */
adj_status adji_index_make_on_device(adj_ctx *ctx, const adj_join_spec *spec, adji_index_origin *origin,
                                     const adji_gpu_rows *rows, adj_index **out);
static inline adj_status adji_refuse_origin(void) {
  return adji_fail(ADJ_E_UNSUPPORTED,
                   "index: its points are on a device: adj_cuda_index_knn, _range and _count ask it");
}
adj_index *adji_index_share(adj_index *index);
void adji_index_release(adj_index *index);

/* These lend the structure, and build it first if the index does not have it; *built says whether they did. leaf:
 * points a leaf; 0: the default, or as the tree was built. */
adj_status adji_index_tree(adj_index *index, uint32_t leaf, adji_lent *out, bool *built);
adj_status adji_index_brute(adj_index *index, adji_lent *out, bool *built);
/* The tree of a kept index, which stays as long as the index; NULL: it is not built. */
const adji_tree *adji_index_kept_tree(adj_index *index);

/* A grid that serves this limit, and not a much larger one; algorithm AUTO: of any algorithm. False: there is none. */
bool adji_index_find_grid(adj_index *index, adji_algorithm algorithm, double limit, adji_lent *out);
/* Builds one. join: its limit is the one to serve. The grid and the scale of the options are taken over, even on
 * failure. */
adj_status adji_index_add_grid(adj_index *index, const adji_join *join, const adji_range_index_options *options,
                               adji_algorithm algorithm, const char *reason, adji_lent *out);

/* Drops grids that are not in use until this many bytes fit or no such grid remains. */
void adji_index_make_room(adj_index *index, uint64_t bytes);

/* Whether a grid for sums up to `largest` serves sums up to `limit`, without finding many more candidates. */
bool adji_grid_serves(const adj_index *index, const adji_grid *grid, double largest, double limit);

/* One thread builds at a time, so that nothing is built twice. Returns whether the caller now holds `building`, which
 * adji_index_end_building releases. */
bool adji_index_begin_building(adj_index *index);
void adji_index_end_building(adj_index *index, bool waited);

/* ---- On devices: index_device.c ---------------------------------------------------------------------------- */

/* Lends a right set on a device of the context, and makes it first if there is none. Of the options, the index itself
 * sets set, rows, shared and cut. Must not be called by a thread that holds a device. */
adj_status adji_index_lend(adj_index *index, uint32_t device, const adji_gpu_right_options *options, adji_lent *out,
                           bool *built);
/* Bytes that the index has on a device. */
uint64_t adji_index_device_bytes(adj_index *index, uint32_t device);
/* Drops the least recently used structure there, except the tree. False: all are in use. */
bool adji_index_drop(adj_index *index, uint32_t device);
void adji_index_clear_devices(adj_index *index);
void adji_index_forget_origin(adj_ctx *ctx, adji_index_origin *origin);

/* index_query.c */
void adji_index_clear_scratch(adj_index *index);

#endif
