/* SPDX-License-Identifier: MIT
 *
 * Writes arrays to a zip file, in chunks, on all threads.
 */
#include "io/write_arrays.h"

#include <stdio.h>
#include <string.h>

size_t adji_npy_header(char *to, const char *descr, const char *shape) {
  char text[ADJI_NPY_HEADER];
  int length = snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': %s, }", descr, shape);
  size_t total = ((size_t)length + 10 + 1 + 63) / 64 * 64; /* magic and sizes, text, blanks, line end */
  memset(to, ' ', total);
  memcpy(to, "\x93NUMPY\x01\x00", 8); /* format 1.0 */
  to[8] = (char)((total - 10) & 255);
  to[9] = (char)((total - 10) >> 8);
  memcpy(to + 10, text, (size_t)length);
  to[total - 1] = '\n';
  return total;
}

/* A part being appended, with the checksum of each of its chunks. */
typedef struct append_job {
  adji_arrays *arrays;
  const adji_array_part *part;
  uint64_t chunk_items;
  uint32_t *crcs;
} append_job;

static uint64_t items_in_chunk(const append_job *job, uint64_t chunk) {
  uint64_t remaining = job->part->count - chunk * job->chunk_items;
  return remaining < job->chunk_items ? remaining : job->chunk_items;
}

static adj_status write_chunk(void *user, uint64_t chunk, uint32_t lane) {
  (void)lane;
  append_job *job = user;
  const adji_array_part *part = job->part;
  adji_arrays *arrays = job->arrays;
  uint64_t made[ADJI_ARRAYS_CHUNK / sizeof(uint64_t)];
  uint64_t first = chunk * job->chunk_items, many = items_in_chunk(job, chunk);
  const void *bytes = made;
  if (part->from)
    bytes = (const char *)part->from + first * part->item_bytes;
  else
    part->make(part->user, first, many, made);
  job->crcs[chunk] = adji_crc(&arrays->crc, bytes, many * part->item_bytes);
  uint64_t at = arrays->member[part->array].data_at + arrays->written[part->array] + first * part->item_bytes;
  return adji_output_write_at(arrays->output, at, bytes, many * part->item_bytes);
}

adj_status adji_arrays_append(adji_arrays *arrays, const adji_array_part *part) {
  adj_ctx *ctx = arrays->ctx;
  if (!part->count) return ADJ_OK;
  append_job job = {.arrays = arrays, .part = part, .chunk_items = ADJI_ARRAYS_CHUNK / part->item_bytes};
  uint64_t chunks = (part->count - 1) / job.chunk_items + 1;
  job.crcs = adji_alloc(&ctx->memory, chunks, sizeof *job.crcs, "checksums");
  if (!job.crcs) return ADJ_E_MEMORY;
  uint64_t begin_ns = adji_now_ns();
  adj_status status = adji_loop(ctx, chunks, write_chunk, &job);
  adji_zip_member *member = &arrays->member[part->array];
  for (uint64_t chunk = 0; !status && chunk < chunks; chunk++)
    member->crc = adji_crc_join(member->crc, job.crcs[chunk], items_in_chunk(&job, chunk) * part->item_bytes);
  arrays->written[part->array] += part->count * part->item_bytes;
  adji_free(&ctx->memory, job.crcs);
  if (!status) adji_trace(ctx, "write", 0, begin_ns, part->count);
  return status;
}

adj_status adji_arrays_begin(adji_arrays *arrays, adj_ctx *ctx, adji_output *output, const adji_array *each,
                             uint32_t count, bool first) {
  arrays->ctx = ctx;
  arrays->output = output;
  arrays->count = count;
  adji_crc_init(&arrays->crc);
  char headers[ADJI_ARRAYS_MOST][ADJI_NPY_HEADER];
  size_t header_bytes[ADJI_ARRAYS_MOST];
  for (uint32_t i = 0; i < count; i++) {
    header_bytes[i] = adji_npy_header(headers[i], each[i].descr, each[i].shape);
    arrays->member[i] = (adji_zip_member){.name = each[i].name, .bytes = header_bytes[i] + each[i].bytes};
    arrays->begin[i] = arrays->written[i] = first ? 0 : header_bytes[i] + each[i].before;
    arrays->end[i] = header_bytes[i] + each[i].before + each[i].own;
  }
  adji_zip_place(arrays->member, count);
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; first && !status && i < count; i++) {
    adji_array_part header = {.array = i, .count = header_bytes[i], .item_bytes = 1, .from = headers[i]};
    status = adji_arrays_append(arrays, &header);
  }
  return status;
}

adj_status adji_arrays_finish(adji_arrays *arrays, adj_share_sums *sums) {
  for (uint32_t i = 0; i < arrays->count; i++) {
    if (arrays->written[i] != arrays->end[i])
      return adji_fail(ADJ_E_INTERNAL, "%s: %s has %llu bytes instead of %llu", adji_output_name(arrays->output),
                       arrays->member[i].name, (unsigned long long)arrays->written[i],
                       (unsigned long long)arrays->end[i]);
    sums->crc[i] = arrays->member[i].crc;
    sums->bytes[i] = arrays->end[i] - arrays->begin[i];
  }
  return ADJ_OK;
}

adj_status adji_arrays_complete(adji_arrays *arrays, const adj_share_sums *sums) {
  for (uint32_t i = 0; i < arrays->count; i++) {
    if (sums->bytes[i] != arrays->member[i].bytes)
      return adji_fail(ADJ_E_INTERNAL, "%s: the shares of %s have %llu bytes instead of %llu",
                       adji_output_name(arrays->output), arrays->member[i].name, (unsigned long long)sums->bytes[i],
                       (unsigned long long)arrays->member[i].bytes);
    arrays->member[i].crc = sums->crc[i];
  }
  return adji_zip_finish(arrays->output, arrays->member, arrays->count);
}
