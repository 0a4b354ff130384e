"""``python -m overstory``: the same as the command ``overstory``."""

import sys

from overstory.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
