"""Calls and command lines with arguments that are wrong in one place: each is refused in one line, or does its work.

    python -m benchmarks.fuzz --calls 5000 --lines 500 --seed 0

A call is Python text, drawn by Hypothesis from the catalogue in `calls.py`; what failed is printed as it is, and runs
again after `from benchmarks.fuzz.world import *`.
"""
