"""The files that scenes are played on: small, and made without any random library."""

import csv
import gzip
import math

ABOUT = """
[metrics.{id}]
title = "{id}"
description = "What a golden scene collects."
owner = "team@example.org"
purpose = "https://example.org/issues/1"
expires = {expires}
retention_days = 365
grace_days = 30
{rest}
"""

MEMOIZED = 'oracle = "l-osue"\nparameters = {epsilon_permanent = 3.0, epsilon_report = 1.5}\n'
COLOURS = 'domain = {kind = "categories", names = ["red", "green", "blue"]}\nperiod = "day"\n'
HALF_HOURS = 'period = "30 minutes"\nwindow = 10\n'

METRICS = {
    "colour": f'{COLOURS}{MEMOIZED}max_values = 2\nover_cap = "drop"\n',
    "tree": 'domain = {kind = "strings", candidates = "trees.txt"}\noracle = "rappor"\nperiod = "week"\n'
    "parameters = {num_bits = 32, num_hashes = 2, num_cohorts = 4}\nwindow = 10\n",
    "theme": 'domain = {kind = "categories", names = ["light", "dark"], other = "another"}\noracle = "grr"\n'
    'period = "day"\nwindow = 7\nparameters = {epsilon = 1.0}\n',
    "tabs": 'domain = {kind = "integers", min = 0, max = 9, outside = "clamp"}\noracle = "subset"\nperiod = "day"\n'
    "window = 7\nparameters = {epsilon = 1.0}\n",
    "word": 'domain = {kind = "strings", candidates = "trees.txt"}\noracle = "loloha"\nperiod = "week"\n'
    'max_values = 3\nover_cap = "first"\n'
    "parameters = {epsilon_permanent = 4.0, epsilon_report = 2.0, num_seeds = 256}\n",
    "energy": 'domain = {kind = "bins", min = 0, max = 2, count = 8}\noracle = "opt-wb"\n'
    f"{HALF_HOURS}parameters = {{epsilon = 1.0}}\n",
}


def registry(*, strings=True, **changed):
    """A registry with a metric of each kind; `changed` replaces or adds, and an empty text leaves out."""
    metrics = METRICS | {name.replace("_", "-"): rest for name, rest in changed.items()}
    entries = (
        ABOUT.format(id=name, expires="2026-01-01" if name == "ended" else "2099-01-01", rest=rest)
        for name, rest in metrics.items()
        if rest and (strings or '"strings"' not in rest)
    )
    return 'registry = "2026-11-21"\n' + "".join(entries)


def write_inputs(place):
    """Write all of them into a folder."""
    files = {
        "metrics.toml": registry(ended=f"{COLOURS}oracle = 'grr'\nparameters = {{epsilon = 1.0}}\nwindow = 3\n"),
        "weaker.toml": registry(
            colour=f'{COLOURS}{MEMOIZED.replace("1.5", "2.0")}max_values = 3\nover_cap = "first"\n',
            theme="",
            shape=f"{COLOURS}oracle = 'oue'\nparameters = {{epsilon = 1.0}}\nwindow = 3\n",
        ),
        "needs.toml": registry(
            colour=f"{COLOURS}max_values = 2\n"
            "needs = {epsilon_report = 1.0, epsilon_permanent = 3.0, reports = 100000}\n",
            theme=f"{COLOURS}needs = {{epsilon_report = 1.0, reports = 1000}}\nwindow = 3\n",
        ),
        "faults.toml": registry(
            colour=f"{COLOURS}oracle = 'grr'\nparameters = {{epsilon = -1.0, delta = 2}}\n",
            theme='domain = {kind = "categories"}\noracle = "no-such-oracle"\nperiod = "fortnight"\n',
        ).replace('owner = "team@example.org"', "", 1),
        "trees.txt": "ash\nelm\noak\nyew\n",
        "params.csv": "k,h,m,p,q,f\n32,2,4,0.25,0.75,0.25\n",
        "names.txt": "oak\nash, white\nelm\nfir\nyew\n=larch\n",
    }
    for name, text in files.items():
        (place / name).write_text(text, "utf-8")
    _write_rows(place / "values.csv", ("client", "cohort", "value"), _values(2000))
    _write_rows(place / "survey.csv", ("who", "state", "kwh"), _survey(3000))
    packed = (place / "survey.csv").read_bytes()
    (place / "survey.csv.gz").write_bytes(gzip.compress(packed, mtime=0))
    readings = [(f"2026-10-{24 + n // 24}T{n % 24:02}:00", round(abs(math.sin(n)) * 2, 2)) for n in range(48)]
    _write_rows(place / "readings.csv", ("time", "value"), readings)


def _values(count):
    shares = ["oak"] * 10 + ["ash, white"] * 6 + ["elm"] * 3 + ["fir"]
    return [(f"c{i}", i % 4, shares[i // 4 % 20]) for i in range(count)]


def _survey(count):
    states = ["Ohio"] * 10 + ["Utah"] * 6 + ["=1+1"] * 3 + [""]
    return [(i // 4, states[i * 7 % 20], round(1 + math.sin(i) + math.cos(i / 7), 3)) for i in range(count)]


def _write_rows(path, header, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
