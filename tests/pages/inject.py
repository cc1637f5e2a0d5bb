#!/usr/bin/env python3
"""Puts early.js before a page's scripts and selftest.js behind them: inject.py PAGE OUT"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))


def script(name):
    with open(os.path.join(here, name), encoding="utf-8") as f:
        return f"<script>\n{f.read()}</script>\n"


with open(sys.argv[1], encoding="utf-8") as f:
    page = f.read()
page = page.replace("</head>", script("early.js") + "</head>", 1)
head, body, tail = page.rpartition("</body>")
with open(sys.argv[2], "w", encoding="utf-8") as f:
    f.write(head + script("selftest.js") + body + tail)
