#!/usr/bin/env bash
# The commands of the tool: what they print, and how they fail. tool_test.sh TENON
set -uo pipefail
cd "$(dirname "$0")/.."
tenon=$1
programs=tests/fixtures/programs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
problems=0
problem() { echo "$*"; problems=$((problems + 1)); }
has() { # PATTERN COMMAND...: succeeds, and prints a line with the pattern
  local pattern=$1; shift
  "$@" >"$work/out" 2>"$work/err" || problem "exit code $?: $*: $(cat "$work/err")"
  grep -qE -- "$pattern" "$work/out" || problem "no '$pattern' in: $*"
}
refuses() { # PATTERN COMMAND...: exit code 1 and one line on stderr, with the pattern
  local pattern=$1 code=0; shift
  "$@" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" -eq 1 ] || problem "exit code $code instead of 1: $*"
  [ "$(wc -l <"$work/err")" -eq 1 ] || problem "not one line of stderr: $*: $(cat "$work/err")"
  grep -qE -- "$pattern" "$work/err" || problem "no '$pattern' in the error of: $*: $(cat "$work/err")"
}
has '^out0: f32\[4, 10\] = 0.26' "$tenon" run $programs/mlp.pt2
has '^load .* compile .* run ' "$tenon" run $programs/mlp.pt2
has 'out1: f32' "$tenon" run $programs/mlp.pt2 --inputs $programs/mlp.2.inputs.npz -o "$work/out.npz" --threads 1
# The text that torch prints of a program runs as the program does.
has '^out15: ' "$tenon" run tests/fixtures/fx/pointwise_mix.fx --inputs $programs/pointwise_mix.inputs.npz
grep -v '^load' "$work/out" >"$work/text"
has '^out15: ' "$tenon" run $programs/pointwise_mix.pt2 --inputs $programs/pointwise_mix.inputs.npz
grep -v '^load' "$work/out" | cmp -s - "$work/text" || problem "an FX text gives other results than its program"
# So does its Python code, and the module that show writes, which torch runs as well (tests/fixtures/fx_modules.py).
has '^out15: ' "$tenon" run tests/fixtures/fx/pointwise_mix.readable --inputs $programs/pointwise_mix.inputs.npz
grep -v '^load' "$work/out" | cmp -s - "$work/text" || problem "Python code gives other results than its program"
"$tenon" show --python $programs/mlp.pt2 -o "$work/mlp.py" || problem "show does not write a module"
has '^out1: ' "$tenon" run $programs/mlp.pt2
grep -v '^load' "$work/out" >"$work/text"
has '^out1: ' "$tenon" run "$work/mlp.py" --weights "$work/mlp.npz" --inputs $programs/mlp.inputs.npz
grep -v '^load' "$work/out" | cmp -s - "$work/text" || problem "a module gives other results than its program"
python3 -m py_compile "$work/mlp.py" || problem "show writes what is no Python"
has 'torch.ops.aten.linear.default' "$tenon" show --python tests/fixtures/fx/mlp.fx
refuses "'x.txt' is no name of a Python file" "$tenon" show --python $programs/mlp.pt2 -o x.txt
refuses "cannot write" "$tenon" show --python $programs/mlp.pt2 -o "$work/none/x.py"
refuses 'has no type.*give inputs' "$tenon" run tests/fixtures/fx/pointwise_mix.fx
refuses 'has its own' "$tenon" run $programs/mlp.pt2 --weights $programs/mlp.inputs.npz
# What run wrote is what check expects.
cp $programs/mlp.pt2 "$work/m.pt2"; cp $programs/mlp.2.inputs.npz "$work/m.inputs.npz"; mv "$work/out.npz" "$work/m.expected.npz"
has '^PASS m$' "$tenon" check "$work/m.pt2"
has '^1 passed, 0 failed, 0 unsupported$' "$tenon" check "$work" --rtol 0 --atol 0
cp $programs/mlp.expected.npz "$work/m.expected.npz"
"$tenon" check "$work" >"$work/out" && problem "check accepts outputs of another size"
grep -q '^FAIL m out0: shape' "$work/out" || problem "check does not say what is wrong: $(cat "$work/out")"
keys='load_ms compile_ms first_result_ms median_ms min_ms p90_ms runs peak_rss_mb kernels_compiled fallback_steps'
"$tenon" bench $programs/mlp.pt2 --seconds 0.05 --json | python3 -c "
import json, sys
j = json.load(sys.stdin)
assert sorted(j) == sorted('$keys'.split()), j
assert 0 < j['load_ms'] < j['first_result_ms'] and 0 < j['min_ms'] <= j['median_ms'] <= j['p90_ms'] and j['runs'] >= 5 and j['peak_rss_mb'] > 1, j
assert j['kernels_compiled'] > 0 and j['fallback_steps'] == 0, j" || problem "bench --json"
has '^fallback_steps +0$' "$tenon" bench $programs/mlp.pt2 --seconds 0.05
has 'aten::linear' "$tenon" dump $programs/mlp.pt2 --stage=aten
has 'aten::addmm' "$tenon" dump $programs/mlp.pt2 --stage=core
has '^Long$' "$tenon" ops --allowed edge::sigmoid self
refuses 'no Edge operator edge::sigmoid has an argument or result other' "$tenon" ops --allowed edge::sigmoid other
# A file of constraints narrows those of the operators in it.
printf -- '- func: mm\n  namespace: edge\n  inherits: aten::mm\n  type_alias:\n    T0: [Double]\n  type_constraint:\n  - self: T0\n' >"$work/types.yaml"
refuses 'self is Float, where \[Double\] is allowed in `.*edge::mm' "$tenon" dump $programs/mlp.pt2 --stage=edge --edge-types "$work/types.yaml"
printf 'graph(%%x : Float(2, 2)):\n  %%y : Float(2, 2) = edge::mm.default(%%x, %%x)\n  return (%%y)\n' >"$work/edge.txt"
refuses 'self is Float, where \[Double\] is allowed' "$tenon" opt "$work/edge.txt" --edge-types "$work/types.yaml"
"$tenon" ops --edge-yaml >"$work/types.yaml"
has 'edge::mm' "$tenon" dump $programs/mlp.pt2 --stage=edge --edge-types "$work/types.yaml"
has 'edge::mm' "$tenon" opt "$work/edge.txt" --passes=canonicalize --edge-types "$work/types.yaml"
has 'edge::mm' "$tenon" dump $programs/mlp.pt2 --stage=edge
has 'tenon::matmul' "$tenon" dump $programs/mlp.pt2 --stage=backend
has '^epilogue over ' "$tenon" dump $programs/mlp.pt2 --stage=regions
has ' = tenon::matmul: family .*, B packed 0, kernel 0 ' "$tenon" dump $programs/mlp.pt2 --stage=kernels
has '^kernel ' "$tenon" dump $programs/mlp.pt2 --stage=loops
has '^define ' "$tenon" dump $programs/mlp.pt2 --stage=llvm
has '^[[:space:]]+ret' "$tenon" dump $programs/mlp.pt2 --stage=asm
has 'parameter .* = ' "$tenon" show $programs/mlp.pt2
has 'state dict: 6 tensors' "$tenon" show $programs/mlp.pt2
has 'gradient_to_parameter .* -> linear.weight' "$tenon" show tests/fixtures/graphs/joint.pt2
has 'edge::mm' "$tenon" show $programs/mlp.pt2 --stage=edge
# One of several programs of an archive.
for method in encode decode; do
  "$tenon" run tests/fixtures/graphs/methods.pt2 --method "$method" >/dev/null || problem "$method does not run"
  has 'aten::linear' "$tenon" show tests/fixtures/graphs/methods.pt2 --method "$method"
