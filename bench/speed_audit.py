"""What an audit costs: processor time of asking, reading and checking, for each kind of report.

    python bench/speed_audit.py [--reports N] [--json]

- `encode`: `overstory encode` as the audited command; its processor time is printed next to that of the audit;
- the library's own randomizer in process, for an oracle of each kind: a device per fresh report, and the checks.

100,000 reports take under 20 seconds of processor time, the command's included.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from overstory.audit.audit import Settings, audit
from overstory.audit.clients import OwnClient, Program
from overstory.audit.declared import Declared, declare
from overstory.protocol.mechanisms.registry import mechanism

PARAMS = "k,h,m,p,q,f\n32,2,8,0.5,0.75,0.5\n"
ORACLES = {
    "rappor": {"num_bits": 32, "num_hashes": 2, "num_cohorts": 8},
    "oue": {"domain_size": 100, "epsilon": 1.0},
    "olh": {"domain_size": 100, "epsilon": 1.0},
    "subset": {"domain_size": 100, "epsilon": 1.0},
}


def processor_time() -> tuple[float, float]:
    """Return the seconds of this process, and of the commands that it has run."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), children.ru_utime + children.ru_stime


def timed(name: str, declared: Declared, client: OwnClient | Program, reports: int) -> dict[str, float | str]:
    """Audit, and return the processor time of both sides."""
    before = processor_time()
    result = audit(declared, client, Settings(reports=reports))
    ours, theirs = (after - start for after, start in zip(processor_time(), before, strict=True))
    checks = sum(check.seconds for check in result.timed)
    return {
        "name": name,
        "verdict": result.verdict,
        "audit": round(ours, 2),
        "of which checks": round(checks, 2),
        "command": round(theirs, 2),
    }


def main() -> None:
    """Print a line for each client."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        params = Path(folder, "params.csv")
        params.write_text(PARAMS)
        command = [sys.executable, "-m", "overstory", "encode", "--params", str(params), "--values", "-", "-o", "-"]
        rows = [timed("encode", declare(mechanism("rappor", **ORACLES["rappor"])), Program(command), args.reports)]
    for name, parameters in ORACLES.items():
        rows.append(timed(f"own {name}", declare(mechanism(name, **parameters)), OwnClient(), args.reports))
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{args.reports:,} reports of fresh devices; seconds of processor time")
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
