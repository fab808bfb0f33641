/* SPDX-License-Identifier: MIT
 *
 * adjoin.h - exact similarity joins over point sets: the whole stable C interface.
 *
 *   range join   which pairs of points lie within a radius of each other?
 *   kNN join     which k points are nearest to each point?
 *
 * Both for one set with itself or for two sets (left and right). A first join:
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
 * Everything else follows the data:
 *
 *     adj_ctx ── adj_dataset ── adj_plan ──┬── adj_count     how many
 *     threads    points         index,     ├── adj_collect   all of it, in memory
 *     memory                    explain    ├── adj_stream    row by row, to your callback
 *                                          └── adj_write     to a file
 *
 * What "exact" promises. The distance of two points is computed in the type of the data, over the
 * dimensions in input order, with one rounding per step (docs/exactness.md). A pair belongs to a
 * range join iff that distance is <= radius; for L2, the squares are compared. The k nearest are the k
 * smallest by (distance, id), so ties have one answer. Backend, thread count, instruction set, device
 * and batch size never change a bit of a result.
 *
 * Complexity and memory. n is the number of left points, m of right points (m = n in a self-join),
 * T the type of the data. Memory is what the call holds on top of what exists already; it counts
 * against the context's limit, except for handles and small tables. Functions without a line of their
 * own take constant time and no memory.
 *
 * Ids are row numbers, 0-based and 32 bits wide; a dataset holds at most ADJ_MAX_COUNT rows.
 *
 * Threads. Handles may be shared between threads; calls that work on one context take turns at its
 * team of threads. One plan runs one join at a time. adj_cancel() may be called from any thread and
 * from a signal handler. Nothing here prints, exits, aborts or installs a signal handler.
 *
 * Structs the caller fills begin with struct_size, set by the struct's _init function together with
 * all defaults; a newer library accepts the shorter struct of an older caller, and an older one the
 * longer struct of a newer caller as long as the fields it does not know are 0.
 *
 * GPUs. A build with CUDA joins on an NVIDIA GPU too (ADJ_BACKEND_GPU; compute capability 8.0 or later): range joins
 * and kNN joins for any k, with all metrics; the nearest through trees in up to six dimensions, by L2, L1, Linf and
 * what is computed from these, and otherwise, or when "brute" is asked for, by comparing every pair. The driver is
 * loaded when a device is first needed, so the same library works on machines without one, where such a request is
 * ADJ_E_UNSUPPORTED and says why. Points that do not fit the device's memory are joined in chunks (through trees they
 * must fit); ADJ_E_DEVICE_MEMORY means that not even small ones fit. adjoin_cuda.h is for points that are on a device
 * already. ADJ_BACKEND_HYBRID has cores and a GPU share the queries of a join: range joins of sets that fit the
 * device's memory, and kNN joins in up to six dimensions. What a GPU cannot do the cores do alone, with a warning; one
 * that fails on the way is told by a warning too, and the cores finish the join.
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

/* One table gives the codes, their names and their texts. Numbers are never reused. */
#define ADJ_STATUS_LIST(X)                                             \
  X(ADJ_OK, 0, "success")                                              \
  X(ADJ_CANCELLED, 1, "stopped by the caller")                         \
  X(ADJ_E_ARGUMENT, -10, "invalid argument")                           \
  X(ADJ_E_STRUCT, -11, "struct_size is not a size this library knows") \
  X(ADJ_E_STATE, -12, "call not allowed in this state")                \
  X(ADJ_E_DATA, -20, "points hold a value that cannot be joined")      \
  X(ADJ_E_FORMAT, -21, "file is not in the named format")              \
  X(ADJ_E_IO, -22, "read or write failed")                             \
  X(ADJ_E_MEMORY, -30, "out of host memory")                           \
  X(ADJ_E_DEVICE_MEMORY, -31, "out of device memory")                  \
  X(ADJ_E_LIMIT, -32, "result would pass the caller's limit")          \
  X(ADJ_E_UNSUPPORTED, -40, "not supported by this build or machine")  \
  X(ADJ_E_DEVICE, -41, "the device reported a fault")                  \
  X(ADJ_E_COMM, -42, "communication between machines failed")          \
  X(ADJ_E_SINK, -50, "the result sink refused a batch")                \
  X(ADJ_E_INTERNAL, -99, "broken invariant, please report")

