/* SPDX-License-Identifier: MIT
 *
 * The texts of --box and --devices. The program first counts the values and then fills arrays of exactly that size. If
 * it accepts a box, the library must accept it too for points inside, or refuse it with a message.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "join.h"

static void read_devices(const char *text) {
  int32_t count = join_device_numbers(text, NULL);
  require(count >= -1 && count <= JOIN_MOST_DEVICES);
  int32_t numbers[JOIN_MOST_DEVICES];
  require(join_device_numbers(text, numbers) == count);
  for (int32_t i = 0; i < count; i++)
    require(numbers[i] >= 0);
}

/* Points at a quarter of the box, at its middle, and at both ends. */
static adj_dataset *points_in(const double *box, uint32_t dim) {
  static const double part[] = {0.25, 0.5, 0, 1};
  enum { COUNT = sizeof part / sizeof *part };
  double *data = malloc((size_t)COUNT * dim * sizeof *data);
  require(data != NULL);
  for (uint32_t i = 0; i < COUNT; i++)
    for (uint32_t j = 0; j < dim; j++)
      data[(size_t)i * dim + j] = part[i] * box[j];
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.data = data;
  points.count = COUNT;
  points.dim = dim;
  points.type = ADJ_F64;
  adj_dataset *set = NULL;
  require(!adj_dataset_create(fuzz_context(), &points, &set));
  free(data);
  return set;
}

static void join_in_box(const double *box, uint32_t count) {
  adj_dataset *set = points_in(box, count);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.box = box;
  spec.box_count = count;
  spec.radius = box[0] / 4;
  adj_plan *plan = NULL;
  uint64_t pairs = 0;
  adj_status status = adj_plan_create(fuzz_context(), &spec, set, NULL, &plan);
  if (!status) status = adj_count(plan, NULL, &pairs, NULL, NULL);
  require(!status || ((status == ADJ_E_ARGUMENT || status == ADJ_E_DATA) && *adj_last_error()));
  require(pairs <= 12);
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  require(adj_ctx_memory_used(fuzz_context()) == 0);
}

static void read_box(const char *text) {
  uint32_t count = join_box_lengths(text, NULL);
  double *lengths = malloc((count ? count : 1) * sizeof *lengths);
  require(lengths != NULL);
  if (count) {
    require(join_box_lengths(text, lengths) == count);
    for (uint32_t i = 0; i < count; i++)
      require(lengths[i] >= 0 && isfinite(lengths[i]));
    if (count <= 20) join_in_box(lengths, count);
  }
  free(lengths);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  require(text != NULL);
  if (size) memcpy(text, data, size);
  text[size] = 0;
  read_devices(text);
  read_box(text);
  free(text);
  return 0;
}
