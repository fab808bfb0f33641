/* SPDX-License-Identifier: MIT
 *
 * The smallest join: which of these eight places lie within 1.5 of each other?
 *
 *   cc first_join.c $(pkg-config --cflags --libs adjoin) -o first_join
 */
#include <adjoin.h>
#include <inttypes.h>
#include <stdio.h>

int main(void) {
  const float places[8][2] = {{0, 0}, {1, 0}, {0, 1}, {5, 5}, {5, 6}, {9, 0}, {5, 4.75F}, {1, 1}};

  adj_result *result;
  if (adj_range_join(ADJ_F32, places, 8, 2, 1.5, &result) != ADJ_OK) {
    fprintf(stderr, "first_join: %s\n", adj_last_error());
    return 1;
  }
  const uint64_t *row = adj_result_offsets(result);
  const uint32_t *ids = adj_result_ids(result);
  for (uint64_t i = 0; i < adj_result_rows(result); i++) {
    printf("%" PRIu64 ":", i);
    for (uint64_t at = row[i]; at < row[i + 1]; at++)
      printf(" %" PRIu32, ids[at]);
    printf("\n");
  }
  printf("%" PRIu64 " pairs\n", adj_result_pairs(result));
  adj_result_destroy(result);
  return 0;
}
