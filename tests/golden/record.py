"""Record what the scenes give today, after a change that is meant: all of them, or those that are named.

    python tests/golden/record.py [NAME ...]

For each scene that changed it is printed what kinds of things differ (keys of JSON, numbers, words). Read the change
with `git diff tests/golden/recorded` before it is committed: that is where a change of behaviour shows.
"""

import sys
import tempfile
from pathlib import Path

import scenes
from normal import kinds_of_change, same


def record(names):
    """Play the scenes and write what they give; a name that is none is an error."""
    unknown = sorted(set(names) - set(scenes.SCENES))
    if unknown:
        sys.stderr.write(f"there is no scene {', '.join(unknown)}; there are: {', '.join(scenes.SCENES)}\n")
        return 2
    if not names:
        for path in scenes.unclaimed():
            path.unlink()
            sys.stdout.write(f"{path.stem}: removed\n")
    scenes.RECORDED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, scenes.PLACE)
        scenes.prepare(place)
        for name in names or scenes.SCENES:
            path, actual = scenes.recorded(name), scenes.play(name, place)
            expected = path.read_text("utf-8") if path.exists() else None
            if expected is not None and same(expected, actual):
                continue
            path.write_text(actual, "utf-8")
            kinds = "new" if expected is None else f"{' and '.join(kinds_of_change(expected, actual))} changed"
            sys.stdout.write(f"{name}: {kinds}\n")
    return 0


if __name__ == "__main__":
    sys.exit(record(sys.argv[1:]))
