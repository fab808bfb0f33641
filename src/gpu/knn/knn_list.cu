/* SPDX-License-Identifier: MIT
 *
 * kNN joins on a device for lists of queries, which a host assigns as positions in its own order. The rows of a list
 * are stored one after the other, with their numbers beside them.
 *
 * Memory: 8 bytes per left point; 12 per query of a list; in each of four slots k ids, k distances and 4 bytes per
 * query. With a grid 4 more bytes per left point, 4 per query of a list, and 4 per query in each slot. The left points
 * exist twice while they are moved into the order of the host. Brute force only needs the four slots, and takes its
 * queries in the order of the rows.
 */
#include "gpu/knn/knn_private.cuh"

#include "gpu/index/list_order.cuh"

enum { THREADS = 256, LEAST_QUERIES = 1024 };

/* ---- The order ------------------------------------------------------------------------------- */

adj_status adji_gpu_knn_follow(adji_gpu_knn *n, const uint32_t *rows) {
  adji_block_free(n->gpu, n->gpu->compute, &n->order);
  adji_knn_grid_keep_failed(&n->grid);
  if (!rows || !n->join.left->count) return ADJ_OK;
  adj_status status = adji_order_make(n->gpu, n->left->points.ids, rows, n->join.left->count, &n->order, &n->work);
  if (status) return status;
  adji_gpu_tree *left = n->join.self_join ? &n->right->tree : &n->left_tree;
  /* The order by cells of a grid is not that of any tree. */
  bool moves = !n->grid_first && (!n->join.self_join || !n->right->shared);
  if (moves)
    status = adji_gpu_tree_follow(n->gpu, n->join.left->type, n->join.left->dim, adji_at<uint32_t>(n->order), left);
  if (status && status != ADJ_E_DEVICE_MEMORY)
    return status; /* if there is no room to move the points, the order alone says where they are */
  return adji_knn_grid_return_failed(&n->grid, adji_at<uint32_t>(n->order));
}

adj_status adji_gpu_knn_order(adji_gpu_knn *n, uint32_t *rows) {
  uint64_t count = n->join.left->count;
  for (uint64_t i = 0; i < count && n->brute; i++)
    rows[i] = static_cast<uint32_t>(i);
  if (!count || n->brute) return ADJ_OK;
  adj_status status = adji_gpu_wait(n->gpu); /* copies have a stream of their own */
  return status ? status : adji_download(n->gpu, n->left->points.ids, count * sizeof *rows, rows, &n->work);
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static adj_status make_slot(adji_gpu_knn *n, uint64_t queries, adji_knn_slot *slot) {
  adji_gpu *gpu = n->gpu;
  uint64_t entries = adji_mul(queries, n->join.k), size = adji_type_size(n->join.left->type);
  adj_status status = adji_order_make_ranges(gpu, &slot->ranges);
  if (!status) status = adji_block_get(gpu, gpu->compute, queries * 4, "list of queries", &slot->rows);
  if (!status) status = adji_block_get(gpu, gpu->compute, adji_mul(entries, 4), "table of neighbours", &slot->ids);
  if (!status) status = adji_block_get(gpu, gpu->compute, adji_mul(entries, size), "table of neighbours", &slot->sums);
  if (!status && n->grid.positions.at)
    status = adji_block_get(gpu, gpu->compute, queries * 4, "list of queries", &slot->failed);
  if (status) return status;
  /* A thread that waits for this event sleeps, since the cores have other work. */
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&slot->found, cudaEventDisableTiming | cudaEventBlockingSync));
  return ADJ_OK;
}

static adj_status make_lists(adji_gpu_knn *n, uint64_t queries) {
  adji_gpu *gpu = n->gpu;
  bool trees = !n->brute;
  adj_status status = ADJ_OK;
  if (trees) status = adji_block_get(gpu, gpu->compute, n->join.left->count * 4, "queries", &n->places);
  if (!status && trees) status = adji_block_get(gpu, gpu->compute, queries * 4, "queries", &n->hard);
  for (int i = 0; i < 2 && !status && trees; i++)
    status = adji_block_get(gpu, gpu->compute, queries * 4, "queries", &n->listed[i]);
  for (uint32_t i = 0; i < ADJI_LISTS && !status; i++)
    status = make_slot(n, queries, &n->slots[i]);
  if (status) adji_gpu_knn_end_lists(n);
  return status;
}