typedef enum adj_status {
#define ADJ_STATUS_ENUM_(name, value, text) name = (value),
  ADJ_STATUS_LIST(ADJ_STATUS_ENUM_)
#undef ADJ_STATUS_ENUM_
} adj_status;

ADJ_API const char *adj_status_name(adj_status status); /* "ADJ_E_DATA" */
ADJ_API const char *adj_status_text(adj_status status); /* "points hold a value that ..." */

/* What went wrong in the calling thread's last failed call: names the argument, row, file or
 * device and the offending value. Valid until that thread's next call. Never NULL. */
ADJ_API const char *adj_last_error(void);

/* Version of the library loaded, which may be newer than this header: 10000 * major + 100 * minor
 * + patch. */
ADJ_API uint32_t adj_version_number(void);
ADJ_API const char *adj_version_string(void);

/* ---- The simple calls ---------------------------------------------------------------------- */

typedef enum adj_type { ADJ_F32 = 1, ADJ_F64 = 2 } adj_type;

typedef struct adj_ctx adj_ctx;         /* threads, memory limit, instruction set, devices     */
typedef struct adj_dataset adj_dataset; /* an immutable set of points                          */
typedef struct adj_plan adj_plan;       /* a prepared join: algorithm, index, batches          */
typedef struct adj_result adj_result;   /* a finished join held in memory, one row per left id */

#define ADJ_MAX_COUNT UINT64_C(0xfffffffe) /* points in one dataset          */
#define ADJ_NO_ID UINT32_C(0xffffffff)     /* padding of a short row of kNN  */

/* All neighbours within radius (closed ball, L2) of each of count points, the point itself left
 * out, each row in ascending order of id. points is row-major and packed.
 * Time: O(n + candidates); in few dimensions candidates are a small multiple of n + pairs. Memory:
 * that of adj_plan_create and adj_collect; the index is freed before the call returns, and the result
 * keeps 8 bytes a point and 4 bytes a pair. */
ADJ_API adj_status adj_range_join(adj_type type, const void *points, uint64_t count, uint32_t dim, double radius,
                                  adj_result **out);

/* The k nearest of each of count points (L2), nearest first, ties to the lower id, the point itself
 * left out. Every row has k ids, padded with ADJ_NO_ID. Ids alone, as above: for distances make a plan
 * with ADJ_WITH_DISTANCE. Memory: that of adj_plan_create, and 4 k bytes a point. */
ADJ_API adj_status adj_knn_join(adj_type type, const void *points, uint64_t count, uint32_t dim, uint32_t k,
                                adj_result **out);

/* The result. Row i holds entries offsets[i] .. offsets[i + 1] - 1 of ids and distances. The arrays
 * live as long as the result. */
ADJ_API uint64_t adj_result_rows(const adj_result *result);
ADJ_API uint64_t adj_result_pairs(const adj_result *result);
/* rows + 1 entries; i * k of a kNN join, filled in when somebody first asks for them. */
ADJ_API const uint64_t *adj_result_offsets(const adj_result *result);
ADJ_API const uint32_t *adj_result_ids(const adj_result *result);
/* float or double, as adj_result_type says; NULL unless the join was asked for distances. */
ADJ_API const void *adj_result_distances(const adj_result *result);
ADJ_API adj_type adj_result_type(const adj_result *result);
ADJ_API void adj_result_destroy(adj_result *result); /* NULL is fine, here and in every destroy */

/* ---- Context --------------------------------------------------------------------------------- */

typedef enum adj_log_level {
  ADJ_LOG_WARN = 1, /* the answer is right, but something is not as you may think */
  ADJ_LOG_INFO = 2, /* notes: integers widened, header skipped, ...               */
  ADJ_LOG_DEBUG = 3
} adj_log_level;

/* One finished piece of work on one lane (0: the calling thread; from adj_ctx_threads on: devices that share a join
 * with the threads). Times in nanoseconds of a monotonic clock. */
