/* SPDX-License-Identifier: MIT
 *
 * The range join on a device: points, indices, counts and slots, and the launches that belong together.
 *
 * Everything runs in order on one stream; copies of slots run on another, and events keep the two apart: a slot is
 * copied after it was filled, and filled again after it was copied.
 */
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cstdlib>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "gpu/kept.cuh"
#include "gpu/per_point.cuh"
#include "gpu/product.cuh"
#include "gpu/range_private.cuh"
#include "gpu/report.cuh"
#include "gpu/row_sort.cuh"
#include "gpu/stopwatch.cuh"
#include "gpu/tiles.cuh"

extern "C" {
#include "gpu/range.h"
#include "gpu/staging.h"
#include "index/images.h"
}

enum { MOST_SLOTS = 8 };

typedef struct slot {
  adji_block ids, sums;
  cudaEvent_t filled, copied;
} slot;

struct adji_gpu_range {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_block box;
  adji_gpu_grid grid;
  adji_gpu_index right, left_index;
  const adji_gpu_index *left; /* right's in a self-join without images */
  uint64_t rows;              /* of the result                         */
  bool product;               /* pairs go through the filter of products, which has the points once more */
  adji_gpu_halves halves;
  adji_product_rows given;              /* points as they came, for product */
  adji_block left_points, right_points; /* those of host memory */
  adji_block degrees, offsets, queries, temporary;
  adji_per_point points; /* for kernels other than the default ones */
  bool once;
  bool mirrored; /* every two points are compared once when they are counted */
  uint64_t once_pairs;
  adji_gpu_kept kept; /* what the count found, if it did */
  adji_gpu_counted counted;
  uint32_t blocks; /* at a time; 0: any number */
  bool timed;
  adji_stopwatch watch; /* of kernels, when timed */
  adji_device_work work;
  slot slots[MOST_SLOTS];
  uint32_t slot_count;
  uint64_t slot_pairs;
};

/* The watch costs a few microseconds each time, for those who read it. */
static adj_status start_watch(adji_gpu_range *r) {
  return r->timed ? adji_stopwatch_start(r->gpu, r->gpu->compute, &r->watch) : ADJ_OK;
}
static adj_status stop_watch(adji_gpu_range *r) {
  return r->timed ? adji_stopwatch_stop(r->gpu, r->gpu->compute, &r->watch) : ADJ_OK;
}

/* ---- Opening -------------------------------------------------------------------------------------------------- */

static adj_status build_on_device(adji_gpu_range *r, const adji_gpu_rows *rows, const adji_gpu_index_options *options,
                                  adji_gpu_index *out) {
  adj_status status = start_watch(r);
  if (!status) status = adji_gpu_index_build(r->gpu, &r->grid, rows, options, out);
  return status ? status : stop_watch(r);
}

/* Where what belongs to one set goes. */
typedef struct side {
  adji_gpu_index *index;
  adji_gpu_rows *rows;
  adji_block *points;
} side;

static adj_status build_from_host(adji_gpu_range *r, const adj_dataset *set, const adji_gpu_index_options *options,
                                  side *out) {
  adji_block points = {};
  adj_status status = adji_gpu_bring(r->gpu, set, &points, out->rows, &r->work);
  if (!status) status = build_on_device(r, out->rows, options, out->index);
  if (!status && r->product)
    *out->points = points;
  else
    adji_block_free(r->gpu, r->gpu->compute, &points);
  return status;
}

static adj_status build_index(adji_gpu_range *r, const adj_dataset *set, const adji_gpu_rows *rows,
                              const adji_gpu_index_options *options, side out) {
  if (!rows) return build_from_host(r, set, options, &out);
  *out.rows = *rows;
  return build_on_device(r, rows, options, out.index);
}

static adj_status copy_box(adji_gpu_range *r) {
  if (!r->measure.box) return ADJ_OK;
  uint64_t bytes = r->join.left->dim * adji_type_size(r->join.left->type);
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, bytes, "box", &r->box);
  if (status) return status;
  ADJI_CUDA(r->gpu, cudaMemcpyAsync(r->box.at, r->measure.box, bytes, cudaMemcpyHostToDevice, r->gpu->compute));
  return ADJ_OK;
}

