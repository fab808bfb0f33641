/* SPDX-License-Identifier: MIT
 *
 * adjoin.h - exact similarity joins over point sets: the whole C interface.
 *
 *   range join   all pairs of points within a radius of each other
 *   kNN join     the k nearest points of each point
 *
 * A join takes one set (with itself) or two sets (left and right). A first join:
 *
 *     adj_result *result;
 *     if (adj_range_join(ADJ_F32, points, count, dim, radius, &result) != ADJ_OK) {
 *       fprintf(stderr, "%s\n", adj_last_error());
 *       return 1;
 *     }
 *     const uint64_t *row = adj_result_offsets(result); // neighbours of point i:
 *     const uint32_t *ids = adj_result_ids(result);     // ids[row[i]] .. ids[row[i + 1] - 1]
 *     adj_result_destroy(result);
 *
 * Everything else takes four steps:
 *
 *     adj_ctx ── adj_dataset ── adj_plan ──┬── adj_count     how many pairs
 *     threads    points         index,     ├── adj_collect   all pairs, in memory
 *     memory                    explain    ├── adj_stream    row by row, to a callback
 *                                          └── adj_write     to a file
 *
 * To search the same points again and again with new queries, create an adj_index: make plans on it, or ask it for the
 * neighbours of one point at a time.
 *
 * Read this header from top to bottom: status, the simple calls, context, datasets, plans, runs, reusable indexes,
 * selection, sets in parts, clusters.
 *
 * Exactness. The distance of two points is computed in the type of the data, over the dimensions in
 * input order, with one rounding per step (docs/exactness.md). A pair belongs to a range join iff that
 * distance is <= radius; for L2 the squares are compared. L2 sums by s = fma(t, t, s), where t is the
 * difference in a dimension. The k nearest are the k smallest by (distance, id), so ties have one
 * answer. Backend, number of threads, instruction set, device and batch size never change a bit of a
 * result.
 *
 * Ids. An id is the row number of a point: 0-based, 32 bits. A dataset holds at most ADJ_MAX_COUNT rows.
 *
 * Time and memory. n is the number of left points, m of right points (m = n in a self-join), T the type
 * of the data. "Memory" is what a call holds on top of what exists already. It counts against the memory
 * limit of the context, except for handles and small tables. A function that says nothing about time
 * and memory takes constant time and no memory.
 *
 * Threads. Threads may share handles. Calls in one context take turns in using its threads. A plan runs one join at a
 * time. adj_cancel may be called from any thread and from a signal handler. The library never prints, exits, aborts or
 * installs a signal handler.
 *
 * Floating-point state. Calls compute in the default state of C: rounding to nearest, denormal numbers kept,
 * no traps. The caller's state (rounding mode, flushing of denormal numbers, traps, exception flags) has no
 * effect on a result, and is the same after a call as before it. Callbacks run in the default state. Changes that a
 * callback makes to it are undone when the callback returns.
 *
 * Structs. A struct that the caller fills begins with struct_size. Its _init function sets the size and
 * all defaults; call it first. New fields are added at the end only. A newer library accepts the shorter
 * struct of an older caller. An older library accepts the longer struct of a newer caller if the fields
 * it does not know are 0. Structs that the library passes to a callback may grow at the end too.
 * Reserved fields must be 0.
 *
 * GPUs. A build with CUDA also joins on NVIDIA GPUs (compute capability 8.0 or later). ADJ_BACKEND_GPU
 * runs range joins and kNN joins with every metric and any k. kNN joins use trees in up to six
 * dimensions (L2, L1, Linf, and the metrics derived from them) and brute force otherwise. Sets larger than the device's
 * memory are joined in chunks. That takes host memory: 2 bytes a point; for chunks in transit three eighths of the
 * points or 256 MiB, whichever is more; 4 bytes a point for counts. kNN joins keep rows that need several chunks in up
 * to a quarter of what memory_limit leaves.
 * ADJ_BACKEND_HYBRID shares the queries between cores and GPUs: range joins of sets that fit the device,
 * and kNN joins in up to six dimensions. Where a GPU cannot help, the cores do the join alone and a warning is logged.
 * If a GPU fails during a join, the cores finish it and a warning is logged, also with ADJ_BACKEND_AUTO. With
 * ADJ_BACKEND_GPU, or with settings for GPUs only, the join fails.
 * The driver is loaded when a device is first needed, so one build serves machines with and without a
 * GPU. Without one, ADJ_BACKEND_GPU is ADJ_E_UNSUPPORTED and the message says why.
 * adjoin_cuda.h is for points that are in device memory already.
 */
#ifndef ADJOIN_H
#define ADJOIN_H

#include <stddef.h>
#include <stdint.h>

#include "adjoin_version.h" /* ADJ_VERSION_MAJOR, _MINOR, _PATCH, _STRING, written from VERSION */

#if defined(_WIN32)
#define ADJ_API
#else
#define ADJ_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------ */

/* The codes, their names and their texts. 0 is success, a positive code is a stop that the caller asked for, a negative
 * one is a failure. Numbers are never reused. On failure outputs are untouched unless a function says otherwise. */
#define ADJ_STATUS_LIST(X)                                             \
  X(ADJ_OK, 0, "success")                                              \
  X(ADJ_CANCELLED, 1, "stopped by the caller")                         \
  X(ADJ_E_ARGUMENT, -10, "invalid argument")                           \
  X(ADJ_E_STRUCT, -11, "struct_size is not a size this library knows") \
  X(ADJ_E_DATA, -20, "points hold a value that cannot be joined")      \
  X(ADJ_E_FORMAT, -21, "file is not in the named format")              \
  X(ADJ_E_IO, -22, "read or write failed")                             \
  X(ADJ_E_MEMORY, -30, "out of host memory")                           \
  X(ADJ_E_DEVICE_MEMORY, -31, "out of device memory")                  \
  X(ADJ_E_LIMIT, -32, "result would pass the caller's limit")          \
  X(ADJ_E_UNSUPPORTED, -40, "not supported by this build or machine")  \
  X(ADJ_E_DEVICE, -41, "the device reported a fault")                  \
  X(ADJ_E_SINK, -50, "the result sink refused a batch")                \
  X(ADJ_E_INTERNAL, -99, "broken invariant, please report")

typedef enum adj_status {
#define ADJ_STATUS_ENUM_(name, value, text) name = (value),
  ADJ_STATUS_LIST(ADJ_STATUS_ENUM_)
#undef ADJ_STATUS_ENUM_
} adj_status;

ADJ_API const char *adj_status_name(adj_status status); /* "ADJ_E_DATA" */
ADJ_API const char *adj_status_text(adj_status status); /* "points hold a value that ..." */

/* Why the calling thread's last failed call failed: the argument, row, file or device, and the offending
 * value. Valid until that thread's next call. Never NULL. */
ADJ_API const char *adj_last_error(void);

/* Version of the loaded library: 10000 * major + 100 * minor + patch. May differ from this header's. */
ADJ_API uint32_t adj_version_number(void);
ADJ_API const char *adj_version_string(void);

/* ---- The simple calls ---------------------------------------------------------------------- */

typedef enum adj_type { ADJ_F32 = 1, ADJ_F64 = 2 } adj_type;

typedef struct adj_ctx adj_ctx;         /* threads, memory limit, instruction set, devices     */
typedef struct adj_dataset adj_dataset; /* an immutable set of points                          */
typedef struct adj_plan adj_plan;       /* a prepared join: algorithm, index, batches          */
typedef struct adj_index adj_index;     /* points prepared for many searches                   */
typedef struct adj_result adj_result;   /* a finished join held in memory, one row per left id */

