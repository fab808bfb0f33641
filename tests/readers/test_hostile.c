/* SPDX-License-Identifier: MIT
 *
 * Hostile files: compressed files that fill the memory or contain another compressed file, and every file of
 * tests/readers/data cut off at each of its bytes.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "files.h"

static bool can_unpack(void) {
  return strstr(adj_build_features(), "zlib") != NULL;
}

static adj_ctx *context_with_limit(uint64_t bytes) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 1;
  options.memory_limit = bytes;
  options.device_count = 0;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  return ctx;
}

/* ---- Gzip ------------------------------------------------------------------------------------------------------ */

static void put_u32(unsigned char *to, uint32_t value) {
  for (int i = 0; i < 4; i++)
    to[i] = (unsigned char)(value >> 8 * i);
}

static uint32_t checksum(const unsigned char *bytes, size_t size) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* Makes a gzip file of one stored block. The content has less than 64 KiB. Returns the size, which is 23 bytes more. */
static size_t wrap(const unsigned char *content, size_t size, unsigned char *to) {
  static const unsigned char head[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1};
  memcpy(to, head, sizeof head);
  put_u32(to + 11, (uint32_t)size | ~(uint32_t)size << 16);
  memcpy(to + 15, content, size);
  put_u32(to + 15 + size, checksum(content, size));
  put_u32(to + 19 + size, (uint32_t)size);
  return size + 23;
}