static adj_status build_indices(adji_gpu_range *r, const adji_gpu_range_options *options) {
  const adji_grid *grid = options->grid;
  adji_gpu_index_options candidates = {}, queries = {};
  candidates.images = adji_grid_is_periodic(grid);
  candidates.cells = true;
  candidates.sorted = options->points.sortidu;
  candidates.sort_dim = options->points.sort_dim;
  adj_status status = adji_gpu_grid_make(r->gpu, grid, r->measure.step == ADJI_STEP_L2 ? r->join.limit : 0, &r->grid);
  if (!status) status = copy_box(r);
  side right = {&r->right, &r->given.right, &r->right_points}, left = {&r->left_index, &r->given.left, &r->left_points};
  if (!status) status = build_index(r, r->join.right, options->right_rows, &candidates, right);
  r->left = &r->right;
  r->given.left = r->given.right;
  if (status || (r->join.self_join && !candidates.images)) return status;
  r->left = &r->left_index;
  return build_index(r, r->join.left, options->left_rows, &queries, left);
}

/* The copies for the filter. Where there is no room for them, pairs do without. */
static adj_status make_halves(adji_gpu_range *r, const adji_halves_plan *plan) {
  if (!r->product) return ADJ_OK;
  adj_status status = adji_gpu_halves_make(r->gpu, plan, &r->grid, r->left, &r->right, &r->halves);
  if (status != ADJ_E_DEVICE_MEMORY) return status;
  r->product = false;
  adji_block_free(r->gpu, r->gpu->compute, &r->left_points);
  adji_block_free(r->gpu, r->gpu->compute, &r->right_points);
  return ADJ_OK;
}

static adj_status make_counts(adji_gpu_range *r) {
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, (r->rows + 1) * 4, "neighbour counts", &r->degrees);
  if (!status) status = adji_block_get(r->gpu, r->gpu->compute, (r->rows + 1) * 8, "row offsets", &r->offsets);
  return status;
}

adj_status adji_gpu_range_open(adji_gpu *gpu, const adji_gpu_range_options *options, adji_gpu_range **out) {
  adji_gpu_range *r = static_cast<adji_gpu_range *>(calloc(1, sizeof *r));
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  r->gpu = gpu;
  r->join = *options->join;
  r->measure = *options->measure;
  r->rows = r->join.left->count;
  r->points.options = options->points;
  r->blocks = options->blocks;
  r->timed = options->timed;
  r->once = options->once && !adji_access_by_point(options->points.access);
  r->once_pairs = options->once_pairs;
  adj_status status = ADJ_OK;
  if (options->product && options->product->use && !adji_access_by_point(options->points.access))
    status = adji_product_fits(gpu, options->product->scale.width, &r->product);
  if (!status) status = build_indices(r, options);
  if (!status) status = make_halves(r, options->product);
  r->mirrored = options->mirrored && r->left == &r->right && !r->product &&
                !adji_access_by_point(options->points.access) && adji_tiles_can_mirror(&r->measure, r->join.left->dim);
  if (!status) status = make_counts(r);
  if (!status) status = adji_gpu_mark(gpu, ADJI_MARK_INDEXED);
  if (status)
    adji_gpu_range_close(r);
  else
    *out = r;
  return status;
}

static void free_slots(adji_gpu_range *r) {
  for (uint32_t i = 0; i < r->slot_count; i++) {
    adji_block_free(r->gpu, r->gpu->compute, &r->slots[i].ids);
    adji_block_free(r->gpu, r->gpu->compute, &r->slots[i].sums);
  }
  r->slot_count = 0;
}

static void free_events(adji_gpu_range *r) {
  for (slot &s : r->slots) {
    if (s.filled) cudaEventDestroy(s.filled);
    if (s.copied) cudaEventDestroy(s.copied);
  }
}

void adji_gpu_range_close(adji_gpu_range *r) {
  if (!r) return;
  cudaSetDevice(r->gpu->device);
  cudaStreamSynchronize(r->gpu->copy); /* a run that failed may have left copies under way */
  free_slots(r);
  free_events(r);
  adji_kept_free(r->gpu, &r->kept);
  adji_per_point_clear(r->gpu, &r->points);
  adji_block *blocks[] = {&r->box,       &r->degrees,     &r->offsets,     &r->queries,
                          &r->temporary, &r->left_points, &r->right_points};
  for (adji_block *block : blocks)
    adji_block_free(r->gpu, r->gpu->compute, block);
  adji_gpu_halves_clear(r->gpu, &r->halves);
  adji_gpu_index_clear(r->gpu, &r->right);
  adji_gpu_index_clear(r->gpu, &r->left_index);
  adji_gpu_grid_clear(r->gpu, &r->grid);
  cudaStreamSynchronize(r->gpu->compute);
  adji_stopwatch_clear(&r->watch);
  cudaGetLastError();
  free(r);
}

