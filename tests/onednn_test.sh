#!/usr/bin/env bash
# The example backend over oneDNN: programs with their linear layers delegated give torch's results, from files too. onednn_test.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
tenon=$1/src/cli/tenon backend=$1/tests/onednn_backend.so
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; exit 1; }
programs=tests/fixtures/programs
"$tenon" check --backend "$backend" $programs || fail "programs with delegates give other results"
"$tenon" check --interpret --backend "$backend" $programs/mlp.pt2 || fail "the interpreter"
"$tenon" explain --verbose --backend "$backend" --seconds 0.02 $programs/gpt_block.pt2 >"$work/explained"
[ "$(grep -c '^ *backend onednn$' "$work/explained")" -ge 3 ] || fail "the linear layers of a block are no delegates"
grep -q 'delegate: permute mm view add' "$work/explained" || fail "explain does not name the operators of delegates"
"$tenon" compile --backend "$backend" $programs/mlp.pt2 -o "$work/mlp.tenon"
"$tenon" run --backend "$backend" "$work/mlp.tenon" --inputs $programs/mlp.inputs.npz -o "$work/file.npz" >/dev/null
"$tenon" run --backend "$backend" $programs/mlp.pt2 --inputs $programs/mlp.inputs.npz -o "$work/now.npz" >/dev/null
cmp "$work/file.npz" "$work/now.npz" || fail "a compiled file gives other results"
"$tenon" run "$work/mlp.tenon" --inputs $programs/mlp.inputs.npz 2>"$work/error" && fail "a file runs without its backend"
grep -q 'unsupported: the program has steps for the backend onednn, which is not registered here' "$work/error" || fail "$(cat "$work/error")"
"$tenon" run --backend nobody $programs/mlp.pt2 2>"$work/error" && fail "there is a backend called nobody"
grep -q 'error: there is no backend nobody' "$work/error" || fail "$(cat "$work/error")"
