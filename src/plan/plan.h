/* SPDX-License-Identifier: MIT
 *
 * The plan: a join with everything decided and its index built.
 */
#ifndef ADJI_PLAN_H
#define ADJI_PLAN_H

#include "cpu/ego_range.h"
#include "gpu/worker/knn.h"
#include "gpu/worker/range.h"
#include "plan/choose.h"
#include "plan/index.h"

/* What was decided, with the reason in words. */
typedef struct adji_choice {
  adj_backend backend;
  adji_algorithm algorithm;
  char reason[256];
  bool single;          /* collect evaluates each pair once */
  bool staged;          /* collect by cores alone finds rows in one pass and stages them */
  bool alone;           /* runs use the calling thread only: the question is small */
  char structures[128]; /* of a kept index: what was built or reused */
  char division[192];   /* how several GPUs divide the join, in words; empty: there is one */
} adji_choice;

/* Sampled rows whose distances are near the spacing of the type; set, magnitude, spacing and distance belong to one of
 * them. */
typedef struct adji_near {
  uint32_t sampled, near;
  bool whole; /* the coordinates of all sampled rows are whole numbers */
  const adj_dataset *set;
  double magnitude, spacing, distance;
} adji_near;

/* Lends the structures that a kept index has on devices to the workers of a plan, and counts those that were built and
 * reused. Several threads may create workers. */
typedef struct adji_plan_lender {
  adji_gpu_lender lender;
  adj_index *index; /* NULL: there is no kept index */
  ADJI_ATOMIC(uint32_t) built[ADJI_RIGHT_GRID + 1], reused[ADJI_RIGHT_GRID + 1];
} adji_plan_lender;

struct adj_plan {
  adj_ctx *ctx;
  adj_index *index;                /* of the right set */
  const adj_dataset *left, *right; /* the caller's; the same for a self-join */
  bool self_join;
  adj_join_spec spec; /* algorithm, tuning and box are not kept */
  adji_tuning tuning;
  uint32_t backends;    /* those that the settings allow */
  adji_algorithm asked; /* for by the caller; ADJI_ALGORITHM_AUTO: none */
  adji_join join;       /* its sets may be derived from left and right */
  adji_measure measure;
  void *box;                 /* for points on a device without an index: lengths of the measure's box, or NULL */
  double *limits;            /* of the join */
  adj_dataset *derived_left; /* NULL if the caller's points are joined */
  adji_choice choice;
  adji_range_question question; /* of a range join, on cores                               */
  adji_device_choice device;    /* of a range join that a GPU does, alone or beside cores  */
  adji_plan_lender lender;
  adji_engine engine;
  uint64_t cells;        /* non-empty cells of the right index                   */
  uint64_t device_chunk; /* points that the device joins at a time; 0: all       */
  double estimated_pairs, estimated_candidates, estimated_seconds, estimated_count_seconds;
  uint64_t sampled;
  double plan_s, index_s;
  adji_ego_seconds ego; /* parts of index_s: recursion over pairs of sequences */
  struct {              /* kNN: queries by the population of their cells */
    double epsilon, epsilon_s, order_s;
  } queue_order;
  uint64_t plan_peak; /* most bytes held while the plan was made */
  adji_near near;     /* plan_precision.c */
  bool ran;
  adj_stats last; /* of the last run */
  adj_worker last_workers[1 + ADJI_MOST_DEVICES];
};

/* Bytes of one entry of the result. */
static inline uint64_t adji_plan_entry_bytes(const adj_plan *plan) {
  return 4 + (plan->join.style.distances ? adji_type_size(plan->left->type) : 0);
}

/* ---- The request: plan_check.c and plan_describe.c ----------------------------------------------------- */

/* Checks the whole request; every message names the field and its value. spec->backend becomes the one that the
 * settings allow; scope receives the choices that they leave. */
adj_status adji_check_request(adj_join_spec *spec, const adj_dataset *left, const adj_dataset *right,
                              adji_tuning *tuning, adji_tuning_scope *scope);

/* Fills plan->join and what it points to: the measure, the limits, and the sets that are joined, which are derived for
 * some metrics. adji_forget_join frees them. adji_describe_derived: for a plan without an index, whose left and right
 * sets are derived already. */
adj_status adji_describe_join(adj_plan *plan);
adj_status adji_describe_derived(adj_plan *plan);
/* The same for `count` queries of plan->index: plan->left and plan->right are derived, and may be samples. */
adj_status adji_describe_asked(adj_plan *plan, uint64_t count);
void adji_forget_join(adj_plan *plan);
/* Converts the options of an index to a request; options may be NULL. */
adj_status adji_take_index_options(const adj_index_options *options, adj_join_spec *out);
/* Makes a request of a question: the metric is that of the index, all else is from the question. */
adj_status adji_take_question(const adj_index *index, const adj_question *question, adj_join_spec *out);

/* ---- Whether rounding decides: plan_precision.c ----------------------------------------------------------  */

/* Warns if the radius is near the spacing of the type at the magnitude of the points. */
void adji_warn_radius(adj_plan *plan);
/* kNN: adji_near_rows samples the k-th distances of a window; first row 0 begins a new run. adji_warn_near warns after
 * the run. */
void adji_near_rows(adj_plan *plan, const adji_window *window);
void adji_warn_near(adj_plan *plan);

