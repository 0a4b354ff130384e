"""Registries to read, and to spoil; and registries that say only what matters to a test."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from overstory.protocol.metrics import Fault, RegistryError, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE

METRIC = """\
[metrics.{id}]
title = "Favourite colour"
description = "Which of three colours the person chose as the theme."
owner = "Themes team"
purpose = "https://example.org/issues/7"
domain = {domain}
oracle = "{oracle}"
parameters = {parameters}
period = "week"
retention_days = 90
expires = 2027-11-21
"""

COLOURS = '{kind = "categories", names = ["red", "green", "blue"]}'
BINS = '{kind = "bins", min = 0, max = 2, count = 10}'
STRINGS = '{kind = "strings"}'
LISTED = '{kind = "strings", candidates = "trees.txt"}'


def registry_text(
    *more, metric="colour", domain=COLOURS, oracle="grr", parameters="{epsilon = 1.0}", without=None, instead=None
):
    """Return a registry of one metric, with lines added, left out or replaced (by key)."""
    text = METRIC.format(id=metric, domain=domain, oracle=oracle, parameters=parameters)
    lines = ['registry = "2026-11-21"', "", *text.splitlines()]
    for key, line in (instead or {}).items():
        lines = [line if old.startswith(f"{key} =") else old for old in lines]
    kept = [line for line in lines if without is None or not line.startswith(f"{without} =")]
    return "\n".join([*kept, *more]) + "\n"


def example_text(*more, **instead):
    """Return the registry that every mistake names, with lines added, and others replaced by key."""
    lines = EXAMPLE.splitlines()
    for key, value in instead.items():
        lines = [f"{key} = {value}" if line.startswith(f"{key} =") else line for line in lines]
    return "\n".join([*lines, *more])


def faults(text: str, folder: Path | None = None) -> tuple[Fault, ...]:
    with pytest.raises(RegistryError) as caught:
        parse_registry(text, folder)
    return tuple(caught.value.faults)


def the_fault(text: str, folder: Path | None = None) -> Fault:
    (only,) = faults(text, folder)
    return only


FIRST_LINE = 3  # of the metric's table; its keys follow in the order of `METRIC`

KEYS_HEX = "0029" + "01" + "0020" + "31e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e798155" + "000400010003"
"""The public key of RFC 9458's example, in a list of its own, for ChaCha20-Poly1305."""

OBLIVIOUS = {"relay": "https://relay.example.net/", "operator": "Example Relays", "keys": KEYS_HEX}


def oblivious_text(transport: str = "oblivious", *more: str, **instead: str | None) -> str:
    """Return a registry of one metric and a relay, whose keys are replaced (TOML values) or left out (None)."""
    keys = {key: f'"{value}"' for key, value in OBLIVIOUS.items()} | instead
    table = "\n".join(f"{key} = {value}" for key, value in keys.items() if value is not None)
    return registry_text(f'transport = "{transport}"', *more, "[oblivious]", table)


PLAIN = {
    "title": '"T"',
    "description": '"D"',
    "owner": '"O"',
    "purpose": '"https://example.org/issues/1"',
    "domain": '{kind = "integers", min = 0, max = 3}',
    "oracle": '"grr"',
    "parameters": "{epsilon = 1.0}",
    "period": '"day"',
    "retention_days": "90",
    "expires": "2099-01-01",
}


def plain_registry(*metrics: str, **keys: str) -> str:
    """Return a registry of metrics that differ in their ids alone, with keys added or replaced, as TOML writes them."""
    return registry_of({metric: {} for metric in metrics}, **keys)


def registry_of(metrics: Mapping[str, Mapping[str, str]], *, version: str = "1", **keys: str) -> str:
    """Return a registry: by metric the keys that it has to itself, and the keys of all; else those of `PLAIN`."""
    return f'registry = "{version}"\n' + "".join(metric_table(name, **keys | own) for name, own in metrics.items())


def metric_table(metric: str, **keys: str) -> str:
    lines = "".join(f"{key} = {value}\n" for key, value in (PLAIN | keys).items())
    return f"[metrics.{metric}]\n{lines}"
