/* SPDX-License-Identifier: MIT
 *
 * The initialiser of a kernel table, for the end of an instruction set's file.
 */
#define COUNT_F32_(name, NAME) [ADJI_STEP_##NAME] = count_##name##_f32,
#define COUNT_F64_(name, NAME) [ADJI_STEP_##NAME] = count_##name##_f64,
#define LIST_F32_(name, NAME) [ADJI_STEP_##NAME] = list_##name##_f32,
#define LIST_F64_(name, NAME) [ADJI_STEP_##NAME] = list_##name##_f64,

#define KNN_F32_(name, NAME) [ADJI_STEP_##NAME] = {knn_##name##_f32, list_leaves_##name##_f32, box_bounds_##name##_f32},
#define KNN_F64_(name, NAME) [ADJI_STEP_##NAME] = {knn_##name##_f64, list_leaves_##name##_f64, box_bounds_##name##_f64},

#define ADJI_KERNEL_TABLE(name, sort, in_registers, place, stream)                                        \
  {                                                                                                       \
    .isa = (name), .count = {{ADJI_STEP_LIST(COUNT_F32_)}, {ADJI_STEP_LIST(COUNT_F64_)}},                 \
    .list = {{ADJI_STEP_LIST(LIST_F32_)}, {ADJI_STEP_LIST(LIST_F64_)}},                                   \
    .tree = {{ADJI_GROWING_STEP_LIST(KNN_F32_)}, {ADJI_GROWING_STEP_LIST(KNN_F64_)}}, .sort_ids = (sort), \
    .sorts_in_registers = (in_registers), .place_ids = (place), .stream_row = (stream)                    \
  }
