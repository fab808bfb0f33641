/* SPDX-License-Identifier: MIT
 *
 * Selecting and sorting keys by partitions. The file that includes this one defines first:
 *
 *   KEY                              the type of a key; keys differ from each other, and < orders them
 *   SELECT, SORT                     the names of the two functions
 *   PARTITION(keys, count, pivot)    moves the keys below the pivot to the front, returns how many
 *   SORT_SHORT(keys, count)          sorts up to SHORT keys, SHORT >= 3
 *
 * All of them but SHORT are undefined at the end.
 */

/* The pivot: the median of three keys at irregular places. At least one key is below it and one above, so every
 * partition makes progress. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define PIVOT PASTE(SELECT, _pivot)
static inline KEY PIVOT(const KEY *keys, uint64_t count) {
  uint64_t third = count / 3, spin = count * UINT64_C(0x9e3779b97f4a7c15);
  KEY a = keys[(spin >> 40) % third], b = keys[third + (spin >> 20) % third], c = keys[2 * third + spin % third];
  KEY low = a < b ? a : b, high = a < b ? b : a;
  return c < low ? low : c < high ? c : high;
}

/* Moves the k smallest keys to the front, the largest of them last. */
static void SELECT(KEY *keys, uint64_t count, uint64_t k) {
  while (count > SHORT) {
    uint64_t below = PARTITION(keys, count, PIVOT(keys, count));
    if (k <= below) {
      count = below;
    } else {
      keys += below;
      count -= below;
      k -= below;
    }
  }
  SORT_SHORT(keys, count);
}

static void SORT(KEY *keys, uint64_t count) {
  while (count > SHORT) {
    uint64_t below = PARTITION(keys, count, PIVOT(keys, count)), above = count - below;
    if (below < above) { /* recursion into the shorter part: its depth is at most log2 of the count */
      SORT(keys, below);
      keys += below;
      count = above;
    } else {
      SORT(keys + below, above);
      count = below;
    }
  }
  SORT_SHORT(keys, count);
}

#undef PIVOT
#undef PASTE
#undef PASTE_
#undef KEY
#undef SELECT
#undef SORT
#undef PARTITION
#undef SORT_SHORT
