#!/usr/bin/env bash
# The documentation as a site, into BUILD/docs: every page, link and anchor. docs.sh [BUILD]
# Status 77: it was passed over, as the package index cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
venv=$build/docs-venv
if ! cmp -s docs/requirements.txt "$venv/installed"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --no-deps -r docs/requirements.txt >"$build/docs-pip.log" 2>&1 ||
    { tail -n 3 "$build/docs-pip.log"; echo "SKIPPED docs: the package index cannot be reached"; exit 77; }
  cp docs/requirements.txt "$venv/installed"
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/python" -m mkdocs build --strict --quiet --site-dir "$build/docs"
# Whatever a page needs comes with it: links may lead elsewhere, scripts, styles, fonts and pictures may not.
if grep -rnoE "(<script[^>]* src|<link[^>]* href|<img[^>]* src|url\()[=\"' ]*(https?:)?//[^\"' )]*" "$build/docs" --include='*.html' --include='*.css' | head; then
  echo "the site fetches something from elsewhere" && exit 1
fi 
echo "$(find "$build/docs" -name '*.html' | wc -l) pages in $build/docs"