typedef struct adj_trace_event {
  const char *name; /* "sort", "count", "fill", ...; static                 */
  uint32_t lane;
  uint32_t reserved;
  uint64_t begin_ns, end_ns;
  uint64_t items; /* queries or points in this piece, 0 when that means nothing */
} adj_trace_event;

typedef struct adj_ctx_options {
  uint32_t struct_size;
  uint32_t threads;             /* 0: one per usable core                                       */
  uint64_t memory_limit;        /* bytes this context may hold at once; 0: 90 % of what the     */
                                /* machine has available when the context is created            */
  uint64_t device_memory_limit; /* bytes per device; 0: what is free. Points that need more are */
                                /* joined in chunks                                             */
  const int32_t *devices;       /* device numbers; NULL with device_count -1: all               */
  int32_t device_count;         /* 0: use no GPU                                                */
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
/* options may be NULL: all defaults. Starts threads - 1 threads, which sleep between calls. */
ADJ_API adj_status adj_ctx_create(const adj_ctx_options *options, adj_ctx **out);
/* Destroy a context after everything made with it: datasets, plans, results. */
ADJ_API void adj_ctx_destroy(adj_ctx *ctx);

ADJ_API uint32_t adj_ctx_threads(const adj_ctx *ctx);
ADJ_API uint64_t adj_ctx_memory_limit(const adj_ctx *ctx);
ADJ_API uint64_t adj_ctx_memory_used(const adj_ctx *ctx);
ADJ_API uint64_t adj_ctx_memory_peak(const adj_ctx *ctx); /* since the last run began, or creation */
ADJ_API const char *adj_ctx_isa(const adj_ctx *ctx);      /* "avx512" */

/* Asks every call that works on ctx to stop: it returns ADJ_CANCELLED within a batch, and leaves
 * no partial file. Stays in force, also for calls that begin later, until adj_ctx_uncancel.
 * Async-signal-safe. */
ADJ_API void adj_cancel(adj_ctx *ctx);
ADJ_API void adj_ctx_uncancel(adj_ctx *ctx);

/* Measures how long the steps of joins take on this machine, all threads of ctx and its first GPU at work, and keeps
 * that in a file for the planner: path, or NULL for the one that contexts read when they are created, which is
 * $ADJOIN_COSTS, or adjoin/costs below $XDG_CACHE_HOME or ~/.cache. Never changes a result.
 * Time: about ten seconds. Memory: up to 1 GiB, and as much on a GPU. */
ADJ_API adj_status adj_calibrate(adj_ctx *ctx, const char *path);
/* The file that a context goes by; NULL: none was there, or it is of another machine or version, and the costs are
 * those built in. ADJOIN_COSTS=none has all contexts go by these. */
ADJ_API const char *adj_ctx_costs(const adj_ctx *ctx);

/* The instruction sets this build holds and this CPU runs, best first: name number i, or NULL. */
ADJ_API const char *adj_isa_name(uint32_t i);

/* A GPU of this machine. */
typedef struct adj_device {
  uint32_t struct_size;
  uint32_t number;
  char name[128];
  uint32_t major, minor; /* compute capability                     */
  uint32_t multiprocessors;
  uint32_t driver, runtime; /* CUDA versions, 1000 * major + 10 * minor */
  uint32_t reserved;
  uint64_t memory, memory_free; /* bytes */
} adj_device;

ADJ_API void adj_device_init(adj_device *device, size_t struct_size);
/* Device number i. ADJ_E_UNSUPPORTED, and the reason, when there is none, or none that this build can use. The
 * first call loads the driver, which takes some tenths of a second. */
ADJ_API adj_status adj_device_describe(uint32_t i, adj_device *out);

/* Optional parts of this build, e.g. "zlib hdf5": names separated by blanks. */
ADJ_API const char *adj_build_features(void);

/* ---- Datasets: points from memory, from a file, from a generator ------------------------------ */

typedef enum adj_ownership {
  ADJ_COPY = 1,  /* the points are copied                  */
  ADJ_BORROW = 2 /* data must outlive the dataset          */
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

/* Checks that every coordinate is finite: otherwise ADJ_E_DATA names the row and column.
 * Time: one parallel pass. Memory: 16 bytes a dimension for the bounds, and with ADJ_COPY the size of
 * the points. */
ADJ_API adj_status adj_dataset_create(adj_ctx *ctx, const adj_points *points, adj_dataset **out);

/* How to read a file. NULL and 0 mean: decide from the file. */
typedef struct adj_open_options {
  uint32_t struct_size;
  adj_type type;         /* 0: as stored (integers, half: f32 when exact, else f64; text: f32)  */
  const char *format;    /* "npy", "csv", "tsv", "fvecs", "bvecs", "fbin", "u8bin", "i8bin",    */
                         /* "raw", "hdf5"                                                       */
  const char *columns;   /* csv, tsv: "x,y,z" or "1,2,5-7" (1-based): which columns, in order   */
  const char *id_column; /* csv, tsv: kept as the label of each row, name or number             */
  const char *shape;     /* raw: "f32:3" or "f64:1000x16": type and dimension, perhaps count    */
  const char *dataset;   /* hdf5: path of the dataset inside the file; NULL: the only one       */
} adj_open_options;

ADJ_API void adj_open_options_init(adj_open_options *options, size_t struct_size);

/* Opens a file of points; path "-" is standard input. options may be NULL. A malformed file gives
 * ADJ_E_FORMAT or ADJ_E_DATA and a message with file, line (or row) and column. See docs/formats.md.
 * Time: one or two parallel passes. Memory: uncompressed npy, fvecs, fbin and raw files of floats are
 * mapped, not read; others are held as floats, dim * sizeof(T) bytes a point. */
ADJ_API adj_status adj_dataset_open(adj_ctx *ctx, const char *path, const adj_open_options *options, adj_dataset **out);

/* Points from a generator, the same on every machine for the same seed.
 * name: "unif", "expo", "clusters", "normal", "sphere", "lattice", "duplicates", or the name of a
 * published data set, which fixes count, dim and lambda: "Unif2D2M", "Expo6D10M", "Syn16D2M", ... */
typedef struct adj_generate_options {
  uint32_t struct_size;
  adj_type type; /* 0: f32 */
  const char *name;
  uint64_t count; /* 0: as the name says              */
  uint32_t dim;   /* 0: as the name says              */
  uint32_t reserved;
  uint64_t seed;     /* default 1                        */
  double lambda;     /* expo: 0 means 40                 */
  uint32_t clusters; /* clusters, duplicates: how many centres; 0: about sqrt(count) */
  uint32_t reserved2;
} adj_generate_options;

ADJ_API void adj_generate_options_init(adj_generate_options *options, size_t struct_size);
/* Time: one parallel pass. Memory: dim * sizeof(T) bytes a point. */
ADJ_API adj_status adj_dataset_generate(adj_ctx *ctx, const adj_generate_options *options, adj_dataset **out);

/* Writes the points; format NULL: from the path's ending (npy, csv, tsv, fvecs, fbin, raw). The
 * file appears only when it is complete.
 * Time: one parallel pass. Memory: a few megabytes a thread. */
ADJ_API adj_status adj_dataset_save(const adj_dataset *dataset, const char *path, const char *format);

ADJ_API void adj_dataset_destroy(adj_dataset *dataset);

ADJ_API uint64_t adj_dataset_count(const adj_dataset *dataset);
ADJ_API uint32_t adj_dataset_dim(const adj_dataset *dataset);
ADJ_API adj_type adj_dataset_type(const adj_dataset *dataset);
/* Copies row number row to out (dim values of the dataset's type). Time: O(dim). */
ADJ_API adj_status adj_dataset_row(const adj_dataset *dataset, uint64_t row, void *out);
/* Smallest and largest coordinate in dimension j; 0 and 0 for an empty set. */
ADJ_API void adj_dataset_bounds(const adj_dataset *dataset, uint32_t j, double *low, double *high);
/* The label of a row from id_column; NULL when the dataset has none. Not terminated by 0. */
ADJ_API const char *adj_dataset_label(const adj_dataset *dataset, uint64_t row, size_t *length);

/* ---- Plans: what to join, and how ---------------------------------------------------------------- */

typedef enum adj_join_kind { ADJ_RANGE = 1, ADJ_KNN = 2 } adj_join_kind;

typedef enum adj_metric {
  ADJ_L2 = 1,       /* straight line                                                             */
  ADJ_L1 = 2,       /* sum of the differences                                                    */
  ADJ_LINF = 3,     /* largest difference                                                        */
  ADJ_LP = 4,       /* (sum of |difference|^p)^(1/p); p 1, 2 and INFINITY are the three above    */
  ADJ_COSINE = 5,   /* 1 - cosine of the angle, 0 to 2. A point of zeros is refused              */
  ADJ_DOT = 6,      /* inner product: more is nearer. Range: products >= radius, which may be    */
                    /* negative. What is reported is the product; padding of kNN: -infinity      */
  ADJ_HAVERSINE = 7 /* great circle: points are longitude, latitude                              */
} adj_metric;

typedef enum adj_backend {
  ADJ_BACKEND_AUTO = 0, /* cores; with a GPU, or that alone, where they would take long */
  ADJ_BACKEND_CPU = 1,
  ADJ_BACKEND_GPU = 2,
  ADJ_BACKEND_HYBRID = 3,   /* cores and a GPU share the queries                     */
  ADJ_BACKEND_REFERENCE = 4 /* plain nested loops: slow, and the definition of right */
} adj_backend;

typedef enum adj_order {
  ADJ_ORDER_ID = 0,       /* each row by ascending id; kNN: by (distance, id)                 */
  ADJ_ORDER_DISTANCE = 1, /* each row by (distance, id)                                       */
  ADJ_ORDER_ANY = 2       /* each row in whatever order is quickest: the same set, not        */
                          /* necessarily the same order from run to run                       */
} adj_order;

enum {
  ADJ_WITH_DISTANCE = 1u << 0, /* results carry distances (true distances, never squared)     */
  ADJ_WITH_SELF = 1u << 1,     /* self-join: also report (i, i)                               */
  ADJ_ONE_WAY = 1u << 2        /* range self-join: report (i, j) with i < j only              */
};

typedef enum adj_angle { ADJ_DEGREES = 0, ADJ_RADIANS = 1 } adj_angle;
typedef enum adj_unit { ADJ_UNIT_METRES = 0, ADJ_UNIT_DEGREES = 1, ADJ_UNIT_RADIANS = 2 } adj_unit;

typedef struct adj_join_spec {
  uint32_t struct_size;
  adj_join_kind kind;  /* default ADJ_RANGE                                                       */
  adj_metric metric;   /* default ADJ_L2                                                          */
  adj_backend backend; /* AUTO decides; adj_plan_explain tells why                                */
  double radius;       /* range: the threshold, which must be set. kNN: upper bound, INFINITY     */
                       /* (default): none                                                         */
  double p;            /* ADJ_LP: the exponent, >= 1, may be INFINITY                             */
  uint32_t k;          /* kNN: neighbours per left point                                          */
  adj_order order;
  uint32_t flags;
  uint32_t reserved;
  /* NULL or "auto", or a named algorithm: "grid" (cells, each with its neighbours), "ego" (Super-EGO:
   * recursion over epsilon grid order), "brute" (every pair). Of kNN joins "kdtree", "brute" and, with a GPU,
   * "grid" (cells as wide as k neighbours are likely to be away). Never changes the result. */
  const char *algorithm;
  /* NULL, or settings to override the planner: "indexed=4,cell=1.5,batch=1024,...". What is unknown,
   * or not for such a join, is refused. See docs/tuning.md. */
  const char *tuning;
  /* ADJ_HAVERSINE: what the columns longitude and latitude are in, what radius and distances are in, and
   * the radius of the sphere for ADJ_UNIT_METRES (or whatever unit it is given in); 0: 6,371,008.8 m. */
  adj_angle angle;
  adj_unit unit;
  double sphere_radius;
  /* A periodic box, for ADJ_L2, ADJ_L1, ADJ_LINF and ADJ_LP: one length for all dimensions or one for
   * each; 0: that dimension is not periodic. Coordinates must be in [0, length]. */
  const double *box;
  uint32_t box_count; /* 0: no box */
  uint32_t reserved2;
} adj_join_spec;

ADJ_API void adj_join_spec_init(adj_join_spec *spec, size_t struct_size);

/* Decides how to join and builds the index. right NULL (or equal to left): left with itself. The
 * datasets must outlive the plan; spec and its strings need not.
 * Time: a few parallel passes over n + m points, and a sample of up to 2,048 queries; O(c log c) more
 * for a cell of c >= 256 points. Memory, per point of either set: 16 bytes while sorting, then
 * 4 + dim * sizeof(T) bytes, and 12 bytes a non-empty cell (2-D f32: at most 24 bytes). Where they are
 * used: bounding boxes, dim * sizeof(T) / 16 bytes a right point; codes, about dim + 4 bytes a point;
 * heavy cells, 16 bytes a point of the largest while it is ordered. ADJ_COSINE and ADJ_HAVERSINE join
 * points derived from both sets, which the plan holds: dim * sizeof(T) or 3 * sizeof(T) bytes a point. In
 * a periodic box the grid's right index also holds an image of each point within a radius of a face (up to
 * 2^axes - 1 near corners), and a self-join has an index for either side. */
ADJ_API adj_status adj_plan_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left,
                                   const adj_dataset *right, adj_plan **out);
ADJ_API void adj_plan_destroy(adj_plan *plan);

/* What the plan decided, why, and what it expects; after a run, also what happened. Writes at most
 * capacity bytes including the final 0; needed (may be NULL) receives the bytes of the whole text, so
 * that a call with buffer NULL and capacity 0 tells how much room it takes. */
ADJ_API adj_status adj_plan_explain(const adj_plan *plan, char *buffer, size_t capacity, size_t *needed);

typedef struct adj_estimate {
  uint32_t struct_size;
  uint32_t reserved;
  double pairs, candidates; /* expected; candidates of one pass                */
  double result_bytes;      /* of adj_collect                                  */
  double seconds;           /* of the join, index not included                 */
} adj_estimate;

ADJ_API void adj_estimate_init(adj_estimate *estimate, size_t struct_size);
/* Found by adj_plan_create already. All 0 with ADJ_BACKEND_REFERENCE, which does not estimate. */
ADJ_API adj_status adj_plan_estimate(const adj_plan *plan, adj_estimate *out);

/* ---- Running ---------------------------------------------------------------------------------------- */

typedef struct adj_progress {
  const char *phase; /* "count", "join"                         */
  double fraction;   /* of the whole run, 0..1, about           */
  uint64_t pairs;    /* found so far in this phase              */
} adj_progress;

typedef struct adj_run_control {
  uint32_t struct_size;
  uint32_t interval_ms;                                   /* least time between progress calls; 100 */
  int (*progress)(void *user, const adj_progress *where); /* non-zero: cancel. One call at a time,  */
  void *user;                                             /* from any thread                        */
  uint64_t max_pairs;                                     /* fail with ADJ_E_LIMIT when there are more; 0: no limit */
} adj_run_control;

ADJ_API void adj_run_control_init(adj_run_control *control, size_t struct_size);

/* What the cores together, or a GPU, did of a hybrid run. */
typedef struct adj_worker {
  const char *name; /* "cpu", "gpu 0"                                           */
  uint64_t queries; /* that it has done, in every pass: a range join counts and */
                    /* then fills                                               */
  uint64_t batches; /* in which it took them                                    */
  uint64_t failed;  /* queries that it took and gave back, which others did     */
  double busy_s;    /* seconds at its batches; of cores, the mean               */
  double rate;      /* queries a second of these                                */
} adj_worker;

#define ADJ_MOST_WORKERS 9

typedef struct adj_stats {
  uint32_t struct_size;
  uint32_t threads;
  const char *backend;                     /* "cpu"                                            */
  const char *algorithm;                   /* "grid"                                           */
  const char *isa;                         /* "avx512"                                         */
  double plan_s, index_s, join_s, write_s; /* wall clock; plan and index from adj_plan_create, */
                                           /* write: inside the sink's functions               */
  uint64_t pairs;                          /* reported                                         */
  uint64_t candidates;                     /* compared, in every pass: a run that counts first */
                                           /* and then fills meets each candidate twice        */
  uint64_t batches;                        /* taken from the queue, in every pass              */
  uint64_t batches_redone;                 /* a buffer was too small: nothing was lost         */
  uint64_t peak_bytes;                     /* most host memory the context held at once, from  */
                                           /* adj_plan_create on                               */
  uint64_t cells;                          /* non-empty cells of the index                     */
  double imbalance;                        /* (slowest worker - mean) / mean busy time         */
  double estimated_pairs, estimated_candidates;
  /* Of a GPU, adj_plan_create and this run together; 0 without one. Seconds of threads are means over all of them. */
  double kernel_s;               /* the device's time for kernels: index, estimate, counts, rows */
  double upload_s, download_s;   /* threads waited for copies, and for kernels in front of them  */
  double place_s;                /* threads put what had arrived into place                      */
  uint64_t bytes_up, bytes_down; /* points; counts and pairs                                     */
  double warp_efficiency;        /* counting: comparisons made / those that warps had lanes for  */
  /* Where cores and devices share the queries (ADJ_BACKEND_HYBRID): cores first. worker_count is 0 elsewhere. */
  double worker_imbalance; /* time between the first and the last worker to be done / time of all */
  uint64_t worker_count;
  adj_worker workers[ADJ_MOST_WORKERS];
  /* Of kNN joins with the algorithm "grid"; 0 elsewhere. */
  uint64_t grid_queries;   /* searched for in the grid, those that failed again each time     */
  uint64_t grid_failed;    /* of these, that found fewer than k within epsilon                */
  uint64_t grid_reindexed; /* times that epsilon grew and the points were indexed again       */
  double grid_epsilon;     /* the first one                                                   */
  double grid_epsilon_s;   /* the device's time to choose it, in the first run of a plan      */
  double grid_reindex_s;   /* and to index again                                              */
  /* Of brute-force kNN joins on a GPU with a filter of products (tuning: prefilter=tensor and gemm); 0 elsewhere. */
  uint64_t prefilter_queries;
  uint64_t prefilter_sums;   /* distances that were computed of what passed                       */
  uint64_t prefilter_again;  /* queries that needed longer lists of candidates                    */
  uint64_t prefilter_failed; /* and those for which every distance was computed                   */
} adj_stats;

ADJ_API void adj_stats_init(adj_stats *stats, size_t struct_size);

/* control and stats may be NULL in all of these. On failure outputs are untouched. A plan may be run
 * any number of times, in any of these ways.
 *
 * Time of one pass: O(n + cells * 3^(axes - 1) + candidates * dim), over all threads. Every run also
 * holds, per thread, room for four of the longest rows it meets. */

/* Count only: no pair is stored or moved. degrees (one per left point) and total may each be NULL;
 * without degrees a self-join evaluates each pair of points once.
 * Time: one pass. Memory: 4 bytes per left point when degrees are asked for, which are copied to the
 * caller's array at the end; nothing otherwise. */
ADJ_API adj_status adj_count(adj_plan *plan, uint32_t *degrees, uint64_t *total, const adj_run_control *control,
                             adj_stats *stats);

/* Everything in memory. Fails with ADJ_E_MEMORY when it does not fit the context's memory limit;
 * the message says how large the result would be. Far too large ones are refused before any work.
 * Time: two passes, the first of which counts; or one, where the plan evaluates each pair once
 * (docs/tuning.md, "single"). Memory: 8 bytes per left point and e = 4 bytes a pair (8 or 12 with
 * distances) for the result; meanwhile 4 bytes per left point more, or, evaluating once, 20 bytes per
 * left point and e bytes for each pair that was evaluated (half of the pairs in a self-join). */
ADJ_API adj_status adj_collect(adj_plan *plan, adj_result **out, const adj_run_control *control, adj_stats *stats);

/* A block of consecutive finished rows, valid only during the call. */
typedef struct adj_rows {
  uint64_t first_row, row_count;
  const uint64_t *offsets; /* row_count + 1 entries; row first_row + i: offsets[i] .. offsets[i + 1] - 1 */
  const uint32_t *ids;
  const void *distances; /* of the data's type; NULL without ADJ_WITH_DISTANCE */
} adj_rows;

/* Called by one thread at a time, rows in ascending order and each exactly once. A callback that
 * does not return ADJ_OK stops the run, which then fails with that status; adj_last_error tells of its
 * own last failed call, or that it stopped the run. */
typedef struct adj_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *user;
  /* Optional. rows and pairs are exact; degrees has one entry per row and is valid until end. Called
   * when all is counted: a run that fails before calls nothing. kNN: every row has k entries, padding
   * included, so pairs is rows * k and degrees is NULL. */
  adj_status (*begin)(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees);
  adj_status (*write)(void *user, const adj_rows *rows);
  /* Optional; called once, always, when counting was done, whether or not there is a begin. */
  void (*end)(void *user, adj_status outcome);
} adj_sink;