#define ADJ_MAX_COUNT UINT64_C(0xfffffffe) /* points in one dataset          */
#define ADJ_NO_ID UINT32_C(0xffffffff)     /* padding of a short kNN row     */

/* All neighbours within radius (closed ball, L2) of each of count points. The point itself is left out.
 * Each row is in ascending order of id. points is row-major and packed.
 * Time: O(n + candidates). In few dimensions the candidates are a small multiple of n + pairs.
 * Memory: that of adj_plan_create and adj_collect. The index is freed before the call returns. The
 * result holds 8 bytes a point and 4 bytes a pair. */
ADJ_API adj_status adj_range_join(adj_type type, const void *points, uint64_t count, uint32_t dim, double radius,
                                  adj_result **out);

/* The k nearest (L2) of each of count points, nearest first, ties to the lower id. The point itself is
 * left out. Every row has k entries; a row with fewer neighbours ends in ADJ_NO_ID.
 * Time: in few dimensions about O(n log n + n k); by brute force O(n^2 dim).
 * Memory: that of adj_plan_create, and 8 + 4 k bytes a point for the result. */
ADJ_API adj_status adj_knn_join(adj_type type, const void *points, uint64_t count, uint32_t dim, uint32_t k,
                                adj_result **out);

/* The same joins with distances, which adj_result_distances returns. The result holds sizeof(T) bytes more for each
 * entry. */
ADJ_API adj_status adj_range_join_distances(adj_type type, const void *points, uint64_t count, uint32_t dim,
                                            double radius, adj_result **out);
ADJ_API adj_status adj_knn_join_distances(adj_type type, const void *points, uint64_t count, uint32_t dim, uint32_t k,
                                          adj_result **out);

/* The result. Row i holds entries offsets[i] .. offsets[i + 1] - 1 of ids and distances. The arrays
 * live as long as the result.
 * A range result has one entry a pair. A kNN result has rows * k entries, of which the last ones of a row
 * may be padding: ADJ_NO_ID and an infinite distance (-infinity with ADJ_DOT). */
ADJ_API uint64_t adj_result_rows(const adj_result *result);
/* The number of neighbours in all rows, as adj_count reports it. Padding is not counted. */
ADJ_API uint64_t adj_result_pairs(const adj_result *result);
/* rows + 1 offsets; the last one is the number of entries. kNN: offset i is i * k; the first call writes the array.
 * Time: kNN, first call: O(rows). */
ADJ_API const uint64_t *adj_result_offsets(const adj_result *result);
ADJ_API const uint32_t *adj_result_ids(const adj_result *result);
/* float or double, as adj_result_type says. NULL unless the join was asked for distances. */
ADJ_API const void *adj_result_distances(const adj_result *result);
ADJ_API adj_type adj_result_type(const adj_result *result);
ADJ_API void adj_result_destroy(adj_result *result); /* NULL is fine, as in every destroy function */

/* ---- Context --------------------------------------------------------------------------------- */

typedef enum adj_log_level {
  ADJ_LOG_WARN = 1, /* the result is correct, but something is not as requested */
  ADJ_LOG_INFO = 2, /* notes: integers widened, header skipped, ...             */
  ADJ_LOG_DEBUG = 3
} adj_log_level;

/* One finished piece of work. Lane 0 is the calling thread, the next lanes are the other threads, and lanes from
 * adj_ctx_threads on are the devices that share a join. Times are nanoseconds of a monotonic clock. */
typedef struct adj_trace_event {
  const char *name; /* "sort", "count", "fill", ...; static                 */
  uint32_t lane;
  uint32_t reserved;
  uint64_t begin_ns, end_ns;
  uint64_t items; /* queries or points in this piece; 0: not counted */
} adj_trace_event;

typedef struct adj_ctx_options {
  uint32_t struct_size;
  uint32_t threads;             /* 0: one per usable core, less under a CPU quota            */
  uint64_t memory_limit;        /* bytes the context may hold at once; 0: 90 % of the memory */
                                /* available when the context is created                     */
  uint64_t device_memory_limit; /* bytes on each device; 0: all that is free. Larger sets    */
                                /* are joined in chunks                                      */
  const int32_t *devices;       /* device numbers; NULL with device_count -1: all            */
  int32_t device_count;         /* 0: use no GPU; -1 (default): any                          */
  uint32_t reserved;
  const char *isa; /* NULL: best for this CPU; "scalar", "avx2", "avx512", "neon" to force      */
  /* Called from any thread, possibly several at once; line has no newline. NULL: silent. */
  void (*log)(void *user, adj_log_level level, const char *line);
  void *log_user;
  /* Called from any thread, possibly several at once. NULL: no tracing. */
  void (*trace)(void *user, const adj_trace_event *event);
  void *trace_user;
} adj_ctx_options;

ADJ_API void adj_ctx_options_init(adj_ctx_options *options, size_t struct_size);
/* options may be NULL: all defaults. Starts threads - 1 threads; they sleep between calls. Devices are
 * opened when a join first needs one. */
ADJ_API adj_status adj_ctx_create(const adj_ctx_options *options, adj_ctx **out);
/* Destroy everything made with a context first: results, plans, datasets. */
ADJ_API void adj_ctx_destroy(adj_ctx *ctx);

ADJ_API uint32_t adj_ctx_threads(const adj_ctx *ctx);
ADJ_API uint64_t adj_ctx_memory_limit(const adj_ctx *ctx);
ADJ_API uint64_t adj_ctx_memory_used(const adj_ctx *ctx);
ADJ_API uint64_t adj_ctx_memory_peak(const adj_ctx *ctx); /* since the last run or plan began */
ADJ_API const char *adj_ctx_isa(const adj_ctx *ctx);      /* "avx512" */
/* Where the number of threads and the memory limit come from, in words for a user: the caller, the machine, or the
 * control group of a container or a batch job, whose file is named. */
ADJ_API const char *adj_ctx_threads_from(const adj_ctx *ctx);
ADJ_API const char *adj_ctx_memory_from(const adj_ctx *ctx);

/* Ends every call that is under way in ctx, whichever thread made it. Each returns ADJ_CANCELLED within a
 * batch and leaves no partial file. A call that begins later runs normally, so there is nothing to reset.
 * A call made from a callback is a part of the call that runs the callback. adj_cuda_select_k, which does
 * not wait for the device, is not ended. Async-signal-safe. */
ADJ_API void adj_cancel(adj_ctx *ctx);

/* Measures how long the steps of a join take on this machine, with all threads of ctx and its first GPU, and
 * writes that to a file for the planner. path NULL: the file that contexts read when they are created. That is
 * $ADJOIN_COSTS, or else adjoin/costs below $XDG_CACHE_HOME or ~/.cache, unless it belongs to another user. Costs never
 * change a result.
 * Time: about ten seconds. Memory: up to 1 GiB, and as much on a GPU. */
ADJ_API adj_status adj_calibrate(adj_ctx *ctx, const char *path);
/* The file with the costs that the context uses. NULL: it uses the built-in costs, because there is no file, or the
 * file is for another machine or version. With ADJOIN_COSTS=none all contexts use the built-in costs. */
ADJ_API const char *adj_ctx_costs(const adj_ctx *ctx);

/* The name of instruction set number i, best first, among those that this build has and this CPU runs. NULL: there are
 * no more. */
ADJ_API const char *adj_isa_name(uint32_t i);

/* A GPU of this machine. */
typedef struct adj_device {
  uint32_t struct_size;
  uint32_t number;
  char name[128];
  uint32_t major, minor; /* compute capability                     */
  uint32_t multiprocessors;
  uint32_t driver, runtime; /* CUDA versions, 1000 * major + 10 * minor */
  /* Measured: its tensor cores truncate addends at 2^-tensor_bits of the largest one. 0: they failed the check that the
   * prefilters need, and are not used. */
  uint32_t tensor_bits;
  uint64_t memory, memory_free; /* bytes */
} adj_device;