uint64_t adji_gpu_range_cells(const adji_gpu_range *r) {
  return r->right.cell_count;
}
adji_device_work adji_gpu_range_work(adji_gpu_range *r) {
  r->work.kernel_s = adji_stopwatch_read(&r->watch);
  return r->work;
}
const uint32_t *adji_gpu_range_degrees(const adji_gpu_range *r) {
  return adji_at<uint32_t>(r->degrees);
}
const uint64_t *adji_gpu_range_offsets(const adji_gpu_range *r) {
  return adji_at<uint64_t>(r->offsets);
}

/* ---- Counting ------------------------------------------------------------------------------------------------- */

/* What the index counted on its way, once that was fetched. */
static void note_cells(adji_gpu_range *r) {
  if (!r->right.cell_count) r->right.cell_count = r->gpu->answers[ADJI_ANSWER_CELLS];
}

static adji_tiles_job job_of(const adji_gpu_range *r) {
  adji_tiles_job job = {};
  const adji_row_style *style = &r->join.style;
  job.type = r->join.left->type;
  job.measure = &r->measure;
  job.box = r->box.at;
  job.limit = r->join.limit;
  job.dim = r->join.left->dim;
  job.grid = &r->grid;
  job.left = r->left;
  job.right = &r->right;
  job.keep = style->one_way ? ADJI_KEEP_ABOVE : style->drop_self ? ADJI_KEEP_OTHERS : ADJI_KEEP_ALL;
  job.query_count = r->left->count;
  return job;
}

static adj_status run_kernels(adji_gpu_range *r, const adji_tiles_job *job) {
  if (r->product) return adji_product_run(r->gpu, r->gpu->compute, job, &r->halves, &r->given);
  return adji_tiles_run(r->gpu, r->gpu->compute, job);
}

/* Queries of a block of threads. */
enum { TILES_BLOCK = 4 * ADJI_WARP, PRODUCT_BLOCK = 256 };

/* In one launch, or in as many as let no more blocks run at a time than were asked for. */
static adj_status compare(adji_gpu_range *r, const adji_tiles_job *job) {
  if (adji_access_by_point(r->points.options.access)) return adji_per_point_run(r->gpu, &r->points, job);
  if (!r->blocks) return run_kernels(r, job);
  uint64_t each = static_cast<uint64_t>(r->blocks) * (r->product ? PRODUCT_BLOCK : TILES_BLOCK);
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; first < job->query_count && !status; first += each) {
    adji_tiles_job some = *job;
    if (some.queries) some.queries += first;
    some.first_query += first;
    some.query_count = job->query_count - first < each ? job->query_count - first : each;
    status = run_kernels(r, &some);
  }
  return status;
}

/* From the pieces on, what is between them and the totals too: nobody needs that now, and one call is enough. */
static adj_status clear_totals(adji_gpu_range *r) {
  return adji_answer_clear(r->gpu, r->gpu->compute, ADJI_ANSWER_PIECES, ADJI_ANSWERS - ADJI_ANSWER_PIECES);
}

struct widen {
  __host__ __device__ uint64_t operator()(uint32_t x) const {
    return x;
  }
};

static adj_status add_up(adji_gpu_range *r) {
  uint32_t *degrees = adji_at<uint32_t>(r->degrees);
  auto wide = thrust::make_transform_iterator(static_cast<const uint32_t *>(degrees), widen());
  ADJI_CUB(r->gpu, &r->temporary, cub::DeviceScan::ExclusiveSum, wide, adji_at<uint64_t>(r->offsets), r->rows + 1);
  return ADJ_OK;
}

static bool wants_sums(const adji_gpu_range *r) {
  return r->join.style.distances || r->join.style.order == ADJ_ORDER_DISTANCE;
}

