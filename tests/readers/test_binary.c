/* SPDX-License-Identifier: MIT
 *
 * The binary formats: files that numpy and HDF5 wrote, files written here in every stored type, and every way in which
 * files can be wrong.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "files.h"

static const double points[] = {0, 1.5, -2.25, 3, 4, -0.5};

/* ---- Files that others wrote ----------------------------------------------------------------------------- */

static void numpy_files(void **state) {
  (void)state;
  static const struct {
    const char *name;
    adj_type type;
    uint64_t count;
    uint32_t dim;
    double values[6];
  } files[] = {{"f32.npy", ADJ_F32, 3, 2, {0, 1.5, -2.25, 3, 4, -0.5}},
               {"f64_big_endian.npy", ADJ_F64, 3, 2, {0, 1.5, -2.25, 3, 4, -0.5}},
               {"f64_fortran.npy", ADJ_F64, 3, 2, {0, 1.5, -2.25, 3, 4, -0.5}},
               {"f16.npy", ADJ_F32, 3, 2, {0, 1.5, -2.25, 3, 4, -0.5}},
               {"version2.npy", ADJ_F32, 3, 2, {0, 1.5, -2.25, 3, 4, -0.5}},
               {"version3.npy", ADJ_F32, 3, 2, {0, 1.5, -2.25, 3, 4, -0.5}},
               {"one_dimension.npy", ADJ_F32, 3, 1, {1.5, 3, -0.5}},
               {"bool.npy", ADJ_F32, 2, 2, {1, 0, 0, 1}},
               {"i64.npy", ADJ_F64, 2, 2, {1, -2, 3, 9007199254740992.0}}};
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    adj_dataset *set = NULL;
    must(open_golden(ctx, files[i].name, NULL, &set));
    check_and_destroy(set, files[i].type, files[i].count, files[i].dim, files[i].values);
  }
  adj_dataset *set = NULL;
  must_fail(ADJ_E_FORMAT, "named fields", open_golden(ctx, "structured.npy", NULL, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void hdf5_files(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  adj_open_options options = open_defaults();
  if (!have_hdf5(ctx)) {
    adj_ctx_destroy(ctx);
    skip();
  }
  must(open_golden(ctx, "one.h5", NULL, &set));
  check_and_destroy(set, ADJ_F32, 3, 2, points);
  options.dataset = "weights";
  must(open_golden(ctx, "one.h5", &options, &set));
  check_and_destroy(set, ADJ_F32, 6, 1, points);
  static const struct {
    const char *name;
    adj_type type;
    double first[2];
  } sets[] = {{"group/f64be", ADJ_F64, {0, 1.5}},
              {"/group/f64be", ADJ_F64, {0, 1.5}},
              {"i32", ADJ_F64, {1, -2}},
              {"f16", ADJ_F32, {0, 1.5}}};
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    options.dataset = sets[i].name;
    must(open_golden(ctx, "several.h5", &options, &set));
    assert_int_equal(adj_dataset_count(set), 3);
    assert_int_equal(adj_dataset_type(set), sets[i].type);
    double row[2];
    must(adj_dataset_row(set, 0, row));
    for (int j = 0; j < 2; j++)
      assert_true((sets[i].type == ADJ_F64 ? row[j] : (double)((float *)row)[j]) == sets[i].first[j]);
    adj_dataset_destroy(set);
  }
  static const struct {
    const char *file, *dataset;
    adj_status status;
    const char *message;
  } wrong[] = {
      {"several.h5", NULL, ADJ_E_ARGUMENT, "dataset: the file has several; name one of: f16, group/f64be, i32, large"},
      {"several.h5", "nope", ADJ_E_ARGUMENT,
       "dataset: there is no \"nope\"; datasets of points here: f16, group/f64be"},
      {"several.h5", "group", ADJ_E_ARGUMENT, "dataset: there is no \"group\""},
      {"several.h5", "cube", ADJ_E_FORMAT, "hdf5: the dataset has 3 dimensions"},
      {"several.h5", "text", ADJ_E_FORMAT, "hdf5: the dataset does not hold integers or floats"},
      {"several.h5", "large", ADJ_E_DATA, "row 1, column 1: 9007199254740993 is not exact as f64"},
      {"none.h5", NULL, ADJ_E_FORMAT, "hdf5: there is no dataset of numbers in two dimensions"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    options.dataset = wrong[i].dataset;
    must_fail(wrong[i].status, wrong[i].message, open_golden(ctx, wrong[i].file, &options, &set));
  }
  must_fail(ADJ_E_FORMAT, "a.h5: hdf5: cannot be opened as an HDF5 file",
            open_text(ctx, "a.h5", "\x89HDF\r\n\x1a\n and no more", NULL, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Every stored type ------------------------------------------------------------------------------------- */

enum { VALUES = 6 };

typedef struct stored_case {
  const char *raw, *npy; /* names of the type in a shape and in a .npy file */
  size_t size;
  adj_type type; /* of the dataset */
  double values[VALUES];
} stored_case;

static const stored_case stored[] = {
    {"f16", "f2", 2, ADJ_F32, {0, -1.5, 65504, 0x1p-24, -0x1p-14, 0.0999755859375}},
    {"f32", "f4", 4, ADJ_F32, {0, -1.5, 0x1p127, 0x1p-149, 16777215, 0.5}},
    {"f64", "f8", 8, ADJ_F64, {0, -1.5, 0x1p1023, 0x1p-1074, 9007199254740991, 0.1}},
    {"i8", "i1", 1, ADJ_F32, {0, -1, -128, 127, 5, 6}},
    {"u8", "u1", 1, ADJ_F32, {0, 1, 128, 255, 5, 6}},
    {"i16", "i2", 2, ADJ_F32, {0, -1, -32768, 32767, 5, 6}},
    {"u16", "u2", 2, ADJ_F32, {0, 1, 32768, 65535, 5, 6}},
    {"i32", "i4", 4, ADJ_F64, {0, -1, -2147483648.0, 2147483647, 5, 6}},
    {"u32", "u4", 4, ADJ_F64, {0, 1, 2147483648.0, 4294967295, 5, 6}},
    {"i64", "i8", 8, ADJ_F64, {0, -1, -9223372036854775808.0, 9007199254740992, -9007199254740992, 6}},
    {"u64", "u8", 8, ADJ_F64, {0, 1, 9223372036854775808.0, 18446744073709549568.0, 5, 6}},
};
enum { STORED = sizeof stored / sizeof stored[0] };

/* Converts a value that a half can hold. */
static uint16_t half_of(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  double magnitude = fabs(x);
  if (magnitude < 0x1p-14) return (uint16_t)(sign | (uint16_t)(magnitude * 0x1p24));
  int exponent;
  double fraction = frexp(magnitude, &exponent); /* in [0.5, 1) */
  return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | (uint16_t)((fraction * 2 - 1) * 1024));
}

static void encode(const stored_case *c, double x, bool swapped, unsigned char *to) {
  unsigned char bytes[8];
  uint16_t half = half_of(x);
  float f32 = (float)x;
  int64_t integer = c->raw[0] == 'i' ? (int64_t)x : 0;
  uint64_t natural = c->raw[0] == 'u' ? (uint64_t)x : 0;
  if (c->raw[0] == 'f')
    memcpy(bytes, c->size == 2 ? (void *)&half : c->size == 4 ? (void *)&f32 : (void *)&x, c->size);
  else if (c->raw[0] == 'i') /* takes the low bytes, which come first: the tests run on little-endian machines */
    memcpy(bytes, &integer, c->size);
  else
    memcpy(bytes, &natural, c->size);
  for (size_t b = 0; b < c->size; b++)
    to[b] = bytes[swapped ? c->size - 1 - b : b];
}

static size_t npy_header(const char *descr, bool fortran, const char *shape, unsigned char *to) {
  char dict[200];
  int length = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr,
                        fortran ? "True" : "False", shape);
  size_t padded = ((size_t)length + 10 + 1 + 63) / 64 * 64;
  memset(to, ' ', padded);
  memcpy(to, "\x93NUMPY\x01\x00", 8);
  to[8] = (unsigned char)((padded - 10) & 255);
  to[9] = (unsigned char)((padded - 10) >> 8);
  memcpy(to + 10, dict, (size_t)length);
  to[padded - 1] = '\n';
  return padded;
}

/* All stored types, both byte orders and both array orders. */
static void every_type_of_npy(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int t = 0; t < STORED; t++)
    for (int variant = 0; variant < 4; variant++) {
      bool swapped = variant & 1, fortran = variant & 2;
      const stored_case *c = &stored[t];
      unsigned char file[512];
      char descr[8];
      snprintf(descr, sizeof descr, "%c%s", swapped ? '>' : '<', c->npy);
      size_t size = npy_header(descr, fortran, "(3, 2)", file);
      for (int i = 0; i < VALUES; i++) {
        int place = fortran ? i % 2 * 3 + i / 2 : i;
        encode(c, c->values[i], swapped, file + size + (size_t)place * c->size);
      }
      adj_dataset *set = NULL;
      must(open_bytes(ctx, "a.npy", file, size + VALUES * c->size, NULL, &set));
      check_and_destroy(set, c->type, 3, 2, c->values);
    }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void every_type_of_raw(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int t = 0; t < STORED; t++) {
    const stored_case *c = &stored[t];
    unsigned char file[64];
    char shape[32];
    for (int i = 0; i < VALUES; i++)
      encode(c, c->values[i], false, file + (size_t)i * c->size);
    adj_open_options options = open_defaults();
    options.shape = shape;
    adj_dataset *set = NULL;
    snprintf(shape, sizeof shape, "%s:3", c->raw);
    must(open_bytes(ctx, "a.raw", file, VALUES * c->size, &options, &set));
    check_and_destroy(set, c->type, 2, 3, c->values);
    snprintf(shape, sizeof shape, "%s:6x1", c->raw);
    must(open_bytes(ctx, "a.bin", file, VALUES * c->size, &options, &set));
    check_and_destroy(set, c->type, 6, 1, c->values);
  }
  adj_open_options options = open_defaults();
  options.shape = "f32:3";
  adj_dataset *set = NULL;
  must(open_bytes(ctx, "a.raw", "", 0, &options, &set)); /* no points, but of known dimension */
  check_and_destroy(set, ADJ_F32, 0, 3, NULL);
  adj_ctx_destroy(ctx);
}

/* Conversions to the type asked for, and the notes about them. */
static void conversions(void **state) {
  (void)state;
  notes heard;
  adj_ctx *ctx = context_with_notes(&heard);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  double f64[2] = {0.1, 1e300};
  float f32[2] = {0.1f, -2};
  int64_t i64[2] = {3, INT64_C(9007199254740993)};
  int32_t i32[2] = {16777217, -16777217};
  options.shape = "f64:1";
  options.type = ADJ_F32;
  must(open_bytes(ctx, "a.raw", f64, 8, &options, &set));
  check_and_destroy(set, ADJ_F32, 1, 1, (double[]){(double)0.1f});
  assert_non_null(strstr(heard.text, "a.raw: f64 converted to f32, values are rounded"));
  must_fail(ADJ_E_DATA, "a.raw: row 2, column 1: 1.0000000000000001e+300 is too large for f32",
            open_bytes(ctx, "a.raw", f64, 16, &options, &set));
  options.shape = "f32:1";
  options.type = ADJ_F64;
  must(open_bytes(ctx, "a.raw", f32, 8, &options, &set));
  check_and_destroy(set, ADJ_F64, 2, 1, (double[]){(double)0.1f, -2});
  options.shape = "i64:2";
  must(open_bytes(ctx, "a.raw", i64, 16, &options, &set)); /* rounded as asked for, with a note */
  check_and_destroy(set, ADJ_F64, 1, 2, (double[]){3, 9007199254740992});
  assert_non_null(strstr(heard.text, "i64 converted to f64, values above 2^53 are rounded"));
  options.type = 0;
  must_fail(ADJ_E_DATA, "a.raw: row 1, column 2: 9007199254740993 is not exact as f64",
            open_bytes(ctx, "a.raw", i64, 16, &options, &set));
  options.shape = "u64:2";
  must_fail(ADJ_E_DATA, "a.raw: row 1, column 2: 9007199254740993 is not exact as f64",
            open_bytes(ctx, "a.raw", i64, 16, &options, &set));
  options.shape = "i32:2";
  options.type = ADJ_F32;
  must(open_bytes(ctx, "a.raw", i32, 8, &options, &set));
  check_and_destroy(set, ADJ_F32, 1, 2, (double[]){16777216, -16777216});
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* More values than one piece of a conversion has, in rows with a gap, with a bad value in a late piece. */
static void large_conversion(void **state) {
  (void)state;
  const uint64_t rows = 100000, dim = 5, stride = 4 + dim;
  unsigned char *file = malloc(rows * stride);
  assert_non_null(file);
  for (uint64_t i = 0; i < rows; i++) {
    memcpy(file + i * stride, (unsigned char[]){(unsigned char)dim, 0, 0, 0}, 4);
    for (uint64_t j = 0; j < dim; j++)
      file[i * stride + 4 + j] = (unsigned char)(i * 7 + j * 3);
  }
  adj_ctx *ctx = context_of(3, NULL);
  adj_dataset *set = NULL;
  must(open_bytes(ctx, "a.bvecs", file, rows * stride, NULL, &set));
  assert_int_equal(adj_dataset_count(set), rows);
  for (uint64_t i = 0; i < rows; i++) {
    float row[5];
    must(adj_dataset_row(set, i, row));
    for (uint64_t j = 0; j < dim; j++)
      if (row[j] != (float)(unsigned char)(i * 7 + j * 3)) fail_msg("row %llu", (unsigned long long)i);
  }
  adj_dataset_destroy(set);
  file[90000 * stride] = 6;
  must_fail(ADJ_E_FORMAT, "a.bvecs: row 90001: its dimension is 6, that of row 1 is 5",
            open_bytes(ctx, "a.bvecs", file, rows * stride, NULL, &set));
  free(file);
  int64_t *wide = calloc(400000, sizeof *wide);
  assert_non_null(wide);
  wide[399999] = wide[399998] = INT64_MAX;
  adj_open_options options = open_defaults();
  options.shape = "i64:4";
  must_fail(ADJ_E_DATA, "row 100000, column 3: 9223372036854775807 is not exact",
            open_bytes(ctx, "a.raw", wide, 400000 * sizeof *wide, &options, &set));
  free(wide);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- fvecs, fbin ------------------------------------------------------------------------------------------------ */

static void vectors(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  struct {
    int32_t dim;
    float x[2];
  } rows[3] = {{2, {0, 1.5f}}, {2, {-2.25f, 3}}, {2, {4, -0.5f}}};
  must(open_bytes(ctx, "a.fvecs", rows, sizeof rows, NULL, &set));
  check_and_destroy(set, ADJ_F32, 3, 2, points);
  struct {
    uint32_t count, dim;
    float x[6];
  } fbin = {3, 2, {0, 1.5f, -2.25f, 3, 4, -0.5f}};
  must(open_bytes(ctx, "a.fbin", &fbin, sizeof fbin, NULL, &set));
  check_and_destroy(set, ADJ_F32, 3, 2, points);
  unsigned char u8bin[] = {2, 0, 0, 0, 2, 0, 0, 0, 0, 1, 254, 255};
  must(open_bytes(ctx, "a.u8bin", u8bin, sizeof u8bin, NULL, &set));
  check_and_destroy(set, ADJ_F32, 2, 2, (double[]){0, 1, 254, 255});
  must(open_bytes(ctx, "a.i8bin", u8bin, sizeof u8bin, NULL, &set));
  check_and_destroy(set, ADJ_F32, 2, 2, (double[]){0, 1, -2, -1});
  adj_ctx_destroy(ctx);
}

/* Floats of a file take as much memory as the file, in every format, or none if the file is mapped and used in place.
 * */
static void memory_of_floats(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  const uint64_t bytes = 1 << 20;
  unsigned char *file = calloc(1, bytes + 128);
  assert_non_null(file);
  for (int variant = 0; variant < 6; variant++) {
    adj_dataset *set = NULL;
    adj_open_options options = open_defaults();
    bool raw = variant / 2 == 2;
    options.map = variant % 2;
    options.shape = raw ? "f64:1024" : NULL;
    memset(file, 0, 128);
    size_t header = raw ? 0 : npy_header("<f4", variant / 2, "(131072, 2)", file);
    must(open_bytes(ctx, raw ? "a.raw" : "a.npy", file, header + bytes, &options, &set));
    uint64_t bounds = raw ? 2 * 8 * 1024 : 2 * 8 * 2;
    assert_int_equal(adj_ctx_memory_used(ctx), bounds + (options.map ? 0 : bytes + (variant / 2 == 1) * header));
    adj_dataset_destroy(set);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  free(file);
  adj_ctx_destroy(ctx);
}

/* ---- Wrong files ------------------------------------------------------------------------------------------------ */

static void wrong_npy_headers(void **state) {
  (void)state;
  static const struct {
    const char *descr, *shape, *message;
  } cases[] = {{"<f4", "()", "npy: the array has 0 dimensions, ()"},
               {"<f4", "(1, 2, 3)", "npy: the array has 3 dimensions, (1, 2, 3)"},
               {"<f4", "(5, 0)", "npy: the shape (5, 0) has rows of 0 values"},
               {"<f4", "(1, 5000000000)", "rows of 5000000000 values"},
               {"<f4", "(4, 2)", "promises 4 rows of 8 bytes, but 8 bytes are missing"},
               {"<f4", "(2, 2)", "promises 2 rows of 8 bytes, but 8 more bytes follow"},
               {"<f4", "(18446744073709551615, 2)", "more than any file holds"},
               {"<f4", "(18446744073709551616, 2)", "npy: the header is not understood at"},
               {"<f4", "(3, 2", "npy: the header is not understood at \"}\""},
               {"<f4", "(-3, 2)", "npy: the header is not understood at \"-3, 2), }"},
               {"<f4", "(3, -2)", "npy: the header is not understood at \"-2), }"},
               {"<f4", "(9223372036854775808, 1)", "more than any file holds"},
               {"<f4", "(4611686018427387904, 1)", "more than any file holds"},
               {"<f4", "(4611686018427387903, 1)", "18446744073709551588 bytes are missing"},
               {"<f8", "(1, 9223372036854775808)", "rows of 9223372036854775808 values"},
               {"<f4", "3", "npy: the header is not understood at \"3, }"},
               {"<c8", "(3, 2)", "npy: values of type \"<c8\" are not coordinates"},
               {"<f16", "(3, 2)", "npy: values of type \"<f16\" are not coordinates"},
               {"|O", "(3, 2)", "npy: values of type \"|O\" are not coordinates"},
               {"f4", "(3, 2)", "npy: values of type \"f4\" are not coordinates"},
               {"", "(3, 2)", "npy: values of type \"\" are not coordinates"}};
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned char file[512] = {0};
    size_t size = npy_header(cases[i].descr, false, cases[i].shape, file);
    memset(file + size, 0, 24);
    adj_dataset *set = NULL;
    must_fail(ADJ_E_FORMAT, cases[i].message, open_bytes(ctx, "a.npy", file, size + 24, NULL, &set));
    assert_int_equal(strncmp(adj_last_error(), "a.npy: ", 7), 0);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void wrong_npy_dicts(void **state) {
  (void)state;
  static const struct {
    const char *dict, *message;
  } cases[] = {{"{}", "npy: the header has no descr"},
               {"{'descr': '<f4'}", "npy: the header has no fortran_order"},
               {"{'descr': '<f4', 'fortran_order': False}", "npy: the header has no shape"},
               {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "not understood at \"0, 'shape'"},
               {"{'other': 1}", "not understood at \"other\""},
               {"{'descr': <f4}", "not understood at \"<f4}\""},
               {"{'descr': '<f4", "not understood at \"'<f4\""},
               {"{'descr' '<f4'}", "not understood at \"'<f4'}\""},
               {"{'descr': '<f4' 'shape'}", "not understood at \"'shape'}\""},
               {"[1]", "not understood at \"[1]\""},
               {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)} x", "not understood at \"x\""}};
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = NULL;
  unsigned char file[256];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t length = strlen(cases[i].dict);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)length;
    file[9] = 0;
    memcpy(file + 10, cases[i].dict, length);
    must_fail(ADJ_E_FORMAT, cases[i].message, open_bytes(ctx, "a.npy", file, length + 10, NULL, &set));
  }
  must_fail(ADJ_E_FORMAT, "npy: does not begin like a .npy file", open_text(ctx, "a.npy", "1,2\n", NULL, &set));
  must_fail(ADJ_E_FORMAT, "npy: the file ends within its header", open_bytes(ctx, "a.npy", file, 11, NULL, &set));
  must_fail(ADJ_E_FORMAT, "npy: the file ends within its header: 2 of", open_bytes(ctx, "a.npy", file, 12, NULL, &set));
  memcpy(file + 6, "\x02\x00\xff\xff\xff\xff", 6);
  must_fail(ADJ_E_FORMAT, "npy: its header of 4294967295 bytes is longer",
            open_bytes(ctx, "a.npy", file, 40, NULL, &set));
  memcpy(file + 8, "\x00\x00\x01\x00", 4);
  must_fail(ADJ_E_FORMAT, "npy: its header of 65536 bytes is longer", open_bytes(ctx, "a.npy", file, 40, NULL, &set));
  file[6] = 4;
  must_fail(ADJ_E_FORMAT, "npy: version 4.0 is not one of", open_bytes(ctx, "a.npy", file, 40, NULL, &set));
  /* Old writers put an L after a size. A set without points is fine if its dimension is known. */
  size_t size = npy_header("<f4", false, "(0L, 3L)", file);
  must(open_bytes(ctx, "a.npy", file, size, NULL, &set));
  check_and_destroy(set, ADJ_F32, 0, 3, NULL);
  size = npy_header("<i2", true, "(0, 3)", file);
  must(open_bytes(ctx, "a.npy", file, size, NULL, &set));
  check_and_destroy(set, ADJ_F32, 0, 3, NULL);
  adj_ctx_destroy(ctx);
}

/* The length of the header leaves the values unaligned, so they are copied. */
static void unaligned_npy(void **state) {
  (void)state;
  static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}";
  unsigned char file[256];
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t pad = 0; pad < 4; pad++) {
    size_t length = sizeof dict - 1 + pad;
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (unsigned char)length;
    file[9] = 0;
    memcpy(file + 10, dict, sizeof dict - 1);
    memset(file + 10 + sizeof dict - 1, ' ', pad);
    memcpy(file + 10 + length, (float[]){1.5f, -3}, 8);
    adj_dataset *set = NULL;
    must(open_bytes(ctx, "a.npy", file, 10 + length + 8, NULL, &set));
    check_and_destroy(set, ADJ_F32, 1, 2, (double[]){1.5, -3});
  }
  adj_ctx_destroy(ctx);
}

