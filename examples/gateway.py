"""A meter's program: it writes readings to a file, and `overstory gateway` randomizes and sends them.

Run `python examples/gateway.py --state meter`: a day of made-up half-hourly readings becomes 48 reports, which stay in
the folder. With `--server https://...` they are sent. Run it again: every period has had its report, so nothing is
reported twice.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

REGISTRY = Path(__file__).with_name("metrics.toml")
START = datetime(2026, 11, 21, tzinfo=UTC)


def readings() -> Iterator[str]:
    """Yield a line of JSON for every half hour of a day: the time, and the energy in kWh."""
    for half_hour in range(48):
        used = 0.15 + 0.1 * math.sin(half_hour / 48 * 2 * math.pi - 2) ** 2
        yield json.dumps({"time": (START + timedelta(minutes=30 * half_hour)).isoformat(), "kwh": round(used, 3)})


def main() -> int:
    """Hand the readings to the gateway, and print what it did."""
    args = arguments()
    where = ["--agree", "on", "--server", args.server] if args.server else ["--agree", "local"]
    gateway = [sys.executable, "-m", "overstory", "gateway", "--metric", "meter-window", "--registry", str(REGISTRY)]
    Path("readings.jsonl").write_text("\n".join(readings()))
    options = ["--readings", "readings.jsonl", "--value-column", "kwh"]
    ran = subprocess.run(
        [*gateway, *options, "--state", args.state, *where],
        check=False,
    )
    return ran.returncode


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--state", default="meter", help="the folder of the meter's state: one folder is one device")
    parser.add_argument("--server", help="the collector; its token is read from OVERSTORY_WRITE_TOKEN")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
