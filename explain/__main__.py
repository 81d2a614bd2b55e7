"""`python -m explain`: Tilescope on the command line."""

import sys

from explain.cli import main

if __name__ == "__main__":
    sys.exit(main())
