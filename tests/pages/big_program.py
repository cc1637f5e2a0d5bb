#!/usr/bin/env python3
"""A program of many steps, as the text of an FX graph: products that also read what was made some steps before. big_program.py STEPS"""
import sys

steps = int(sys.argv[1])
print("graph():")
print("    %x : [num_users=1] = placeholder[target=x]")
names = ["x"]
for i in range(steps):
    names.append(f"mm_{i}")
    print(f"    %mm_{i} : [num_users=1] = call_function[target=torch.ops.aten.mm.default](args = (%{names[-2]}, %{names[max(0, len(names) - 9)]}), kwargs = {{}})")
print(f"    return ({names[-1]},)")
