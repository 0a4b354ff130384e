"""The demonstration's metric registry: the file that its devices and its collector share."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Final

from overstory.files.opening import writing_text
from overstory.files.params import RapporParameters
from overstory.protocol.metrics import MetricRegistry, load_registry

METRIC: Final = "home-state"
FILE: Final = """\
# What the demonstration collects. `overstory metrics show` says it in plain words.
registry = "{today}"

[metrics.{metric}]
title = "State of confirmed cases"
description = "The state in which a simulated respondent's case was confirmed."
owner = "the demonstration"
purpose = "https://github.com/CSSEGISandData/COVID-19"
oracle = "rappor"
parameters = {{num_bits = {k}, num_hashes = {h}, num_cohorts = {m}, f = {f}, p = {p}, q = {q}, hash_key = ""}}
domain = {{kind = "strings", candidates = {candidates}}}
period = "day"
retention_days = 30
expires = {expires}
"""


def write_registry(path: Path, candidates: Path, parameters: RapporParameters, today: dt.date) -> MetricRegistry:
    """Write the registry, and read it back as any program would."""
    numbers = {letter: getattr(parameters, letter) for letter in "khmfpq"}
    named = json.dumps(candidates.name)  # a TOML basic string is written like JSON's
    text = FILE.format(today=today, metric=METRIC, candidates=named, expires=today + dt.timedelta(days=365), **numbers)
    with writing_text(path) as file:
        file.write(text)
    return load_registry(path)
