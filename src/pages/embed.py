#!/usr/bin/env python3
"""Writes C++ that holds the given files as texts: embed.py OUT.cpp FILE..."""
import os
import sys

out, files = sys.argv[1], sys.argv[2:]
with open(out, "w", encoding="utf-8") as f:
    f.write('#include "pages/assets.h"\n\n#include "base/check.h"\n\nnamespace tenon::pages {\n\n')
    f.write("std::string_view asset(std::string_view name) {\n")
    for path in files:
        with open(path, encoding="utf-8") as source:
            text = source.read()
        assert ')asset"' not in text, path
        f.write(f'  if (name == "{os.path.basename(path)}") return R"asset({text})asset";\n')
    f.write('  internal_error("no asset {}", name);\n}\n\n} // namespace tenon::pages\n')