/* Items for what a count finds. Pieces: one for each row, and others that become full. In few dimensions they are kept
 * where most rows fit one, and an estimate would take longer than it saves; otherwise a fifth more than is estimated.
 * Pairs: each stands for two entries. Each warp may leave some of either. */
static adj_status choose_room(adji_gpu_range *r, adji_kept_wish *wish) {
  double rows = static_cast<double>(r->rows), pairs = static_cast<double>(r->once_pairs), candidates;
  bool in_pairs = wish->form == ADJI_KEPT_PAIRS;
  wish->room = (in_pairs ? pairs : pairs / ADJI_WARP) + 1;
  if (r->once_pairs) return ADJ_OK;
  wish->room = 1.3 * rows + 1024;
  if (r->join.left->dim <= 3) return ADJ_OK;
  adj_status status = adji_gpu_range_sample(r, 4096, &pairs, &candidates);
  if (!status) wish->room += pairs * 1.2 / (!in_pairs ? ADJI_WARP : r->join.style.one_way ? 1 : 2);
  return status;
}

static adj_status make_kept(adji_gpu_range *r) {
  adji_kept_free(r->gpu, &r->kept);
  if (!r->once) return ADJ_OK;
  adji_kept_wish wish = {r->mirrored ? ADJI_KEPT_PAIRS : ADJI_KEPT_PIECES, 0, r->rows, r->join.left->type,
                         wants_sums(r)};
  adj_status status = choose_room(r, &wish);
  return status ? status : adji_kept_make(r->gpu, &wish, &r->kept);
}

static void keep_items(const adji_gpu_range *r, adji_tiles_job *job) {
  const adji_gpu_kept *kept = &r->kept;
  job->mirrored = r->mirrored;
  if (kept->form == ADJI_KEPT_NONE) return;
  job->sums = kept->sums.at;
  if (kept->form == ADJI_KEPT_PAIRS) {
    job->pairs = adji_at<adji_gpu_pair>(kept->items);
    job->pair_room = kept->room;
    return;
  }
  job->pieces = adji_at<adji_gpu_piece>(kept->items);
  job->own_pieces = r->left->count;
  job->piece_room = kept->room;
  job->ids = adji_at<uint32_t>(kept->ids);
}

/* A block's longest row: what kernels that count row by row tell by themselves. */
static __global__ void find_longest(const uint32_t *degrees, uint64_t rows, unsigned long long *longest) {
  uint32_t most = 0;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows;
       i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
    most = degrees[i] > most ? degrees[i] : most;
  most = __reduce_max_sync(0xffffffffu, most);
  if (threadIdx.x % ADJI_WARP == 0) atomicMax(longest, static_cast<unsigned long long>(most));
}

static adj_status measure_rows(adji_gpu_range *r) {
  if (!r->mirrored || !r->rows) return ADJ_OK;
  uint32_t blocks = adji_blocks_for(r->rows, 256), most = 8 * static_cast<uint32_t>(r->gpu->multiprocessors);
  if (blocks > most) blocks = most;
  find_longest<<<blocks, 256, 0, r->gpu->compute>>>(adji_at<uint32_t>(r->degrees), r->rows,
                                                    adji_answer_at(r->gpu, ADJI_ANSWER_SPREAD + 3 * ADJI_SPREAD));
  ADJI_LAUNCHED(r->gpu, "find_longest");
  return ADJ_OK;
}

/* Counts begin at 0 where kernels add to them; others write that of every row, if there is anything to compare. The
 * one behind the last row is read, but added to no offset. */
static adj_status clear_degrees(adji_gpu_range *r) {
  if (r->right.count && !r->mirrored && !r->product && !adji_access_by_point(r->points.options.access)) return ADJ_OK;
  ADJI_CUDA(r->gpu, cudaMemsetAsync(r->degrees.at, 0, (r->rows + 1) * 4, r->gpu->compute));
  return ADJ_OK;
}

static adj_status make_events(adji_gpu_range *r, slot *s) {
  if (!s->filled) ADJI_CUDA(r->gpu, cudaEventCreateWithFlags(&s->filled, cudaEventDisableTiming));
  if (!s->copied) ADJI_CUDA(r->gpu, cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming));
  return ADJ_OK;
}

