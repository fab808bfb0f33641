/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h - joins of points that are in the memory of a GPU already, with results that stay there; and the k
 * smallest of the rows of a matrix that is there.
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
 * The same results, bit for bit, as adj_collect's on the host; see adjoin.h for what a spec means. No point and no
 * pair crosses to the host. Needs a library that was built with CUDA: otherwise every call is ADJ_E_UNSUPPORTED.
 *
 * Pointers are to memory of the context's device: the first one of adj_ctx_options.devices, 0 by default. It need not
 * be the current device of the calling thread, which stays what it was.
 */
#ifndef ADJOIN_CUDA_H
#define ADJOIN_CUDA_H

#include "adjoin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's stream handle, without its headers: a cudaStream_t or CUstream can be passed as it is. */
typedef struct CUstream_st *adj_cuda_stream;

typedef struct adj_cuda_points {
  uint32_t struct_size;
  uint32_t dim;
  uint64_t count;
  const void *data; /* device memory              */
  adj_type type;    /* there is no default        */
  uint32_t reserved;
  uint64_t row_stride;    /* bytes from point to point; 0: packed, row-major; a multiple of the type's size */
  uint64_t column_stride; /* bytes from coordinate to coordinate; 0: the size of the type                   */
} adj_cuda_points;

ADJ_API void adj_cuda_points_init(adj_cuda_points *points, size_t struct_size);

typedef struct adj_cuda_result adj_cuda_result;

/* A range join by any metric; right NULL: left with itself. Reads the points after what was put on stream before the
 * call, and returns when the result is there (what is put on stream after the call may use it). Every coordinate must
 * be finite, no point may be all zeros by cosine, and no latitude beyond a pole by great circle: otherwise ADJ_E_DATA
 * names a row, and where it is one coordinate the column. spec's backend is not looked at; ADJ_ORDER_ANY saves the
 * time that sorting rows takes.
 * Time: a few passes over the points, and one or two over the candidates. Device memory: for each index 8 to 20 bytes a
 * point, and the points (rounded up to 4 or 8 coordinates in three, five and six dimensions); 12 bytes per left point
 * for counts and offsets; 4 bytes a pair (8 or 12 with distances). Until the result is there, and if half of the memory
 * allows it: where there are few neighbours, by L2 and without distances, 36 bytes per left point in two dimensions and
 * 100 in three; otherwise in three with few neighbours, and from four dimensions on, 180 (340 with distances in f32)
 * and, beyond 32 neighbours, 5 bytes a pair (10). Where a row of more than 8,192 neighbours (4,096 with distances in
 * f64) is sorted, as much as the result again, and what that takes, until it is there. From seven dimensions on in f32:
 * half of the points' size. Until the result is there, by cosine the points once more, as unit vectors, and by great
 * circle three coordinates a point, its place on the sphere: what is said of points and dimensions is then said of
 * these. */
ADJ_API adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                       const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out);

/* How many pairs, without storing them; degrees (device memory, one per left point) may be NULL. */
ADJ_API adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                        const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                        uint64_t *total);

/* The k nearest of spec.k, of which none is farther than the radius; right NULL: of each point among the others. For
 * any k and metric: through trees in up to six dimensions by L2, L1, Linf, cosine and great circle, unless there are
 * 16 queries or fewer or spec.algorithm is "brute"; otherwise by comparing every pair. Row i of the result begins
 * at entry i * k, nearest first; behind the last neighbour ids are ADJ_NO_ID and distances infinite (by inner product
 * -infinite). There are no offsets. Device memory: k ids and distances a left point. With trees for each set 8 to 20
 * bytes a point and the points (rounded up to 4 or 8 coordinates in three, five and six dimensions); for the right one
 * 1/4 of these for boxes; per left point 4 bytes. Without: the points once more unless they are packed by rows; by L2
 * with k up to 2,048 the right ones in half precision (rounded up to 16, 32 or a multiple of 64 coordinates) and 8
 * bytes for each, and up to 768 MiB for queries; otherwise, and where there is no memory for that, up to half of what
 * is left, but no more than a few GiB, for distances. By cosine and great circle derived points, as above; these are
 * packed, and measured by L2. */
