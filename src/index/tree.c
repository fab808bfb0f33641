/* SPDX-License-Identifier: MIT
 *
 * Builds the kd-tree. The points themselves are moved, not indices: every cut reads them in one stream and writes them
 * in two, from the tree's own memory to a second buffer of the same size, or back. A piece is stored by dimension, at
 * the same place in either buffer, and each of its halves takes one half of that place. So a piece of one leaf already
 * has the layout of a leaf. Large pieces are cut by all threads together, one after the other. Smaller pieces go to one
 * thread each.
 */
#include "index/tree.h"

#include <math.h>
#include <string.h>

#include "index/tree_split.h"

/* SPARE: entries that collect() may write after the values it takes. FEWEST_SHARED: the smallest piece that all threads
 * cut together. */
enum { SLICE = 1 << 14, SPARE = 16, FEWEST_SHARED = 1 << 16 };

typedef struct piece {
  uint64_t begin, end; /* leaves */
  bool in_tree;        /* the points are in the tree's memory, not in the second buffer */
} piece;

typedef struct build {
  adj_ctx *ctx;
  const adj_dataset *set;
  adji_tree *tree;
  const adji_split_kernels *kernels;
  size_t size;
  adji_tree_room *room;
  bool load_in_tree; /* whether the points are in the tree's memory before the first cut */
  piece *pieces;
  uint64_t piece_count;
  /* The large piece that all threads are cutting at present. */
  adji_split_job job;
  adji_split_values values; /* along its axis */
  double low, high;         /* the bracket of its value */
  uint64_t *slice_below, *slice_equal;
} build;

static uint64_t point_end(const build *b, uint64_t leaf_end) {
  uint64_t end = leaf_end * b->tree->leaf;
  return end < b->tree->count ? end : b->tree->count;
}

static adji_columns columns_of(const build *b, piece p, bool in_tree) {
  const adji_tree *tree = b->tree;
  char *coords = in_tree ? tree->coords : b->room->coords;
  uint64_t first = p.begin * tree->leaf;
  return (adji_columns){coords + first * tree->dim * b->size, (p.end - p.begin) * tree->leaf,
                        (in_tree ? tree->ids : b->room->ids) + first};
}

static uint64_t piece_points(const build *b, piece p) {
  return point_end(b, p.end) - p.begin * b->tree->leaf;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Copies dimension j of rows [begin, end). Returns whether all are finite: a NaN is on neither side of a cut. */
#define LOAD(T)                                                                                   \
  static bool load_##T(const adj_dataset *set, uint32_t j, uint64_t begin, uint64_t end, T *to) { \
    const char *from = set->data + begin * set->row_stride + j * set->column_stride;              \
    bool finite = true;                                                                           \
    for (uint64_t i = begin; i < end; i++, from += set->row_stride) {                             \
      T x = *(const T *)from;                                                                     \
      to[i] = x;                                                                                  \
      finite &= adji_is_finite(x);                                                                \
    }                                                                                             \
    return finite;                                                                                \
  }
LOAD(float)
LOAD(double)

static adj_status load_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  const adj_dataset *set = b->set;
  adji_columns to = columns_of(b, (piece){0, b->tree->level[0].count, b->load_in_tree}, b->load_in_tree);
  uint64_t begin = slice * SLICE, end = begin + SLICE < set->count ? begin + SLICE : set->count;
  bool finite = true;
  for (uint32_t j = 0; j < set->dim; j++)
    finite &= set->type == ADJ_F64 ? load_double(set, j, begin, end, (double *)to.coords + j * to.stride)
                                   : load_float(set, j, begin, end, (float *)to.coords + j * to.stride);
  for (uint64_t i = begin; i < end; i++)
    to.ids[i] = (uint32_t)i;
  return finite ? ADJ_OK : adji_points_changed();
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* Halves a piece: the left half gets the largest power of two of leaves that is less than all of them. */
static void halve(piece p, piece *left, piece *right) {
  uint64_t half = 1;
  while (half * 2 < p.end - p.begin)
    half *= 2;
  *left = (piece){p.begin, p.begin + half, !p.in_tree};
  *right = (piece){p.begin + half, p.end, !p.in_tree};
}

