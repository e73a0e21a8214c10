"""python -m geodesic: the same commands where the script is not on the path."""

import sys

from geodesic.cli import main

if __name__ == "__main__":
    sys.exit(main())
