/* SPDX-License-Identifier: MIT
 *
 * The initialiser of a kernel table, for the end of an instruction set's file.
 */
#define ADJI_KERNEL_TABLE(name, sort, in_registers, place)                                                 \
  {                                                                                                        \
    .isa = (name),                                                                                         \
    .count = {{count_l2_f32, count_l1_f32, count_linf_f32}, {count_l2_f64, count_l1_f64, count_linf_f64}}, \
    .list = {{list_l2_f32, list_l1_f32, list_linf_f32}, {list_l2_f64, list_l1_f64, list_linf_f64}},        \
    .sort_ids = (sort), .sorts_in_registers = (in_registers), .place_ids = (place)                         \
  }
