#!/usr/bin/env bash
# The Debian packages in a bare Debian 12: installed by apt, the tool runs a program, C and C++ programs are built there and run.
# package_test.sh BUILD [FOLDER OF .deb FILES]. Status 77: it was passed over, as no bare system can be made here.
# The bare system is kept as ~/.cache/tenon/bookworm.tar (TENON_CACHE: another folder).
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
cache=${TENON_CACHE:-$HOME/.cache/tenon}
pass_over() { echo "SKIPPED package: $*"; exit 77; }
[ "$(id -u)" = 0 ] || pass_over "a bare system is made as root"
[ "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" = bookworm ] || pass_over "the packages are those of Debian 12"
work=$(mktemp -d)
root=$work/root
finish() { umount "$root/proc" 2>/dev/null || true; rm -rf "$work"; }
trap finish EXIT

if [ ! -f "$cache/bookworm.tar" ]; then
  command -v debootstrap >/dev/null || pass_over "debootstrap is missing (apt install debootstrap)"
  mkdir -p "$cache"
  timeout 900 debootstrap --variant=minbase bookworm "$work/bare" >"$work/debootstrap.log" 2>&1 || { tail -n 3 "$work/debootstrap.log"; pass_over "debootstrap fails"; }
  tar -C "$work/bare" -cf "$cache/bookworm.tar.$$" . && mv "$cache/bookworm.tar.$$" "$cache/bookworm.tar"
  rm -rf "$work/bare"
fi
mkdir "$root"
tar -C "$root" -xf "$cache/bookworm.tar"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc" || pass_over "/proc cannot be mounted"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
inside apt-get update -qq >"$work/apt.log" 2>&1 || { tail -n 3 "$work/apt.log"; pass_over "the archive of Debian cannot be reached"; }

packages=${2:-}
if [ -z "$packages" ]; then packages=$work/debs; BUILD=$build ./dev package "$packages" >/dev/null; fi
cp "$packages"/*.deb "$root/tmp/"
inside sh -c 'apt-get install -y -qq --no-install-recommends /tmp/libtenon0_*.deb /tmp/tenon-tools_*.deb' >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; exit 1; }
! inside sh -c 'command -v g++ python3 clang' || { echo "a compiler or Python came along"; exit 1; }
mkdir "$root/programs"
cp tests/fixtures/programs/mlp.pt2 tests/fixtures/programs/mlp.inputs.npz tests/fixtures/programs/mlp.expected.npz "$root/programs/"
inside tenon --version
inside tenon run /programs/mlp.pt2 | tee "$work/run.txt"
grep '^out0: f32\[4, 10\] = 0.26' "$work/run.txt" >/dev/null || { echo "the tool gives another result"; exit 1; }
inside tenon check /programs/mlp.pt2 | grep '^PASS mlp$' >/dev/null || { echo "the tool's check fails"; exit 1; }
inside tenon doctor --no-measure >/dev/null
for file in usr/share/man/man1/tenon.1.gz usr/share/bash-completion/completions/tenon usr/share/zsh/vendor-completions/_tenon usr/share/fish/vendor_completions.d/tenon.fish \
  usr/share/doc/libtenon0/copyright usr/share/doc/tenon-tools/copyright; do
  [ -s "$root/$file" ] || [ -s "$root/${file%.gz}" ] || echo "$file is missing" >>"$work/missing"
done
if [ -f "$work/missing" ]; then # a bare system may leave manual pages out
  cat "$work/missing"; inside dpkg -L tenon-tools | grep '/tenon.1.gz$' >/dev/null || exit 1
  ! grep -v man1 "$work/missing" || exit 1
fi
# With a compiler: C by pkg-config, C++ by pkg-config and by CMake.
inside sh -c 'apt-get install -y -qq --no-install-recommends g++ pkg-config cmake make /tmp/libtenon-dev_*.deb' >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; exit 1; }
inside sh -ec '
cd /programs
examples=/usr/share/doc/libtenon-dev/examples
cc -std=c99 -Wall -Wextra -Werror $examples/embed.c $(pkg-config --cflags --libs tenon | sed s/-std=c++20//) -o embed_c
./embed_c mlp.pt2
g++ -Wall -Wextra -Werror $examples/embed.cpp $(pkg-config --cflags --libs tenon) -o embed
./embed mlp.pt2
mkdir project && cd project
printf "cmake_minimum_required(VERSION 3.16)\nproject(embed CXX)\nfind_package(tenon 0.1 REQUIRED)\nadd_executable(embed $examples/embed.cpp)\ntarget_link_libraries(embed PRIVATE tenon::tenon)\n" >CMakeLists.txt
cmake -B build . >/dev/null && cmake --build build >/dev/null
build/embed ../mlp.pt2'
inside apt-get purge -y -qq libtenon0 libtenon-dev tenon-tools >"$work/apt.log" 2>&1 || { cat "$work/apt.log"; exit 1; }
left=$(inside find /usr -name '*tenon*')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "packages: $(cd "$packages" && du -ch ./*.deb | tr '\n' ' ')"
