# SPDX-License-Identifier: MIT
# Shortcuts. CMake does the work: CMakeLists.txt, and CMakePresets.json for special builds. Each build has a folder of
# its own under build/.

PREFIX ?= /usr/local
# Number of parallel jobs, for the compiler and for the tests.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# ON turns warnings into errors.
WERROR ?= OFF
# Kernels: AUTO for the GPU in this machine, if there is one; ON for every GPU; OFF for none. Empty: as in the last
# configuration of this build, or AUTO if there is none.
CUDA ?=
# Which tests: a regular expression over their labels (fast, main, threads).
LABEL ?= .
# How long each fuzzer runs.
FUZZ_SECONDS ?= 60
# How many joins a soak test makes, and how many runs it kills.
SOAK_JOINS ?= 100000
SOAK_KILLS ?= 300
# How long the differential test runs.
SECONDS ?= 3600

# Looked up when a recipe runs, because the set-up may have installed ninja by then.
ninja = $$(command -v ninja >/dev/null && echo -G Ninja)
fresh = $$(test -e build/$(1)/CMakeCache.txt || echo "$(ninja)")
configure = cmake -S . -B build/$(1) $(call fresh,$(1)) -DADJOIN_WERROR=$(WERROR) $(if $(CUDA),-DADJOIN_CUDA=$(CUDA))
build = cmake --build build/$(1) -j $(JOBS)
ctest = cd build/$(1) && $(3) ctest -j $(JOBS) --output-on-failure --no-tests=error -L '$(2)'
# The thread sanitizer of older compilers cannot cope with widely randomised addresses.
fixed_addresses = $$(setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: all build everything setup run test test-gpu wheel docs install lint clang asan tsan coverage fuzz attack soak bench clean help

all: build

build: ## build library and program (build/release)
	@$(call configure,release)
	@$(call build,release) --target installed

everything: ## and the tests and benchmark drivers
	@$(call configure,release)
	@$(call build,release)

setup: ## install what a build needs
	@scripts/setup.sh build

run: setup build ## build, then join a million points and show the answer
	@scripts/demo.sh build/release/adjoin

test: ## build and run all tests (LABEL=fast for the quick ones)
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory everything
	@$(call ctest,release,$(LABEL),ADJOIN_NEEDS_PYTHON=1)
	@test '$(LABEL)' != . || scripts/python.sh test build/release/src/libadjoin.so

wheel: ## build the Python wheel, check it, test it in a clean environment (build/wheelhouse)
	@scripts/setup.sh build
	@scripts/python.sh wheel

docs: setup build ## build the site of the Python package, every page executed (build/docs/index.html)
	@scripts/python.sh docs build/release/src/libadjoin.so

test-gpu: ## build for the GPU in this machine and run all that needs one
	@scripts/test_gpu.sh build/gpu $(JOBS)

install: build ## install under PREFIX, by default /usr/local
	@cmake --install build/release --prefix "$(PREFIX)"

lint: ## module graph, formatting, static analysis, shell scripts
	@scripts/setup.sh develop
	@scripts/lint.sh

clang: ## build and test with clang, warnings are errors
	@scripts/setup.sh develop
	@cmake --preset clang $(call fresh,clang)
	@$(call build,clang)
	@$(call ctest,clang,$(LABEL))

asan: ## tests under the address and undefined behaviour sanitizers
	@scripts/setup.sh test
	@cmake --preset asan $(call fresh,asan)
	@$(call build,asan)
	@$(call ctest,asan,$(LABEL))

tsan: ## tests that use threads, under the thread sanitizer
	@scripts/setup.sh test
	@cmake --preset tsan $(call fresh,tsan)
	@$(call build,tsan) --target thread_tests
	@$(call ctest,tsan,threads,$(fixed_addresses))

coverage: ## line coverage of src/ by the tests (LABEL=fast: the quick ones); fails under 90 %
	@scripts/setup.sh develop
	@scripts/coverage.sh build/coverage $(JOBS) $(LABEL)

fuzz: ## run each fuzzer for FUZZ_SECONDS, all of them; 0: replay the corpus
	@scripts/setup.sh develop
	@cmake --preset fuzz $(call fresh,fuzz)
	@$(call build,fuzz) --target all_fuzzers
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS)

soak: ## 100,000 joins in one process, 16 threads under the thread sanitizer, devices lost, 300 runs killed
	@scripts/setup.sh develop
	@$(call configure,release)
	@$(call build,release) --target soak test_device_lost adjoin_program
	ADJOIN_COSTS=none build/release/tests/test_device_lost
	ADJOIN_COSTS=none build/release/tests/soak $(SOAK_JOINS)
	ADJOIN_COSTS=none build/release/tests/soak $$(($(SOAK_JOINS) / 16)) 16
	ADJOIN_KILLS=$(SOAK_KILLS) python3 -B tests/cli/test_killed.py build/release/adjoin
	@cmake --preset tsan $(call fresh,tsan)
	@$(call build,tsan) --target soak
	ADJOIN_COSTS=none $(fixed_addresses) build/tsan/tests/soak $$(($(SOAK_JOINS) / 160)) 16

attack: ## random joins, in every way, against the reference, for SECONDS
	@$(call configure,release)
	@$(call build,release) --target attack
	@ADJOIN_COSTS=none build/release/tests/attack --seconds $(SECONDS)

bench: everything ## time the cases of bench/
	@scripts/bench.sh

clean: ## remove build/
	@rm -rf build

help: ## this text
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
