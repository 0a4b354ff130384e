"""What a command costs from a cold start, on small input: CPU time beside that of `python -c pass`.

    python bench/speed_cold.py [--rounds N] [--json] [COMMAND ...]

Each command runs as a process of its own, as a person runs it, and the rounds of all commands are interleaved with
those of the bare interpreter; the least CPU time of each is taken. Goals: 30 times the interpreter for a command on
small input, 5 times for `--help`, 7 times for a client of one metric. `serve` and `gateway` run for as long as they are
wanted, `demo`, `reproduce`, `simulate` and `bench` are long by nature, and `doctor` asks a collector: only their help
is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from overstory.cli.main import COMMANDS

REGISTRY: Final = """\
registry = "2026-11-22"
[metrics.tree]
title = "Tree"
description = "The tree in front of the house."
owner = "Garden"
purpose = "https://example.org/issues/1"
expires = 2027-11-21
domain = {kind = "categories", names = ["oak", "ash", "elm"]}
oracle = "grr"
parameters = {epsilon = 1.0}
period = "week"
retention_days = 90
"""
CLIENT: Final = "from overstory.client import Client; Client('trees', 'metrics.toml', state='device', environ={})"
SMALL: Final = {
    "plan": "plan --epsilon 1 --epsilon-permanent 2 --reports 1000 --candidates 10",
    "compare": "compare --domain-size 10 --epsilon 1 --reports 1000",
    "compare FILE": "compare trees.csv --column tree --epsilon 1",
    "collect": "collect trees.csv --column tree",
    "collect, to a pipe": "collect trees.csv --column tree -o -",
    "collect, 200 values": "collect values.csv --column value --epsilon 2",
    "privacy": "privacy grr --param domain_size=10 --param epsilon=1",
    "privacy, two rounds": "privacy loloha --param epsilon_permanent=2 --param epsilon_report=1 --param domain_size=10",
    "metrics lint": "metrics lint metrics.toml",
    "metrics show": "metrics show metrics.toml",
    "encode": "encode --params params.csv --values values.csv --seed 1 -o again.csv",
    "encode into blocks": "encode --params params.csv --values values.csv --seed 1 -o blocks.parquet",
    "sum": "sum --params params.csv reports.csv -o again-counts.csv",
    "map": "map --params params.csv --candidates trees.txt -o again-map.csv",
    "decode": "decode --params params.csv --counts counts.csv --map map.csv -o results",
    "decode --method lasso": "decode --params params.csv --counts counts.csv --map map.csv -o results --method lasso",
    "check-oracle": f"check-oracle {Path(__file__).parents[1] / 'examples' / 'own_oracle.py'}",
    "audit": "audit --params params.csv --reports 400",
    "discover": "discover trees.csv --column tree --bytes 3 --epsilon 4 --seed 1",
    "store create": "store create reports.db",
    "store summary": "store summary kept.db",
    "keys": "keys oblivious.keys",
    "status": "status --app ./state",
}


def main() -> None:
    """Time every command, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="COMMAND", help="a part of a row's name (default: all)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = (
        SMALL
        | {"Client(one metric)": CLIENT, "--help": "--help", "--version": "--version"}
        | {f"{name} --help": f"{name} --help" for name in COMMANDS}
    )
    chosen = {name: line for name, line in rows.items() if not args.names or any(part in name for part in args.names)}
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        ratios = measured(chosen, Path(folder), args.rounds)
    if args.json:
        print(json.dumps(ratios, indent=2))
        return
    for name, ratio in sorted(ratios.items(), key=lambda row: -row[1]):
        goal = 5 if name.endswith(("--help", "--version")) else 7 if rows[name] == CLIENT else 30
        print(f"{ratio:7.1f}  {name}{'' if ratio <= goal else f'  (goal: {goal})'}")


def prepare(folder: Path) -> None:
    """Write small inputs for every command."""
    (folder / "trees.csv").write_text("tree\noak\nash\noak\n")
    (folder / "trees.txt").write_text("oak\nash\nelm\n")
    (folder / "metrics.toml").write_text(REGISTRY)
    (folder / "params.csv").write_text("k,h,m,p,q,f\n32,2,4,0.5,0.75,0.5\n")
    rows = "".join(f"c{i},{i % 4},v{i % 200}\n" for i in range(400))
    (folder / "values.csv").write_text("client,cohort,value\n" + rows)
    for line in (
        "store create kept.db",
        "keys --new oblivious.keys",
        "local --app ./state --registry metrics.toml",
        "encode --params params.csv --values values.csv --seed 1 -o reports.csv",
        "sum --params params.csv reports.csv -o counts.csv",
        "map --params params.csv --candidates trees.txt -o map.csv",
    ):
        run(line.split(), folder)


def measured(lines: dict[str, str], folder: Path, rounds: int) -> dict[str, float]:
    """Return each line's least CPU time over that of an interpreter that does nothing."""
    least: dict[str, float] = {}
    bare = float("inf")
    for _ in range(rounds):
        for name, line in lines.items():
            bare = min(bare, cpu([sys.executable, "-c", "pass"], folder))
            (folder / "reports.db").unlink(missing_ok=True) if line.startswith("store create") else None
            argv = [sys.executable, "-c", line] if line == CLIENT else command(line.split())
            least[name] = min(least.get(name, float("inf")), cpu(argv, folder))
    return {name: round(seconds / bare, 2) for name, seconds in least.items()}


def command(words: list[str]) -> list[str]:
    """Return how a person's command is run."""
    return [sys.executable, "-m", "overstory", *words]


def run(words: list[str], folder: Path) -> None:
    """Run a command that must succeed."""
    subprocess.run(command(words), cwd=folder, check=True, capture_output=True)


def cpu(argv: list[str], folder: Path) -> float:
    """Return the CPU seconds of a process; compiled modules are kept, as where a package is installed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(argv, cwd=folder, env=environment, check=False, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}: {done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
