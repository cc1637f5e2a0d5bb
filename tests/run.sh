#!/usr/bin/env bash
# Runs the test suites, fast ones first; the last line is "N passed, N failed". run.sh [BUILD] [SUITE...]: all of them, or
# those named.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -gt 0 ] && shift
only=" $* "
tenon=$build/src/cli/tenon
passed=0 failed=0
suite() { # NAME COMMAND...: one suite, passed when it exits 0
  local name=$1 start=$SECONDS; shift
  [ "$only" = "  " ] || [[ "$only" == *" $name "* ]] || return 0
  local status=0
  "$@" >"$build/$name.log" 2>&1 || status=$?
  if [ $status -eq 77 ]; then tail -n 1 "$build/$name.log" # it says what is missing
  elif [ $status -eq 0 ]; then passed=$((passed + 1)); echo "ok      $name ($((SECONDS - start)) s)"; grep '^PASSED OVER' "$build/$name.log"
  else failed=$((failed + 1)); echo "FAILED  $name ($((SECONDS - start)) s), all of it in $build/$name.log"; tail -n 40 "$build/$name.log"; fi
}
check_archives() { # what older torches wrote
  local version
  for version in tests/fixtures/archives/*; do "$tenon" check "$version" || return 1; done
}
check_scripts() { # scripts and their graphs, also in the interpreter; the examples of the document of 2018
  local folder
  for folder in tests/fixtures/scripts/*/; do "$tenon" check "$folder" && "$tenon" check --interpret "$folder" || return 1; done
}
check_plans() { # a program is compiled in the same way in every process, wherever memory lies
  local program first
  for program in tests/fixtures/{programs,control,quantized,strides}/*.pt2; do
    first=$("$tenon" dump --stage=plan "$program" | md5sum) || return 1
    for _ in 1 2 3; do
      [ "$("$tenon" dump --stage=plan "$program" | md5sum)" = "$first" ] || { echo "$program has more than one plan"; return 1; }
    done
  done
}
guard_tiles() { # tile registers refused, and used by foreign threads and after a fork
  local mode
  for mode in refused small_stack foreign_threads fork; do "$build/tests/guarded_tiles" "$mode" || return 1; done
}
unit() { # in two processes: kernels and random graphs take as long as all the rest
  local half='*gemm*,*conv_*,*join*,*random*,*diff*'
  "$build/tests/unit_tests" -sf="$half" >"$build/unit_half.log" 2>&1 &
  local other=$!
  "$build/tests/unit_tests" -sfe="$half"
  local rest=$?
  wait $other || { cat "$build/unit_half.log"; return 1; }
  return $rest
}
fuzz_programs() { # changed programs, loaded, compiled and run: others for each state of the tree, the same for the same one
  local folder seed=$((16#0$(git rev-parse --short=7 HEAD: 2>/dev/null)))
  for folder in programs archives/2.6.0; do "$build/tests/program_fuzz" "tests/fixtures/$folder" 10 "$seed" || return 1; done
  "$build/tests/operand_fuzz" tests/fixtures/operators $((seed % 50)) 50 && "$build/tests/script_random" 100 "$seed"
}
suite layers tests/layers.py
suite specification tests/specification.py
suite format tests/format.sh
suite unit unit
suite unit_avx2 env TENON_AVX2=1 "$build/tests/unit_tests" -sf='*fft_test*,*blas_test*,*linalg_test*,*weight_only_test*'
# Most of what comes next keeps one core busy: what clang compiles for the last suites is compiled beside it.
ahead=
if [ "$only" = "  " ]; then
  nice tests/clang_build.sh "$build" >"$build/clang_build.log" 2>&1 &
  ahead=$!
fi
suite fixtures "$tenon" check tests/fixtures/programs
suite plans check_plans
suite strides "$tenon" check tests/fixtures/strides
suite scripts check_scripts
suite guarded_tiles guard_tiles
suite archives check_archives
suite control "$tenon" check --forbid-fallback tests/fixtures/control
suite quantized "$tenon" check --forbid-fallback tests/fixtures/quantized
suite quantized_interpreted "$tenon" check --interpret tests/fixtures/quantized
suite control_interpreted "$tenon" check --interpret tests/fixtures/control
suite fixtures_avx2 "$tenon" check --isa avx2 tests/fixtures/programs
suite fixtures_interpreted "$tenon" check --interpret tests/fixtures/programs
suite operators "$tenon" check tests/fixtures/operators
suite operators_interpreted "$tenon" check --interpret tests/fixtures/operators
suite tool tests/tool_test.sh "$tenon"
suite tool_options tests/tool_options_test.py "$tenon"
suite tool_facts tests/tool_facts_test.py "$tenon"
suite notices packaging/notices.py --check "$build"
suite pages tests/pages_test.sh "$tenon"
suite install tests/install_test.sh "$build"
suite python tests/python_test.sh "$build"
suite against tests/against_test.py "$tenon" "$build"
suite ray tests/ray_test.sh "$build"
suite snippets tests/docs_test.py "$build"
suite docs tests/docs.sh "$build"
suite torch tests/torch_test.sh "$build"
if [ -f "$build/tests/onednn_backend.so" ]; then suite onednn tests/onednn_test.sh "$build"
else echo "SKIPPED onednn: the backend over oneDNN is not built, as libdnnl-dev or OpenMP is missing"; fi
suite mpi tests/mpi_test.sh "$build"
suite fuzz fuzz_programs
[ -z "$ahead" ] || wait "$ahead" # what failed there fails again, and says so
suite asan tests/asan.sh "$build"
suite clang tests/clang_test.py "$build"
# The acceptance sets lie beside the checkout, where there are any.
shared=${TENON_SHARED:-../shared}
for set in corpus opdb; do
  if [ -x "$shared/accept/$set.sh" ]; then suite "$set" tests/accept.py "$set" "$tenon" "$shared/accept/$set.sh"; fi
done
if [ -f "$shared/accept/script.tar.zst" ]; then suite script tests/accept.py script "$tenon" tests/script_set.sh "$shared"; fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
