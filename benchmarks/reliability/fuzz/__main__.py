"""python -m benchmarks.reliability.fuzz"""

import argparse
import faulthandler
import sys
import time

from benchmarks.reliability.fuzz.drive import fuzz_calls, fuzz_lines

parser = argparse.ArgumentParser(description="Calls and command lines with faults: none ends in a raw exception.")
parser.add_argument("--calls", type=int, default=5000)
parser.add_argument("--lines", type=int, default=500)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

faulthandler.enable()
failed = False
for name, fuzz, count in (("calls", fuzz_calls, options.calls), ("command lines", fuzz_lines, options.lines)):
    began = time.time()
    verdicts = fuzz(count, options.seed)
    print(f"{name}: {verdicts} (seed {options.seed}, {time.time() - began:.0f} s)", flush=True)
    for failure in verdicts.failures:
        print(f"  {failure}")
    failed = failed or bool(verdicts.failures)
sys.exit(failed)