ADJ_API void adj_sink_init(adj_sink *sink, size_t struct_size);

/* Streams the result through a buffer of bounded size: for results larger than memory.
 * Time: a pass that counts, then one pass for each time the buffer is filled, in which only the rows of
 * the buffer are compared; one pass in all where the plan evaluates each pair once and the result is
 * small. Memory: 12 bytes per left point plus a buffer (tuning "buffer", by default at most 256 MiB,
 * 640 MiB for a small result evaluated once, but at least the longest row) and 8 bytes for each row
 * that is in it. */
ADJ_API adj_status adj_stream(adj_plan *plan, const adj_sink *sink, const adj_run_control *control, adj_stats *stats);

typedef struct adj_write_options {
  uint32_t struct_size;
  uint32_t counts;       /* 1: one number of neighbours per left point instead of the pairs    */
  const char *format;    /* "npz", "csv", "tsv", "npy"; kNN also "ivecs", and "csr", a graph    */
                         /* for scikit-learn; NULL: from the path's ending                     */
  const char *distances; /* kNN: path of a second file with the distances, .npy or .fvecs      */
} adj_write_options;

ADJ_API void adj_write_options_init(adj_write_options *options, size_t struct_size);

/* Runs the join into a file; path "-" is standard output (csv when no format is given). Results of
 * any size: rows are streamed. The file appears only when it is complete. options may be NULL. See
 * docs/formats.md for the formats.
 * Time: that of adj_stream (of adj_count with counts; of both for "csr" within a radius), and of
 * formatting the rows in parallel. Memory: that of adj_stream (8 bytes per left point with counts, 4
 * more for "csr"), and a few megabytes a thread. */