ADJ_API void adj_device_init(adj_device *device, size_t struct_size);
/* Describes device number i. ADJ_E_UNSUPPORTED with the reason if there is no such device or this build cannot use it.
 * Time: the first call loads the driver, some tenths of a second. */
ADJ_API adj_status adj_device_describe(uint32_t i, adj_device *out);

/* Optional parts of this build, separated by blanks, such as "zlib cuda". */
ADJ_API const char *adj_build_features(void);

/* ---- Datasets: points from memory, from a file, from a generator ------------------------------ */

typedef enum adj_ownership {
  ADJ_COPY = 1,  /* the points are copied                                                                 */
  ADJ_BORROW = 2 /* data must outlive the dataset, unchanged. Writing to it during a call makes the call  */
                 /* fail (ADJ_E_DATA) or its result wrong, and does nothing worse                         */
} adj_ownership;

typedef struct adj_points {
  uint32_t struct_size;
  uint32_t dim;   /* coordinates per point, >= 1                          */
  uint64_t count; /* points; 0 is a valid, empty set                      */
  const void *data;
  adj_type type;           /* default ADJ_F32                                                    */
  adj_ownership ownership; /* default ADJ_COPY                                                   */
  uint64_t row_stride;     /* bytes from point to point; 0: packed, row-major                    */
  uint64_t column_stride;  /* bytes from coordinate to coordinate; 0: the size of the type       */
} adj_points;

ADJ_API void adj_points_init(adj_points *points, size_t struct_size);

/* Makes a dataset of points in memory. Every coordinate must be finite; if one is not: ADJ_E_DATA, and the message
 * names row and column.
 * Time: one parallel pass; ADJ_COPY: two. Memory: 16 bytes a dimension for the bounds; ADJ_COPY: also the points. */
ADJ_API adj_status adj_dataset_create(adj_ctx *ctx, const adj_points *points, adj_dataset **out);

typedef enum adj_metric {
  ADJ_L2 = 1,       /* straight line                                                             */
  ADJ_L1 = 2,       /* sum of the differences                                                    */
  ADJ_LINF = 3,     /* largest difference                                                        */
  ADJ_LP = 4,       /* (sum of |difference|^p)^(1/p); p 1, 2 and INFINITY are the three above    */
  ADJ_COSINE = 5,   /* 1 - cosine of the angle, 0 to 2. A point of zeros is refused              */
  ADJ_DOT = 6,      /* inner product: larger is nearer. Range: products >= radius, which may be  */
                    /* negative. The product is reported; padding of kNN is -infinity            */
  ADJ_HAVERSINE = 7 /* great circle; points are (longitude, latitude)                            */
} adj_metric;

/* How to read a file. NULL or 0: decide from the file. */
typedef struct adj_open_options {
  uint32_t struct_size;
  adj_type type;         /* 0: as stored (integers, half: f32 if exact, else f64; text: f64)    */
  const char *format;    /* "npy", "csv", "tsv", "fvecs", "bvecs", "fbin", "u8bin", "i8bin",    */
                         /* "raw", "hdf5"                                                       */
  const char *columns;   /* csv, tsv: "x,y,z" or "1,2,5-7" (1-based): which columns, in order   */
  const char *id_column; /* csv, tsv: name or number of the column with labels of the rows      */
  const char *shape;     /* raw: "f32:3" or "f64:1000x16": type, count if known, dimension      */
  const char *dataset;   /* hdf5: path of the dataset inside the file; NULL: the only one       */
  /* csv, tsv: the metric of the join that the points are for; 0: not known. ADJ_HAVERSINE: the columns of longitude and
   * latitude are found by their names, in any order; a file without such names needs columns, longitude first. */
  adj_metric metric;
  uint32_t map;            /* 1: map the file instead of reading it, for files larger than memory */
  uint32_t allow_external; /* hdf5: 1: also read data that the file keeps in other files */
  uint32_t normalise;      /* 1: scale every column to [0, 1] by its least and largest value, see below */
  /* hdf5: a program that reads the file in a process of its own, see below; NULL: this process reads it. */
  const char *helper;
  const adj_dataset *normalise_like; /* normalise: use the scale of this set, which was normalised; NULL: its own */
  uint32_t part, parts;              /* parts > 0: read only part number `part`, from 0, of `parts`; see below */
} adj_open_options;

ADJ_API void adj_open_options_init(adj_open_options *options, size_t struct_size);

/* Opens a file of points; path "-" is standard input. options may be NULL. A malformed file is
 * ADJ_E_FORMAT or ADJ_E_DATA; the message names file, line (or row) and column. See docs/formats.md.
 * A text file with a column that seems to hold row numbers or names is ADJ_E_ARGUMENT if options->columns is not set:
 * the library does not guess which columns are coordinates.
 * The file is read up to the length it has when it is opened, and is not needed afterwards. If it becomes shorter
 * meanwhile, or changes without growing, that is ADJ_E_IO. adj_cancel also ends the wait for the writer of a pipe.
 * options->map: a regular file is mapped instead. It must then be neither shortened nor changed until the dataset is
 * destroyed: a shortened file ends the process with SIGBUS, a changed one makes results wrong.
 * options->normalise: x becomes (x - least) / (largest - least) in each column, computed in f64 and rounded to the
 * type; a column with one value becomes 0. The second set of a join needs the scale of the first:
 * with normalise_like its values may be below 0 or above 1. One more pass, and a copy of the points.
 * options->parts: for processes that share the rows of a file. The parts follow each other; of n rows in p parts each
 * has n / p, rounded down, and the first n % p one more. Only these rows are read. Ids count from the first row of the
 * part, messages name rows of the file. Parts work for uncompressed npy (not in Fortran order), fvecs, bvecs, fbin,
 * u8bin, i8bin, raw and hdf5 files on disk, without normalise. Other files, and pipes, can only be read as a whole and
 * are ADJ_E_UNSUPPORTED.
 *
 * Time: one or two parallel passes. Memory: uncompressed npy, fvecs, fbin and raw files of floats take
 * their size, and nothing if they are mapped. Others take dim * sizeof(T) bytes a point. While they are opened, they
 * also take the size of the file unless it is mapped, or of its content if it is compressed. */
ADJ_API adj_status adj_dataset_open(adj_ctx *ctx, const char *path, const adj_open_options *options, adj_dataset **out);

/* HDF5 files are read through the system's HDF5 library, which is loaded when the first one is opened. A malicious file
 * can crash that library, or make it take more memory than the file states. So open untrusted files with
 * options->helper: the path of a program, such as adjoin, that begins with
 *     if (argc > 1 && !strcmp(argv[1], ADJ_HELPER)) return adj_helper_main(argc, argv);
 * The program is started for each file, with limits; if it crashes, the call returns ADJ_E_FORMAT. "/proc/self/exe" is
 * the calling program itself. adj_helper_main returns 2 if the program was not started for this. */
#define ADJ_HELPER "--adjoin-helper"
ADJ_API int adj_helper_main(int argc, char **argv);

/* Points from a generator: the same on every machine for the same seed.
 * name: "unif", "expo", "clusters", "codes" (clusters in whole numbers up to 4,095), "normal", "sphere",
 * "lattice", "duplicates", "repeats" (uniform, one point in ten equal to another), "scales" (clusters of side
 * 1 to 10^-7, and a point at 10^6), "flat" (correlated normal coordinates, which fill five dimensions), or a published
 * data set, such as "Unif2D2M", "Expo6D10M" or "Syn16D2M".
 * Real sets of the papers are imitated, not contained: "GAIA", "OSM", "SW2DA", "SW2DB", "SW3DA", "SW3DB", "SDSS",
 * "CoocTexture", "ColorHist", "LayoutHist", "SuSy" and "Songs". The imitations are about as dense and as uneven as the
 * real sets. A published name sets count and dim; values that the caller gives take precedence. Rows do not depend on
 * count: an imitation with fewer points is a sample of the whole. */