/* ---- Planners: choose, build the index, estimate. algorithm: the requested one ------------------------ */

adj_status adji_plan_range_anywhere(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_range_on_cores(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_range_on_gpu(adj_plan *plan, adji_algorithm algorithm);
/* The same with the choice that is already in plan->device. */
adj_status adji_plan_range_as_chosen(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_range_hybrid(adj_plan *plan, adji_algorithm algorithm);
/* The same for a plan of the cores, which stays as it is if a GPU cannot help. */
adj_status adji_plan_range_helped(adj_plan *plan, adji_algorithm algorithm);

adj_status adji_plan_knn_anywhere(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_knn(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_knn_on_gpu(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_knn_hybrid(adj_plan *plan, adji_algorithm algorithm);

/* ---- Parts of them: plan_range.c ----------------------------------------------------------------------- */

/* adji_plan_range_on_cores in two steps. The first only looks at a sample; the second clears the choice. */
adj_status adji_choose_for_cores(adj_plan *plan, adji_algorithm algorithm, adji_cores_choice *out);
adj_status adji_prepare_cores(adj_plan *plan, adji_cores_choice *chosen);
void adji_cores_choice_clear(adj_ctx *ctx, adji_cores_choice *choice);
/* Destroys the engine of the cores, if there is one. */
void adji_forget_cores(adj_plan *plan);
/* For explain: notes that a structure of a kept index was built or reused. */
void adji_note_structure(adj_plan *plan, const char *what, bool built);
/* The same for devices, once their workers are made. adji_make_lender prepares plan->lender; adji_plan_lender_of
 * returns it, NULL without a kept index. */
void adji_note_device(adj_plan *plan);
void adji_make_lender(adj_plan *plan);
static inline const adji_gpu_lender *adji_plan_lender_of(const adj_plan *plan) {
  return plan->lender.index ? &plan->lender.lender : NULL;
}
/* plan_ego.c: the same for the recursion over pairs of sequences, if settings ask for it. */
static inline bool adji_plan_is_dual(const adj_plan *plan) {
  return plan->tuning.dual == ADJI_ON;
}
adj_status adji_choose_dual(adj_plan *plan);
adj_status adji_prepare_dual(adj_plan *plan);
/* Whether the queries are so few that one thread is done before another has woken up. */
bool adji_is_small(const adj_plan *plan);

/* The grid for a device, and the options of its worker. */
adj_status adji_choose_for_device(const adji_range_question *question, adji_algorithm algorithm,
                                  adji_device_choice *out);
void adji_forget_device(adj_plan *plan);
/* The number of queries that a device samples for its estimate. */
uint64_t adji_device_sample(const adj_plan *plan);

/* A lower bound of the cores' time, without a look at the points: for index and rows. */
double adji_least_range_seconds(const adj_plan *plan);

/* Times that a device would take, alone and by lists, and that the cores would take: plan_hybrid_range.c,
 * plan_hybrid.c. */
adji_share_times adji_range_times(const adj_plan *plan, const adji_range_trial *trial);
adji_share_times adji_knn_times(const adj_plan *plan, double device_s);
/* An upper bound of a device's kNN search, in multiples of the time to build its tree. */
double adji_most_searches(const adj_plan *plan);

/* ---- Several GPUs without cores: plan_devices.c ----------------------------------------------------------- */

/* How the devices of a kind of join are opened, and how they order the queries. */
typedef struct adji_several {
  adj_status (*open)(const void *options, uint32_t number, adji_worker *out);
  adj_status (*follow)(adji_worker *worker, const uint32_t *rows);
  adj_status (*order)(adji_worker *worker, uint32_t *rows);
  const void *options;
  bool by_rows; /* lists must be in the order of the rows */
} adji_several;

/* Whether the context has several GPUs that can share the join. can: whether this kind of join can be shared, with its
 * message. *status: a failure if the settings ask for sharing and it is impossible. */
bool adji_may_share_devices(const adj_plan *plan, adj_status can, adj_status *status);
/* For explain: notes that several GPUs share the regions, or the left chunks, of sets that do not fit one GPU. */
void adji_describe_chunks(adj_plan *plan, bool regions);
/* The text of a warning. */
#define ADJI_FIRST_FAILED "the first GPU failed, and the others are asked: %s"
/* Seconds until the other GPUs are open. */
double adji_others_open_seconds(const adj_plan *plan);
/* Lets all GPUs share the join. first: the first one if it is open already; the engine takes it, or it is destroyed. A
 * warning names each GPU that cannot take part; if only one can, it does the join alone. */
adj_status adji_share_devices(adj_plan *plan, const adji_several *how, const adji_worker *first);

/* ---- plan_knn.c and plan_hybrid.c ---------------------------------------------------------------------- */

/* The request to a device. adji_check_knn_kernels refuses settings that ask for kernels which a device does not have
 * for this join. */
adji_knn_request adji_knn_request_of(const adj_plan *plan);
adj_status adji_check_knn_kernels(const adj_plan *plan);
/* Makes an engine of cores that search trees. */
adj_status adji_make_trees(adj_plan *plan, double epsilon, adji_engine *out);
/* Refuses orders of the queue that are not possible for the join. */
adj_status adji_check_knn_queue(const adj_plan *plan);
adj_status adji_estimate_tree(adj_plan *plan);

adji_share_options adji_share_of(const adji_tuning *tuning);

#endif
