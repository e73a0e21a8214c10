"""All benchmarks, one after another, each in a process of its own: `make bench`."""

import subprocess
import sys

COMMANDS = (
    ("transport",),
    ("contextual",),
    ("coverage",),
    ("ppo", "maze"),
    ("ppo", "u-maze"),
    ("sac",),
    ("physics",),
    ("curricula",),
    ("dimensions",),
    ("distances",),
    ("embedding",),
    ("detour",),
    ("sweep",),
    ("scale",),
    ("fidelity",),
    ("safety",),
    ("beside",),
    ("trackers",),
    ("page",),
    ("accelerator", "--runs", "1,8"),
)

for name, *arguments in COMMANDS:
    print(f"== python -m benchmarks.{' '.join([name, *arguments])}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=True)