typedef struct adj_generate_options {
  uint32_t struct_size;
  adj_type type; /* 0: f32 */
  const char *name;
  uint64_t count; /* 0: as the name says              */
  uint32_t dim;   /* 0: as the name says              */
  uint32_t reserved;
  uint64_t seed;     /* default 1                        */
  double lambda;     /* expo: 0 means 40                 */
  uint32_t clusters; /* clusters, codes, duplicates: how many centres; 0: about sqrt(count) */
  uint32_t reserved2;
} adj_generate_options;

ADJ_API void adj_generate_options_init(adj_generate_options *options, size_t struct_size);
/* Time: one parallel pass. Memory: dim * sizeof(T) bytes a point. */
ADJ_API adj_status adj_dataset_generate(adj_ctx *ctx, const adj_generate_options *options, adj_dataset **out);

/* Writes the points as npy, csv, tsv, fvecs, fbin or raw; format NULL: from the path's ending. The file
 * appears when it is complete.
 * Time: one parallel pass. Memory: a few megabytes a thread. */
ADJ_API adj_status adj_dataset_save(const adj_dataset *dataset, const char *path, const char *format);

/* The same points and labels in another type: f32 to f64 is exact, f64 to f32 rounds to nearest. A value
 * that becomes infinite is ADJ_E_DATA. Both sets of a join must have the same type.
 * Time: one or two parallel passes. Memory: dim * sizeof(T) bytes a point, and the labels. */
ADJ_API adj_status adj_dataset_convert(const adj_dataset *dataset, adj_type type, adj_dataset **out);

ADJ_API void adj_dataset_destroy(adj_dataset *dataset);

ADJ_API uint64_t adj_dataset_count(const adj_dataset *dataset);
ADJ_API uint32_t adj_dataset_dim(const adj_dataset *dataset);
ADJ_API adj_type adj_dataset_type(const adj_dataset *dataset);
/* A set opened with options->parts: its first row in the file, from 0, and the rows of the whole file. Other sets: 0
 * and the count. Either pointer may be NULL. */
ADJ_API void adj_dataset_part(const adj_dataset *dataset, uint64_t *first, uint64_t *total);
/* Copies a row to out: dim values of the dataset's type. Time: O(dim). */
ADJ_API adj_status adj_dataset_row(const adj_dataset *dataset, uint64_t row, void *out);
/* The column of a text file that dimension j was read from: its name, or without a header its number, from
 * 1. NULL for other sets. Lives as long as the dataset. Time: O(j). */
ADJ_API const char *adj_dataset_column(const adj_dataset *dataset, uint32_t j);
/* Smallest and largest coordinate in dimension j; 0 and 0 for an empty set. */
ADJ_API void adj_dataset_bounds(const adj_dataset *dataset, uint32_t j, double *low, double *high);
/* The label of a row, from id_column; NULL when the dataset has none. Not terminated by 0: *length bytes. */
ADJ_API const char *adj_dataset_label(const adj_dataset *dataset, uint64_t row, size_t *length);

/* ---- Plans: what to join, and how ---------------------------------------------------------------- */

typedef enum adj_join_kind { ADJ_RANGE = 1, ADJ_KNN = 2 } adj_join_kind;

typedef enum adj_backend {
  ADJ_BACKEND_AUTO = 0, /* the planner chooses CPU, GPU or HYBRID by what it expects them to take */
  ADJ_BACKEND_CPU = 1,
  ADJ_BACKEND_GPU = 2,
  ADJ_BACKEND_HYBRID = 3,   /* cores and GPUs share the queries                        */
  ADJ_BACKEND_REFERENCE = 4 /* plain nested loops: slow; defines the expected result   */
} adj_backend;

typedef enum adj_order {
  ADJ_ORDER_ID = 0,       /* each row by ascending id; kNN: by (distance, id)                 */
  ADJ_ORDER_DISTANCE = 1, /* each row by (distance, id)                                       */
  ADJ_ORDER_ANY = 2       /* each row in the fastest order: the same set in every run, but    */
                          /* not always in the same order                                     */
} adj_order;

enum {
  ADJ_WITH_DISTANCE = 1u << 0, /* results carry distances (true distances, never squared)     */
  ADJ_WITH_SELF = 1u << 1,     /* self-join: also report (i, i)                               */
  ADJ_ONE_WAY = 1u << 2,       /* range self-join: report (i, j) with i < j only              */
  ADJ_WITH_SUM = 1u << 3       /* distances are the sums s that joins compare, not reported   */
                               /* distances: for lists that are merged, see adj_lists_merge   */
};

typedef enum adj_angle { ADJ_DEGREES = 0, ADJ_RADIANS = 1 } adj_angle;
typedef enum adj_unit { ADJ_UNIT_METRES = 0, ADJ_UNIT_DEGREES = 1, ADJ_UNIT_RADIANS = 2 } adj_unit;

typedef struct adj_join_spec {
  uint32_t struct_size;
  adj_join_kind kind;  /* default ADJ_RANGE                                                       */
  adj_metric metric;   /* default ADJ_L2                                                          */
  adj_backend backend; /* default ADJ_BACKEND_AUTO; adj_plan_explain gives the reason             */
  double radius;       /* range: the threshold; must be set. kNN: neighbours are no farther;      */
                       /* default INFINITY                                                        */
  double p;            /* ADJ_LP: the exponent, >= 1, may be INFINITY                             */
  uint32_t k;          /* kNN: neighbours per left point                                          */
  adj_order order;
  uint32_t flags;
  uint32_t reserved;
  /* NULL or "auto": the planner chooses. Range joins: "grid" (cells, each with its neighbours), "ego"
   * (Super-EGO: recursion over epsilon grid order), "kdtree" (query by query; not shared), "brute" (every
   * pair). kNN joins: "kdtree", "brute", and on a GPU "grid" (cells about as wide as k neighbours are
   * apart). Never changes the result. */
  const char *algorithm;
  /* NULL, or settings that override the planner: "indexed=4,cell=1.5,batch=1024,...". A setting that is unknown, or
   * that this kind of join does not have, is refused. Never changes the result. See docs/tuning.md. */
  const char *tuning;
  /* ADJ_HAVERSINE: the unit of the coordinates, the unit of radius and distances, and the radius of the
   * sphere. The latter is used with ADJ_UNIT_METRES only. It may be in any unit of length; distances are then in that
   * unit. 0: 6,371,008.8 m. */
  adj_angle angle;
  adj_unit unit;
  double sphere_radius;
  /* A periodic box, for ADJ_L2, ADJ_L1, ADJ_LINF and ADJ_LP: one length for all dimensions, or one for
   * each. Length 0: the dimension is not periodic. Coordinates must be in [0, length]. */
  const double *box;
  uint32_t box_count; /* 0: no box */
  uint32_t reserved2;
  /* A radius for each left point, in place of radius; NULL: all have the same. Row i holds the points within radii[i]
   * of left point i; in a kNN join, the k nearest of these. ADJ_BACKEND_GPU takes radii in up to six dimensions with
   * L2, L1, Linf and the metrics derived from them, without a box. AUTO and HYBRID leave such joins to the cores. The
   * array is copied. */
  const double *radii;
  uint64_t radius_count; /* the number of left points; 0: no radii */
  /* NULL, or a published system by name: see adj_system_describe. Its settings apply unless tuning overrides them.
   * Never changes the result. */
  const char *system;
} adj_join_spec;

