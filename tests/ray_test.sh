#!/usr/bin/env bash
# tenon.ray on a Ray of this machine, with the package that the suite `python` built. ray_test.sh BUILD
# Status 77: it was passed over, as there is no Ray. TENON_RAY_PYTHON: an interpreter that has ray[data,serve] and pytest, else that suite's own.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${TENON_PYTHON_WORK:-$(realpath "${1:-build}")/python-package}
python=${TENON_RAY_PYTHON:-$work/venv/bin/python}
export PYTHONPATH=$work/installed/python
if ! "$python" -c 'import pytest, ray.data, ray.serve' 2>/dev/null; then
  echo "SKIPPED ray: there is no ray[data,serve] in $python; TENON_RAY_PYTHON names an interpreter that has it"; exit 77
fi
"$python" -m pytest -q -p no:cacheprovider python/tests/test_batches.py python/tests/test_ray.py
