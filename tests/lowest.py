"""The requirements that pyproject names, each at its lowest version: python tests/lowest.py [EXTRA ...]

Left open are torch, whose versions are gigabytes apart, and Gymnasium beside packages that ask for a later one.
"""

import re
import sys
import tomllib
from pathlib import Path

OPEN = {"mujoco": ("gymnasium",), "rllib": ("gymnasium", "torch"), "sb3": ("torch",)}  # by extra


def lowest(extras: list[str]) -> list[str]:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    named = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    lines = [line for part in named for line in part if not line.startswith(project["name"])]
    left = {name for extra in extras for name in OPEN.get(extra, ())}
    return [line if line.partition(">")[0] in left else re.sub(r">=([\d.]+).*", r"==\1", line) for line in lines]


if __name__ == "__main__":
    print(*(f"'{line}'" for line in lowest(sys.argv[1:])))
