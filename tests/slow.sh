#!/usr/bin/env bash
# What takes long and is not part of the fast suites: thousands of random graphs, hostile bytes, and the tests under
# sanitizers. The last line is "N passed, N failed". slow.sh [BUILD] [SECONDS for each fuzzer]
#
# Generated code is not instrumented; what calls it is. BUILD-asan and BUILD-tsan are configured with clang where missing.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build} seconds=${2:-60} passed=0 failed=0
asan=$build-asan tsan=$build-tsan seed=$RANDOM
programs=tests/fixtures/programs archives=tests/fixtures/archives/2.6.0
step() { # NAME COMMAND...: passed when it exits 0
  local name=$1 start=$SECONDS log=$build/slow_$1.log; shift
  local status=0
  "$@" >"$log" 2>&1 || status=$?
  if [ $status -eq 77 ]; then tail -n 1 "$log" # it says what is missing
  elif [ $status -eq 0 ]; then passed=$((passed + 1)); echo "ok      $name ($((SECONDS - start)) s)"
  else failed=$((failed + 1)); echo "FAILED  $name ($((SECONDS - start)) s), all of it in $log"; tail -n 40 "$log"; fi
}
sanitized() { # DIR [meson options]: configured once
  local dir=$1; shift
  [ -f "$dir/build.ninja" ] || CXX="ccache clang++-19" meson setup "$dir" -Doptimization=1 -Ddebug=false -Db_lundef=false "$@" >/dev/null
}
fuzz() { # TARGET FOLDERS...: libFuzzer for the given time, from the inputs in the folders; what it finds stays in the first
  local target=$1; shift
  mkdir -p "$1" && "$asan/tests/$target" -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=30 -print_final_stats=1 -artifact_prefix="$1/" "$@"
}
text_corpus() { # the golden tests' graphs, and what torch printed
  mkdir -p "$1"
  local f; for f in tests/golden/*.txt; do (printf g; sed 1d "$f") >"$1/$(basename "$f")"; done
  for f in tests/fixtures/fx/*.fx tests/fixtures/fx/*.code tests/fixtures/fx/*.readable; do (printf f; cat "$f") >"$1/$(basename "$f")"; done
}
script_corpora() { # graphs behind the byte that selects them, and sources
  mkdir -p "$1" "$2" && cp tests/fixtures/scripts/*/*.py "$2"
  local f; for f in tests/fixtures/scripts/*/*.ir; do (printf g; cat "$f") >"$1/$(basename "$f")"; done
}
load_corpus() { mkdir -p "$1" && "$asan/tests/load_fuzz" --seed tests/fixtures/load "$1" && "$asan/tests/load_fuzz" --seed "$programs" "$1" && "$asan/tests/load_fuzz" --seed "$archives" "$1"; }
all_torch_modules() { # passed over where there is no torch
  local status=0; tests/torch_test.sh "$build" --all || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ]
}

ninja -C "$build" --quiet tests/unit_tests tests/program_fuzz tests/operand_fuzz tests/script_random || exit 1
echo "seed $seed"
step package tests/package_test.sh "$build"
step random_graphs env TENON_DIFF_GRAPHS=3000 TENON_DIFF_SEED="$seed" "$build/tests/unit_tests" --source-file='*ops_diff_test*'
step program_fuzz "$build/tests/program_fuzz" "$programs" "$seconds" "$seed"
step archive_fuzz "$build/tests/program_fuzz" "$archives" "$seconds" "$seed"
step script_random "$build/tests/script_random" 5000 "$seed"

step operand_fuzz "$build/tests/operand_fuzz" tests/fixtures/operators
step torch_modules all_torch_modules

sanitized "$asan" -Db_sanitize=address,undefined -Dfuzzers=true
ninja -C "$asan" --quiet tests/unit_tests tests/program_fuzz tests/operand_fuzz tests/load_fuzz tests/text_fuzz tests/script_text_fuzz tests/script_fuzz tests/tested_ops.so tests/tested_operators.so src/cli/tenon || exit 1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
step asan_unit env TENON_DIFF_GRAPHS=60 "$asan/tests/unit_tests"
step asan_fixtures "$asan/src/cli/tenon" check "$programs"
step asan_control "$asan/src/cli/tenon" check tests/fixtures/control
step asan_operators "$asan/src/cli/tenon" check tests/fixtures/operators
step asan_tool tests/tool_test.sh "$asan/src/cli/tenon"
step asan_program_fuzz "$asan/tests/program_fuzz" "$programs" "$seconds" "$seed"
step asan_operand_fuzz "$asan/tests/operand_fuzz" tests/fixtures/operators $((seed % 10)) 10
step asan_archive_fuzz "$asan/tests/program_fuzz" "$archives" "$seconds" "$seed"
load_corpus "$asan/load_corpus" && step load_fuzz fuzz load_fuzz "$asan/load_corpus"
text_corpus "$asan/text_corpus" && step text_fuzz fuzz text_fuzz "$asan/text_corpus"
script_corpora "$asan/script_text_corpus" "$asan/script_corpus"
step script_text_fuzz fuzz script_text_fuzz "$asan/script_text_corpus"
step script_fuzz fuzz script_fuzz "$asan/script_corpus" -detect_leaks=0 # lists may be their own elements

sanitized "$tsan" -Db_sanitize=thread
ninja -C "$tsan" --quiet tests/unit_tests || exit 1
export TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1:suppressions=tests/tsan.supp # Debian has oneTBB without instrumentation
step tsan_unit env TENON_DIFF_GRAPHS=20 "$tsan/tests/unit_tests"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
