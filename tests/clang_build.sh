#!/usr/bin/env bash
# The library, the tool and the fuzzers by clang 19 with all warnings as errors, AddressSanitizer and UndefinedBehaviorSanitizer, without
# optimization, which builds in half the time of slow.sh's: into BUILD-asan-quick. Prints the names of the targets. clang_build.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-build}-asan-quick
targets="src/cli/tenon tests/program_fuzz tests/load_fuzz tests/text_fuzz tests/script_text_fuzz tests/script_fuzz tests/tested_ops.so tests/tested_operators.so"
[ -f "$dir/build.ninja" ] || CXX="ccache clang++-19" meson setup "$dir" -Doptimization=0 -Ddebug=false -Db_lundef=false -Db_sanitize=address,undefined -Dfuzzers=true -Dunity=on -Dunity_size=48 >/dev/null
ninja -C "$dir" --quiet $targets >&2
echo "$targets"
