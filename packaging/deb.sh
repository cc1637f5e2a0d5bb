#!/usr/bin/env bash
# Packs what a build with the prefix /usr installs as Debian packages: libtenon0, libtenon-dev, tenon-tools. deb.sh BUILD OUT
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
version=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])' < <(meson introspect --projectinfo "$build"))
major=${version%%.*}
arch=$(dpkg --print-architecture)
libdir=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
all=$work/all
DESTDIR=$all meson install -C "$build" --no-rebuild --strip --quiet
[ -f "$all/$libdir/libtenon.so.$major" ] || { echo "$build is not configured for --prefix /usr --libdir lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"; exit 1; }

take() { # PACKAGE PATH...: moves what was installed into a package
  local package=$1 path; shift
  for path in "$@"; do mkdir -p "$work/$package/$(dirname "$path")"; mv "$all/$path" "$work/$package/$path"; done
}
depends_of() { # FILE...: the packages of the shared libraries that they are linked with
  mkdir -p "$work/shlibs/debian"
  printf 'Source: tenon\n\nPackage: tenon\nArchitecture: any\n' >"$work/shlibs/debian/control"
  local file args=()
  for file in "$@"; do args+=("-e$file"); done
  (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info "${args[@]}" 2>/dev/null) | sed 's/^shlibs:Depends=//'
}
pack() { # PACKAGE SECTION DEPENDS DESCRIPTION...: the description's first line is the short one
  local root=$work/$1 doc=$work/$1/usr/share/doc/$1
  mkdir -p "$root/DEBIAN" "$doc"
  { echo "tenon, $version"; echo; cat LICENSE; echo; cat NOTICES; } >"$doc/copyright"
  { echo "tenon ($version-1) unstable; urgency=medium"; echo; echo "  * See CHANGELOG.md of the sources."; echo
    echo " -- The tenon developers <tenon@localhost>  $(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}")"; } | gzip -9n >"$doc/changelog.Debian.gz"
  { echo "Package: $1"; echo "Source: tenon"; echo "Version: $version-1"; echo "Architecture: $arch"; echo "Multi-Arch: $([ "$1" = tenon-tools ] && echo foreign || echo same)"
    echo "Maintainer: The tenon developers <tenon@localhost>"; echo "Section: $2"; echo "Priority: optional"
    echo "Installed-Size: $(du -sk "$root/usr" | cut -f1)"; [ -z "$3" ] || echo "Depends: $3"
    echo "Description: $4"; printf ' %s\n' "${@:5}"; } >"$root/DEBIAN/control"
  find "$root" -type d -exec chmod 755 {} +
  find "$root/usr" -type f -not -path '*/bin/*' -exec chmod 644 {} +
  (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  dpkg-deb --root-owner-group -Zxz --build "$root" "$out" >/dev/null
  echo "$out/${1}_$version-1_$arch.deb"
}

take "libtenon$major" "$libdir/libtenon.so.$major"
take libtenon-dev "$libdir/libtenon.so" "$libdir/pkgconfig" "$libdir/cmake" usr/include
take tenon-tools usr/bin usr/share/man usr/share/bash-completion usr/share/fish
mkdir -p "$work/tenon-tools/usr/share/zsh/vendor-completions" # where zsh of Debian looks
mv "$all/usr/share/zsh/site-functions/_tenon" "$work/tenon-tools/usr/share/zsh/vendor-completions/_tenon"
gzip -9n "$work/tenon-tools/usr/share/man/man1/tenon.1"
mkdir -p "$work/libtenon-dev/usr/share/doc/libtenon-dev/examples"
cp examples/embed.c examples/embed.cpp examples/rewrite_pass.cpp examples/own_kernel.cpp examples/script.cpp "$work/libtenon-dev/usr/share/doc/libtenon-dev/examples/"
rm -rf "$all/usr/share/doc" # every package has its own
left=$(cd "$all" && find . -type f -o -type l)
[ -z "$left" ] || { echo "in no package: $left"; exit 1; }

mkdir -p "$work/libtenon$major/DEBIAN"
echo "libtenon $major libtenon$major (>= $version)" >"$work/libtenon$major/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$work/libtenon$major/DEBIAN/triggers"
pack "libtenon$major" libs "$(depends_of "$work/libtenon$major/$libdir/libtenon.so.$major")" "runs programs exported by torch.export as native code" \
  "tenon loads a program that torch.export wrote and runs it as native code in" "the process, without Python, PyTorch or a compiler. This is the library."
pack libtenon-dev libdevel "libtenon$major (= $version-1)" "runs programs exported by torch.export (development files)" \
  "Headers of the C++ and the C interface of tenon, with the files for pkg-config" "and CMake, and examples."
pack tenon-tools science "$(depends_of "$work/tenon-tools/usr/bin/tenon")" "runs programs exported by torch.export (command line)" \
  "The tool tenon runs, compiles, explains, measures and checks exported programs," "with its manual page and completions for bash, zsh and fish."