ADJ_API adj_status adj_cuda_knn_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                     const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out);

ADJ_API uint64_t adj_cuda_result_rows(const adj_cuda_result *result);
ADJ_API uint64_t adj_cuda_result_pairs(const adj_cuda_result *result); /* entries of all rows */
/* Device memory, as long as the result lives. Distances are NULL unless they were asked for. */
ADJ_API const uint64_t *adj_cuda_result_offsets(const adj_cuda_result *result);
ADJ_API const uint32_t *adj_cuda_result_ids(const adj_cuda_result *result);
ADJ_API const void *adj_cuda_result_distances(const adj_cuda_result *result);
/* After what was put on stream before: give the stream that used the result last. */
ADJ_API void adj_cuda_result_destroy(adj_cuda_result *result, adj_cuda_stream stream);

/* ---- Selection ------------------------------------------------------------------------------------- */

typedef struct adj_cuda_select_options {
  uint32_t struct_size;
  adj_order order;       /* ADJ_ORDER_ANY: the entries of a row in no order                               */
  uint32_t largest;      /* 1: the k largest values instead of the k smallest, in descending order         */
  uint32_t reserved;     /* 0                                                                              */
  const uint32_t *ids;   /* device memory, one for each column: told instead of its number; may be NULL    */
  const char *algorithm; /* NULL: chosen by columns and k. "short": k up to 2,048, rows up to 16,384 that  */
                         /* fit shared memory, otherwise as NULL; "bound": k up to 2,048, one pass with a  */
                         /* bound from a sample, as NULL where k is too large a share of the row for one;  */
                         /* "bits": k up to 2,048, buffered bitonic selection; "bitonic": k up to 2,048,   */
                         /* partial bitonic sort; "radix": digit by digit, then a sort of what is          */
                         /* selected; "sample": between splitters from samples, in one stage if the order  */
                         /* is ADJ_ORDER_ANY, otherwise in two and a sort of what is selected; "sort": a   */
                         /* sort of every row. All give the same answer                                    */
} adj_cuda_select_options;

ADJ_API void adj_cuda_select_options_init(adj_cuda_select_options *options, size_t struct_size);

/* adj_select_k for a matrix in device memory: the k smallest values of each row, or the k largest, to columns and,
 * unless that is NULL, to values, k entries a row, both in device memory. Ties go to the lower column, -0 equals 0, and
 * a NaN comes behind every number. A row with fewer than k columns is padded with ADJ_NO_ID and infinity (-infinity for
 * the largest). options may be NULL. Comes after what was put on stream before the call, and before what is put there
 * after it; the call does not wait for the device.
 * Time: for k up to 2,048 one pass over the matrix, and a little for each row; for larger k five passes (f64: eight)
 * and a sort of k entries a row, or a sort of the whole rows. Device memory: none for rows that fit shared memory, up
 * to 16,384 columns (f64: about 8,192); for longer ones up to 64 KiB a row (f64: 128 KiB), for as many rows at a time
 * as a quarter of the memory allows, and 17 MiB; for larger k 16 to 32 bytes a value of the rows done at a time.
 */
ADJ_API adj_status adj_cuda_select_k(adj_ctx *ctx, const adj_matrix *matrix, uint32_t k,
                                     const adj_cuda_select_options *options, adj_cuda_stream stream, uint32_t *columns,
                                     void *values);

/* Where the time of the context's last join went, in seconds of the device, and its memory. */
typedef struct adj_cuda_times {
  uint32_t struct_size;
  uint32_t reserved;
  double plan_s, index_s, count_s, fill_s, sort_s;
  uint64_t candidates; /* compared while counting                     */
  uint64_t peak_bytes; /* most device memory held at once              */
} adj_cuda_times;

ADJ_API void adj_cuda_times_init(adj_cuda_times *times, size_t struct_size);
ADJ_API adj_status adj_cuda_last_times(adj_ctx *ctx, adj_cuda_times *out);

#ifdef __cplusplus
}
#endif
#endif