ADJ_API void adj_join_spec_init(adj_join_spec *spec, size_t struct_size);

/* A published system: a configuration that joins as its paper describes. */
typedef struct adj_system {
  uint32_t struct_size;
  adj_join_kind kind;    /* of the joins that it does                                                 */
  const char *name;      /* for adj_join_spec.system                                                  */
  const char *summary;   /* what it is, in a line                                                     */
  const char *paper;     /* authors and title                                                         */
  const char *sections;  /* those of the paper that describe it                                       */
  const char *algorithm; /* algorithm and tuning as in adj_join_spec; tuning may be NULL              */
  const char *tuning;
  const char *differences; /* from the paper, in words; NULL: none known                              */
  uint32_t backends;       /* bit 1 << backend: it runs there; by default on the first of cpu, gpu, hybrid */
  uint32_t reserved;
} adj_system;

ADJ_API void adj_system_init(adj_system *system, size_t struct_size);
/* Describes system number i, counted from 0. ADJ_E_ARGUMENT: there is no such system. The strings are constant. */
ADJ_API adj_status adj_system_describe(uint32_t i, adj_system *out);

/* Decides how to join, and builds the index. right NULL or equal to left: a self-join. The datasets must
 * outlive the plan; spec and its strings need not.
 * Time: a few parallel passes over n + m points, and a sample of up to 2,048 queries; O(c log c) more for
 * each cell of c >= 256 points.
 * Memory, per point of either set: 16 bytes while sorting, then 4 + dim * sizeof(T) bytes, and 12 bytes a
 * non-empty cell (2-D f32: at most 24 bytes in all). More, where these are used:
 *   bounding boxes    dim * sizeof(T) / 16 bytes a right point
 *   codes             about dim + 4 bytes a point
 *   large cells       16 bytes a point of the largest one, while it is ordered
 *   ADJ_COSINE        derived points: dim * sizeof(T) bytes a point
 *   ADJ_HAVERSINE     derived points: 3 * sizeof(T) bytes a point
 *   a periodic box    images of the right points within a radius of a face (up to 2^axes - 1 for a point near a
 *                     corner); a self-join has an index for each side */
ADJ_API adj_status adj_plan_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left,
                                   const adj_dataset *right, adj_plan **out);
ADJ_API void adj_plan_destroy(adj_plan *plan);

/* What the plan decided, why, and what it expects; after a run also what happened. Writes at most
 * capacity bytes, the final 0 included. *needed (may be NULL) is the size of the whole text; to learn
 * it, call with buffer NULL and capacity 0. */
ADJ_API adj_status adj_plan_explain(const adj_plan *plan, char *buffer, size_t capacity, size_t *needed);

typedef struct adj_estimate {
  uint32_t struct_size;
  uint32_t reserved;
  double pairs, candidates; /* expected; candidates of one pass */
  double result_bytes;      /* of adj_collect                   */
  double seconds;           /* of adj_collect                   */
  double count_seconds;     /* of adj_count with degrees        */
} adj_estimate;

ADJ_API void adj_estimate_init(adj_estimate *estimate, size_t struct_size);
/* Made by adj_plan_create. ADJ_BACKEND_REFERENCE makes no estimate: all 0. */
ADJ_API adj_status adj_plan_estimate(const adj_plan *plan, adj_estimate *out);

/* ---- Running ---------------------------------------------------------------------------------------- */

typedef struct adj_progress {
  const char *phase; /* "count", "join"; adj_write also "write" and "sync"  */
  double fraction;   /* how much of the whole run is done, 0 to 1, about;   */
                     /* adj_write: of its time; slow writing may decrease it */
  uint64_t pairs;    /* found so far in this phase                          */
} adj_progress;

typedef struct adj_run_control {
  uint32_t struct_size;
  uint32_t interval_ms; /* least time between two calls of progress; default 100 */
  /* Returns non-zero to end the run with ADJ_CANCELLED. Called from any thread, one call at a time. */
  int (*progress)(void *user, const adj_progress *where);
  void *user;
  uint64_t max_pairs; /* more pairs are ADJ_E_LIMIT; 0: no limit */
} adj_run_control;

ADJ_API void adj_run_control_init(adj_run_control *control, size_t struct_size);

/* What a run did. */
typedef struct adj_stats {
  uint32_t struct_size;
  uint32_t threads;
  const char *backend;                     /* "cpu", "gpu", "hybrid", "reference"              */
  const char *algorithm;                   /* "grid", ...                                      */
  const char *isa;                         /* "avx512", ...                                    */
  double plan_s, index_s, join_s, write_s; /* wall clock. plan, index: adj_plan_create;        */
                                           /* write: inside the callbacks of the sink          */
  uint64_t pairs;                          /* neighbours; padding of kNN is not counted        */
  uint64_t candidates;                     /* compared, in all passes: a run that counts first */
                                           /* and then fills compares each candidate twice     */
  uint64_t batches;                        /* taken from the queue, in all passes              */
  uint64_t batches_redone;                 /* a buffer was too small; nothing was lost         */
  uint64_t peak_bytes;                     /* most host memory the context held at once, from  */
                                           /* adj_plan_create on                               */
  uint64_t cells;                          /* non-empty cells of the index                     */
  double imbalance;                        /* (slowest thread - mean) / mean busy time         */
  double estimated_pairs, estimated_candidates;
  /* GPUs: adj_plan_create and this run together; 0 without one. Seconds of threads are means over all threads. */
  double kernel_s;               /* device time of all kernels: index, estimate, counts, rows      */
  double upload_s, download_s;   /* threads waited for copies, and for the kernels before them     */
  double place_s;                /* threads moved what had arrived into the result                 */
  uint64_t bytes_up, bytes_down; /* points; counts and pairs                                       */
  double warp_efficiency;        /* comparisons / lanes of the warps that made them                 */
  /* ADJ_BACKEND_HYBRID; 0 elsewhere. adj_plan_worker reports what each worker did. */
  double worker_imbalance; /* time between the first and the last worker to finish / time they worked */
  uint32_t worker_count;   /* the cores together are one, each GPU is one                            */
  uint32_t reserved;
  /* kNN joins with the algorithm "grid"; 0 elsewhere. */
  uint64_t grid_queries;   /* searches in the grid; a query that failed is searched again     */
  uint64_t grid_failed;    /* searches that found fewer than k within epsilon                 */
  uint64_t grid_reindexed; /* times that epsilon grew and the points were indexed again       */
  double grid_epsilon;     /* the first one                                                   */
  double grid_epsilon_s;   /* device time to choose it; first run of a plan only              */
  double grid_reindex_s;   /* device time to index again                                      */
  /* Brute-force kNN joins on a GPU whose candidates pass a prefilter first: products of half-precision copies on
   * tensor cores, or of f32 or f64 values. 0 elsewhere. */
  uint64_t prefilter_queries; /* queries that went through the prefilter              */
  uint64_t prefilter_sums;    /* distances computed of the candidates that passed it  */
  uint64_t prefilter_again;   /* queries that needed a longer list of candidates      */
  uint64_t prefilter_failed;  /* queries for which every distance was computed        */
  /* Of these, with points in tree order: tiles of 256 candidates, counted for every 32 queries, and how many of them
   * were near enough to be scanned. */
  uint64_t prefilter_tiles, prefilter_tiles_scanned;
  /* Parts of index_s in range joins by recursion over pairs of sequences ("super-ego", "sego-new", cores of "hegjoin");
   * 0 elsewhere. */
  double ego_reorder_s;  /* the order of dimensions, and cells       */
  double ego_sort_s;     /* EGO-sort: points into epsilon grid order */
  double ego_workload_s; /* queries by their number of candidates    */
  double grid_order_s;   /* kNN joins that order queries by the population of their cells: the cores' time for that */
  /* Range joins with the papers' kernels: what each number of indexed dimensions would cost. Entry k - 1 is for k
   * dimensions. indexed_search and indexed_compare are GPU-Join's counts of memory operations (section 5.6), to search
   * cells and to compare; indexed_s is our own estimate in seconds. */
  uint32_t indexed_count;  /* entries used below; 0 elsewhere             */
  uint32_t indexed_fewest; /* dimensions with the fewest memory operations */
  double indexed_search[10], indexed_compare[10], indexed_s[10];
} adj_stats;