static void compressed_twice(void **state) {
  (void)state;
  static const unsigned char text[] = "1,2\n3,4\n";
  unsigned char once[64], twice[128], thrice[256];
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = NULL;
  adj_open_options as_f32 = open_defaults();
  as_f32.type = ADJ_F32;
  size_t size = wrap(text, sizeof text - 1, once);
  if (can_unpack()) {
    must(open_bytes(ctx, "a.csv.gz", once, size, &as_f32, &set));
    check_and_destroy(set, ADJ_F32, 2, 2, (double[]){1, 2, 3, 4});
    size = wrap(once, size, twice);
    static const char *names[] = {"a.csv", "a.csv.gz", "a.csv.gz.gz", "a", "a.npy", "a.h5", "a.npy.gz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      must_fail(ADJ_E_FORMAT, ": is a gzip file within a gzip file; unpack it with gunzip first",
                open_bytes(ctx, names[i], twice, size, NULL, &set));
    size = wrap(twice, size, thrice);
    must_fail(ADJ_E_FORMAT, "is a gzip file within a gzip file", open_bytes(ctx, "a.csv", thrice, size, NULL, &set));
    /* Raw values may begin like a gzip file by chance. */
    adj_open_options options = open_defaults();
    options.shape = "u8:1";
    size = wrap(once, sizeof text - 1 + 23, twice);
    must(open_bytes(ctx, "a.raw.gz", twice, size, &options, &set));
    assert_int_equal(adj_dataset_count(set), sizeof text - 1 + 23);
    adj_dataset_destroy(set);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* The beginning of a million zero bytes as gzip -9 packs them. Each zero byte after it has four codes of two bits and
 * stands for 1032 more bytes. stated is the size that the last bytes claim. */
static unsigned char *bomb(size_t size, uint32_t stated) {
  static const unsigned char head[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xed, 0xc1, 0x31,
                                       0x01, 0x00, 0x00, 0x00, 0xc2, 0xa0, 0xf5, 0x4f, 0x6d, 0x08, 0x5f, 0xa0};
  unsigned char *file = calloc(1, size);
  assert_non_null(file);
  memcpy(file, head, sizeof head);
  put_u32(file + size - 4, stated);
  return file;
}

static void bombs(void **state) {
  (void)state;
  const size_t size = 100000; /* unpacks to 103 MB */
  static const uint32_t stated[] = {0, 50000000, UINT32_MAX};
  for (size_t i = 0; can_unpack() && i < sizeof stated / sizeof *stated; i++) {
    unsigned char *file = bomb(size, stated[i]);
    adj_dataset *set = NULL;
    adj_ctx *ctx = context_with_limit(UINT64_C(1) << 30), *small = context_with_limit(10 << 20);
    must_fail(ADJ_E_FORMAT,
              "a.csv: its 100000 bytes unpack to more than 67108864, as only a file made to fill the memory",
              open_bytes(ctx, "a.csv", file, size, NULL, &set));
    assert_true(adj_ctx_memory_peak(ctx) < 170 << 20); /* the last block, and the block it was copied from */
    must_fail(ADJ_E_MEMORY, "a.csv: the unpacked input: needs ", open_bytes(small, "a.csv", file, size, NULL, &set));
    assert_null(strstr(adj_last_error(), "--map"));
    assert_true(adj_ctx_memory_peak(small) <= 10 << 20);
    assert_int_equal(adj_ctx_memory_used(ctx) + adj_ctx_memory_used(small), 0);
    adj_ctx_destroy(small);
    adj_ctx_destroy(ctx);
    free(file);
  }
}

/* Only twelve million zeros: too few to do harm, whatever the ratio. */
static void well_packed(void **state) {
  (void)state;
  const size_t size = 12000;
  unsigned char *file = bomb(size, 0);
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = NULL;
  if (can_unpack())
    must_fail(ADJ_E_FORMAT, "a.csv: the compressed data ends early, after 12000 bytes",
              open_bytes(ctx, "a.csv", file, size, NULL, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
  free(file);
}

/* ---- Files that end early ---------------------------------------------------------------------------------------- */

static size_t load(const char *name, unsigned char *to, size_t room) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", READERS_DATA, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(to, 1, room, file);
  fclose(file);
  return size;
}

/* Only the whole file is valid. Borrowed bytes of exactly this length let a sanitizer see each read beyond them. A
 * mapping and a file that is read take other paths through the code. */
static void cut_off(void **state) {
  (void)state;
  static const char *names[] = {"bool.npy",          "f16.npy",        "f32.npy",           "f64_big_endian.npy",
                                "f64_fortran.npy",   "i64.npy",        "version2.npy",      "version3.npy",
                                "one_dimension.npy", "structured.npy", "two_members.csv.gz"};
  static unsigned char whole[16384];
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size = load(names[i], whole, sizeof whole);
    bool gzip = strstr(names[i], ".gz") != NULL;
    if (gzip && !can_unpack()) continue;
    for (size_t cut = 0; cut < size; cut += gzip ? 7 : 1) {
      adj_open_options options = open_defaults();
      adj_dataset *set = NULL;
      unsigned char *part = malloc(cut + !cut);
      assert_non_null(part);
      memcpy(part, whole, cut);
      must_fail(ADJ_E_FORMAT, names[i], read_bytes(ctx, names[i], part, cut, &options, &set));
      options.map = cut % 2;
      must_fail(ADJ_E_FORMAT, names[i], open_bytes(ctx, names[i], part, cut, &options, &set));
      free(part);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
    }
  }
  adj_ctx_destroy(ctx);
}

/* The same for formats without a magic number. A file of fvecs or raw values that is cut off may still be whole rows.
 * */
static void cut_off_rows(void **state) {
  (void)state;
  static const struct {
    const char *name;
    uint32_t bytes[12];
    size_t size, row; /* row 0: only the whole file is valid */
  } cases[] = {{"a.fbin", {3, 2, 0, 0, 0, 0, 0, 0}, 32, 0},
               {"a.u8bin", {4, 2, 0, 0}, 16, 0},
               {"a.fvecs", {2, 0, 0, 2, 0, 0, 2, 0, 0}, 36, 12},
               {"a.bvecs", {4, 0, 4, 0, 4, 0}, 24, 8},
               {"a.raw", {0}, 24, 8}};
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (size_t cut = 0; cut < cases[i].size; cut++) {
      adj_open_options options = open_defaults();
      if (!strcmp(cases[i].name, "a.raw")) options.shape = "f32:2";
      adj_dataset *set = NULL;
      unsigned char *part = malloc(cut + !cut);
      assert_non_null(part);
      memcpy(part, cases[i].bytes, cut);
      adj_status status = read_bytes(ctx, cases[i].name, part, cut, &options, &set);
      bool rows = cases[i].row && cut % cases[i].row == 0 && (cut || options.shape);
      assert_int_equal(status, rows ? ADJ_OK : ADJ_E_FORMAT);
      if (rows) assert_int_equal(adj_dataset_count(set), cut / cases[i].row);
      adj_dataset_destroy(set);
      free(part);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
    }
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(compressed_twice), cmocka_unit_test(bombs),
                                     cmocka_unit_test(well_packed), cmocka_unit_test(cut_off),
                                     cmocka_unit_test(cut_off_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
