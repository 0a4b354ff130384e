"""``python -m overstory.client COMMAND``: the person's commands, with the standard library alone."""

import sys

from overstory.client.person.commands import main

if __name__ == "__main__":
    sys.exit(main())