done
has 'def forward' "$tenon" show --python tests/fixtures/graphs/methods.pt2 --method decode
refuses "several models" "$tenon" run tests/fixtures/graphs/methods.pt2
refuses "encode, decode" "$tenon" explain tests/fixtures/graphs/methods.pt2 --method other
refuses "one graph, without methods" "$tenon" run tests/fixtures/fx/mlp.fx --method encode
for model in programs/mlp programs/kwargs_tree graphs/joint; do
  "$tenon" show tests/fixtures/$model.pt2 --json | python3 -c 'import json, sys
program = json.load(sys.stdin)
assert program["nodes"][-1]["op"] == "output" and program["signature"]["inputs"] and program["state_dict"] is not None' || problem "show --json of $model"
done
"$tenon" opt $programs/mlp.pt2 -o "$work/again.pt2" || problem "opt writes no .pt2"
has '^out0: f32\[4, 10\] = 0.26' "$tenon" run "$work/again.pt2"
refuses 'it is one of aten, edge, backend' "$tenon" show $programs/mlp.pt2 --stage=none
for model in mlp cond lstm recommender buffer_mutation indexing cnn_depthwise; do has '^return out0 = b' "$tenon" dump $programs/$model.pt2 --stage=plan; done
has 'GFLOP/s' "$tenon" explain $programs/mlp.pt2 --verbose --seconds 0.01
has 'bf16[a-z0-9_]* tiles of' "$tenon" explain $programs/bf16_mlp.pt2 --verbose --seconds 0.01
has '^step +us +share' "$tenon" explain $programs/mlp.pt2 --seconds 0.01
has '^0 .*matmul: mm full add relu .*export.py:[0-9]+ layers.0$' "$tenon" explain $programs/mlp.pt2 --sort time --seconds 0.01
refuses 'sort.*nothing' "$tenon" explain $programs/mlp.pt2 --sort nothing
"$tenon" explain $programs/cond.pt2 --seconds 0.01 --json | python3 -c '
import json, sys
e = json.load(sys.stdin)
assert e["runs"] > 0 and e["us"] > 0 and len(e["steps"]) == e["stats"]["steps"] == 16, e
assert [s["kind"] for s in e["steps"] if s["owner"] < 0].count("control") == 1, e
assert abs(sum(s.get("share", 0) for s in e["steps"] if s["owner"] < 0) - 1) < 1e-3, e' || problem "explain --json"
refuses 'cannot write' "$tenon" explain $programs/mlp.pt2 --seconds 0.01 --html "$work/none/page.html"
"$tenon" bench $programs/mlp.pt2 --seconds 0.02 --trace "$work/trace" >/dev/null && [ -s "$work/trace" ] || problem "bench --trace"
echo 'something else' >"$work/other.txt"
refuses 'line 1 is none that bench' "$tenon" bench $programs/mlp.pt2 --seconds 0.02 --history "$work/other.txt"
[ "$(cat "$work/other.txt")" = 'something else' ] || problem "bench --history writes to a file of something else"
# Compiled programs, and the cache of them.
"$tenon" run $programs/mlp.pt2 --inputs $programs/mlp.2.inputs.npz -o "$work/direct.npz" >/dev/null || problem "run"
has 'is written' "$tenon" compile $programs/mlp.pt2 -o "$work/mlp.tenon"
has '^out1: f32' "$tenon" run "$work/mlp.tenon" --inputs $programs/mlp.2.inputs.npz -o "$work/read.npz"
cmp "$work/direct.npz" "$work/read.npz" || problem "a compiled program gives other results"
has '^median_ms' "$tenon" bench "$work/mlp.tenon" --inputs $programs/mlp.2.inputs.npz --seconds 0.01
refuses 'give --inputs' "$tenon" run "$work/mlp.tenon"
refuses 'interpreted' "$tenon" run "$work/mlp.tenon" --interpret --inputs $programs/mlp.2.inputs.npz
refuses 'no_such_folder' "$tenon" compile $programs/mlp.pt2 -o "$work/no_such_folder/mlp.tenon"
head -c 9000 "$work/mlp.tenon" >"$work/short.tenon"
refuses 'cut off|damaged' "$tenon" run "$work/short.tenon" --inputs $programs/mlp.2.inputs.npz
for run in 1 2; do has '^out1: f32' "$tenon" run $programs/mlp.pt2 --cache "$work/cache"; done
[ "$(ls "$work/cache" | wc -l)" -eq 1 ] || problem "the cache holds $(ls "$work/cache")"
has '^a plan for exactly s77 = 4: ' "$tenon" explain --seconds 0.02 $programs/mlp.pt2
has '^out1: f32' "$tenon" run $programs/mlp.pt2 --compile-budget 0
refuses 'compile-budget' "$tenon" run $programs/mlp.pt2 --compile-budget=-1
has '^aten::linear .*decomposed' "$tenon" ops
"$tenon" ops --markdown | cmp - docs/operators.md || problem "docs/operators.md is not what \`tenon ops --markdown\` prints"
# Custom operators: a function, one that writes its argument, an expression that fuses.
ops=$(dirname "$tenon")/../../tests/tested_ops.so custom=tests/custom_ops/custom.pt2
has '^PASS custom$' "$tenon" check --ops "$ops" $custom
has '^PASS custom$' "$tenon" check --interpret --ops "$ops" $custom
"$tenon" check $custom >"$work/out"
grep -q '^UNSUPPORTED custom tested::gate.default, tested::bump.default, tested::outer.default$' "$work/out" || problem "check does not name the custom operators that are missing"
has '^fallback_steps +0$' "$tenon" bench --ops "$ops" $custom --seconds 0.05
"$tenon" run --ops "$ops" $custom --inputs ${custom%.pt2}.inputs.npz --cache "$work/custom" >/dev/null || problem "custom operators with a cache"
[ ! -e "$work/custom" ] || problem "the cache holds a program with custom operators"
"$tenon" run --ops "$ops" $custom --inputs ${custom%.pt2}.inputs.npz -o "$work/custom.npz" >/dev/null
has 'is written' "$tenon" compile --ops "$ops" $custom -o "$work/custom.tenon"
has '^out1: i64' "$tenon" run --ops "$ops" "$work/custom.tenon" --inputs ${custom%.pt2}.inputs.npz -o "$work/custom_read.npz"
cmp -s "$work/custom.npz" "$work/custom_read.npz" || problem "custom operators of a compiled file give other results"
refuses 'tested::.*not registered' "$tenon" run "$work/custom.tenon" --inputs ${custom%.pt2}.inputs.npz
refuses 'no such|cannot open' "$tenon" run --ops "$work/none.so" $custom
# Operators of TorchScript.
printf 'import torch\ndef f(n: int):\n    return torch.ops.library.repeat(["a"], n)\n' >"$work/repeat.py"
echo '{"args": [{"t": "int", "v": 2}]}' >"$work/repeat.json"
has '^out0: \[a, a\]$' "$tenon" run --ops "$(dirname "$ops")/tested_operators.so" "$work/repeat.py:f" --args "$work/repeat.json"
# Arguments and results of all types; from a compiled file too. A kernel for an operator of tenon's own.
forms=tests/custom_ops/forms.pt2
has '^PASS forms$' "$tenon" check --ops "$ops" $forms
has '^PASS forms$' "$tenon" check --interpret --ops "$ops" $forms
has 'is written' "$tenon" compile --ops "$ops" $forms -o "$work/forms.tenon"
"$tenon" run --ops "$ops" $forms --inputs ${forms%.pt2}.2.inputs.npz -o "$work/forms.npz" >/dev/null
"$tenon" run --ops "$ops" "$work/forms.tenon" --inputs ${forms%.pt2}.2.inputs.npz -o "$work/forms_read.npz" >/dev/null
cmp -s "$work/forms.npz" "$work/forms_read.npz" || problem "results of all types from a compiled file are others"
has 'aten::gelu.default by tested::gelu' "$tenon" explain --seconds 0.02 --ops "$ops" --kernel tested::gelu $programs/encoder_block.pt2
has '^PASS encoder_block$' "$tenon" check --ops "$ops" --kernel 'tested::*' $programs/encoder_block.pt2
has 'is written' "$tenon" compile --ops "$ops" --kernel tested::gelu $programs/encoder_block.pt2 -o "$work/kernel.tenon"
refuses 'the kernel tested::gelu of aten::gelu.default.*not registered' "$tenon" run "$work/kernel.tenon" --inputs $programs/encoder_block.inputs.npz
refuses 'no kernel tested::gelu' "$tenon" run --kernel tested::gelu $programs/encoder_block.pt2
refuses 'stage' "$tenon" dump $programs/mlp.pt2 --stage=none
refuses 'stage' "$tenon" dump $programs/mlp.pt2
refuses 'no such file|cannot open|No such file' "$tenon" run "$work/missing.pt2"
refuses 'no command is given' "$tenon"
refuses 'no option --nonsense' "$tenon" run $programs/mlp.pt2 --nonsense 1
refuses 'dtype' "$tenon" run $programs/mlp.pt2 --inputs $programs/f64_mlp.inputs.npz
refuses '2 inputs are given' "$tenon" run $programs/mlp.pt2 --inputs $programs/mlp.expected.npz
refuses 'rank is 4' "$tenon" run $programs/mlp.pt2 --inputs $programs/cnn_bn_residual.inputs.npz
refuses 'size 8 of dim|dtype' "$tenon" run $programs/mlp.pt2 --inputs $programs/gpt_block.inputs.npz
head -c 3000 $programs/mlp.pt2 >"$work/short.pt2"
refuses 'error' "$tenon" run "$work/short.pt2"
# Gradients of a script: of arguments, of weights, and what is refused.
cat >"$work/grad.py" <<'EOF'
import torch
import torch.nn as nn