adj_status adji_gpu_range_count(adji_gpu_range *r, bool fills, adji_gpu_counted *out) {
  adji_tiles_job job = job_of(r);
  job.degrees = adji_at<uint32_t>(r->degrees);
  adj_status status = ADJ_OK;
  if (fills)
    status = make_kept(r);
  else
    adji_kept_free(r->gpu, &r->kept);
  if (status) return status;
  keep_items(r, &job);
  status = start_watch(r);
  if (!status) status = clear_degrees(r);
  if (!status) status = clear_totals(r);
  if (!status) status = compare(r, &job);
  if (!status) status = measure_rows(r);
  if (!status) status = add_up(r);
  if (!status) status = stop_watch(r);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_COUNTED);
  if (!status && fills) status = make_events(r, &r->slots[0]); /* while the device counts */
  if (!status) status = adji_answers_fetch(r->gpu, r->gpu->compute);
  if (status) return status;
  adji_totals totals = adji_answer_totals(r->gpu);
  note_cells(r);
  r->counted = adji_gpu_counted{totals.pairs, totals.candidates, totals.longest, totals.slots, false};
  r->kept.count = r->gpu->answers[ADJI_ANSWER_PIECES] + (r->mirrored ? 0 : r->rows);
  r->counted.redone = r->kept.form != ADJI_KEPT_NONE && r->kept.count > r->kept.room;
  if (r->counted.redone) adji_kept_free(r->gpu, &r->kept);
  *out = r->counted;
  return ADJ_OK;
}

adj_status adji_gpu_range_copy_degrees(adji_gpu_range *r, uint32_t *to) {
  ADJI_CUDA(r->gpu, cudaMemcpyAsync(to, r->degrees.at, r->rows * 4, cudaMemcpyDeviceToDevice, r->gpu->compute));
  return ADJ_OK;
}

void adji_gpu_range_forget_degrees(adji_gpu_range *r) {
  adji_block_free(r->gpu, r->gpu->compute, &r->degrees);
}

/* Positions in groups that may share their cells, spread evenly; a group a warp. */
enum { GROUP = 2, PRODUCT_GROUP = 64 };

static __global__ void spread(uint32_t *queries, uint64_t groups, uint64_t each, uint64_t count) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= groups * each) return;
  double step = static_cast<double>(count - each) / static_cast<double>(groups);
  uint64_t begin = static_cast<uint64_t>((static_cast<double>(i / each) + 0.5) * step);
  queries[i] = static_cast<uint32_t>(begin + i % each);
}

static adj_status draw_queries(adji_gpu_range *r, uint64_t groups, uint64_t each, uint64_t all, adji_block *queries) {
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, groups * each * 4, "sample", queries);
  if (status) return status;
  spread<<<adji_blocks_for(groups * each, 256), 256, 0, r->gpu->compute>>>(adji_at<uint32_t>(*queries), groups, each,
                                                                           all);
  ADJI_LAUNCHED(r->gpu, "spread");
  return ADJ_OK;
}

adj_status adji_gpu_range_sample(adji_gpu_range *r, uint64_t sample, double *pairs, double *candidates) {
  adji_tiles_job job = job_of(r);
  uint64_t each = r->product ? PRODUCT_GROUP : GROUP, groups = (sample + each - 1) / each, all = job.query_count;
  adji_block queries = {};
  adj_status status = start_watch(r);
  if (!status) status = clear_totals(r);
  if (!status && groups * each < all) {
    status = draw_queries(r, groups, each, all, &queries);
    job.queries = adji_at<uint32_t>(queries);
    job.query_count = groups * each;
    job.lanes = GROUP;
  }
  if (!status) status = compare(r, &job);
  if (!status) status = stop_watch(r);
  if (!status) status = adji_answers_fetch(r->gpu, r->gpu->compute);
  adji_block_free(r->gpu, r->gpu->compute, &queries);
  if (status) return status;
  note_cells(r);
  double scale = job.query_count ? static_cast<double>(all) / static_cast<double>(job.query_count) : 0;
  adji_totals totals = adji_answer_totals(r->gpu);
  *pairs = static_cast<double>(totals.pairs) * scale;
  *candidates = static_cast<double>(totals.candidates) * scale;
  return ADJ_OK;
}

/* ---- Filling -------------------------------------------------------------------------------------------------- */

