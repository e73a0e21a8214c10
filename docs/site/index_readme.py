"""Print the README for a package index: its links and pictures lead to the repository.

    python docs/site/index_readme.py https://host/owner/geodesic/ > build/README.md

The address shows the files of a commit or a tag. Some hosts serve the raw bytes, which pictures need, under another
address (--pictures).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)]+\))")


def absolute(markdown: str, files: str, pictures: str = "") -> str:
    """Make every relative link absolute."""
    homes = {"": files, "!": pictures or files}
    return LINK.sub(lambda found: f"{found[1]}{found[2]}{homes[found[1]].rstrip('/')}/{found[3]}", markdown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", help="address of the repository's files")
    parser.add_argument("--pictures", default="", help="address of their raw bytes (default: the same)")
    arguments = parser.parse_args()
    sys.stdout.write(absolute(README.read_text(), arguments.files, arguments.pictures))