def f(x, y):
    s = x
    for i in range(3):
        if i != 1:
            s = s * y
    return s

class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
    def forward(self, x):
        return x * self.w

def spectrum(x):
    return torch.fft.fft(x).abs()
EOF
python3 - "$work" <<'EOF'
import struct, sys, zipfile
def npz(path, **arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, values in arrays.items():
            head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
            head += " " * (-(len(head) + 11) % 64) + "\n"
            z.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<%df" % len(values), *values))
npz(sys.argv[1] + "/grad.npz", arg0=[2, 3], arg1=[5, 0.5])
npz(sys.argv[1] + "/scale.npz", arg0=[2, 3])
npz(sys.argv[1] + "/scale.weights.npz", w=[7, 8])
EOF
has '^grad0: +25\.0000' "$tenon" grad "$work/grad.py:f" --inputs "$work/grad.npz" --wrt 0,1
has '^grad1: +20$' "$tenon" grad "$work/grad.py:f" --inputs "$work/grad.npz" --wrt 1 -o "$work/grads.npz"
python3 -m zipfile -l "$work/grads.npz" | grep -q 'grad1.npy' || problem "grad writes no grad1"
has '^grad.w:  2' "$tenon" grad "$work/grad.py:Scale" --inputs "$work/scale.npz" --weights "$work/scale.weights.npz" --wrt-weights all
refuses 'has no derivative .*grad.py:19' "$tenon" grad "$work/grad.py:spectrum" --inputs "$work/scale.npz" --wrt 0
refuses 'there is no argument 2: the program takes 2' "$tenon" grad "$work/grad.py:f" --inputs "$work/grad.npz" --wrt 2
refuses 'the program has no weight v' "$tenon" grad "$work/grad.py:Scale" --inputs "$work/scale.npz" --weights "$work/scale.weights.npz" --wrt-weights v
refuses 'nothing to differentiate' "$tenon" grad "$work/grad.py:f" --inputs "$work/grad.npz"
refuses 'is no script' "$tenon" grad $programs/mlp.pt2 --wrt 0
echo "$problems problems"
[ "$problems" -eq 0 ]