ADJ_API void adj_stats_init(adj_stats *stats, size_t struct_size);

/* What one worker did of a run that cores and GPUs, or several GPUs, share: all cores together, or one GPU. */
typedef struct adj_worker {
  uint32_t struct_size;
  uint32_t reserved;
  const char *name; /* "cpu", "gpu 0"; valid until the plan runs again or is destroyed */
  uint64_t queries; /* done, in every pass: a range join counts and then fills         */
  uint64_t batches; /* taken from the queue                                            */
  uint64_t failed;  /* queries that it took and returned; others did them              */
  double busy_s;    /* seconds at its batches; cores: the mean of all threads          */
  double rate;      /* queries / busy_s                                                */
} adj_worker;

ADJ_API void adj_worker_init(adj_worker *worker, size_t struct_size);
/* Worker number i of the plan's last run, from 0 (the cores, with no queries if the GPUs do all of them) to
 * worker_count - 1. ADJ_E_ARGUMENT when there is no such worker. */
ADJ_API adj_status adj_plan_worker(const adj_plan *plan, uint32_t i, adj_worker *out);

/* The runs. A plan may be run any number of times, in any of these ways. control and stats may be NULL.
 *
 * Time of one pass: O(n + cells * 3^(axes - 1) + candidates * dim), over all threads.
 * Memory of every run, per thread: room for four of the longest rows. */

/* Counts only: no pair is stored or moved. degrees (one per left point) and total may be NULL. Without
 * degrees a self-join evaluates each pair of points once. kNN: padding is not counted.
 * Time: one pass; kNN without a radius: O(n). Memory: 4 bytes per left point with degrees; kNN within a
 * radius: the buffer of adj_stream. */
ADJ_API adj_status adj_count(adj_plan *plan, uint32_t *degrees, uint64_t *total, const adj_run_control *control,
                             adj_stats *stats);

/* Collects the whole result in memory. A result that does not fit the memory limit is ADJ_E_MEMORY, and the message
 * gives its size. A result that is far too large is refused before any work.
 * Time: two passes, of which the first counts. One pass where the plan evaluates each pair once
 * (docs/tuning.md, "single"), and for kNN.
 * Memory: the result: 8 bytes per left point and e = 4 bytes an entry (8 or 12 with distances). Until it
 * is complete 4 bytes per left point more; or, if each pair is evaluated once, 20 bytes per left point and
 * e bytes for each pair evaluated (half of the pairs in a self-join). kNN: rows * k entries, no more. */
ADJ_API adj_status adj_collect(adj_plan *plan, adj_result **out, const adj_run_control *control, adj_stats *stats);

/* A join of points in one call, for many small joins in one context: adj_dataset_create, adj_plan_create and
 * adj_collect; then the plan and the datasets are destroyed. right NULL: a self-join. Time, memory and errors are those
 * of these calls. */
ADJ_API adj_status adj_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_points *left, const adj_points *right,
                            adj_result **out);

/* A block of consecutive finished rows. Valid during the callback only. */
typedef struct adj_rows {
  uint64_t first_row, row_count;
  const uint64_t *offsets; /* row_count + 1 entries; row first_row + i: offsets[i] .. offsets[i + 1] - 1 */
  const uint32_t *ids;
  const void *distances; /* of the data's type; NULL without ADJ_WITH_DISTANCE */
} adj_rows;

/* Where rows go. The callbacks run in the thread that called adj_stream, one at a time. Rows come in
 * ascending order, each exactly once. A callback that does not return ADJ_OK ends the run, which returns
 * the same status (ADJ_E_SINK is meant for this). adj_last_error is then the message of the callback's own last failed
 * call, or else says that the callback ended the run. */
typedef struct adj_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *user;
  /* Optional. Called once, before the first write, when all is counted. A run that fails earlier calls no callback.
   * rows and pairs are exact. degrees has one entry per row and is valid until end.
   * kNN: pairs is the number of entries, rows * k, padding included, and degrees is NULL. */
  adj_status (*begin)(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees);
  adj_status (*write)(void *user, const adj_rows *rows);
  /* Optional. Called once, whatever happened, if counting succeeded, even if begin is NULL. */
  void (*end)(void *user, adj_status outcome);
} adj_sink;

ADJ_API void adj_sink_init(adj_sink *sink, size_t struct_size);

/* Streams the result through a buffer of limited size: for results larger than memory.
 * Time: a pass that counts, then one pass for each time the buffer is filled, which compares the rows of
 * the buffer only. One pass in all where the plan evaluates each pair once and the result is small. kNN joins do not
 * count first.
 * Memory: 12 bytes per left point (kNN: none), the buffer, and 8 bytes for each row in it. The buffer has
 * at most 256 MiB (640 MiB for a small result evaluated once), but at least the longest row; the tuning
 * "buffer" sets another size. */
ADJ_API adj_status adj_stream(adj_plan *plan, const adj_sink *sink, const adj_run_control *control, adj_stats *stats);

typedef enum adj_write_flags {
  ADJ_NO_CLOBBER = 1, /* a file that exists already is an error; without this it is replaced       */
  ADJ_NO_SYNC = 2     /* do not wait until the file is on the disk. It still appears only complete */
                      /* after a crash of the program, but perhaps not after one of the machine    */
} adj_write_flags;

typedef struct adj_write_options {
  uint32_t struct_size;
  uint32_t counts;       /* 1: write the number of neighbours of each left point, not the pairs */
  const char *format;    /* "npz", "csv", "tsv", "npy"; kNN also "ivecs", and "csr" (a graph    */
                         /* for scikit-learn); NULL: from the path's ending                     */
  const char *distances; /* kNN: path of a second file, for the distances: .npy or .fvecs       */
  uint32_t flags;        /* of adj_write_flags */
  uint32_t reserved;
} adj_write_options;

ADJ_API void adj_write_options_init(adj_write_options *options, size_t struct_size);

/* Writes the result to a file; path "-" is standard output (csv unless a format is given). Results of
 * any size: rows are streamed. The file appears when it is complete and on the disk; it keeps the mode and
 * owner of a file that it replaces. A result that cannot fit the free space fails before the first row.
 * options may be NULL. docs/formats.md describes the formats.
 * Time: that of adj_stream (counts: of adj_count; "csr" within a radius: of both), and of formatting the
 * rows in parallel. Memory: that of adj_stream (counts: 8 bytes per left point; "csr": 4 more), and a few
 * megabytes a thread. */
ADJ_API adj_status adj_write(adj_plan *plan, const char *path, const adj_write_options *options,
                             const adj_run_control *control, adj_stats *stats);

/* adj_dataset_save with options: format and flags. Other fields must be as adj_write_options_init sets them. */
ADJ_API adj_status adj_dataset_write(const adj_dataset *dataset, const char *path, const adj_write_options *options);

/* Writes text, such as a report on a run, in the same way. flags: of adj_write_flags. */
ADJ_API adj_status adj_text_save(adj_ctx *ctx, const char *path, const char *text, uint64_t bytes, uint32_t flags);

