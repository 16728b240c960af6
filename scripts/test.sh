#!/usr/bin/env bash
# The steps of `make test`: scripts/test.sh all, or some of: format release python clang tidy asan fuzz tsan. Quick ones first;
# the first failure ends it. The last lines say what ran and name what was skipped, with the reason. `soak` and `programs`
# are steps of their own, that `all` does not have.
set -euo pipefail
cd "$(dirname "$0")/.."
# Fuzz targets are built in the folder of the tests of asan: right behind these, best before anything runs there.
readonly all_steps=(format release python clang tidy asan fuzz tsan)
readonly steps_of_their_own=(soak programs)
readonly jobs=${JOBS:-$(nproc)}
# Many tests wait for a disk or for a moment to come: one more than there are processors.
readonly tests_at_once=$((jobs + 1))
reports=()
summary=()

# Clang's sanitizers find no names of functions by themselves.
symbolizer=external_symbolizer_path=$(command -v addr2line || true)
# More memory than there can be is refused by a null pointer, as without a sanitizer: cfitsio asks for it where headers lie.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1:$symbolizer}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1:$symbolizer}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:history_size=7:$symbolizer}

# run_tests PRESET [ctest arguments]: runs what was built and keeps the report for the end.
run_tests() {
  local preset=$1
  shift
  local report=$PWD/build/$preset/report.xml
  rm -f "$report" "${report%.xml}-again.xml"
  local -a without_randomisation=()
  # ThreadSanitizer cannot live with the wide address randomisation of newer kernels.
  if [[ $preset == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
    without_randomisation=(setarch "$(uname -m)" -R)
  fi
  local -a tests=("${without_randomisation[@]}" ctest --test-dir "build/$preset" --output-on-failure --progress
    --no-tests=error --timeout 300)
  reports+=("$preset=$report")
  # A pattern of more than nine groups CTest cannot take: it says so in passing, and runs all tests.
  if "${tests[@]}" -N "$@" 2>&1 | grep -F 'RegularExpression::compile()'; then
    echo "test.sh: CTest does not understand a pattern of: $*" >&2
    return 1
  fi
  if ! show_failures "${tests[@]}" -j "$tests_at_once" --output-junit "$report" "$@"; then
    python3 scripts/report_tests.py --may-try-again "$report"
    echo "=== $preset: once more, alone, what has failed"
    # CTest finds it by a number that depends on the filters.
    show_failures "${tests[@]}" -j 1 --rerun-failed --output-junit "${report%.xml}-again.xml" "$@"
  fi
}

# show_failures COMMAND...: in a pipe, what failed or was skipped; what passed is counted at the end.
show_failures() {
  if [[ -t 1 ]]; then
    "$@" </dev/null
  else
    "$@" </dev/null | { grep --line-buffered -vE '^ *Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test .* Passed ' || true; }
  fi
}

step_format() {
  scripts/format.sh --check
}

step_release() {
  # Of what cannot be fetched the tests that need it say so.
  scripts/moto.sh || true
  scripts/build.sh release
  build_ahead
  # The quick and telling ones first, so that a mistake shows in seconds.
  run_tests release
}

# The wheel, in fresh environments.
step_python() {
  local status=0
  scripts/test_python.sh >build/python.log 2>&1 || status=$?
  if [[ $status -eq 77 ]]; then
    summary+=("python: $(tail -1 build/python.log)")
    return 0
  fi
  grep -vE '^(\.|s)+ *\[ *[0-9]+%\]$' build/python.log || true
  local report
  for report in build/python/report*.xml; do
    [[ $report != *-again.xml ]] || continue
    local name=${report##*/report}
    reports+=("python${name%.xml}=$PWD/$report")
  done
  return "$status"
}

# The other compiler, and the shared library: nothing but the libraries and the programs that link them.
step_clang() {
  scripts/build.sh clang tiermap umap tiermap_preload
  run_tests clang -L '^install$'
}

# Sources of a folder together, as the preset clang compiles them: what they all include takes most of the time. The
# programs take twice as long as the library: `make tidy` looks at them too.
step_tidy() {
  [[ -f build/clang/compile_commands.json ]] || scripts/build.sh clang tiermap
  local -a sources
  local -a folders=(${TIDY_FOLDERS:-build/clang/src build/clang/tools})
  # Not the second copy of the engine that a shared build makes.
  mapfile -t sources < <(find "${folders[@]}" -path '*/Unity/*.cxx' -not -path '*_preload_engine*' | sort)
  local log=$PWD/build/tidy.log
  # To include sources is what the generated files do.
  local -a arguments=(--checks=-bugprone-suspicious-include --extra-arg=-Wno-unknown-warning-option
    "--header-filter=$PWD/(include|src|tools|apps)/")
  if ! printf '%s\n' "${sources[@]}" |
    timeout 900 xargs -P "$jobs" -n 1 clang-tidy-19 --quiet -p build/clang "${arguments[@]}" >"$log" 2>&1; then
    grep -A 4 -E '(error|warning):' "$log" || tail -40 "$log"
    echo "clang-tidy: findings, or not done in 900 s: the whole output is in build/tidy.log" >&2
    return 1
  fi
  summary+=("clang-tidy: $(cat "${sources[@]}" | grep -c '^#include') sources, no findings")
}

# The command, the documents' code and the programs are in the release step alone: under a sanitizer they would take most of
# the time and show little that the library's own tests do not.
readonly asan_tests=(store shared hdf5 parquet fits s3 tier config observe policy cache fault region vector heap checkpoint peers adapt kernel_mode exactness system_calls
  crash c umap)
# Where threads meet. Not the programs: to build all of them once more takes longer than this step may.
readonly tsan_tests=(store s3 tier cache fault region vector heap adapt kernel_mode exactness system_calls)

# Of what sanitizers see nothing that they do not see elsewhere: other page sizes than 4 KiB, 64 KiB and 2 MiB, and the
# engines that always move or always copy pages, as the automatic ones do with large and with small ones; and the stores
# once more on another file system or through the page cache.
readonly not_sanitized='_(16|512|4096|8192)K[_ ]|^(region|system_calls):.*_(move|copy) |^store:.*_(tmpfs|buffered|small) |^s3:S3Moto|^s3:S3WriteTest.WhatWasMade'

# The same of the engine's own tests, which are many; what threads do to each other in these engines ThreadSanitizer sees.
# And long simulations of policies, and the longest random works on heaps and stores in a second kind of store: others come
# by the same code.
readonly not_for_addresses='^exactness:.*_(move|copy)[_ ]|^policy:.*(Reference|IsWithin|AreWithin|MissesLess)|^checkpoint:.*Kill.*_in_memory|^heap:.*(DiskFull.snapshot|HeapUpdate).*/sparse'

# Of the heap and of fault mode kernel, what has one thread of its own: the engine's threads below it are seen in the other folders.
readonly of_one_thread='^heap:.*Heap(Kill|Model|PowerLoss|DiskFull|Update|Check|Salvage|Crafted|Directory|FailedClose)|^kernel_mode:KernelRegionTest\.(BehavesLike|PrivateCopies)'

# Of the engine's own tests ThreadSanitizer sees those that always move; those that copy do so by turns with others anyway.
# Not pages of 2 MiB, which are much to write and nothing else to threads, nor what one thread does to a store.
readonly not_for_threads='^exactness:.*_copy[_ ]|^exactness:.*_2048K_|^store:.*(random_work|a_resize|CsvInStore)|^s3:.*(AChangeAreCopied|CutAndGrown|RandomWork|FailuresLeave|AnswersThat|ALargeOne)|^region:Sizes/|^region:.*HugePages|^fault:.*ABatch.*_(copy|automatic)'

# build_tests PRESET FOLDER...: builds the tests of these folders.
build_tests() {
  local preset=$1
  shift
  scripts/build.sh "$preset" "${@/#/test-}"
}

# run_sanitizer PRESET FOLDER...: builds and runs the tests of these folders.
run_sanitizer() {
  local preset=$1
  shift
  local pattern
  pattern="^($(IFS='|'; echo "$*"))$"
  build_tests "$preset" "$@"
  local excluded=$not_sanitized
  if [[ $preset == tsan ]]; then
    excluded+="|$of_one_thread|$not_for_threads"
  else
    excluded+="|$not_for_addresses"
  fi
  run_tests "$preset" -L "$pattern" -E "$excluded"
}

step_asan() {
  run_sanitizer asan "${asan_tests[@]}"
}

# Small runs of the programs, which all have to be built for it: a step of its own.
step_programs() {
  run_sanitizer asan small_runs
}

step_tsan() {
  run_sanitizer tsan "${tsan_tests[@]}"
}

# fuzz_target PROGRAM SECONDS: one line of what it did, or the end of its output.
fuzz_target() {
  local name=${1##*/fuzz-}
  local corpus=build/fuzz/corpus/$name log=build/fuzz/$name.log
  mkdir -p "$corpus"
  local -a seeds=()
  [[ -d tests/fuzz/corpus/$name ]] && seeds=("tests/fuzz/corpus/$name")
  if ! "$1" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$name-" "$corpus" "${seeds[@]}" >"$log" 2>&1; then
    tail -60 "$log"
    echo "fuzz: $name: the whole output is in $log" >&2
    return 1
  fi
  echo "fuzz: $name for $2 seconds: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs, no findings"
}

step_fuzz() {
  local seconds=${FUZZ_SECONDS:-3}
  build_for fuzz
  local -a targets=(build/asan/bin/fuzz-*)
  export -f fuzz_target
  # shellcheck disable=SC2016  # The inner shell expands them.
  printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I '{}' bash -c 'fuzz_target "$@"' fuzz '{}' "$seconds"
  summary+=("fuzz: ${#targets[@]} targets, $seconds seconds each, no findings")
}

# Random tests, whose seeds are new each time: folder and filter. Those that count rounds go on for TIERMAP_SOAK_SECONDS
# each; the others are done again and again for as long together.
readonly soak_tests=(
  "heap HeapModel.random*:*HeapKill.*:HeapPowerLoss.*"
  "heap *HeapDiskFull.*"
  "checkpoint *Kill.*:PowerLoss.*:*follows_the_model*"
  "exactness *Property.*"
  "crash *Crash.*"
  "store SparseCrash.kill*"
  "shared ConsistencyTest.*"
)

step_soak() {
  local seconds=${TIERMAP_SOAK_SECONDS:-600}
  local test folder started runs
  local -a targets=("${soak_tests[@]%% *}")
  scripts/build.sh release "${targets[@]/#/test-}"
  for test in "${soak_tests[@]}"; do
    folder=${test%% *}
    local log=$PWD/build/soak-$folder.log
    started=$SECONDS
    runs=0
    : >"$log"
    while [[ $runs -eq 0 ]] || ((SECONDS - started < seconds)); do
      if ! TIERMAP_SOAK_SECONDS=$seconds "build/release/bin/test-$folder" --gtest_filter="${test#* }" \
        >>"$log" 2>&1; then
        grep -A 30 -E 'Failure$' "$log" || tail -40 "$log"
        echo "soak: test-$folder: the whole output is in build/soak-$folder.log" >&2
        return 1
      fi
      runs=$((runs + 1))
    done
    grep -E '^[0-9]+ kills' "$log" || true
    summary+=("soak: test-$folder ${test#* }: $((SECONDS - started)) s, no failure")
  done
}

# What a later step needs to have built.
build_for() {
  case $1 in
    asan) build_tests asan "${asan_tests[@]}" ;;
    tsan) build_tests tsan "${tsan_tests[@]}" ;;
    fuzz) scripts/build.sh asan fuzzers ;;
  esac
}

# Builds for the steps to come in the time that nobody else wants: many tests wait for something. A step whose build is
# not done waits for it, and says what is wrong with it.
build_ahead() {
  set -m  # A process group of its own, to be ended whole.
  (
    set +m
    renice -n 19 "$BASHPID"
    for step in "${steps[@]}"; do
      build_for "$step" || true
    done
  ) >build/ahead.log 2>&1 </dev/null &
  trap "kill -- -$! 2>/dev/null || true" EXIT
  set +m
}

steps=("$@")
[[ $# -gt 0 && $1 != all ]] || steps=("${all_steps[@]}")
for step in "${steps[@]}"; do
  if ! declare -F "step_$step" >/dev/null; then
    echo "test.sh: unknown step $step: choose from all ${all_steps[*]} ${steps_of_their_own[*]}" >&2
    exit 2
  fi
done
for step in "${steps[@]}"; do
  started=$SECONDS
  echo "=== $step"
  # Not in a condition: `set -e` has to hold inside the step.
  "step_$step"
  echo "=== $step: done in $((SECONDS - started)) s"
done
echo "=== all steps done in $SECONDS s: ${steps[*]}"
[[ ${#summary[@]} -eq 0 ]] || printf '%s\n' "${summary[@]}"
[[ ${#reports[@]} -eq 0 ]] || python3 scripts/report_tests.py "${reports[@]}"
