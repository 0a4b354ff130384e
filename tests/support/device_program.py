"""A program on one device, to be killed and started again.

Usage: `device_program.py STATE REGISTRY SERVER VALUE BEGINNING PERIODS`.

It records the same value in every period, by a clock of its own that starts anew with each start: what was reported
before must not be reported again. It exits with 0 when everything it recorded has reached the collector.
"""

import sys
from pathlib import Path
from typing import Any

from overstory.client import Client

METRIC = "colours"
HOUR = 3600


def main() -> int:
    state, registry, server, value, beginning, periods = sys.argv[1:]
    now = float(beginning)
    settings: dict[str, Any] = {"environ": {}, "policy": Path(state) / "no-policy", "spread": 0.0}
    with Client("device", registry=registry, server=server, state=state, clock=lambda: now, **settings) as client:
        client.consent("on")
        for _ in range(int(periods)):
            client.record(METRIC, int(value))
            client.flush(timeout=5.0)
            now += 24 * HOUR
        for _ in range(1000):
            if not client.status().outbox.get("waiting"):
                return 0
            now += HOUR / 4  # past every backoff
            client.flush(timeout=5.0)
    return 1


if __name__ == "__main__":
    sys.exit(main())