/* Fills in a job except for the value to split at, and the values along its axis. */
static adji_split_job open_job(const build *b, piece p, piece left, piece right, adji_split_values *values) {
  adji_split_job job = {.from = columns_of(b, p, p.in_tree), .dim = b->tree->dim, .end = piece_points(b, p)};
  job.left = columns_of(b, left, left.in_tree);
  job.right = columns_of(b, right, right.in_tree);
  *values = (adji_split_values){.kernels = b->kernels, .type = b->tree->type, .count = job.end};
  job.axis = b->kernels->widest(&job.from, job.dim, job.end, &values->low, &values->high);
  values->x = (const char *)job.from.coords + job.axis * job.from.stride * b->size;
  return job;
}

static void set_split(adji_split_job *job, uint64_t rank, adji_split_point point) {
  job->value = point.value;
  job->equal = rank - point.below;
}

/* ---- Leaves and boxes ------------------------------------------------------------------------ */

static void put_value(const build *b, void *to, uint64_t i, double value) {
  if (b->size == 8)
    ((double *)to)[i] = value;
  else
    ((float *)to)[i] = (float)value;
}

static void set_bound(const build *b, adji_tree_level *level, uint64_t node, uint32_t dim, double low, double high) {
  uint64_t at = (node / ADJI_FAN * b->tree->dim + dim) * 2 * ADJI_FAN + node % ADJI_FAN;
  put_value(b, level->bounds, at, low);
  put_value(b, level->bounds, at + ADJI_FAN, high);
}

static void finish_leaf(const build *b, piece p) {
  const adji_tree *tree = b->tree;
  uint64_t count = piece_points(b, p);
  adji_columns to = columns_of(b, p, true);
  adji_tree_level *level = &b->tree->level[0];
  if (!p.in_tree) {
    adji_columns from = columns_of(b, p, false);
    memcpy(to.coords, from.coords, to.stride * tree->dim * b->size);
    memcpy(to.ids, from.ids, count * sizeof *to.ids);
  }
  for (uint32_t j = 0; j < tree->dim; j++) {
    char *x = (char *)to.coords + j * to.stride * b->size;
    double low, high;
    b->kernels->range(x, count, &low, &high);
    set_bound(b, level, p.begin, j, low, high);
    for (uint64_t i = count; i < tree->leaf; i++)
      put_value(b, x, i, NAN);
  }
  for (uint64_t i = count; i < tree->leaf; i++)
    to.ids[i] = ADJ_NO_ID;
  level->least_ids[p.begin] = to.ids[0];
}

/* Cuts a piece down to its leaves. */
static void cut_down(const build *b, piece p, void *scratch) {
  while (p.end - p.begin > 1) {
    piece left, right;
    halve(p, &left, &right);
    adji_split_values values;
    adji_split_job job = open_job(b, p, left, right, &values);
    uint64_t rank = piece_points(b, left);
    set_split(&job, rank, adji_find_split(&values, rank, scratch));
    b->kernels->split(&job);
    cut_down(b, right, scratch);
    p = left;
  }
  finish_leaf(b, p);
}

static adj_status cut_piece(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const build *b = user;
  piece p = b->pieces[task];
  void *scratch = adji_alloc(&b->ctx->memory, piece_points(b, p) + 512, b->size, "tree");
  if (!scratch) return ADJ_E_MEMORY;
  cut_down(b, p, scratch);
  adji_free(&b->ctx->memory, scratch);
  return ADJ_OK;
}

/* ---- Large pieces, cut by all threads -------------------------------------------------------- */

static void job_slice(const build *b, uint64_t slice, uint64_t *begin, uint64_t *end) {
  *begin = slice * SLICE;
  *end = *begin + SLICE < b->job.end ? *begin + SLICE : b->job.end;
}