adj_status adji_gpu_knn_begin_lists(adji_gpu_knn *n, uint64_t first_row, uint64_t end_row, uint64_t *queries) {
  uint64_t many = *queries < n->join.left->count ? *queries : n->join.left->count;
  n->list_first = first_row;
  n->list_end = end_row;
  n->list_candidates = 0;
  if (n->brute && many > n->rows_at_once / ADJI_LISTS) many = n->rows_at_once / ADJI_LISTS; /* room for its matrix */
  if (!many) many = 1;
  adj_status status = make_lists(n, many);
  while (status == ADJ_E_DEVICE_MEMORY && many > LEAST_QUERIES) {
    many = many / 2 > LEAST_QUERIES ? many / 2 : LEAST_QUERIES;
    status = make_lists(n, many);
  }
  *queries = many;
  if (!status) status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_SPREAD, 5 * ADJI_SPREAD);
  if (!status) status = adji_gpu_wait(n->gpu); /* so that copies may use the blocks at once */
  if (status) adji_gpu_knn_end_lists(n);
  return status;
}

void adji_gpu_knn_end_lists(adji_gpu_knn *n) {
  adji_blocks_free(n->gpu, {&n->places, &n->hard, &n->listed[0], &n->listed[1], &n->temporary});
  for (adji_knn_slot &slot : n->slots) {
    adji_blocks_free(n->gpu, {&slot.ranges, &slot.rows, &slot.ids, &slot.sums, &slot.failed});
    if (slot.found) cudaEventDestroy(slot.found);
    slot = adji_knn_slot{};
  }
}

/* ---- A list ---------------------------------------------------------------------------------- */

/* places[rows[i]] = i: the place of each row in the list. One thread per row; rows and places in device memory. */
static __global__ void number_rows(const uint32_t *rows, uint64_t count, uint32_t *places) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) places[rows[i]] = static_cast<uint32_t>(i);
}

static adj_status find_list(adji_gpu_knn *n, uint64_t ranges, adji_knn_slot *slot) {
  adji_gpu *gpu = n->gpu;
  uint32_t *queries = NULL, *places = adji_at<uint32_t>(n->places), *rows = adji_at<uint32_t>(slot->rows);
  slot->returned = false;
  adji_order_list list = {
      &slot->ranges,       &n->order, ranges,       {n->left->points.ids, n->list_first, n->list_end},
      n->join.left->count, n->listed, &n->temporary};
  adj_status status = adji_order_queries(gpu, &list, &slot->count, &queries, rows);
  if (status || !slot->count) return status;
  number_rows<<<adji_blocks_for(slot->count, THREADS), THREADS, 0, gpu->compute>>>(rows, slot->count, places);
  ADJI_LAUNCHED(gpu, "number_rows");
  adji_knn_job job = {};
  job.queries = queries;
  job.query_count = slot->count;
  job.places = places;
  job.ids = adji_at<uint32_t>(slot->ids);
  job.sums = slot->sums.at;
  status = adji_knn_search(n, &job);
  if (status || !n->grid.returned) return status;
  slot->returned = true;
  return adji_knn_grid_report_failed(&n->grid, slot->count, &slot->failed);
}

/* rows[i] = first + i. One thread per row; rows in device memory. */
static __global__ void write_rows(uint32_t first, uint64_t count, uint32_t *rows) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) rows[i] = first + static_cast<uint32_t>(i);
}

/* Finds consecutive rows by brute force, and stores them after those that the slot has. */
static adj_status find_rows_brute(adji_gpu_knn *n, uint64_t first, uint64_t rows, adji_knn_slot *slot) {
  uint64_t at = slot->count * n->join.k, size = adji_type_size(n->join.left->type);
  write_rows<<<adji_blocks_for(rows, THREADS), THREADS, 0, n->gpu->compute>>>(
      static_cast<uint32_t>(first), rows, adji_at<uint32_t>(slot->rows) + slot->count);
  ADJI_LAUNCHED(n->gpu, "write_rows");
  slot->count += rows;
  n->list_candidates += rows * n->join.right->count;
  return adji_gpu_brute_search(n->brute, first, rows, adji_at<uint32_t>(slot->ids) + at,
                               adji_at<char>(slot->sums) + at * size);
}

/* Finds the rows of a list by brute force. Ranges that follow each other are searched together. */
static adj_status find_list_brute(adji_gpu_knn *n, const adji_batch *ranges, uint64_t count, adji_knn_slot *slot) {
  adj_status status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_HEAD, 1);
  slot->count = 0;
  slot->returned = false;
  for (uint64_t i = 0; i < count && !status;) {
    uint64_t begin = ranges[i].begin, end = ranges[i].end;
    for (i++; i < count && ranges[i].begin == end; i++)
      end = ranges[i].end;
    if (begin < n->list_first) begin = n->list_first;
    if (end > n->list_end) end = n->list_end;
    if (begin < end) status = find_rows_brute(n, begin, end - begin, slot);
  }
  slot->candidates = n->list_candidates;
  return status;
}

