/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h - joins of points that are in device memory already. Results stay on the device. Also: the k smallest
 * values of each row of a matrix on a device.
 *
 *     adj_cuda_points points;
 *     adj_cuda_points_init(&points, sizeof points);
 *     points.type = ADJ_F32;
 *     points.dim = 3;
 *     points.count = n;
 *     points.data = d_points; // device memory, packed by rows
 *     adj_join_spec spec;
 *     adj_join_spec_init(&spec, sizeof spec);
 *     spec.radius = 0.01;
 *     spec.order = ADJ_ORDER_ANY;
 *     adj_cuda_result *result;
 *     adj_status status = adj_cuda_range_join(ctx, &spec, &points, NULL, stream, &result);
 *     const uint64_t *d_row = adj_cuda_result_offsets(result); // neighbours of point i, on the device:
 *     const uint32_t *d_ids = adj_cuda_result_ids(result);     // d_ids[d_row[i]] .. d_ids[d_row[i + 1] - 1]
 *     adj_cuda_result_destroy(result, stream);
 *
 * Results are the same, bit for bit, as those of adj_collect. adjoin.h explains what a spec means. No points or pairs
 * are copied to the host. A library built without CUDA answers every call with ADJ_E_UNSUPPORTED.
 *
 * All pointers are to memory of the context's first device: the first of adj_ctx_options.devices, 0 by default. Calls
 * of one context take turns at it. Points, join and result are on that device: other devices of the context take no
 * part, and a tuning with share= is ADJ_E_UNSUPPORTED. To join with all devices, use adj_collect, whose result is in
 * host memory.
 *
 * Memory: "memory" below is device memory. It counts against device_memory_limit of the context.
 */
#ifndef ADJOIN_CUDA_H
#define ADJOIN_CUDA_H

#include "adjoin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's stream handle without CUDA's headers: pass a cudaStream_t or CUstream as it is. */
typedef struct CUstream_st *adj_cuda_stream;

typedef struct adj_cuda_points {
  uint32_t struct_size;
  uint32_t dim;
  uint64_t count;
  const void *data; /* device memory */
  adj_type type;    /* no default    */
  uint32_t reserved;
  uint64_t row_stride;    /* bytes from point to point; 0: packed, row-major; a multiple of the type's size */
  uint64_t column_stride; /* bytes from coordinate to coordinate; 0: the size of the type                   */
} adj_cuda_points;

ADJ_API void adj_cuda_points_init(adj_cuda_points *points, size_t struct_size);

typedef struct adj_cuda_result adj_cuda_result;

/* A range join with any metric. right NULL: a self-join. The call reads the points after all work submitted to stream
 * before it, and returns when the result is complete; work submitted to stream later may use it. spec.backend is
 * ignored. ADJ_ORDER_ANY saves the time of sorting rows.
 * Every coordinate must be finite. With ADJ_COSINE no point may be all zeros, and with ADJ_HAVERSINE no latitude may be
 * beyond a pole. Otherwise: ADJ_E_DATA, and the message names the row, and the column if one coordinate is at fault.
 * Time: a few passes over the points, and one or two over the candidates.
 * Memory of the result: 8 bytes per left point, and 4 bytes a pair (8 or 12 with distances).
 * Memory until the call returns:
 *   each index     8 to 20 bytes a point, and the points (3, 5, 6 dimensions: rounded up to 4 or 8 coordinates)
 *   counts         4 bytes per left point
 *   count cache    if it fits half of the memory. Few neighbours, L2, no distances: 36 bytes per left point in 2-D, 100
 *                  in 3-D. Otherwise in 3-D with few neighbours, and from 4-D on: 180 bytes per left point (340 with
 *                  distances in f32), and beyond 32 neighbours 5 bytes a pair (10 with distances)
 *   long rows      if a row of more than 8,192 entries (4,096 with distances in f64) is sorted: the result once more
 *   prefilter      f32 from 7-D on: half of the size of the points
 *   derived        ADJ_COSINE: the points once more; ADJ_HAVERSINE: three coordinates a point. Sizes above then apply
 *                  to the derived points and their dimensions */
ADJ_API adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                       const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out);

/* Counts the pairs of that join without storing any. degrees (device memory, one per left point) and total (host
 * memory) may be NULL. Time: one pass over the candidates. Memory: as above, without result and count cache. */
ADJ_API adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                        const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                        uint64_t *total);

