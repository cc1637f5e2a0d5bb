#!/usr/bin/env bash
# Pages of explain and bench, opened in a headless Chromium, with a network and without. pages_test.sh TENON
# Status 77: it was passed over, as there is no such browser.
set -uo pipefail
cd "$(dirname "$0")/.."
tenon=$1
programs=tests/fixtures/programs
browser=${TENON_BROWSER:-$(command -v chromium-headless-shell chromium chromium-browser google-chrome | head -n 1)}
[ -n "$browser" ] || { echo "SKIPPED pages: no Chromium is installed (chromium-headless-shell)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
problems=0
problem() { echo "$*"; problems=$((problems + 1)); }
offline=()
for way in "unshare -n" "unshare -rn"; do if $way true 2>/dev/null; then offline=($way); break; fi; done
look_at() { # PAGE [PREFIX COMMAND...]: what its self-test says
  local page=$1; shift
  tests/pages/inject.py "$page" "$work/tested.html"
  timeout 120 "$@" "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" --window-size=1400,900 \
    --enable-logging=stderr --virtual-time-budget=5000 --dump-dom "file://$work/tested.html" >"$work/dom" 2>"$work/log" || problem "$page: the browser failed: $(tail -n 3 "$work/log")"
  ! grep 'CONSOLE' "$work/log" || problem "$page: messages on the console"
  grep -q '<pre id="selftest">fine: ' "$work/dom" || problem "$page: $(sed -n '/<pre id="selftest">/,/<\/pre>/p' "$work/dom" | head -n 40)"
}
explain_page() { # NAME MODEL [OPTIONS]
  local name=$1; shift
  "$tenon" explain "$@" --seconds 0.02 --html "$work/$name.html" >/dev/null || problem "explain --html of $name"
}
# Steps of all kinds, control flow, what was refused, many steps; names that HTML must not take for its own.
explain_page llama $programs/llama_block.pt2
explain_page cond $programs/cond.pt2
explain_page lstm $programs/lstm.pt2
"$tenon" compile $programs/mlp.pt2 -o "$work/mlp.tenon" >/dev/null && cp "$work/mlp.tenon" "$work/<script>&.tenon"
explain_page escaped "$work/<script>&.tenon" --inputs $programs/mlp.2.inputs.npz
tests/pages/big_program.py 2000 >"$work/big.fx" && python3 tests/pages/inputs.py "$work/big.npz"
explain_page big "$work/big.fx" --inputs "$work/big.npz"
for time in 1 2; do
  "$tenon" bench $programs/encoder_block.pt2 --seconds 0.05 --history "$work/history.jsonl" --html "$work/bench.html" >/dev/null || problem "bench --html"
done
[ "$(wc -l <"$work/history.jsonl")" -eq 2 ] || problem "the history has not two lines"
"$tenon" bench $programs/mlp.pt2 --seconds 0.02 --html "$work/alone.html" >/dev/null || problem "bench --html without a history"
for name in llama cond lstm escaped big bench alone; do look_at "$work/$name.html"; done
if [ ${#offline[@]} -gt 0 ]; then
  for name in llama bench; do look_at "$work/$name.html" "${offline[@]}"; done
else echo "no namespace of a network can be made here: pages were not opened without one"; fi
echo "$problems problems"
[ "$problems" -eq 0 ]