static void wrong_vectors(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = NULL;
  adj_open_options options = open_defaults();
  int32_t zero[2] = {0, 0}, negative[2] = {-1, 0}, rows[6] = {2, 0, 0, 3, 0, 0};
  uint32_t header[2] = {3, 2}, flat[2] = {3, 0}, huge[2] = {UINT32_MAX, UINT32_MAX};
  must_fail(ADJ_E_FORMAT, "a.fvecs: row 1: the file ends within its dimension",
            open_text(ctx, "a.fvecs", "xx", NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fvecs: row 1: its dimension is 0, which is not positive",
            open_bytes(ctx, "a.fvecs", zero, 8, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fvecs: row 1: its dimension is -1, which is not positive",
            open_bytes(ctx, "a.fvecs", negative, 8, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fvecs: row 2: its dimension is 3, that of row 1 is 2",
            open_bytes(ctx, "a.fvecs", rows, 24, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fvecs: row 2: 4 of its 12 bytes are missing",
            open_bytes(ctx, "a.fvecs", rows, 20, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fbin: the file has 7 bytes", open_bytes(ctx, "a.fbin", header, 7, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fbin: the header promises 3 rows of 8 bytes, but 24 bytes are missing",
            open_bytes(ctx, "a.fbin", header, 8, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fbin: the header promises 3 rows of dimension 0",
            open_bytes(ctx, "a.fbin", flat, 8, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.fbin: the header promises 4294967295 rows of 17179869180 bytes",
            open_bytes(ctx, "a.fbin", huge, 8, NULL, &set));
  int32_t wide[2] = {INT32_MAX, 0}, least[2] = {INT32_MIN, 0};
  must_fail(ADJ_E_FORMAT, "a.fvecs: row 1: 8589934584 of its 8589934592 bytes are missing",
            open_bytes(ctx, "a.fvecs", wide, 8, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.bvecs: row 1: its dimension is -2147483648, which is not positive",
            open_bytes(ctx, "a.bvecs", least, 8, NULL, &set));
  uint32_t empty[2] = {0, UINT32_MAX}; /* no rows, and more dimensions than a point can have */
  must_fail(ADJ_E_ARGUMENT, "a.fbin: dim: 4294967295 dimensions are not between 1 and 2^24",
            open_bytes(ctx, "a.fbin", empty, 8, NULL, &set));
  must_fail(ADJ_E_ARGUMENT, "a.raw: shape: raw files need one", open_bytes(ctx, "a.raw", rows, 24, NULL, &set));
  static const char *shapes[] = {"",      "f32",       "f32:",           "f32:x3",
                                 "f32:0", "f32:3x",    "f32:3x0",        "f32:3,2",
                                 "g32:3", "f32:3x2x1", "f32:5000000000", "f32:99999999999999999999",
                                 ":3"};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    options.shape = shapes[i];
    must_fail(ADJ_E_ARGUMENT, "a.raw: shape: \"", open_bytes(ctx, "a.raw", rows, 24, &options, &set));
  }
  options.shape = "f32:5";
  must_fail(ADJ_E_FORMAT, "a.raw: the file has 24 bytes, which is not a multiple of f32:5: a row takes 20 bytes",
            open_bytes(ctx, "a.raw", rows, 24, &options, &set));
  options.shape = "f32:4x2";
  must_fail(ADJ_E_FORMAT, "a.raw: the file has 24 bytes, which is not f32:4x2: a row takes 8 bytes",
            open_bytes(ctx, "a.raw", rows, 24, &options, &set));
  options.shape = "f32:2x2";
  must_fail(ADJ_E_FORMAT, "which is not f32:2x2", open_bytes(ctx, "a.raw", rows, 24, &options, &set));
  float bad[4] = {1, 2, 3, NAN};
  options.shape = "f32:2";
  must_fail(ADJ_E_DATA, "a.raw: row 2, column 2: NaN is not a finite coordinate",
            open_bytes(ctx, "a.raw", bad, 16, &options, &set));
  uint16_t half[2] = {0x3c00, 0xfc00};
  options.shape = "f16:1";
  must_fail(ADJ_E_DATA, "a.raw: row 2, column 1: infinity is not a finite coordinate",
            open_bytes(ctx, "a.raw", half, 4, &options, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numpy_files),       cmocka_unit_test(hdf5_files),       cmocka_unit_test(every_type_of_npy),
      cmocka_unit_test(every_type_of_raw), cmocka_unit_test(conversions),      cmocka_unit_test(large_conversion),
      cmocka_unit_test(vectors),           cmocka_unit_test(memory_of_floats), cmocka_unit_test(wrong_npy_headers),
      cmocka_unit_test(wrong_npy_dicts),   cmocka_unit_test(unaligned_npy),    cmocka_unit_test(wrong_vectors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
