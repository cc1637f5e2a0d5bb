#!/usr/bin/env bash
# A short round under AddressSanitizer and UndefinedBehaviorSanitizer, of what reads files and of what calls generated code.
# asan.sh [BUILD] [SECONDS for each fuzzer]
set -uo pipefail
cd "$(dirname "$0")/.."
dir=${1:-build}-asan-quick seconds=${2:-10}
tests/clang_build.sh "${1:-build}" >/dev/null || exit 1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
seed=$((16#0$(git rev-parse --short=7 HEAD: 2>/dev/null))) # other inputs for each state of the tree, the same ones for the same state
ulimit -s 65536 # frames are larger than those of a release

fuzz() { # TARGET [OPTIONS]: from the inputs in its folder, where what it finds stays
  "$dir/tests/$1" -seed=$((seed + 1)) -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=30 -artifact_prefix="$dir/$1_corpus/" "${@:2}" "$dir/$1_corpus"
}
mkdir -p "$dir/load_fuzz_corpus" "$dir/text_fuzz_corpus" "$dir/script_text_fuzz_corpus" "$dir/script_fuzz_corpus"
for samples in load programs archives/2.6.0; do
  "$dir/tests/load_fuzz" --seed "tests/fixtures/$samples" "$dir/load_fuzz_corpus" || exit 1
done
for f in tests/golden/*.txt; do (printf g; sed 1d "$f") >"$dir/text_fuzz_corpus/$(basename "$f")"; done
for f in tests/fixtures/fx/*.fx tests/fixtures/fx/*.code tests/fixtures/fx/*.readable; do (printf f; cat "$f") >"$dir/text_fuzz_corpus/$(basename "$f")"; done
for f in tests/fixtures/scripts/*/*.ir; do (printf g; cat "$f") >"$dir/script_text_fuzz_corpus/$(basename "$f")"; done
cp tests/fixtures/scripts/*/*.py "$dir/script_fuzz_corpus"

# Texts take as long as all the rest, which goes on beside them.
fuzz text_fuzz -max_total_time=$((seconds * 10)) >"$dir/text_fuzz.log" 2>&1 &
texts=$!
status=0
"$dir/src/cli/tenon" check tests/fixtures/programs && "$dir/src/cli/tenon" check tests/fixtures/control && tests/tool_test.sh "$dir/src/cli/tenon" &&
  "$dir/tests/program_fuzz" tests/fixtures/programs "$seconds" "$seed" && fuzz load_fuzz && fuzz script_text_fuzz &&
  # What is given so far takes a minute of texts and twenty seconds of sources. Lists may be their own elements; tensors of gigabytes are refused, as they would be where there is no memory for them.
  ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0:max_allocation_size_mb=256 fuzz script_fuzz -detect_leaks=0 -max_total_time=$((seconds * 5)) || status=1
wait $texts || status=1
tail -n 40 "$dir/text_fuzz.log"
exit $status