/* Collects the values within the bracket into the slice's part of the scratch. */
static adj_status collect_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end;
  job_slice(b, slice, &begin, &end);
  b->slice_below[slice] = 0;
  b->slice_equal[slice] =
      b->kernels->collect((const char *)b->values.x + begin * b->size, end - begin, b->low, b->high,
                          (char *)b->room->scratch + slice * (SLICE + SPARE) * b->size, &b->slice_below[slice]);
  return ADJ_OK;
}

static adj_status count_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end, not_above;
  job_slice(b, slice, &begin, &end);
  b->kernels->count((const char *)b->values.x + begin * b->size, end - begin, b->job.value, &b->slice_below[slice],
                    &not_above);
  b->slice_equal[slice] = not_above - b->slice_below[slice];
  return ADJ_OK;
}

/* The same after collect_slice() has counted the values below the bracket. Only the few values in the bracket
 * remain. */
static void count_collected(build *b, uint64_t slices) {
  const char *from = b->room->scratch;
  for (uint64_t s = 0; s < slices; s++) {
    uint64_t taken = b->slice_equal[s], below, not_above;
    b->kernels->count(from, taken, b->job.value, &below, &not_above);
    b->slice_below[s] += below;
    b->slice_equal[s] = not_above - below;
    from += taken * b->size;
  }
}

/* adji_find_split() with all threads. Afterwards each slice knows how many of its values are below the one found, and
 * how many are equal to it. */
static adj_status find_split_parallel(build *b, uint64_t slices, uint64_t rank) {
  adji_split_job *job = &b->job;
  char *scratch = b->room->scratch;
  if (!adji_bracket(&b->values, rank, scratch, &b->low, &b->high)) {
    set_split(job, rank, adji_find_split(&b->values, rank, scratch));
    return adji_loop(b->ctx, slices, count_slice, b);
  }
  adj_status status = adji_loop(b->ctx, slices, collect_slice, b);
  if (status) return status;
  adji_bracketed in = {0};
  for (uint64_t s = 0; s < slices; s++) {
    memmove(scratch + in.taken * b->size, scratch + s * (SLICE + SPARE) * b->size, b->slice_equal[s] * b->size);
    in.taken += b->slice_equal[s];
    in.below += b->slice_below[s];
  }
  set_split(job, rank, adji_find_split_between(&b->values, rank, in, scratch));
  if (job->value < b->low || job->value > b->high) return adji_loop(b->ctx, slices, count_slice, b);
  count_collected(b, slices);
  return ADJ_OK;
}

static adj_status move_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  adji_split_job job = b->job;
  job_slice(b, slice, &job.begin, &job.end);
  job.left_at = b->slice_below[slice];
  job.equal = b->slice_equal[slice];
  job.right_at = job.begin - job.left_at;
  b->kernels->split(&job);
  return ADJ_OK;
}

/* Turns counts into positions: the place of each slice's left part, and the number of its equal values that go left. */
static void place_slices(build *b, uint64_t slices) {
  uint64_t left = 0, equal = b->job.equal;
  for (uint64_t s = 0; s < slices; s++) {
    uint64_t take = b->slice_equal[s] < equal ? b->slice_equal[s] : equal, goes_left = b->slice_below[s] + take;
    b->slice_below[s] = left;
    b->slice_equal[s] = take;
    equal -= take;
    left += goes_left;
  }
}

static adj_status cut_parallel(build *b, piece p, piece left, piece right) {
  b->job = open_job(b, p, left, right, &b->values);
  uint64_t slices = (b->job.end + SLICE - 1) / SLICE;
  adj_status status = find_split_parallel(b, slices, piece_points(b, left));
  if (status) return status;
  place_slices(b, slices);
  return adji_loop(b->ctx, slices, move_slice, b);
}

/* Cuts until there are enough pieces to keep all threads busy to the end, and lists them. */
static adj_status cut_into_tasks(build *b, piece p, uint64_t most) {
  if ((p.end - p.begin) * b->tree->leaf <= most) {
    b->pieces[b->piece_count++] = p;
    return ADJ_OK;
  }
  piece left, right;
  halve(p, &left, &right);
  adj_status status = cut_parallel(b, p, left, right);
  if (!status) status = cut_into_tasks(b, left, most);
  if (!status) status = cut_into_tasks(b, right, most);
  return status;
}