/* Checks before a long run that its files can be used as intended. An output that is also an input or another output is
 * ADJ_E_ARGUMENT, also if the paths differ or the file does not exist yet. An output that cannot be written, or that
 * exists with ADJ_NO_CLOBBER, is ADJ_E_IO. Each array of paths ends in NULL; "-" is standard input or output. Inputs
 * that do not exist are ignored. */
ADJ_API adj_status adj_paths_check(const char *const *inputs, const char *const *outputs, uint32_t flags);

/* ---- Reusable indexes ------------------------------------------------------------------------------------ */

/* An index of points: created once, then searched any number of times with new queries, new k and new radii.
 *
 *     adj_index *index;
 *     adj_index_create(ctx, NULL, points, &index);
 *     adj_index_nearest(index, place, 8, ids, distances, &found); // one query: microseconds
 *
 *     adj_question question;                                      // many queries
 *     adj_question_init(&question, sizeof question);
 *     question.k = 8;
 *     adj_index_plan(index, &question, queries, &plan);
 *     adj_collect(plan, &result, NULL, NULL);
 *
 * A plan is an index and a question: adj_plan_create makes an index for one question. Results are the same, bit for
 * bit.
 *
 * What takes time for every point of the index is done once, not for each question. The kd-tree, in up to 32
 * dimensions, is built by adj_index_create; it serves every k and every radius, also a radius for each query. In more
 * dimensions, and with ADJ_DOT, the first kNN question builds what brute force needs. A range question with many
 * queries (an eighth of the points or more) is answered through a grid, which depends on the radius: it is built at its
 * first use, kept while the memory limit allows, and reused for radii that are a little smaller. When memory is needed,
 * unused grids are dropped, the least recently used first. adj_plan_explain says what was built and what was reused.
 *
 * Threads. Any number of threads may ask one index at the same time, each with its own plan: every run has its own
 * control and statistics. Questions of up to 128 queries in up to 8 dimensions run in the calling thread: no other
 * thread is woken or waited for.
 *
 * GPUs. With ADJ_BACKEND_AUTO the cores answer. With ADJ_BACKEND_GPU the index is on the context's first device, and
 * with ADJ_BACKEND_HYBRID on every device, beside what the cores have: points and structures stay there between
 * questions, and a question copies its queries there. The tree, in up to six dimensions with L2, L1, Linf and the
 * metrics derived from them, without a box, is built by adj_index_create with ADJ_BACKEND_GPU, otherwise by the first
 * question. It serves every k, and range questions with few queries or a radius for each. Other range questions have
 * grids, and other kNN questions brute force, as above. Unused ones are dropped when the device has no room, the least
 * recently used first, and take no more than half of its memory. A set that does not fit a device passes through it in
 * chunks, again for every question. adjoin_cuda.h has the same for points, queries and results on a device. */
typedef struct adj_index_options {
  uint32_t struct_size;
  adj_metric metric;   /* default ADJ_L2; this and the others: as in adj_join_spec */
  adj_backend backend; /* default ADJ_BACKEND_AUTO                                     */
  adj_angle angle;
  adj_unit unit;
  uint32_t box_count;
  double p;
  double sphere_radius;
  const double *box;
} adj_index_options;

ADJ_API void adj_index_options_init(adj_index_options *options, size_t struct_size);

/* options may be NULL: all defaults. The dataset must outlive the index and the plans on it; options need not.
 * Time: O(m log m), in parallel. Memory: dim * sizeof(T) + 4 bytes a point and about an eighth more, and as much again
 * while it is built; ADJ_COSINE, ADJ_HAVERSINE: derived points as in adj_plan_create. */
ADJ_API adj_status adj_index_create(adj_ctx *ctx, const adj_index_options *options, const adj_dataset *dataset,
                                    adj_index **out);
/* Plans that were made on the index may still be run and destroyed later. */
ADJ_API void adj_index_destroy(adj_index *index);

typedef struct adj_question {
  uint32_t struct_size;
  adj_join_kind kind; /* default ADJ_KNN                                                         */
  double radius;      /* ADJ_RANGE: must be set, or radii. ADJ_KNN: the bound; default INFINITY  */
  uint32_t k;         /* ADJ_KNN                                                                 */
  adj_order order;
  uint32_t flags;
  uint32_t reserved;
  const double *radii;   /* a radius for each left point, in place of radius; copied             */
  uint64_t radius_count; /* the number of left points; 0: no radii                               */
  const char *algorithm; /* NULL: the planner chooses; else as in adj_join_spec                  */
} adj_question;

ADJ_API void adj_question_init(adj_question *question, size_t struct_size);

/* A plan for adj_count, adj_collect, adj_stream and adj_write. left: the queries, of the type and dimension of the
 * index; NULL: the points of the index themselves, each without itself. left must outlive the plan.
 * Time: O(n log m) to order the queries if there are more than 256; with a grid, to sort them; a sample of 256 queries
 * if there are more than 2,048. Structures that are built for the first time: as in adj_plan_create. Memory: 12 bytes a
 * query; with a grid as in adj_plan_create, for the left points; 8 bytes a query with radii. */
ADJ_API adj_status adj_index_plan(adj_index *index, const adj_question *question, const adj_dataset *left,
                                  adj_plan **out);

/* The k nearest points of the index to one point, which has dim coordinates of the type of the index. ids and
 * distances (may be NULL) have room for k entries; *found (may be NULL) receives how many there are. Entries beyond it
 * are ADJ_NO_ID and infinity (-infinity with ADJ_DOT). No point is left out: a point of the index finds itself.
 * Time: in few dimensions microseconds; above 32 dimensions, and with ADJ_DOT, O(m dim). Memory: only buffers that the
 * index keeps, one set for each thread that asks at the same time. A question of O(m dim) takes the memory of a
 * plan. */
ADJ_API adj_status adj_index_nearest(adj_index *index, const void *point, uint32_t k, uint32_t *ids, void *distances,
                                     uint32_t *found);

/* All points of the index within radius of one point, in ascending order of id. ids and distances (may be NULL) receive
 * the first `capacity` of them; *found receives how many there are in all, which may be more. ids may be NULL if
 * capacity is 0. Time and memory: as above; and O(found log found). */
ADJ_API adj_status adj_index_within(adj_index *index, const void *point, double radius, uint32_t capacity,
                                    uint32_t *ids, void *distances, uint32_t *found);

/* ---- Selection ------------------------------------------------------------------------------------- */

/* A matrix of values in memory, such as distances from another program. */
typedef struct adj_matrix {
  uint32_t struct_size;
  adj_type type;          /* default ADJ_F32                                          */
  uint64_t rows, columns; /* at most ADJ_MAX_COUNT columns; either may be 0           */
  uint64_t row_stride;    /* bytes from row to row; 0: packed                         */
  const void *values;
} adj_matrix;

ADJ_API void adj_matrix_init(adj_matrix *matrix, size_t struct_size);

/* The k smallest values of each row, for any k >= 1. columns receives their column numbers, values (may be NULL) the
 * values themselves: k entries a row. Ties go to the lower column. Entries ascend by (value, column); with
 * ADJ_ORDER_ANY they are in no order. A row with fewer than k columns ends in ADJ_NO_ID and infinity. Infinite values
 * are ordinary values, -0 equals 0, and NaN comes after every number. After a failure the contents of the arrays are
 * undefined. adjoin_cuda.h has the same for a matrix on a device.
 * Time: one parallel pass over the rows, or over parts of few long rows; O(k log k) a row for the order.
 * Memory: per thread (or part) about 16 k bytes, f64: 32 k bytes. */
ADJ_API adj_status adj_select_k(adj_ctx *ctx, const adj_matrix *matrix, uint32_t k, adj_order order, uint32_t *columns,
                                void *values);

/* ---- Sets in parts: regions of space, and lists that are merged ----------------------------------------- */

