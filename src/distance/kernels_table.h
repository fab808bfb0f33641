/* SPDX-License-Identifier: MIT
 *
 * The initialisers of kernel tables, for the end of an instruction set's file.
 */
#define COUNT_F32_(name, NAME) [ADJI_STEP_##NAME] = count_##name##_f32,
#define COUNT_F64_(name, NAME) [ADJI_STEP_##NAME] = count_##name##_f64,
#define LIST_F32_(name, NAME) [ADJI_STEP_##NAME] = list_##name##_f32,
#define LIST_F64_(name, NAME) [ADJI_STEP_##NAME] = list_##name##_f64,

#define KNN_F32_(name, NAME) [ADJI_STEP_##NAME] = {knn_##name##_f32, list_leaves_##name##_f32, box_bounds_##name##_f32},
#define KNN_F64_(name, NAME) [ADJI_STEP_##NAME] = {knn_##name##_f64, list_leaves_##name##_f64, box_bounds_##name##_f64},

#define ADJI_KERNELS_F32                                                                  \
  {                                                                                       \
    .count = {ADJI_STEP_LIST(COUNT_F32_)}, .list = {ADJI_STEP_LIST(LIST_F32_)}, .tree = { \
      ADJI_GROWING_STEP_LIST(KNN_F32_)                                                    \
    }                                                                                     \
  }
#define ADJI_KERNELS_F64                                                                  \
  {                                                                                       \
    .count = {ADJI_STEP_LIST(COUNT_F64_)}, .list = {ADJI_STEP_LIST(LIST_F64_)}, .tree = { \
      ADJI_GROWING_STEP_LIST(KNN_F64_)                                                    \
    }                                                                                     \
  }

/* f32 and f64: the adji_typed_kernels. */
#define ADJI_KERNEL_TABLE(name, f32, f64, sort, in_registers, place, stream)                                          \
  {                                                                                                                   \
    .isa = (name), .count = {(f32).count, (f64).count}, .list = {(f32).list, (f64).list},                             \
    .tree = {(f32).tree, (f64).tree}, .sort_ids = (sort), .sorts_in_registers = (in_registers), .place_ids = (place), \
    .stream_row = (stream)                                                                                            \
  }
