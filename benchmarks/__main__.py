"""Run all benchmarks one after another, each in a separate process: `make bench`."""

import subprocess
import sys

COMMANDS = (
    ("speed.transport",),
    ("speed.contextual",),
    ("studies.coverage",),
    ("speed.ppo", "maze"),
    ("speed.ppo", "u-maze"),
    ("speed.sac",),
    ("speed.physics",),
    ("speed.curricula",),
    ("studies.dimensions",),
    ("studies.distances",),
    ("speed.embedding",),
    ("studies.detour",),
    ("speed.sweep",),
    ("speed.scale",),
    ("studies.fidelity",),
    ("reliability.safety",),
    ("reliability.forged",),
    ("reliability.hostile",),
    ("reliability.batch_independence",),
    ("speed.trackers",),
    ("speed.page",),
    ("speed.accelerator", "--runs", "1,8"),
)

for name, *arguments in COMMANDS:
    print(f"== python -m benchmarks.{' '.join([name, *arguments])}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=True)
