/* SPDX-License-Identifier: MIT
 *
 * Messages of any size between ranks. MPI counts in int, so long messages are sent in chunks, which arrive in order.
 */
#include <stdlib.h>
#include <string.h>

#include "mpi/group.h"

enum { TAG_DATA = 2 };

adj_status adji_mail_open(adji_group *group, adji_mail *mail) {
  *mail = (adji_mail){0};
  mail->starts =
      adji_alloc_zero(&group->ctx->memory, (uint64_t)group->ranks + 1, sizeof *mail->starts, "lengths of messages");
  return mail->starts ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_mail_clear(adji_group *group, adji_mail *mail) {
  adji_group_free(group, mail->starts);
  adji_group_free(group, mail->bytes);
  *mail = (adji_mail){0};
}

static adj_status get_request(adji_requests *list, MPI_Request **out) {
  if (list->count == list->room) {
    int room = list->room ? 2 * list->room : 64;
    MPI_Request *items = realloc(list->items, (size_t)room * sizeof *items);
    if (!items) return adji_fail(ADJ_E_MEMORY, "no memory for messages");
    list->items = items;
    list->room = room;
  }
  *out = &list->items[list->count];
  **out = MPI_REQUEST_NULL;
  list->count++;
  return ADJ_OK;
}

void adji_requests_clear(adji_requests *list) {
  free(list->items);
  *list = (adji_requests){0};
}

adj_status adji_post_send(adji_group *group, adji_requests *list, const char *bytes, uint64_t size, int to) {
  for (uint64_t at = 0; at < size;) {
    uint64_t some = size - at < group->chunk ? size - at : group->chunk;
    MPI_Request *request = NULL;
    adj_status status = get_request(list, &request);
    if (status) return adji_mpi_check(group, MPI_ERR_OTHER, "posting a message, for want of memory,");
    int code = MPI_Isend(bytes + at, (int)some, MPI_BYTE, to, TAG_DATA, group->comm, request);
    status = adji_mpi_check(group, code, "MPI_Isend");
    if (status) return status;
    at += some;
    group->bytes_sent += some;
    group->messages++;
  }
  return ADJ_OK;
}

adj_status adji_post_receive(adji_group *group, adji_requests *list, char *bytes, uint64_t size, int from) {
  for (uint64_t at = 0; at < size;) {
    uint64_t some = size - at < group->chunk ? size - at : group->chunk;
    MPI_Request *request = NULL;
    adj_status status = get_request(list, &request);
    if (status) return adji_mpi_check(group, MPI_ERR_OTHER, "posting a message, for want of memory,");
    int code = MPI_Irecv(bytes + at, (int)some, MPI_BYTE, from, TAG_DATA, group->comm, request);
    status = adji_mpi_check(group, code, "MPI_Irecv");
    if (status) return status;
    at += some;
  }
  return ADJ_OK;
}

/* Exchanges the lengths of all messages, and sets in->starts. */
static adj_status exchange_lengths(adji_group *group, const adji_mail *out, adji_mail *in, uint64_t *lengths) {
  for (int i = 0; i < group->ranks; i++)
    lengths[i] = out->starts[i + 1] - out->starts[i];
  MPI_Request request;
  int code = MPI_Ialltoall(lengths, 1, MPI_UINT64_T, lengths + group->ranks, 1, MPI_UINT64_T, group->comm, &request);
  adj_status status = adji_mpi_check(group, code, "MPI_Ialltoall");
  if (!status) status = adji_wait(group, 1, &request);
  for (int i = 0; i < group->ranks && !status; i++)
    in->starts[i + 1] = in->starts[i] + lengths[group->ranks + i];
  return status;
}

static adj_status exchange_bytes(adji_group *group, const adji_mail *out, adji_mail *in) {
  adji_requests list = {0};
  adj_status status = ADJ_OK;
  int rank = group->rank, ranks = group->ranks;
  for (int i = 1; i < ranks && !status; i++) { /* each rank starts with its neighbour, which spreads the load */
    int from = (rank + ranks - i) % ranks;
    status =
        adji_post_receive(group, &list, in->bytes + in->starts[from], in->starts[from + 1] - in->starts[from], from);
  }
  for (int i = 1; i < ranks && !status; i++) {
    int to = (rank + i) % ranks;
    status = adji_post_send(group, &list, out->bytes + out->starts[to], out->starts[to + 1] - out->starts[to], to);
  }
  if (!status) {
    uint64_t own = out->starts[rank + 1] - out->starts[rank];
    if (own) memcpy(in->bytes + in->starts[rank], out->bytes + out->starts[rank], own);
    status = adji_wait(group, list.count, list.items);
  }
  adji_requests_clear(&list);
  return status;
}

#undef adji_exchange
adj_status adji_exchange(adji_group *group, adj_status status, const adji_mail *out, adji_mail *in) {
  uint64_t *lengths = NULL;
  *in = (adji_mail){0};
  if (!status) status = adji_mail_open(group, in);
  if (!status)
    lengths = adji_alloc(&group->ctx->memory, 2 * (uint64_t)group->ranks, sizeof *lengths, "lengths of messages");
  if (!status && !lengths) status = ADJ_E_MEMORY;
  status = adji_agree(group, status);
  if (!status) status = exchange_lengths(group, out, in, lengths);
  if (!status) {
    in->bytes = adji_alloc(&group->ctx->memory, in->starts[group->ranks] + 1, 1, "messages of other ranks");
    status = adji_agree(group, in->bytes ? ADJ_OK : ADJ_E_MEMORY);
  }
  if (!status) status = exchange_bytes(group, out, in);
  adji_group_free(group, lengths);
  if (status) adji_mail_clear(group, in);
  return status;
}