/* ---- Levels above the leaves ----------------------------------------------------------------- */

/* The box around ADJI_FAN boxes. Padding boxes have low > high and change nothing. */
#define JOIN(T)                                                                                     \
  static void join_##T(const T *below, uint32_t dim, T *to) {                                       \
    for (uint32_t j = 0; j < dim; j++, below += (size_t)2 * ADJI_FAN, to += (size_t)2 * ADJI_FAN) { \
      T low = below[0], high = below[ADJI_FAN];                                                     \
      for (uint32_t i = 1; i < ADJI_FAN; i++) {                                                     \
        low = below[i] < low ? below[i] : low;                                                      \
        high = below[ADJI_FAN + i] > high ? below[ADJI_FAN + i] : high;                             \
      }                                                                                             \
      to[0] = low;                                                                                  \
      to[ADJI_FAN] = high;                                                                          \
    }                                                                                               \
  }
JOIN(float)
JOIN(double)

static void join_boxes(const build *b, const adji_tree_level *below, adji_tree_level *level, uint64_t node) {
  uint64_t chunk = (uint64_t)2 * ADJI_FAN * b->tree->dim, to = node / ADJI_FAN * chunk + node % ADJI_FAN;
  if (b->size == 8)
    join_double((const double *)below->bounds + node * chunk, b->tree->dim, (double *)level->bounds + to);
  else
    join_float((const float *)below->bounds + node * chunk, b->tree->dim, (float *)level->bounds + to);
  uint32_t least = ADJ_NO_ID;
  for (uint64_t i = node * ADJI_FAN; i < (node + 1) * ADJI_FAN; i++)
    least = below->least_ids[i] < least ? below->least_ids[i] : least;
  level->least_ids[node] = least;
}

static adj_status make_level(build *b, uint64_t nodes) {
  adji_tree *tree = b->tree;
  adji_tree_level *level = &tree->level[tree->levels++];
  uint64_t room = (nodes + ADJI_FAN - 1) / ADJI_FAN * ADJI_FAN;
  level->count = nodes;
  level->bounds = adji_alloc(&b->ctx->memory, adji_mul(room, (uint64_t)2 * tree->dim), b->size, "tree");
  level->least_ids = adji_alloc(&b->ctx->memory, room, sizeof *level->least_ids, "tree");
  if (!level->bounds || !level->least_ids) return ADJ_E_MEMORY;
  for (uint64_t i = nodes; i < room; i++) {
    level->least_ids[i] = ADJ_NO_ID;
    for (uint32_t j = 0; j < tree->dim; j++)
      set_bound(b, level, i, j, INFINITY, -INFINITY);
  }
  return ADJ_OK;
}

/* Joins nodes of the last level from the level below it. */
static void join_some(void *user, uint64_t begin, uint64_t end) {
  build *b = user;
  adji_tree_level *level = &b->tree->level[b->tree->levels - 1];
  for (uint64_t i = begin; i < end; i++)
    join_boxes(b, level - 1, level, i);
}

static adj_status make_upper_levels(build *b) {
  adji_tree *tree = b->tree;
  adj_status status = ADJ_OK;
  while (!status && tree->level[tree->levels - 1].count > ADJI_FAN) {
    uint64_t nodes = (tree->level[tree->levels - 1].count + ADJI_FAN - 1) / ADJI_FAN;
    status = make_level(b, nodes);
    if (status) break;
    if (nodes < FEWEST_SHARED)
      join_some(b, 0, nodes);
    else
      status = adji_loop_slices(b->ctx, nodes, 4 * (uint64_t)b->ctx->threads, join_some, b);
  }
  return status;
}

/* ---- Build ----------------------------------------------------------------------------------- */

void adji_tree_room_clear(adj_ctx *ctx, adji_tree_room *room) {
  adji_free(&ctx->memory, room->coords);
  adji_free(&ctx->memory, room->ids);
  adji_free(&ctx->memory, room->scratch);
  *room = (adji_tree_room){0};
}

