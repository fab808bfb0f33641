/* SPDX-License-Identifier: MIT
 *
 * What all compiled drivers share; see driver.h. This file does not use the library, so that a peer's driver runs no
 * code of ours.
 */
#include "driver.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A radius, or "k=8". */
static bool parse_what(const char *text, bench_args *args) {
  char *end;
  args->k = 0;
  args->radius = 0;
  if (strncmp(text, "k=", 2) == 0) {
    unsigned long k = strtoul(text + 2, &end, 10);
    args->k = (uint32_t)k;
    return *end == 0 && k >= 1 && k <= INT32_MAX;
  }
  args->radius = strtod(text, &end);
  return *end == 0 && end != text && args->radius >= 0;
}

bool bench_parse(int argc, char **argv, bench_args *args) {
  if (argc < 6 || argc > 8) {
    fprintf(stderr, "usage: %s POINTS.npy[,RIGHT.npy] WHAT MODE THREADS REPEATS [VARIANT [ANSWER.npy]]\n", argv[0]);
    return false;
  }
  char *comma = strchr(argv[1], ',');
  if (comma) *comma = 0;
  args->path = argv[1];
  args->right_path = comma ? comma + 1 : NULL;
  args->mode = argv[3];
  args->variant = argc >= 7 ? argv[6] : "";
  args->answer = argc == 8 ? argv[7] : NULL;
  if (!parse_what(argv[2], args)) {
    fprintf(stderr, "%s: '%s' is neither a radius >= 0 nor k=1, k=2, ...\n", argv[0], argv[2]);
    return false;
  }
  char *end;
  unsigned *const numbers[2] = {&args->threads, &args->repeats};
  for (int i = 0; i < 2; i++) {
    unsigned long value = strtoul(argv[4 + i], &end, 10);
    if (*end || value < 1 || value > 4096) {
      fprintf(stderr, "%s: %s '%s' is not a number in 1..4096\n", argv[0], i ? "repeats" : "threads", argv[4 + i]);
      return false;
    }
    *numbers[i] = (unsigned)value;
  }
  return true;
}

/* Reads the header of a .npy file of version 1 or 2 into text. */
static bool read_npy_header(FILE *file, char *text, size_t capacity) {
  unsigned char head[12];
  if (fread(head, 1, 10, file) != 10 || memcmp(head, "\x93NUMPY", 6) != 0) return false;
  size_t length = head[8] | (size_t)head[9] << 8;
  if (head[6] > 1) {
    if (fread(head + 10, 1, 2, file) != 2) return false;
    length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
  }
  if (length >= capacity || fread(text, 1, length, file) != length) return false;
  text[length] = 0;
  return true;
}

/* Takes type and shape of a two-dimensional, row-major array of floats from the header's text. */
static bool parse_npy_header(const char *text, bench_points *points) {
  const char *descr = strstr(text, "'descr'"), *shape = strstr(text, "'shape'");
  if (!descr || !shape || !strstr(text, "'fortran_order': False")) return false;
  if (strstr(descr, "'<f4'")) {
    points->value_bytes = 4;
  } else if (strstr(descr, "'<f8'")) {
    points->value_bytes = 8;
  } else {
    return false;
  }
  if (!(shape = strchr(shape, '('))) return false;
  char *end;
  points->count = strtoull(shape + 1, &end, 10);
  if (*end != ',') return false;
  const unsigned long long dim = strtoull(end + 1, &end, 10);
  points->dim = (uint32_t)dim;
  return *end == ')' && points->count <= UINT32_MAX && dim >= 1 && dim <= UINT32_MAX;
}

bool bench_load(const char *path, bench_points *points) {
  char text[1024];
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    return false;
  }
  memset(points, 0, sizeof *points);
  bool ok = read_npy_header(file, text, sizeof text) && parse_npy_header(text, points);
  if (!ok) fprintf(stderr, "%s: not a .npy file of f32 or f64 with two dimensions in C order\n", path);
  if (ok) {
    size_t bytes = (size_t)points->count * points->dim * points->value_bytes;
    points->data = malloc(bytes ? bytes : 1);
    ok = points->data && fread(points->data, 1, bytes, file) == bytes;
    if (!ok) fprintf(stderr, "%s: cannot read the %zu bytes its header promises\n", path, bytes);
  }
  fclose(file);
  return ok;
}

bool bench_load_both(const bench_args *args, bench_points *left, bench_points *right) {
  memset(right, 0, sizeof *right);
  return bench_load(args->path, left) && (!args->right_path || bench_load(args->right_path, right));
}

static double seconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bench_now(void) {
  return seconds_of(CLOCK_MONOTONIC);
}

/* The value of a line of /proc/self/status in bytes; 0 if there is no such line. */
static uint64_t status_bytes(const char *name) {
  char line[256];
  uint64_t kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, name, strlen(name)) == 0) kib = strtoull(line + strlen(name), NULL, 10);
  }
  fclose(file);
  return kib * 1024;
}