static adj_status make_slot(adji_gpu_range *r, slot *s, uint64_t pairs) {
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, pairs * 4, "batch of the result", &s->ids);
  uint64_t size = adji_type_size(r->join.left->type);
  if (!status && wants_sums(r))
    status = adji_block_get(r->gpu, r->gpu->compute, pairs * size, "batch of the result", &s->sums);
  return status ? status : make_events(r, s);
}

/* For the queries of one of several batches. */
static adj_status make_room_for_queries(adji_gpu_range *r) {
  if (r->queries.at) return ADJ_OK;
  return adji_block_get(r->gpu, r->gpu->compute, r->rows * 4, "queries of a batch", &r->queries);
}

adj_status adji_gpu_range_slots(adji_gpu_range *r, uint32_t count, uint64_t pairs) {
  if (r->slot_count == count && r->slot_pairs == pairs) return ADJ_OK;
  if (r->slot_count) ADJI_CUDA(r->gpu, cudaStreamSynchronize(r->gpu->copy));
  free_slots(r);
  adj_status status = ADJ_OK;
  if (r->kept.form == ADJI_KEPT_NONE && pairs < r->counted.pairs) status = make_room_for_queries(r);
  for (uint32_t i = 0; i < count && !status; i++) {
    r->slot_count = i + 1;
    status = make_slot(r, &r->slots[i], pairs);
  }
  r->slot_pairs = pairs;
  if (status) free_slots(r);
  return status;
}

struct in_window {
  const uint32_t *ids;
  uint64_t first_row, end_row;
  __device__ bool operator()(uint32_t position) const {
    return ids[position] >= first_row && ids[position] < end_row;
  }
};

/* The positions of the queries whose rows are in the window, in the order of their work where there is one. */
static adj_status select_queries(adji_gpu_range *r, const adji_gpu_window *window, adji_tiles_job *job) {
  job->first_row = window->first_row;
  job->end_row = window->end_row;
  if (adji_access_mirrors(r->points.options.access)) return ADJ_OK; /* others find entries of these rows too */
  job->query_count = window->end_row - window->first_row;
  if (job->query_count == r->rows) return ADJ_OK;
  adj_status status = make_room_for_queries(r);
  if (status) return status;
  in_window wanted = {r->left->ids, window->first_row, window->end_row};
  const uint32_t *order = adji_at<uint32_t>(r->points.order);
  job->queries = adji_at<uint32_t>(r->queries);
  if (order) {
    ADJI_CUB(r->gpu, &r->temporary, cub::DeviceSelect::If, order, adji_at<uint32_t>(r->queries),
             adji_answer_at(r->gpu, ADJI_ANSWER_ITEMS), r->rows, wanted);
    return ADJ_OK;
  }
  ADJI_CUB(r->gpu, &r->temporary, cub::DeviceSelect::If, thrust::make_counting_iterator<uint32_t>(0),
           adji_at<uint32_t>(r->queries), adji_answer_at(r->gpu, ADJI_ANSWER_ITEMS), r->rows, wanted);
  return ADJ_OK;
}

static adj_status place_kept(adji_gpu_range *r, const adji_gpu_window *window, const slot *s) {
  adji_kept_place place = {adji_at<uint64_t>(r->offsets), *window, adji_at<uint32_t>(s->ids), s->sums.at,
                           r->join.style.one_way};
  return adji_kept_put(r->gpu, &r->kept, &place);
}

static adj_status evaluate_again(adji_gpu_range *r, const adji_gpu_window *window, const slot *s) {
  adji_tiles_job job = job_of(r);
  job.offsets = adji_at<uint64_t>(r->offsets);
  job.base = window->base;
  job.short_rows = r->counted.pairs <= r->rows * 16;
  job.long_rows = r->counted.pairs >= r->rows * 64;
  job.ids = adji_at<uint32_t>(s->ids);
  job.sums = s->sums.at;
  adj_status status = select_queries(r, window, &job);
  return status ? status : compare(r, &job);
}

static adj_status sort_slot(adji_gpu_range *r, const adji_gpu_window *window, const slot *s) {
  if (r->join.style.order == ADJ_ORDER_ANY) return ADJ_OK;
  adji_row_sort_job job = {};
  job.type = r->join.left->type;
  job.order = r->join.style.order;
  job.offsets = adji_at<uint64_t>(r->offsets);
  job.first_row = window->first_row;
  job.end_row = window->end_row;
  job.base = window->base;
  job.pairs = window->pairs;
  job.longest = r->counted.longest;
  job.ids = adji_at<uint32_t>(s->ids);
  job.sums = s->sums.at;
  return adji_row_sort(r->gpu, r->gpu->compute, &job);
}

