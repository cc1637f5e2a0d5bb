#!/usr/bin/env bash
# Programs of several ranks over MPI: torch's results on 2 and 4 processes, in code and in the interpreter; ranks that fail, disagree, are
# late or are killed. mpi_test.sh BUILD. Status 77: passed over, as there is no MPI.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1") tenon=$(realpath "$1")/src/cli/tenon
[ -f "$build/mpi/libtenon_mpi.so" ] || { echo "SKIPPED mpi: libtenon_mpi.so is not built, as no MPI was found (libopenmpi-dev)"; exit 77; }
command -v mpirun >/dev/null || { echo "SKIPPED mpi: there is no mpirun (openmpi-bin)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1"; [ $# -lt 2 ] || cat "$2"; exit 1; }
as_root=
[ "$(id -u)" != 0 ] || as_root=--allow-run-as-root
ranks() { # N COMMAND...
  local n=$1; shift
  OMPI_MCA_btl_base_warn_component_unused=0 timeout -k 5 120 mpirun $as_root --oversubscribe --bind-to none -np "$n" "$@"
}
programs=tests/fixtures/parallel
for n in 2 4; do
  for how in "" --interpret; do
    ranks $n "$tenon" check --threads 1 --communicator mpi $how "$programs/of$n/rank{rank}" >"$work/out" 2>&1 || fail "$n ranks $how" "$work/out"
    grep -q "PASS tensor" "$work/out" && ! grep -q FAIL "$work/out" || fail "$n ranks $how" "$work/out"
  done
done
of2="$programs/of2/rank{rank}"
ranks 2 "$tenon" check --threads 1 --communicator mpi:progress=poll,check=0 "$of2" >"$work/out" 2>&1 || fail "without a thread of its own" "$work/out"
# A compiled file, and runs that go on until all ranks have had enough.
ranks 2 "$tenon" compile --threads 1 --communicator mpi "$of2/tensor.pt2" -o "$work/{rank}.tenon" >"$work/out" 2>&1 || fail "compile" "$work/out"
ranks 2 "$tenon" run --threads 1 --communicator mpi "$work/{rank}.tenon" --inputs "$of2/tensor.inputs.npz" >"$work/out" 2>&1 || fail "a file" "$work/out"
ranks 2 "$tenon" bench --threads 1 --seconds 0.1 --communicator mpi "$of2/tensor.pt2" >"$work/out" 2>&1 || fail "bench" "$work/out"
# What it needs.
"$tenon" run "$programs/of2/rank0/tensor.pt2" 2>"$work/error" && fail "it runs alone"
grep -q "it needs Options::communicator" "$work/error" || fail "alone" "$work/error"
ranks 1 "$tenon" run --communicator mpi "$programs/of2/rank0/sequence.pt2" >"$work/error" 2>&1 && fail "it runs on one rank"
grep -q "exported for 2 ranks of group '0', which has 1" "$work/error" || fail "one rank" "$work/error"
# Ranks that disagree: the two get inputs of other sizes.
ln -s "$PWD/$programs/of2/rank0/tensor.inputs.npz" "$work/0.npz"
ln -s "$PWD/$programs/of2/rank1/tensor.2.inputs.npz" "$work/1.npz"
ranks 2 "$tenon" run --threads 1 --communicator mpi "$of2/tensor.pt2" --inputs "$work/{rank}.npz" >"$work/error" 2>&1 && fail "other sizes run"
grep -q "operation 0 is all_reduce (sum) of 256 f32 on rank 0, and all_reduce (sum) of 640 f32 on rank 1" "$work/error" || fail "other sizes" "$work/error"
# A rank that fails before it communicates.
ln -sf "$PWD/$programs/of2/rank1/ops.inputs.npz" "$work/1.npz"
ranks 2 "$tenon" run --threads 1 --communicator mpi "$of2/tensor.pt2" --inputs "$work/{rank}.npz" >"$work/error" 2>&1 && fail "a rank fails, and the others do not"
grep -q "rank 1 failed: 2 inputs are given" "$work/error" || fail "a rank fails" "$work/error"
# A rank that is stopped: the other waits no longer than it was told to. One that is killed: the job ends.
cat >"$work/rank.sh" <<END
#!/bin/sh
# The second rank writes down its process.
[ "\$OMPI_COMM_WORLD_RANK" != 1 ] || echo \$\$ >"$work/pid"
exec "$tenon" bench --threads 1 --seconds 60 --communicator mpi:timeout=3 "$of2/tensor.pt2"
END
chmod +x "$work/rank.sh"
hurt() { # SIGNAL
  rm -f "$work/pid"
  ranks 2 "$work/rank.sh" >"$work/error" 2>&1 &
  local job=$! start
  for _ in $(seq 100); do [ -s "$work/pid" ] && break; sleep 0.1; done
  sleep 2
  start=$SECONDS
  kill -"$1" "$(cat "$work/pid")"
  wait $job && fail "a rank got $1, and all is well" "$work/error"
  kill -KILL "$(cat "$work/pid")" 2>/dev/null || true
  [ $((SECONDS - start)) -le 20 ] || fail "$((SECONDS - start)) s after $1"
}
hurt STOP
grep -qE "rank 0 failed: it waited 3 s( for rank 1)? in operation" "$work/error" || fail "a stopped rank" "$work/error"
hurt KILL
echo "all ranks agree"