/* For joins whose points are in several parts, on several machines (adjoin_mpi.h) or tasks of a scheduler. A split cuts
 * space into regions. Each point has one home region. The halo of a region is the set of points of other regions that
 * may be within a radius of one of its own points. A join of own points and halo gives complete rows for the own
 * points. Where the points of a part ascend by id, these rows have the same bits as in the join of all points.
 *
 *     adj_split_weights(ctx, &spec, sample, total, weights); // estimated work for each sampled point
 *     adj_split_create(ctx, &spec, sample, weights, 64, &split);
 *     adj_split_home(split, part, home);                     // the region of each point of a part
 *     adj_split_halo(split, part, home, NULL, counts, NULL); // points of the part that each other region needs
 *     ... starts[i]: the sum of counts[0] .. counts[i - 1]
 *     adj_split_halo(split, part, home, NULL, starts, rows); // their row numbers: from rows[starts[i]] on for region i
 *
 * Splits serve every metric but ADJ_DOT. Cosine and great-circle distances are measured on derived points, and space is
 * cut there; callers see only their own points. Periodic boxes are taken into account. */
typedef struct adj_split adj_split;

/* The estimated work of each sampled point as a query, in units of one candidate, where the sample stands for `total`
 * points. Range joins: from its number of neighbours in the sample; kNN: the same for all. spec: as in adj_plan_create,
 * for a self-join. weights receives one value for each sampled point.
 * Time and memory: of adj_count for the sample. */
ADJ_API adj_status adj_split_weights(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample, uint64_t total,
                                     double *weights);

/* Cuts space into `regions` (1 to 32,768) of equal weight, by planes across one dimension each. weights NULL: all
 * points weigh the same; none may be negative. Where points coincide, some regions are empty. The same sample gives the
 * same cuts everywhere. The sample is not kept. Used of spec: the metric, its parameters, box and radius. Time:
 * O(sample log sample log regions). Memory: 16 bytes a sampled point, and its derived point; the split holds a few
 * hundred bytes a region. */
ADJ_API adj_status adj_split_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample,
                                    const double *weights, uint32_t regions, adj_split **out);
ADJ_API void adj_split_destroy(adj_split *split);
ADJ_API uint32_t adj_split_regions(const adj_split *split);
/* Dimensions in which space is cut: 3 for ADJ_HAVERSINE, otherwise those of the points. */
ADJ_API uint32_t adj_split_dim(const adj_split *split);

/* A split as bytes, to be sent elsewhere. At most `capacity` bytes are written, and only if all fit; *needed (may be
 * NULL) receives their number. Bytes that are not a split of points of this type and dimension, or that were saved for
 * a metric which derives other points from them, are ADJ_E_FORMAT. */
ADJ_API adj_status adj_split_save(const adj_split *split, void *buffer, uint64_t capacity, uint64_t *needed);
ADJ_API adj_status adj_split_load(adj_ctx *ctx, const adj_join_spec *spec, adj_type type, uint32_t dim,
                                  const void *bytes, uint64_t size, adj_split **out);

/* The home region of each point. Time: O(points log regions), in parallel. Memory: derived points, for some metrics. */
ADJ_API adj_status adj_split_home(const adj_split *split, const adj_dataset *points, uint32_t *home);

/* The box around the points that have their home in each region: adj_split_dim values a region; infinity and -infinity
 * for a region without points. Boxes of several parts are combined by minimum and maximum. Time, memory: as above. */
ADJ_API adj_status adj_split_bounds(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                                    double *low, double *high);
/* Tells the split that each region has points within its box only, which makes halos smaller. Without boxes a region
 * extends to the cuts around it, and without limit where there is no cut. */
ADJ_API adj_status adj_split_set_bounds(adj_split *split, const double *low, const double *high);

/* The points that each region needs for its halo: those that may be within a radius of a point of the region, by the
 * canonical distance, and have their home elsewhere. home NULL: the points have no home, as those of the right set in a
 * join of two sets. radii: one for each point, where infinity stands for every region that has points; NULL: the radius
 * of the spec. Call it twice. With rows NULL, counts receives the number of points that each region needs. Then counts
 * must hold where each list begins in rows, and rows receives the lists, each in ascending order. counts has one entry
 * a region and is not changed the second time. Time: O(points log regions + visits log regions). Memory: as above, and
 * up to 24 bytes for each point that a region needs. */
ADJ_API adj_status adj_split_halo(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                                  const double *radii, uint64_t *counts, uint32_t *rows);

/* kNN lists with global ids: k entries a row, ascending by (sum, id); a short row ends in -1 and infinity. The sums are
 * those of a join with ADJ_WITH_SUM: distances are rounded, and equal distances may have different sums, so only sums
 * give the order of the whole join. */
typedef struct adj_lists {
  uint32_t struct_size;
  adj_type type; /* of the sums */
  uint32_t k;
  uint32_t reserved;
  uint64_t rows;
  int64_t *ids;
  void *sums;
} adj_lists;

ADJ_API void adj_lists_init(adj_lists *lists, size_t struct_size);

/* Merges row i of `from` into row rows[i] of `to`, which keeps its k nearest; rows NULL: row i. k may differ. An id
 * that is in both rows, with the same sum, counts once. Time: O(k) a row. */
ADJ_API adj_status adj_lists_merge(const adj_lists *to, const adj_lists *from, const uint64_t *rows);

/* The distances that a join reports for these sums. Used of spec: the metric and its parameters. distances and sums may
 * be the same array. Time: O(count). */
ADJ_API adj_status adj_sums_report(const adj_join_spec *spec, adj_type type, uint64_t count, const void *sums,
                                   void *distances);

/* A radius for each sum, such that a join within it finds every point with that sum or less. Time: O(count). */
ADJ_API adj_status adj_sums_radii(const adj_join_spec *spec, adj_type type, uint64_t count, const void *sums,
                                  double *radii);

/* ---- Clusters --------------------------------------------------------------------------------------- */

/* DBSCAN: what makes a core point, and where the result goes. A core point has at least min_points points within the
 * radius, itself included. Core points within the radius of each other are in one cluster, and so is every point within
 * the radius of one of them. */
typedef struct adj_dbscan_job {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t min_points;   /* at least 1; default 5                                                   */
  const double *weights; /* NULL: each point counts 1. Otherwise the weights of the points within   */
                         /* the radius of a core point, added in order of their ids, make           */
                         /* min_points or more. Weights may be negative                             */
  uint64_t weight_count; /* the number of points; 0: no weights                                     */
  int64_t *labels;       /* receives the cluster of each point, from 0; -1: in none                 */
  uint8_t *core;         /* receives 1 for core points, 0 for others; may be NULL                   */
  uint64_t *clusters;    /* receives the number of clusters; may be NULL                            */
} adj_dbscan_job;

ADJ_API void adj_dbscan_job_init(adj_dbscan_job *job, size_t struct_size);

/* Clusters of points by density (DBSCAN). spec is that of a range join, of kind ADJ_RANGE with one radius: any metric,
 * backend, algorithm and box; flags and order must be 0. Clusters are numbered in the order of their lowest core
 * points. A border point, which is within the radius of core points but is not one itself, is in the lowest of their
 * clusters. The labels are the same as those of scikit-learn's DBSCAN. control and stats (of the join) may be NULL.
 * Time: adj_plan_create and adj_stream of the join, twice the latter with weights, and a few steps for each pair. Where
 * the pairs do not fit the buffer of adj_stream, another join for border points between clusters.
 * Memory: that of these calls, and 5 bytes a point; no pair is kept. The border points of the second join: 4 + dim *
 * sizeof(T) bytes each. */
ADJ_API adj_status adj_dbscan(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *points,
                              const adj_dbscan_job *job, const adj_run_control *control, adj_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* ADJOIN_H */