adj_status adji_gpu_range_fill(adji_gpu_range *r, const adji_gpu_window *window, uint32_t number) {
  slot *s = &r->slots[number];
  ADJI_CUDA(r->gpu, cudaStreamWaitEvent(r->gpu->compute, s->copied, 0));
  adj_status status = start_watch(r);
  if (!status) status = r->kept.form != ADJI_KEPT_NONE ? place_kept(r, window, s) : evaluate_again(r, window, s);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_FILLED);
  if (!status) status = sort_slot(r, window, s);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_SORTED);
  if (!status) status = stop_watch(r);
  if (status) return status;
  ADJI_CUDA(r->gpu, cudaEventRecord(s->filled, r->gpu->compute));
  return ADJ_OK;
}

adj_status adji_gpu_range_take(adji_gpu_range *r, uint32_t number, adji_gpu_csr *out) {
  slot *s = &r->slots[number];
  if (r->join.style.distances) {
    adj_status status =
        adji_gpu_report(r->gpu, r->gpu->compute, &r->measure, r->join.left->type, r->counted.pairs, s->sums.at);
    if (status) return status;
  } else {
    adji_block_free(r->gpu, r->gpu->compute, &s->sums);
  }
  *out = adji_gpu_csr{r->gpu,
                      r->rows,
                      r->counted.pairs,
                      adji_at<uint64_t>(r->offsets),
                      adji_at<uint32_t>(s->ids),
                      s->sums.at,
                      {r->offsets.bytes, s->ids.bytes, s->sums.bytes}};
  r->offsets = s->ids = s->sums = adji_block{};
  return ADJ_OK;
}

void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream) {
  void *parts[] = {csr->offsets, csr->ids, csr->distances};
  for (int i = 0; i < 3; i++) {
    adji_block block = {parts[i], csr->bytes[i]};
    adji_block_free(csr->gpu, static_cast<cudaStream_t>(stream), &block);
  }
}

adj_status adji_gpu_range_fetch(adji_gpu_range *r, uint32_t number, adji_gpu_part part, uint64_t first,
                                uint64_t entries, uint32_t buffer) {
  const slot *s = &r->slots[number];
  uint64_t size = part == ADJI_PART_IDS ? 4 : adji_type_size(r->join.left->type);
  const char *from = adji_at<char>(part == ADJI_PART_IDS ? s->ids : s->sums) + first * size;
  ADJI_CUDA(r->gpu, cudaStreamWaitEvent(r->gpu->copy, s->filled, 0)); /* whichever piece is asked for first */
  return adji_staging_receive(r->gpu, buffer, from, entries * size);
}

adj_status adji_gpu_range_release(adji_gpu_range *r, uint32_t number) {
  ADJI_CUDA(r->gpu, cudaEventRecord(r->slots[number].copied, r->gpu->copy));
  return ADJ_OK;
}

void adji_gpu_range_forget(adji_gpu_range *r) {
  adji_kept_free(r->gpu, &r->kept);
}

adj_status adji_gpu_range_check(adji_gpu_range *r) {
  adj_status status = adji_answers_fetch(r->gpu, r->gpu->compute);
  uint64_t broken = adji_answer_totals(r->gpu).broken;
  if (!status && broken)
    status = adji_fail(ADJ_E_INTERNAL, "device %d: %llu rows are not as long as they were counted", r->gpu->device,
                       (unsigned long long)broken);
  return status;
}

/* ---- For lists of queries ------------------------------------------------------------------------------------- */

adji_range_parts adji_gpu_range_parts(adji_gpu_range *r) {
  return adji_range_parts{
      r->gpu,        &r->join, r->left, r->rows, adji_at<uint32_t>(r->degrees), adji_at<uint64_t>(r->offsets),
      wants_sums(r), &r->work};
}

adji_tiles_job adji_gpu_range_job(const adji_gpu_range *r) {
  return job_of(r);
}

adj_status adji_gpu_range_compare(adji_gpu_range *r, const adji_tiles_job *job) {
  adj_status status = start_watch(r);
  if (!status) status = compare(r, job);
  return status ? status : stop_watch(r);
}
