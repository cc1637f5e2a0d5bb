#!/usr/bin/env python3
"""Inputs of big_program.py: a 4x4 matrix whose powers stay small. inputs.py OUT.npz"""
import struct
import sys
import zipfile

head = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }"
head += " " * (-(len(head) + 11) % 64) + "\n"
values = [float(i // 4 == i % 4) for i in range(16)]
with zipfile.ZipFile(sys.argv[1], "w") as z:
    z.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<16f", *values))
