#!/usr/bin/env bash
# Installs into a folder of its own, checks what the library exports, builds the example against it and runs it.
# install_test.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root meson install -C "$build" --no-rebuild --quiet
pc=$(find "$root" -name tenon.pc)
library=$(find "$root" -name 'libtenon.so')
prefix=${pc%/lib*}
foreign=$(nm -D --defined-only -C "$library" | awk '{ $1 = ""; $2 = ""; print substr($0, 3) }' | grep -vE '^(typeinfo (name )?for |vtable for )?tenon::|^tenon_[a-z_]+$' || true)
[ -z "$foreign" ] || { echo "libtenon.so exports what is not its API:"; echo "$foreign" | head; exit 1; }
internal=$(nm -D --defined-only -C "$library" | grep -vE 'tenon::(ir::|Program|Executable|BoundCall|ThreadPool|ThreadBudget|Tensor|Tree|Error|Status|contiguous_strides|register_op|register_kernel|detail::|IValue|ListBox|Script|Var|str|repr|equal|name_of|load_op_library|allowed_types|edge_types_yaml|register_backend|load_backend_library|partition|option_infos|set_option|ReportProgress|is_supported|Communicator|Timeline|to_text|to_json|to_html)| tenon_[a-z_]+$' || true)
[ -z "$internal" ] || { echo "libtenon.so exports internals:"; echo "$internal" | head; exit 1; }
nm -D --defined-only -C "$library" | grep 'tenon::Program::load' >/dev/null || { echo "libtenon.so lacks its API"; exit 1; }
# The C API: what is exported is what the list of its ABI has, and what the header declares.
nm -D --defined-only "$library" | awk '$3 ~ /^tenon_/ { print $3 }' | LC_ALL=C sort >"$root/c_api.txt"
diff tests/expected/c_api.txt "$root/c_api.txt" || { echo "the exports of the C API changed: within a major version they may only be added to (tests/expected/c_api.txt)"; exit 1; }
grep -oE '^TENON_C_API.*\b(tenon_[a-z_]+)\(' include/tenon/tenon.c.h | grep -oE 'tenon_[a-z_]+\(' | tr -d '(' | LC_ALL=C sort | diff - "$root/c_api.txt" || { echo "tenon.c.h declares other functions than there are"; exit 1; }
major=$(awk '/define TENON_API_MAJOR/ { print $3 }' include/tenon/tenon.c.h)
readelf -d "$library" | grep "SONAME.*libtenon.so.$major]" >/dev/null || { echo "the library's name has another major version than the C API"; exit 1; }
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$prefix" --cflags --libs tenon)
# shellcheck disable=SC2086
${CXX:-g++} -Wall -Wextra -Werror examples/embed.cpp $flags -o "$root/embed"
# shellcheck disable=SC2086
${CXX:-g++} -Wall -Wextra -Werror examples/rewrite_pass.cpp $flags -o "$root/rewrite_pass"
# shellcheck disable=SC2086
${CXX:-g++} -Wall -Wextra -Werror examples/own_kernel.cpp $flags -o "$root/own_kernel"
# shellcheck disable=SC2086
${CXX:-g++} -Wall -Wextra -Werror -O1 examples/train.cpp $flags -o "$root/train"
LD_LIBRARY_PATH=$(dirname "$library") "$root/train" examples/train_losses.txt
# shellcheck disable=SC2086
${CXX:-g++} -Wall -Wextra -Werror examples/script.cpp $flags -o "$root/script"
LD_LIBRARY_PATH=$(dirname "$library") "$root/script" | grep "^  %.* : Float(2, 2) = aten::tanh(" >/dev/null || { echo "the traced step has no types"; exit 1; }
LD_LIBRARY_PATH=$(dirname "$library") "$root/embed" tests/fixtures/programs/mlp.pt2
LD_LIBRARY_PATH=$(dirname "$library") "$root/rewrite_pass" tests/fixtures/programs/llama_block.pt2 | grep '^1 places$' >/dev/null || { echo "rewrite_pass finds no gate"; exit 1; }
# C99, and C++ of 2014 beside DLPack's own guard. C has no need of the C++ standard that pkg-config names.
c_flags=${flags//-std=c++20/}
for header in tenon.c.h custom_op.c.h custom_op.h dlpack.h; do
  echo "#include <tenon/$header>" >"$root/header.c"
  # shellcheck disable=SC2086
  ${CC:-cc} -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only "$root/header.c" $c_flags
done
# shellcheck disable=SC2086
${CXX:-g++} -x c++ -std=c++14 -pedantic -Wall -Wextra -Werror -fsyntax-only -include tenon/tenon.c.h /dev/null $c_flags
# shellcheck disable=SC2086
${CC:-cc} -std=c99 -pedantic -Wall -Wextra -Werror examples/embed.c $c_flags -o "$root/embed_c"
LD_LIBRARY_PATH=$(dirname "$library") "$root/embed_c" tests/fixtures/programs/mlp.pt2 | tee "$root/embed_c.txt"
version=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --modversion tenon)
grep "^tenon $version, " "$root/embed_c.txt" >/dev/null || { echo "tenon_version() is not $version"; exit 1; }
cat >"$root/edge.cpp" <<'END'
#include "tenon/edge.h"
int main() { return tenon::allowed_types("edge::bitwise_not", "self").value().empty() || tenon::edge_types_yaml().empty(); }
END
# shellcheck disable=SC2086
${CXX:-g++} -std=c++20 -Wall -Wextra -Werror "$root/edge.cpp" $flags -o "$root/edge"
LD_LIBRARY_PATH=$(dirname "$library") "$root/edge"
LD_LIBRARY_PATH=$(dirname "$library") "$root/own_kernel" tests/fixtures/programs/encoder_block.pt2 | grep 'by mine::gelu$' >/dev/null || { echo "own_kernel is not run"; exit 1; }
"$prefix/bin/tenon" run tests/fixtures/programs/mlp.pt2
# What the parser knows, where shells and man look for it; the licences.
for file in share/man/man1/tenon.1 share/bash-completion/completions/tenon share/zsh/site-functions/_tenon share/fish/vendor_completions.d/tenon.fish share/doc/tenon/LICENSE share/doc/tenon/NOTICES; do
  [ -s "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
"$prefix/bin/tenon" man | cmp - "$prefix/share/man/man1/tenon.1"
# CMake finds the library, for C++ and for C, and refuses it for another version.
if ! command -v cmake >/dev/null; then echo "SKIPPED install: cmake is missing (./dev setup installs it); all else passed"; exit 77; fi
mkdir "$root/project"
cat >"$root/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(embed \${languages})
find_package(tenon \${wanted} REQUIRED)
add_executable(embed \${source})
target_link_libraries(embed PRIVATE tenon::tenon)
END
with_cmake() { # LANGUAGES VERSION SOURCE
  rm -rf "$root/project/build"
  cmake -S "$root/project" -B "$root/project/build" -DCMAKE_PREFIX_PATH="$prefix" -Dlanguages="$1" -Dwanted="$2" -Dsource="$PWD/$3" >"$root/cmake.log" 2>&1 &&
    cmake --build "$root/project/build" >"$root/cmake.log" 2>&1 && "$root/project/build/embed" tests/fixtures/programs/mlp.pt2 >/dev/null
}
with_cmake CXX "${version%.*}" examples/embed.cpp || { cat "$root/cmake.log"; exit 1; }
with_cmake C "$version" examples/embed.c || { cat "$root/cmake.log"; exit 1; }
if with_cmake CXX 99 examples/embed.cpp; then echo "CMake takes another major version"; exit 1; fi
grep 'version: "*'"$version" "$root/cmake.log" >/dev/null || grep "version: $version" "$root/cmake.log" >/dev/null || { cat "$root/cmake.log"; exit 1; }
echo "library: $(stat -Lc %s "$library") bytes, exports $(nm -D --defined-only "$library" | wc -l) symbols"
