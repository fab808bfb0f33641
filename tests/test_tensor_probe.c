/* SPDX-License-Identifier: MIT
 *
 * The check of tensor cores when a device is opened (gpu/device/tensor_probe.h), tested on models of tensor cores. The
 * check finds out how each model adds up, and refuses those that the prefilters cannot use.
 */
#include "gpu/device/tensor_probe.h"

#include "check.h"
#include "software/software.h"

static adji_tensor_facts probe(adji_software_tensor unit) {
  adji_tensor_facts facts;
  adji_software_tensor_now = unit;
  assert_int_equal(adji_tensor_probe(0, &facts), ADJ_OK);
  return facts;
}

static void good_units_are_measured(void **unused) {
  (void)unused;
  for (uint32_t group = 4; group <= 16; group *= 2)
    for (int bits = 23; bits <= 27; bits++)
      for (int by_factors = 0; by_factors < 2; by_factors++) {
        adji_tensor_facts facts = probe((adji_software_tensor){group, bits, by_factors, false, 0x7fffffff});
        print_message("groups of %2u, 2^-%d: off by %.1f of %d\n", group, bits, facts.worst, ADJI_TENSOR_ERROR);
        assert_true(facts.holds);
        assert_int_equal(facts.together, group);
        assert_int_equal(facts.bits, bits);
      }
}

static void worse_units_are_refused(void **unused) {
  (void)unused;
  for (uint32_t group = 4; group <= 16; group *= 2) {
    for (int bits = 10; bits <= 22; bits++)
      assert_false(probe((adji_software_tensor){group, bits, true, false, 0x7fffffff}).holds);
    assert_false(probe((adji_software_tensor){group, 25, true, true, 0x7fffffff}).holds); /* no subnormal halves */
  }
}

/* Through the public interface: what a device reports about itself. A device with another form of NaN is not opened. */
static void devices_tell(void **unused) {
  (void)unused;
  adj_device device;
  adj_device_init(&device, sizeof device);
  adji_software_tensor_now = (adji_software_tensor){8, 24, true, false, 0x7fffffff};
  assert_int_equal(adj_device_describe(0, &device), ADJ_OK);
  assert_int_equal(device.tensor_bits, 24);
  adji_software_tensor_now.bits = 21;
  assert_int_equal(adj_device_describe(0, &device), ADJ_OK);
  assert_int_equal(device.tensor_bits, 0);
  adji_tensor_facts facts;
  adji_software_tensor_now = (adji_software_tensor){16, 25, true, false, 0xffc00000};
  assert_int_equal(adji_tensor_probe(0, &facts), ADJ_E_UNSUPPORTED);
  assert_non_null(strstr(adj_last_error(), "0xffc00000"));
  assert_false(facts.holds);
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  adj_ctx *ctx = NULL;
  assert_int_equal(adj_ctx_create(&options, &ctx), ADJ_OK);
  adji_gpu *gpu = NULL;
  assert_int_equal(adji_gpu_of(ctx, &gpu), ADJ_E_UNSUPPORTED);
  adji_software_tensor_now.nan = 0x7fffffff;
  assert_int_equal(adji_gpu_of(ctx, &gpu), ADJ_OK);
  assert_true(((adji_gpu_base *)gpu)->tensor.holds);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(good_units_are_measured),
                                     cmocka_unit_test(worse_units_are_refused), cmocka_unit_test(devices_tell)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
