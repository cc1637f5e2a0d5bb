#!/usr/bin/env bash
# What takes minutes and is not part of the fast suites: thousands of random graphs, programs from hostile bytes, and all
# unit tests and fixtures under AddressSanitizer and UndefinedBehaviorSanitizer. slow.sh [BUILD] [SECONDS for each fuzzer]
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} seconds=${2:-60} failed=0
step() { echo "== $*"; "$@" || { failed=$((failed + 1)); echo "FAILED $*"; }; }

ninja -C "$build" --quiet tests/unit_tests tests/program_fuzz || exit 1
step env TENON_DIFF_GRAPHS=3000 TENON_DIFF_SEED=$RANDOM "$build/tests/unit_tests" --source-file='*ops_diff_test*'
step "$build/tests/program_fuzz" tests/fixtures/programs "$seconds" $RANDOM

# Generated code is not instrumented; what calls it is.
sanitized=$build-asan
[ -f "$sanitized/build.ninja" ] || CXX="ccache clang++-19" meson setup "$sanitized" -Doptimization=1 -Ddebug=false -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
ninja -C "$sanitized" --quiet tests/unit_tests tests/program_fuzz src/cli/tenon || exit 1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
step "$sanitized/tests/unit_tests"
step "$sanitized/src/cli/tenon" check --jobs 1 tests/fixtures/programs
step "$sanitized/tests/program_fuzz" tests/fixtures/programs "$seconds" $RANDOM
[ "$failed" -eq 0 ] && echo "all passed"
exit "$failed"
