"""The README as a package index shows it: its links and pictures lead to where the repository is.

    python docs/site/index_readme.py https://host/owner/geodesic/ > build/README.md

The address is that under which the files of a commit or a tag are shown; their bytes, which pictures need, some have
under another (--pictures).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
LINK = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z]+:|#)([^)]+\))")


def absolute(markdown: str, files: str, pictures: str = "") -> str:
    """The text with every relative link made whole."""
    homes = {"": files, "!": pictures or files}
    return LINK.sub(lambda found: f"{found[1]}{found[2]}{homes[found[1]].rstrip('/')}/{found[3]}", markdown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", help="where the repository's files are shown")
    parser.add_argument("--pictures", default="", help="where their bytes are (default: the same)")
    asked = parser.parse_args()
    sys.stdout.write(absolute(README.read_text(), asked.files, asked.pictures))
