#!/usr/bin/env bash
# Runs every test suite, fast ones first; the last line is "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
passed=0 failed=0
suite() { # NAME COMMAND...: one suite, passed when it exits 0
  local name=$1; shift
  if "$@" >"$build/$name.log" 2>&1; then passed=$((passed + 1)); echo "ok      $name"
  else failed=$((failed + 1)); echo "FAILED  $name"; tail -n 40 "$build/$name.log"; fi
}
suite unit "$build/tests/unit_tests"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