/* The spec.k nearest right points (right NULL: other left points) of each left point, none farther than spec.radius.
 * Any k and any metric. Trees are used in up to six dimensions with ADJ_L2, ADJ_L1, ADJ_LINF, ADJ_COSINE and
 * ADJ_HAVERSINE, unless there are 16 queries or fewer or spec.algorithm is "brute". Otherwise every pair is compared.
 * Row i begins at entry i * k, nearest first. A short row ends in ADJ_NO_ID and infinity (-infinity with ADJ_DOT).
 * There are no offsets. Stream and errors: as above.
 * Time: trees: about O((n + m) log m + n k); brute force: O(n m dim).
 * Memory of the result: k ids and distances per left point.
 *
 * Memory until the call returns. Trees: for each set 8 to 20 bytes a point, and the points (3, 5 and 6 dimensions
 * rounded up to 4 or 8 coordinates); for the right set a quarter of that more, its boxes; 4 bytes per left point. Brute
 * force: the points once more unless they are packed by rows. With L2 and k up to 2,048 also the right points in half
 * precision (rounded up to 16, 32 or a multiple of 64 coordinates), 8 bytes for each, and up to 768 MiB for queries;
 * otherwise, or without memory for that, up to half of the free memory, but no more than a few GiB, for distances.
 * Derived metrics (ADJ_COSINE, ADJ_HAVERSINE): as L2 for the derived points, which are packed. */
ADJ_API adj_status adj_cuda_knn_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                     const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out);

ADJ_API uint64_t adj_cuda_result_rows(const adj_cuda_result *result);
/* The number of neighbours in all rows. A kNN result has rows * k entries; padding is not counted. */
ADJ_API uint64_t adj_cuda_result_pairs(const adj_cuda_result *result);
/* Device memory, valid as long as the result. Offsets: rows + 1, NULL for kNN. Distances: NULL unless asked for. */
ADJ_API const uint64_t *adj_cuda_result_offsets(const adj_cuda_result *result);
ADJ_API const uint32_t *adj_cuda_result_ids(const adj_cuda_result *result);
ADJ_API const void *adj_cuda_result_distances(const adj_cuda_result *result);
/* Frees the result after all work submitted to stream before: pass the stream that used the result last. */
ADJ_API void adj_cuda_result_destroy(adj_cuda_result *result, adj_cuda_stream stream);

/* ---- Reusable indexes ------------------------------------------------------------------------------- */

/* An index that stays on the device: created once, then searched any number of times with queries on the device.
 *
 *     adj_index *index;
 *     adj_cuda_index_create(ctx, NULL, &points, stream, &index);
 *     adj_question question;
 *     adj_question_init(&question, sizeof question);
 *     question.k = 8;
 *     adj_cuda_result *result;
 *     adj_cuda_index_knn(index, &question, &queries, stream, &result); // again and again
 *
 * adjoin.h explains adj_index, its options (backend is ignored) and questions (kind is ignored: the call sets it;
 * radii, if any, are in host memory). The calls below also take an index of adj_index_create: the first call then
 * copies what it needs to the device. What takes time for every point of the index is done once, not for each question:
 *
 *   tree     up to six dimensions with ADJ_L2, ADJ_L1, ADJ_LINF, ADJ_COSINE and ADJ_HAVERSINE, without a box. It serves
 *            every k and every radius, also a radius for each query, and stays as long as the index
 *   grid     range questions with an eighth as many queries as points, or more, and all range questions without a tree.
 *            A grid is made at its first use, and reused for radii that are a little smaller
 *   points   brute force, which compares all of them with every query
 *
 * Grids stay while the memory of the device allows; the least recently used one is dropped first.
 *
 * Any number of threads may ask one index at the same time; they take turns at the device. */

/* options may be NULL: all defaults. The points must stay where they are, unchanged, as long as the index; options need
 * not. adj_index_destroy destroys it; adj_index_plan, _nearest and _within refuse it. The call reads the points after
 * all work submitted to stream before it. It refuses the same points as adj_cuda_range_join.
 * Time: O(m log m). Memory: 8 to 20 bytes a point, and the points (3, 5, 6 dimensions: rounded up to 4 or 8
 * coordinates), and a quarter of that for boxes; derived points as in adj_cuda_range_join. */
ADJ_API adj_status adj_cuda_index_create(adj_ctx *ctx, const adj_index_options *options, const adj_cuda_points *points,
                                         adj_cuda_stream stream, adj_index **out);

/* The question.k nearest points of the index to each query, in the layout of adj_cuda_knn_join. queries: of the type
 * and dimension of the index; NULL: the points of the index themselves, each without itself. Every coordinate must be
 * finite: if one is not, ADJ_E_DATA, and the message names the row and the column.
 * The call reads the queries after all work submitted to stream before it. It returns once the result is known to be
 * correct. The result may be completed after that, in the order of the stream, so work submitted to stream later may
 * use it.
 * Time: a tree: O(n (log m + k)), and for up to 8,192 queries three launches and one wait. Memory: the result, as in
 * adj_cuda_knn_join, and a copy of the queries. */
