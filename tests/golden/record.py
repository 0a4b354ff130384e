"""All scenes by name, where what they gave is kept, and how to record it after a change that is meant.

    python tests/golden/record.py [NAME ...]

records all of them, or those that are named. Read the change with `git diff tests/golden/recorded` before it is
committed: that is where a change of behaviour shows.
"""

import sys
import tempfile
from importlib import import_module
from pathlib import Path

from inputs import write_inputs
from normal import cleaned, same
from stage import SCENES

for module in ("command", "device", "format", "http", "store"):
    import_module(f"{module}_scenes")  # each adds its scenes

RECORDED = Path(__file__).with_name("recorded")
PLACE = "golden-place"  # the name of the folder that scenes are played in: a rule replaces it


def prepare(place):
    place.mkdir(parents=True)
    write_inputs(place)


def play(name, place):
    """What a scene gives, as it is compared."""
    return cleaned(SCENES[name](place))


def recorded(name):
    return RECORDED / f"{name}.txt"


def unclaimed():
    """Recorded files that belong to no scene."""
    return sorted(path for path in RECORDED.iterdir() if path.stem not in SCENES)


def record(names):
    """Play the scenes and write what they give; a name that is none is an error."""
    unknown = sorted(set(names) - set(SCENES))
    if unknown:
        sys.stderr.write(f"there is no scene {', '.join(unknown)}; there are: {', '.join(SCENES)}\n")
        return 2
    for path in [] if names else unclaimed():
        path.unlink()
        sys.stdout.write(f"{path.stem}: removed\n")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, PLACE)
        prepare(place)
        for name in names or SCENES:
            path, actual = recorded(name), play(name, place)
            if not path.exists() or not same(path.read_text("utf-8"), actual):
                path.write_text(actual, "utf-8")
                sys.stdout.write(f"{name}: recorded\n")
    return 0


if __name__ == "__main__":
    sys.exit(record(sys.argv[1:]))
