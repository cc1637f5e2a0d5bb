#!/bin/sh
# script_set.sh SHARED: the acceptance set of scripts and their graphs through `tenon check`, as SHARED/accept/*.sh do it for programs.
. "$1/accept/lib.sh"
here=$1/accept
unpack script
log=$(mktemp)
"$tenon" check "$dir/script" "$dir/autodiff" >"$log" || true
total=$(find "$dir" -name '*.py' -o -name '*.ir' | wc -l)
lines=$(grep -c '^\(PASS\|FAIL\|UNSUPPORTED\) ' "$log" || true)
echo "full log: $log"
echo "script: $(grep -c '^PASS ' "$log" || true) of $total pass, $((total - lines)) lost"