static adj_status make_room(build *b, uint64_t points) {
  adji_tree_room *room = b->room;
  adji_memory *memory = &b->ctx->memory;
  if (points <= room->points) return ADJ_OK;
  adji_tree_room_clear(b->ctx, room);
  room->coords = adji_alloc(memory, adji_mul(points, b->tree->dim), b->size, "tree");
  room->ids = adji_alloc(memory, points, sizeof *room->ids, "tree");
  room->scratch = adji_alloc(memory, points + points / SLICE * SPARE + 512, b->size, "tree");
  if (!room->coords || !room->ids || !room->scratch) return ADJ_E_MEMORY;
  room->points = points;
  return ADJ_OK;
}

static adj_status make_arrays(build *b, uint64_t most) {
  adji_tree *tree = b->tree;
  adji_memory *memory = &b->ctx->memory;
  uint64_t leaves = (tree->count + tree->leaf - 1) / tree->leaf, slices = tree->count / SLICE + 1;
  adj_status status = make_room(b, leaves * tree->leaf);
  if (status) return status;
  tree->coords = adji_alloc(memory, adji_mul(leaves * tree->leaf, tree->dim), b->size, "tree");
  tree->ids = adji_alloc(memory, leaves * tree->leaf, sizeof *tree->ids, "tree");
  b->pieces = adji_alloc(memory, 2 * (tree->count / (most / 2) + 2), sizeof *b->pieces, "tree");
  b->slice_below = adji_alloc(memory, slices, sizeof *b->slice_below, "tree");
  b->slice_equal = adji_alloc(memory, slices, sizeof *b->slice_equal, "tree");
  if (!tree->coords || !tree->ids || !b->pieces || !b->slice_below || !b->slice_equal) return ADJ_E_MEMORY;
  b->load_in_tree = true; /* chosen so that most leaves end up in the tree's memory after the last cut */
  for (uint64_t cut = 1; cut < leaves; cut *= 2)
    b->load_in_tree = !b->load_in_tree;
  return make_level(b, leaves);
}

static adj_status build_tree(build *b) {
  adji_tree *tree = b->tree;
  uint64_t most = tree->count / (4 * (uint64_t)b->ctx->threads);
  if (most < FEWEST_SHARED) most = FEWEST_SHARED;
  adj_status status = make_arrays(b, most);
  if (!status) status = adji_loop(b->ctx, (tree->count + SLICE - 1) / SLICE, load_slice, b);
  if (!status) status = cut_into_tasks(b, (piece){0, tree->level[0].count, b->load_in_tree}, most);
  if (!status) status = adji_loop(b->ctx, b->piece_count, cut_piece, b);
  if (!status) status = make_upper_levels(b);
  return status;
}

adj_status adji_tree_build(adj_ctx *ctx, const adj_dataset *set, uint32_t leaf, adji_tree_room *room, adji_tree *out) {
  uint64_t begin = adji_now_ns();
  adji_tree tree = {.ctx = ctx, .type = set->type, .dim = set->dim, .leaf = leaf, .count = set->count};
  build b = {.ctx = ctx, .set = set, .tree = &tree, .room = room, .size = adji_type_size(set->type)};
  b.kernels = adji_split_kernels_for(ctx->isa, set->type);
  adj_status status = set->count ? build_tree(&b) : ADJ_OK;
  adji_free(&ctx->memory, b.pieces);
  adji_free(&ctx->memory, b.slice_below);
  adji_free(&ctx->memory, b.slice_equal);
  adji_trace(ctx, "tree", 0, begin, set->count);
  if (status)
    adji_tree_clear(&tree);
  else
    *out = tree;
  return status;
}

void adji_tree_clear(adji_tree *tree) {
  if (!tree->ctx) return;
  adji_memory *memory = &tree->ctx->memory;
  for (uint32_t l = 0; l < tree->levels; l++) {
    adji_free(memory, tree->level[l].bounds);
    adji_free(memory, tree->level[l].least_ids);
  }
  adji_free(memory, tree->coords);
  adji_free(memory, tree->ids);
  *tree = (adji_tree){0};
}
