"""A worker of the local engine: a process that counts the units it is given, one at a time.

It reads pickled messages from standard input, a job and then units, and writes pickled answers to standard output: the
number of the unit and its counts, or the error. It ends with its input, so no worker survives its driver.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from overstory.engines.reducer import count_unit
from overstory.protocol.errors import OverstoryError


def main() -> None:
    """Serve until the input ends."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints does not come between the answers
    try:
        job = pickle.load(requests)  # noqa: S301 - our own driver writes it
        while True:
            unit = pickle.load(requests)  # noqa: S301
            answer: tuple[int, Any]
            try:
                answer = unit.number, count_unit(job, unit)
            except (OverstoryError, OSError, MemoryError) as error:
                answer = unit.number, error
            pickle.dump(answer, answers)
            answers.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)


if __name__ == "__main__":
    main()