void bench_usage_begin(bench_timing *timing) {
  /* Writing 5 makes the kernel forget the peak so far. If this is not allowed, the peak is still correct for the first
   * repeat, because loading keeps the points in memory only once. */
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (file) {
    fputs("5", file);
    fclose(file);
  }
  timing->rss_before = status_bytes("VmRSS:");
  timing->cpu_s = -seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_usage_end(bench_timing *timing) {
  timing->cpu_s += seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  timing->rss_peak = status_bytes("VmHWM:");
}

/* Mixes i and j; every output bit depends on all input bits. driver_python.py has the same function. */
static uint64_t mix(uint64_t i, uint64_t j) {
  uint64_t x = (i << 32 | j) + UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

void bench_digest_rows(const uint64_t *offsets, const uint32_t *ids, uint64_t rows, bench_digest *digest) {
  memset(digest, 0, sizeof *digest);
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t sum = 0;
    for (uint64_t at = offsets[i]; at < offsets[i + 1]; at++)
      sum += mix(i, ids[at]);
    digest->buckets[i % BENCH_BUCKETS] += sum;
    digest->pair_sum += sum;
    digest->degree_sum += mix(i, offsets[i + 1] - offsets[i]);
  }
  digest->pairs = offsets[rows];
}

void bench_digest_counts(const uint32_t *counts, uint64_t rows, bench_digest *digest) {
  memset(digest, 0, sizeof *digest);
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t word = mix(i, counts[i]);
    digest->buckets[i % BENCH_BUCKETS] += word;
    digest->degree_sum += word;
    digest->pairs += counts[i];
  }
}

void bench_digest_table(const bench_table *table, bench_digest *digest) {
  memset(digest, 0, sizeof *digest);
  digest->far_rows = -1;
  for (uint64_t i = 0; i < table->rows; i++) {
    uint64_t sum = 0, found = 0;
    for (uint64_t at = i * table->k; found < table->k && table->ids[at] != UINT32_MAX; at++, found++) {
      sum += mix(i, table->ids[at]);
      digest->distance_sum += (double)table->distances[at];
    }
    digest->buckets[i % BENCH_BUCKETS] += sum;
    digest->pair_sum += sum;
    digest->degree_sum += mix(i, found);
    digest->pairs += found;
  }
}

/* ---- The answer of a kNN join --------------------------------------------------------------------- */

/* The answer has every stride-th row. driver_python.py has the same function. */
static uint64_t answer_stride(const bench_table *table) {
  const uint64_t most = (uint64_t)1 << 24;
  return table->rows * table->k / most + 1;
}

static bool write_answer(const char *path, const bench_table *table) {
  FILE *file = fopen(path, "wb");
  if (!file) {
    perror(path);
    return false;
  }
  const uint64_t stride = answer_stride(table);
  char header[128], text[100];
  int length =
      snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu32 "), }",
               (table->rows + stride - 1) / stride, table->k);
  memset(header, ' ', sizeof header);
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  header[8] = sizeof header - 10; /* bytes of the text, in two bytes */
  header[9] = 0;
  memcpy(header + 10, text, (size_t)length);
  header[sizeof header - 1] = '\n';
  bool ok = fwrite(header, 1, sizeof header, file) == sizeof header;
  for (uint64_t i = 0; ok && i < table->rows; i += stride)
    ok = fwrite(table->distances + i * table->k, sizeof *table->distances, table->k, file) == table->k;
  if (fclose(file) || !ok) fprintf(stderr, "%s: cannot be written\n", path);
  return ok;
}

/* Equal within a relative error far above that of any f32 arithmetic in use, except for cancellation. */
static bool is_near(float a, float b) {
  return a == b || fabsf(a - b) <= 2e-5f * b;
}

static int64_t count_far_rows(const bench_points *answer, const bench_table *table) {
  const uint64_t stride = answer_stride(table);
  int64_t far = 0;
  for (uint64_t row = 0; row < answer->count; row++) {
    const float *wanted = (const float *)answer->data + row * table->k;
    const float *found = table->distances + row * stride * table->k;
    uint32_t at = 0;
    while (at < table->k && is_near(found[at], wanted[at]))
      at++;
    far += at < table->k;
  }
  return far;
}

bool bench_answer(const char *path, const bench_table *table, bench_digest *digest) {
  FILE *file = fopen(path, "rb");
  if (!file) return write_answer(path, table);
  fclose(file);
  bench_points answer;
  if (!bench_load(path, &answer)) return false;
  bool fits = answer.dim == table->k && answer.value_bytes == 4 &&
              answer.count == (table->rows + answer_stride(table) - 1) / answer_stride(table);
  if (fits)
    digest->far_rows = count_far_rows(&answer, table);
  else
    fprintf(stderr, "%s: is the answer to another question\n", path);
  free(answer.data);
  return fits;
}

void bench_report(const char *driver, const bench_args *args, const bench_timing *timing, const bench_digest *digest,
                  const char *extra) {
  printf("{\"driver\": \"%s\", \"variant\": \"%s\", \"mode\": \"%s\", \"threads\": %u, ", driver, args->variant,
         args->mode, args->threads);
  printf("\"seconds\": %.6f, \"index_s\": %.6f, \"cpu_s\": %.6f, \"rss_before\": %" PRIu64 ", \"rss_peak\": %" PRIu64,
         timing->seconds, timing->index_s, timing->cpu_s, timing->rss_before, timing->rss_peak);
  if (digest) {
    printf(", \"pairs\": %" PRIu64 ", \"degree_sum\": \"%016" PRIx64 "\", \"pair_sum\": \"%016" PRIx64 "\"",
           digest->pairs, digest->degree_sum, digest->pair_sum);
    printf(", \"buckets\": \"");
    for (int b = 0; b < BENCH_BUCKETS; b++)
      printf("%016" PRIx64, digest->buckets[b]);
    putchar('"');
    if (args->k && isfinite(digest->distance_sum)) printf(", \"distance_sum\": %.17g", digest->distance_sum);
    if (args->k && !isfinite(digest->distance_sum)) printf(", \"distance_sum\": Infinity"); /* as Python reads it */
    if (args->k) printf(", \"far_rows\": %" PRId64, digest->far_rows);
  }
  if (extra && *extra) printf(", %s", extra);
  puts("}");
  fflush(stdout);
}