ADJ_API adj_status adj_write(adj_plan *plan, const char *path, const adj_write_options *options,
                             const adj_run_control *control, adj_stats *stats);

/* ---- Selection ------------------------------------------------------------------------------------- */

/* A matrix of values in memory, such as distances that another program has computed. */
typedef struct adj_matrix {
  uint32_t struct_size;
  adj_type type;          /* default ADJ_F32                                          */
  uint64_t rows, columns; /* at most ADJ_MAX_COUNT columns; 0 of either is fine       */
  uint64_t row_stride;    /* bytes from row to row; 0: packed                         */
  const void *values;
} adj_matrix;

ADJ_API void adj_matrix_init(adj_matrix *matrix, size_t struct_size);

/* The k smallest values of each row and the columns they are in, for any k >= 1: to columns and, unless
 * that is NULL, to values, k entries a row. Ties go to the lower column. ADJ_ORDER_ANY leaves the entries
 * of a row in no order; otherwise they ascend by (value, column). A row with fewer than k columns is
 * padded with ADJ_NO_ID and infinity. Infinite values are values like others, -0 equals 0, and a NaN comes
 * behind every number. After a failure the arrays hold nothing of use. adjoin_cuda.h has the same for
 * matrices on a device.
 * Time: one parallel pass, over the rows, or where they are few and long, over parts of a row; and
 * O(k log k) a row for the order. Memory: about 16 bytes (f64: 32) for each of k a thread; for long rows,
 * for each part. */
ADJ_API adj_status adj_select_k(adj_ctx *ctx, const adj_matrix *matrix, uint32_t k, adj_order order, uint32_t *columns,
                                void *values);

#ifdef __cplusplus
}
#endif
#endif /* ADJOIN_H */
