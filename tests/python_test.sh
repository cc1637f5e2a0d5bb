#!/usr/bin/env bash
# Builds the Python package against the library of BUILD, in a virtual environment of its own, and runs its tests. python_test.sh BUILD
# Status 77: it was passed over, as the package index cannot be reached. TENON_PYTHON: another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=$(realpath "${1:-build}")
work=${TENON_PYTHON_WORK:-$build/python-package}
venv=$work/venv
mkdir -p "$work"
[ -x "$venv/bin/python" ] || "${TENON_PYTHON:-python3}" -m venv "$venv"
if ! "$venv/bin/python" -c 'import nanobind, mesonpy, numpy, pytest' 2>/dev/null; then
  "$venv/bin/pip" install -q 'nanobind>=3.1' meson-python meson ninja numpy pytest >"$work/pip.log" 2>&1 ||
    { tail -n 3 "$work/pip.log"; echo "SKIPPED python: the package index cannot be reached"; exit 77; }
fi
# A project around python/ that takes the library which is built already.
ln -sfn "$root/python" "$work/python"
ln -sfn "$root/include" "$work/include"
cat >"$work/meson.build" <<END
project('tenon-python', 'cpp', version: '0', default_options: ['cpp_std=c++20', 'buildtype=release', 'warning_level=3', 'werror=true', 'unity=on', 'unity_size=48']) # as pip builds it
tenon_dep = declare_dependency(include_directories: include_directories('include'), link_args: ['-L$build', '-ltenon', '-Wl,-rpath,$build'])
subdir('python')
END
export PATH=$venv/bin:$PATH
[ -f "$work/out/build.ninja" ] || CXX=${CXX:-g++} meson setup "$work/out" "$work" --prefix "$work/installed" -Dpython.purelibdir=python -Dpython.platlibdir=python >"$work/meson.log" ||
  { cat "$work/meson.log"; exit 1; }
ninja -C "$work/out" --quiet
meson install -C "$work/out" --quiet
# What pip would make of pyproject.toml: torch finds the backend by its entry point.
info=$work/installed/python/tenon-0.dist-info
mkdir -p "$info"
printf 'Metadata-Version: 2.1\nName: tenon\nVersion: 0\n' >"$info/METADATA"
sed -n 's/^\[project.entry-points.\(.*\)\]$/[\1]/p; s/^\(tenon\) = "\(tenon.*:.*\)"$/\1 = \2/p' pyproject.toml >"$info/entry_points.txt"
PYTHONPATH=$work/installed/python python -m pytest -q -p no:cacheprovider "$root/python/tests"
