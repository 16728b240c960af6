# Thin: each target calls CMake, CTest or one script. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=
# Debian's own interpreter: python3-matplotlib belongs to it.
PYTHON ?= /usr/bin/python3
export JOBS PYTHON

# ccache is used if it is there, and never required.
ifneq ($(shell command -v ccache 2>/dev/null),)
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif

.PHONY: help setup build demo test test-quick test-python test-asan test-tsan fuzz soak bench bench-short bench-aims \
        bench-quick bench-policies format check-format tidy install package clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: ## Install the Debian packages that are missing (build, test, demo, bench)
	@scripts/setup.sh build test demo bench

build: ## Build the library, the programs and the tests into build/release
	@scripts/setup.sh build test
	@scripts/setup_pyarrow.sh
	@scripts/build.sh release

demo: ## Real jobs larger than memory against mmap: a table and build/demo/demo.png; 5 minutes after the build
	@scripts/setup.sh build demo
	@scripts/build.sh release programs
	@$(PYTHON) bench/demo.py --bin build/release/bin --output build/demo

test: ## Everything that must hold before a change lands: 15 to 40 minutes on 2 cores
	@scripts/setup.sh build test
	@scripts/setup_pyarrow.sh
	@scripts/test.sh all

test-quick: ## The release build and all its tests
	@scripts/setup.sh build test
	@scripts/setup_pyarrow.sh
	@scripts/test.sh format release

test-python: ## The Python package: its wheel, and its tests in fresh environments
	@scripts/setup.sh build test
	@scripts/test.sh python

test-asan: ## Tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/setup.sh build test
	@scripts/setup_pyarrow.sh
	@scripts/test.sh asan

test-tsan: ## Tests under ThreadSanitizer
	@scripts/setup.sh build test
	@scripts/setup_pyarrow.sh
	@scripts/test.sh tsan

fuzz: ## Run every fuzz target for FUZZ_SECONDS (default 60) each
	@scripts/setup.sh build test
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-60} scripts/test.sh fuzz

soak: ## Random tests, kills and power losses with new seeds, for TIERMAP_SOAK_SECONDS (default 600) each: hours
	@scripts/setup.sh build test
	@scripts/test.sh soak

# PEER='name=command' adds a system to either: see bench/README.md.
BENCH = $(PYTHON) bench/run.py --bin build/release/bin $(if $(PEER),--peer '$(PEER)')

bench: ## Measure everything again and rewrite bench/results and docs/benchmarks.md (hours, an idle machine)
	@scripts/setup.sh build demo bench
	@scripts/build.sh release programs benchmarks
	@scripts/setup_spark.sh
	@$(BENCH)

bench-short: ## The same on 1 GiB and with fewer points: two or three hours
	@scripts/setup.sh build demo bench
	@scripts/build.sh release programs benchmarks
	@scripts/setup_spark.sh
	@$(BENCH) --short

bench-aims: ## On 512 MiB, only what the aims are read off, but for those over threads: the better part of an hour
	@scripts/setup.sh build demo bench
	@scripts/build.sh release programs benchmarks
	@scripts/setup_spark.sh
	@$(BENCH) --aims

bench-quick: ## Every scenario on small data, a report and its plots in build/bench/quick; 15 minutes after the build
	@scripts/setup.sh build demo bench
	@scripts/build.sh release programs benchmarks
	@$(BENCH) --quick

bench-policies: ## Record what the programs access, and replay it through every eviction policy: some ten minutes
	@scripts/setup.sh build
	@scripts/build.sh release programs
	@$(PYTHON) bench/recorded_policies.py --bin build/release/bin

format: ## Format every source with clang-format-19
	@scripts/setup.sh test
	@scripts/format.sh

check-format: ## Fail if a source is not formatted
	@scripts/setup.sh test
	@scripts/format.sh --check

tidy: ## Run clang-tidy-19 on the library and the programs
	@scripts/setup.sh build test
	@TIDY_FOLDERS="build/clang/src build/clang/tools build/clang/apps" scripts/test.sh tidy

install: ## Install under PREFIX (default /usr/local), below DESTDIR if set
	@scripts/setup.sh build
	@scripts/setup_pyarrow.sh
	@scripts/build.sh package
	@DESTDIR="$(DESTDIR)" cmake --install build/package --prefix "$(PREFIX)"
	@DESTDIR="$(DESTDIR)" cmake --install build/package --prefix "$(PREFIX)" --component Parquet

package: ## Make a Debian package in build/package
	@scripts/setup.sh build package
	@scripts/build.sh package
	@cd build/package && cpack -G DEB

clean: ## Remove build/
	@rm -rf build
