"""Call the library with arguments that are wrong in one place: each call must be refused in one line, or do its work.

    python -m benchmarks.reliability.fuzz --calls 5000 --lines 500 --seed 0

A call is Python source, drawn by Hypothesis. The public functions and classes are found by their signatures (`calls`),
and valid arguments for them in a table of examples by parameter name (`examples`). Failures are printed as source,
which runs after `from benchmarks.reliability.fuzz.world import *`.
"""