static adj_status find_list_in_trees(adji_gpu_knn *n, const adji_batch *ranges, uint64_t count, uint32_t buffer,
                                     adji_knn_slot *slot) {
  adj_status status = adji_order_send(n->gpu, ranges, count, &slot->ranges, buffer, &slot->count);
  return status ? status : find_list(n, count, slot);
}

adj_status adji_gpu_knn_list(adji_gpu_knn *n, const adji_batch *ranges, uint64_t count, uint32_t slot_number,
                             uint32_t buffer, uint64_t *rows) {
  adji_gpu *gpu = n->gpu;
  adji_knn_slot *slot = &n->slots[slot_number];
  adj_status status = adji_knn_start_watch(n);
  if (!status)
    status = n->brute ? find_list_brute(n, ranges, count, slot) : find_list_in_trees(n, ranges, count, buffer, slot);
  if (!status) status = adji_knn_stop_watch(n);
  if (!status) status = adji_answers_keep(gpu, gpu->compute, slot_number);
  if (status) return status;
  ADJI_CUDA(gpu, cudaEventRecord(slot->found, gpu->compute));
  *rows = slot->count;
  return ADJ_OK;
}

adj_status adji_gpu_knn_listed(adji_gpu_knn *n, uint32_t slot, uint64_t *candidates) {
  ADJI_CUDA(n->gpu, cudaEventSynchronize(n->slots[slot].found));
  const adji_knn_slot *of = &n->slots[slot];
  *candidates = n->brute ? of->candidates : adji_totals_kept(n->gpu, slot).candidates;
  if (!of->returned) return ADJ_OK;
  n->grid.work.queries += of->count;
  n->grid.work.failed += adji_answer_kept(n->gpu, slot, ADJI_ANSWER_HEAD);
  return ADJ_OK;
}

adj_status adji_gpu_knn_missed(adji_gpu_knn *n, uint32_t slot_number, uint32_t *to, uint64_t *count) {
  const adji_knn_slot *slot = &n->slots[slot_number];
  *count = slot->returned ? adji_answer_kept(n->gpu, slot_number, ADJI_ANSWER_HEAD) : 0;
  if (!*count) return ADJ_OK;
  ADJI_CUDA(n->gpu, cudaMemcpyAsync(to, slot->failed.at, *count * 4, cudaMemcpyDeviceToHost, n->gpu->copy));
  ADJI_CUDA(n->gpu, cudaStreamSynchronize(n->gpu->copy));
  return ADJ_OK;
}

adj_status adji_gpu_knn_judge(adji_gpu_knn *n, uint64_t queries, uint64_t missed, bool *grew) {
  return adji_knn_grid_judge(&n->grid, queries, missed, grew);
}

/* ---- To the host ----------------------------------------------------------------------------- */

static adj_status copy_part(adji_gpu_knn *n, const adji_block *from, uint64_t first, uint64_t bytes, uint32_t buffer,
                            uint64_t to) {
  char *host = static_cast<char *>(adji_staging_at(n->gpu, buffer)) + to;
  ADJI_CUDA(n->gpu, cudaMemcpyAsync(host, adji_at<char>(*from) + first, bytes, cudaMemcpyDeviceToHost, n->gpu->copy));
  return ADJ_OK;
}

adj_status adji_gpu_knn_fetch(adji_gpu_knn *n, uint32_t slot_number, uint64_t first, uint64_t rows, bool distances,
                              uint32_t buffer) {
  const adji_knn_slot *slot = &n->slots[slot_number];
  uint64_t k = n->join.k, size = distances ? adji_type_size(n->join.left->type) : 0;
  adji_list_piece piece = adji_list_piece_of(rows, n->join.k, size);
  adj_status status = copy_part(n, &slot->rows, first * 4, rows * 4, buffer, 0);
  if (!status && distances)
    status = copy_part(n, &slot->sums, first * k * size, rows * k * size, buffer, piece.distances);
  if (!status) status = copy_part(n, &slot->ids, first * k * 4, rows * k * 4, buffer, piece.ids);
  if (status) return status;
  ADJI_CUDA(n->gpu, cudaEventRecord(n->gpu->staging[buffer].copied[0], n->gpu->copy));
  return ADJ_OK;
}
