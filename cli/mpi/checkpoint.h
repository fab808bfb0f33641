/* SPDX-License-Identifier: MIT
 *
 * A checkpoint: a folder with the finished blocks of a join.
 *
 *   checkpoint                        the key: a line for each input or option that changes the result
 *   block-00003.done                  block 3 is finished: a line for each of its pieces
 *   block-00003.rows-FIRST-COUNT      a piece: COUNT rows of one rank, from row FIRST on
 *
 * A block is a range of left rows, independent of the ranks: a run with another number of ranks cuts the blocks into
 * other pieces, and can read those of earlier runs.
 */
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

#include "cluster.h"

typedef struct checkpoint {
  cluster_job *job;
  const char *folder;
  uint64_t blocks;
  uint64_t done; /* blocks that were finished before this run */
} checkpoint;

/* Rows of a piece in memory, or a part of them. */
typedef struct checkpoint_rows {
  uint64_t first, count, entries; /* rows from `first` on, by their global numbers */
  uint64_t pairs;                 /* entries without padding */
  uint64_t *offsets;              /* from 0 */
  int64_t *ids;
  void *distances; /* NULL: none */
} checkpoint_rows;

void checkpoint_rows_free(checkpoint_rows *rows);

/* checkpoint_key.c: creates the folder, or checks that it belongs to this join. Sets blocks. Collective. */
adj_status checkpoint_open(checkpoint *c);

/* checkpoint_files.c. Not collective; messages are for cluster_agree. */
adj_status checkpoint_save(const checkpoint *c, uint64_t block, const checkpoint_rows *rows, char *message);
adj_status checkpoint_finish(const checkpoint *c, uint64_t block, const char *list); /* rank 0 */
bool checkpoint_is_done(const checkpoint *c, uint64_t block);
/* Calls the function with every piece of the block that has rows of this rank, reduced to these rows, in ascending
 * order. only_sizes: ids and distances are NULL. */
typedef adj_status (*checkpoint_fn)(void *user, const checkpoint_rows *rows);
adj_status checkpoint_load(const checkpoint *c, uint64_t block, bool only_sizes, checkpoint_fn fn, void *user,
                           char *message);
/* Removes the files of the checkpoint, and the folder if nothing else is in it. */
void checkpoint_remove(const checkpoint *c);

/* The rows of a block, by their global numbers. */
static inline void checkpoint_block(const checkpoint *c, uint64_t block, uint64_t *first, uint64_t *end) {
  uint64_t n = c->job->left.total, each = n / c->blocks, rest = n % c->blocks;
  *first = each * block + (block < rest ? block : rest);
  *end = *first + each + (block < rest);
}

#endif
