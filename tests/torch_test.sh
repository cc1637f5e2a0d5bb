#!/usr/bin/env bash
# Runs modules through torch.compile(backend="tenon") and compares with eager. torch_test.sh BUILD [--all]: a few of them, or all.
# The interpreter is TENON_TORCH_PYTHON or that of the Python package; status 77: it has no torch, or the package is not made for it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
shift || true
work=${TENON_PYTHON_WORK:-$build/python-package}
python=${TENON_TORCH_PYTHON:-$work/venv/bin/python}
export PYTHONPATH=$work/installed/python PYTHONDONTWRITEBYTECODE=1
skip() { echo "SKIPPED torch: $*"; exit 77; }
[ -d "$PYTHONPATH/tenon" ] || skip "the Python package is not built; the suite python does that"
[ -x "$python" ] && "$python" -c 'import torch' 2>/dev/null || skip "no torch for $python; TENON_TORCH_PYTHON names another interpreter"
"$python" -c 'import tenon' 2>/dev/null || skip "the package was built for another version of Python than $python"
exec "$python" python/tests/torch_modules_run.py "$@"
