#!/usr/bin/env bash
# Every source file is laid out as .clang-format says; `./dev fmt` does it.
cd "$(dirname "$0")/.."
git ls-files '*.cpp' '*.h' '*.inc' | xargs -n 40 -P "$(nproc)" clang-format-19 --dry-run -Werror