ADJ_API adj_status adj_cuda_index_knn(adj_index *index, const adj_question *question, const adj_cuda_points *queries,
                                      adj_cuda_stream stream, adj_cuda_result **out);

/* All points of the index within question.radius (or radii) of each query, in the layout of adj_cuda_range_join; and
 * their number, as by adj_cuda_range_count. Queries and stream: as above. Time: a tree: O(n log m + candidates), once
 * unless there are far more neighbours than in the question before. Memory: the result and a copy of the queries; until
 * the call returns 180 bytes a query (340 with distances in f32), and beyond 32 neighbours 5 bytes a pair (10 with
 * distances). */
ADJ_API adj_status adj_cuda_index_range(adj_index *index, const adj_question *question, const adj_cuda_points *queries,
                                        adj_cuda_stream stream, adj_cuda_result **out);
ADJ_API adj_status adj_cuda_index_count(adj_index *index, const adj_question *question, const adj_cuda_points *queries,
                                        adj_cuda_stream stream, uint32_t *degrees, uint64_t *total);

/* ---- Selection ------------------------------------------------------------------------------------- */

typedef struct adj_cuda_select_options {
  uint32_t struct_size;
  adj_order order;     /* ADJ_ORDER_ANY: entries of a row in any order                             */
  uint32_t largest;    /* 1: the k largest values, in descending order                              */
  uint32_t reserved;   /* 0                                                                         */
  const uint32_t *ids; /* device memory, one for each column: reported instead of column numbers;   */
                       /* NULL: column numbers                                                      */
  /* NULL: chosen by the number of columns and k. All give the same result.
   *   "short"    k up to 2,048: for rows of up to 16,384 columns that fit shared memory; other rows as with NULL
   *   "bound"    k up to 2,048: one pass with a bound from a sample; as with NULL where k is too large for a bound
   *   "bits"     k up to 2,048: buffered bitonic selection
   *   "bitonic"  k up to 2,048: partial bitonic sort
   *   "radix"    digit by digit, then a sort of the selected entries
   *   "sample"   between splitters from samples: in one stage with ADJ_ORDER_ANY; otherwise in two, and a sort of the
   *              selected entries
   *   "sort"     a sort of every row
   * As in Hanak's thesis on kNN search on GPUs, with a block for each row:
   *   "block-bits"     buffered bitonic selection, k up to 2,048 in registers, more in memory
   *   "block-bitonic"  k up to 2,048: partial bitonic sort without a filter
   *   "block-radix"    buckets by digits; the bucket of the k-th smallest is compacted; a sort of the selected entries
   *   "block-sample"   the same, with buckets between splitters from a sample
   *   "stream-sort"    a sort of every row, of eight rows at a time in streams of their own */
  const char *algorithm;
} adj_cuda_select_options;

ADJ_API void adj_cuda_select_options_init(adj_cuda_select_options *options, size_t struct_size);

/* adj_select_k for a matrix in device memory: the k smallest (or largest) values of each row. columns receives their
 * columns, values (may be NULL) the values: k entries a row, both in device memory. Ties go to the lower column, -0
 * equals 0, and NaN comes after every number. A row with fewer than k columns ends in ADJ_NO_ID and infinity (-infinity
 * for the largest). options may be NULL. The work runs on stream, after work submitted before the call and before work
 * submitted later. The call does not wait for the device.
 * Time: k up to 2,048: one pass over the matrix and a little for each row. Larger k: five passes (f64: eight) and a
 * sort of k entries a row, or a sort of the rows.
 * Memory: none for rows that fit shared memory, up to 16,384 columns (f64: about 8,192). Longer rows: up to 64 KiB a
 * row (f64: 128 KiB), for as many rows at a time as a quarter of the memory allows, and 17 MiB. k above 2,048: 16 to 32
 * bytes a value of the rows processed at a time. */
ADJ_API adj_status adj_cuda_select_k(adj_ctx *ctx, const adj_matrix *matrix, uint32_t k,
                                     const adj_cuda_select_options *options, adj_cuda_stream stream, uint32_t *columns,
                                     void *values);

/* ---- Times ----------------------------------------------------------------------------------------- */

/* Device time and device memory of the context's last join. */
typedef struct adj_cuda_times {
  uint32_t struct_size;
  uint32_t reserved;
  double plan_s, index_s, count_s, fill_s, sort_s;
  uint64_t candidates; /* compared while counting         */
  uint64_t peak_bytes; /* most device memory held at once */
} adj_cuda_times;

ADJ_API void adj_cuda_times_init(adj_cuda_times *times, size_t struct_size);
/* ADJ_E_UNSUPPORTED without a device. All 0 before the first join. */
ADJ_API adj_status adj_cuda_last_times(adj_ctx *ctx, adj_cuda_times *out);

#ifdef __cplusplus
}
#endif
#endif
