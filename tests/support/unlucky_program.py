"""overstory with clocks and with threads that files decide on: `python unlucky_program.py FOLDER relay ...`."""

import _thread
import sys
import threading
import time
from pathlib import Path

LUCK = Path(sys.argv[1])
now, even, start = time.time, time.clock_gettime, _thread.start_new_thread


def told(name: str) -> float:
    """Return the seconds in a file, 0 where there is none."""
    try:
        return float((LUCK / name).read_text() or 0.0)
    except OSError:
        return 0.0


def shifted() -> float:
    """Return the time, shifted by the seconds in the files `clock` and `age`."""
    return now() + told("clock") + told("age")


def aged(clock: int) -> float:
    return even(clock) + told("age")


def start_if_allowed(*args):
    if (LUCK / "no-threads").exists():
        raise RuntimeError("can't start new thread")
    return start(*args)


if __name__ == "__main__":
    time.time, time.clock_gettime = shifted, aged
    _thread.start_new_thread = threading._start_new_thread = start_if_allowed  # type: ignore[attr-defined]
    from overstory.cli.main import main

    sys.exit(main(sys.argv[2:]))
