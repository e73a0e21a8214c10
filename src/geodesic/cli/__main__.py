"""python -m geodesic.cli"""

import sys

from geodesic.cli import main

if __name__ == "__main__":
    sys.exit(main())
