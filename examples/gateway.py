"""A meter's program: it writes readings to a file, and `overstory gateway` randomizes and sends them.

Run `python examples/gateway.py --server https://...`: yesterday's made-up half-hourly readings become 48 reports, which
are sent. Run it again: every period has had its report, so nothing is reported twice. Without `--server` the reports
stay in the folder for good, and a later run with `--server` sends only those of later readings.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

REGISTRY = Path(__file__).with_name("metrics.toml")


def readings(day: datetime) -> Iterator[str]:
    """Yield a line of JSON for every half hour of a day: the time, and the energy in kWh."""
    for half_hour in range(48):
        used = 0.15 + 0.1 * math.sin(half_hour / 48 * 2 * math.pi - 2) ** 2
        yield json.dumps({"time": (day + timedelta(minutes=30 * half_hour)).isoformat(), "kwh": round(used, 3)})


def main() -> int:
    """Hand the readings to the gateway, and print what it did."""
    args = arguments()
    where = ["--agree", "on", "--server", args.server] if args.server else ["--agree", "local"]
    gateway = [sys.executable, "-m", "overstory", "gateway", "--metric", "meter-window", "--registry", str(REGISTRY)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "readings.jsonl")
        file.write_text("\n".join(readings(datetime.fromisoformat(args.day).replace(tzinfo=UTC))))
        options = ["--readings", str(file), "--value-column", "kwh", "--state", args.state, *where]
        ran = subprocess.run([*gateway, *options], check=False)
    return ran.returncode


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--state", default="meter", help="the folder of the meter's state: one folder is one device")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    parser.add_argument("--day", default=yesterday, help="the day of the readings (default: yesterday)")
    parser.add_argument("--server", help="the collector; its token is read from OVERSTORY_WRITE_TOKEN")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
