"""A process in which nothing is by chance: the clock is set, and the system's randomness is a known stream.

    python tests/golden/frozen.py overstory serve --registry metrics.toml ...
    python tests/golden/frozen.py < steps.json

The first runs one command; the second the steps of a JSON list, one after the other, and writes their outcomes as JSON.
Both are put in place before anything of ours is imported, so no module of ours is named here.

The stream has a counter of its own for each number of bytes that is asked for: what is drawn for the name of a file
does not change what is drawn for a report.
"""

import contextlib
import datetime as dt
import hashlib
import io
import json
import os
import random
import sys
import time
import warnings
from collections import Counter
from importlib.metadata import entry_points

NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC, a Saturday

_now = NOON
_drawn = Counter()


def draw(count):
    """The next bytes of the stream."""
    _drawn[count] += 1
    return hashlib.shake_128(f"{count} {_drawn[count]}".encode()).digest(count)


class FrozenDatetime(dt.datetime):  # the calendar, on the day that is set
    @classmethod
    def now(cls, tz=None):
        return dt.datetime.fromtimestamp(_now, tz)


def freeze():
    """Set the clock and the randomness; before the first import of ours."""
    assert "overstory" not in sys.modules
    os.urandom = draw
    random._urandom = draw  # what `secrets` and SystemRandom ask
    time.time = lambda: _now
    dt.datetime = FrozenDatetime  # type: ignore[misc]
    warnings.filterwarnings("ignore", "datetime.datetime size changed")  # compiled code that measures the class


def command(arguments):
    """Run the installed command, whatever module it lives in."""
    (script,) = entry_points(group="console_scripts", name="overstory")
    return int(script.load()(arguments) or 0)


def play(step):
    """One step: a command, or values that a program records."""
    global _now  # noqa: PLW0603 - the clock of this process
    _now = step.get("now", _now)
    if "record" in step:
        from overstory.client import Client

        with Client(step["app"], registry=step["registry"], state=step["state"]) as client:
            return {"recorded": [client.record(metric, value) for metric, value in step["record"]]}
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command(step["run"])
    return {"status": status, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    freeze()
    if sys.argv[1:2] == ["overstory"]:
        sys.exit(command(sys.argv[2:]))
    json.dump([play(step) for step in json.load(sys.stdin)], sys.stdout)
