/* SPDX-License-Identifier: MIT
 *
 * Decimal numbers have the same bits as from the C library, which rounds correctly, for hard cases
 * and for random ones of every length and size.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "io/read_number.h"

/* Checks that the whole text is one number, and that both types round it correctly. */
static void same_as_library(const char *text) {
  size_t length = strlen(text);
  char *exact = malloc(length ? length : 1); /* exactly as long, so that the address sanitizer sees reads beyond it */
  memcpy(exact, text, length);
  adji_decimal number;
  if (adji_scan_decimal(exact, exact + length, &number) != exact + length) fail_msg("\"%s\" is not read", text);
  float f32 = adji_decimal_f32(&number), right_f32 = strtof(text, NULL);
  double f64 = adji_decimal_f64(&number), right_f64 = strtod(text, NULL);
  free(exact);
  if (memcmp(&f32, &right_f32, sizeof f32) != 0) fail_msg("\"%s\": f32 %a instead of %a", text, f32, right_f32);
  if (memcmp(&f64, &right_f64, sizeof f64) != 0) fail_msg("\"%s\": f64 %a instead of %a", text, f64, right_f64);
}

static void hard_numbers(void **state) {
  (void)state;
  static const char *texts[] = {
      "0", "-0", "0.0", "-0.0e10", "00000000000000000000000000", "0e999999999", "1", "+1", "1.", ".5", "-.5", "007",
      "0.1", "0.2", "0.3", "1e0", "1E5", "1e+5", "1e-5", "123456789012345678", "1234567890123456789",
      "12345678901234567890", "123456789012345678901234567890",
      /* around the limits of both types */
      "3.4028234663852886e38", "3.4028235e38", "3.40282357e38", "3.4028236e38", "1e38", "1e39", "1e308",
      "1.7976931348623157e308", "1.7976931348623158e308", "1.7976931348623159e308", "1e309", "1e400", "1e999999999",
      "1.17549435e-38", "1.1754943e-38", "1e-45", "1.4e-45", "7e-46", "7.1e-46", "1e-46", "2.2250738585072014e-308",
      "2.2250738585072011e-308", "4.9e-324", "5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "1e-400",
      "1e-999999999",
      /* half way between two floats or doubles, and a little off */
      "16777217", "16777219", "16777217.0", "16777217.0000000000000000000000001", "16777216.9999999999999999999999999",
      "8388608.5", "8388609.5", "9007199254740993", "9007199254740995", "9007199254740993.0000000000000000000000001",
      "9007199254740992.9999999999999999999999999", "1.00000005960464477539062500", "1.000000059604644775390625000001",
      "1.00000005960464477539062499999", "1.00000017881393432617187500",
      "1.00000000000000011102230246251565404236316680908203125",
      "1.00000000000000011102230246251565404236316680908203124",
      "1.00000000000000011102230246251565404236316680908203126",
      /* known to trouble parsers */
      "6929495644600919.5", "3.7455744005952583e15", "2.2250738585072012e-308", "1.448997445238699", "8.5e-323",
      "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
      "1090544144181609348835077142190", "6.02214076e23", "0.000000000000000000000000000000000000001"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    same_as_library(texts[i]);
}

/* Long texts: thousands of digits that all matter, and zeros that do not. */
static void long_numbers(void **state) {
  (void)state;
  static char text[4096];
  for (int zeros = 0; zeros < 3000; zeros += 37) {
    int used = snprintf(text, sizeof text, "0.");
    for (int i = 0; i < zeros; i++)
      text[used++] = '0';
    snprintf(text + used, sizeof text - (size_t)used, "123456789e%d", zeros);
    same_as_library(text);
    used = snprintf(text, sizeof text, "9007199254740993.");
    for (int i = 0; i < zeros; i++)
      text[used++] = '0';
    text[used] = 0;
    same_as_library(text);
    memcpy(text + used, "1", 2); /* just above half way */
    same_as_library(text);
  }
  /* The exact expansion of the half-way point below the smallest normal double has 767 digits. */
  snprintf(text, sizeof text, "%.1100f", 0x1.fffffffffffffp-1023);
  same_as_library(text);
  snprintf(text, sizeof text, "%.1074e", 0x1p-1074);
  same_as_library(text);
}

static uint64_t draw(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static double any_double(uint64_t *seed) {
  for (;;) {
    uint64_t bits = draw(seed);
    double x;
    memcpy(&x, &bits, sizeof x);
    if (isfinite(x)) return x;
  }
}

/* Half way between two neighbouring floats: exact as a double. */
static double half_way(uint64_t *seed) {
  for (;;) {
    uint32_t bits = (uint32_t)draw(seed), above = bits + 1;
    float low, high;
    memcpy(&low, &bits, sizeof low);
    memcpy(&high, &above, sizeof high);
    double middle = ((double)low + (double)high) / 2;
    if (isfinite(middle)) return middle;
  }
}

static void random_text(uint64_t *seed, char *text, size_t room) {
  size_t used = 0;
  switch (draw(seed) % 6) {
    case 0:
      snprintf(text, room, "%.*g", (int)(draw(seed) % 20) + 1, any_double(seed));
      return;
    case 1:
      snprintf(text, room, "%.*g", draw(seed) % 2 ? 200 : (int)(draw(seed) % 30) + 5, half_way(seed));
      return;
    case 2:
      snprintf(text, room, "%.*f", (int)(draw(seed) % 20), (double)(int64_t)draw(seed) * 1e-16);
      return;
    case 3:
      snprintf(text, room, "%llue%d", (unsigned long long)(draw(seed) >> draw(seed) % 64),
               (int)(draw(seed) % 150) - 75);
      return;
    case 4:
      snprintf(text, room, "%.18e", (double)(int64_t)draw(seed) * 1e-19);
      return;
    default: /* digits, point, digits, exponent */
      for (uint64_t i = draw(seed) % 40 + 1; i > 0; i--)
        text[used++] = (char)('0' + draw(seed) % 10);
      text[used++] = '.';
      for (uint64_t i = draw(seed) % 40; i > 0; i--)
        text[used++] = (char)('0' + draw(seed) % 10);
      text[used] = 0;
      if (draw(seed) % 2) snprintf(text + used, room - used, "e%d", (int)(draw(seed) % 700) - 350);
  }
}

static void random_numbers(void **state) {
  (void)state;
  const char *given = getenv("ADJOIN_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
  print_message("seed %llu\n", (unsigned long long)seed);
  seed = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
  char text[512];
  for (int i = 0; i < 400000; i++) {
    random_text(&seed, text, sizeof text);
    same_as_library(text);
  }
}

static void not_numbers(void **state) {
  (void)state;
  static const char *texts[] = {"",    "-",   "+",   ".",   "-.",  "e5",  ".e5", "1e",
                                "1e+", "abc", "--1", "+-1", "nan", "inf", " 1"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    adji_decimal number;
    if (adji_scan_decimal(texts[i], texts[i] + strlen(texts[i]), &number)) fail_msg("\"%s\" is read", texts[i]);
  }
}

/* A number ends where other text begins. */
static void ends_of_numbers(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int length;
  } cases[] = {{"1,2", 1},  {"1.5 ", 3}, {"12345678,", 8}, {"123456789\n", 9}, {"1.2.3", 3}, {"1-2", 1},
               {"1e5x", 3}, {"0x10", 1}, {"1_000", 1},     {"1.5\r\n", 3},     {"-1:", 2},   {"1/2", 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    adji_decimal number;
    const char *text = cases[i].text;
    assert_int_equal(adji_scan_decimal(text, text + strlen(text), &number) - text, cases[i].length);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(hard_numbers), cmocka_unit_test(long_numbers),
                                     cmocka_unit_test(random_numbers), cmocka_unit_test(not_numbers),
                                     cmocka_unit_test(ends_of_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
