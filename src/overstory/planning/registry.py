"""A registry's text with oracle and parameters in place of every metric's needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from overstory.planning.kinds import accepted_needs, plan_for_metric
from overstory.planning.plan import Plan
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.metrics.metric_table import NOT_PLANNED, Folder, read_domain
from overstory.protocol.metrics.toml_fields import Fields, read_root
from overstory.protocol.metrics.toml_positions import Path as KeyPath
from overstory.protocol.metrics.toml_positions import TomlPosition

ESTIMATES: Final = ("mean", "distribution")
WHOLE: Final = ("reports", "candidates", "window", "resolution")
"""What is counted; `thrifty` is true or false, and all other needs are numbers."""


def plan_registry(text: str, folder: Folder | None, *, source: str | None = None) -> tuple[str, list[Plan]]:
    """Return a registry's text with oracle and parameters for all needs, which stay as comments, and the plans."""
    root = read_root(text, source=source)
    root.faults.extend(_other_faults(text, folder, source))
    plans = {}
    for name, fields in _with_needs(root).items():
        planned = _planned(name, fields, folder)
        if planned is not None:
            plans[name] = planned
    if root.faults:
        raise RegistryError(root.faults, source=source)
    for name in reversed(plans):
        text = _replaced(text, root.positions["metrics", name, "needs"], plans[name])
    metrics = parse_registry(text, folder, source=source)
    return text, [replace(plan, of=metrics[name]) for name, plan in plans.items()]


def _other_faults(text: str, folder: Folder | None, source: str | None) -> list[Any]:
    try:
        parse_registry(text, folder, source=source)
    except RegistryError as error:
        return [fault for fault in error.faults if fault.message != NOT_PLANNED]
    return []


def _with_needs(root: Fields) -> dict[str, Fields]:
    """Return the tables of the metrics that are to be planned, in the order of the text."""
    metrics = root.table.get("metrics")
    tables = metrics.items() if isinstance(metrics, dict) else ()
    waiting = [name for name, table in tables if isinstance(table, dict) and "needs" in table and "oracle" not in table]
    waiting.sort(key=lambda name: root.positions["metrics", name, "needs"].start)
    return {name: Fields(metrics[name], ("metrics", name), root.positions, root.faults) for name in waiting}  # type: ignore[index]


def _planned(name: str, fields: Fields, folder: Folder | None) -> Plan | None:
    needs = fields.subtable("needs", "a table such as {epsilon_report = 1.0, reports = 100000}")
    if needs is None:
        return None
    path: KeyPath = (*fields.path, "needs")
    place = fields.positions[path]
    if place.value <= place.start:
        fields.fault("needs", "write needs = {...} as one inline table, so that it can be replaced")
        return None
    quiet = Fields(fields.table, fields.path, fields.positions)  # its domain's faults are noted already
    domain, candidates = read_domain(quiet, folder)
    if domain is None or quiet.faults:
        return None
    before = len(needs.faults)
    needs.unknown(accepted_needs(domain, needs.table))
    reports = needs.required("reports", "how many reports are expected")
    _check_kinds(needs)
    if len(needs.faults) > before:
        return None
    try:
        plan = plan_for_metric(name, domain, candidates, needs.table, reports)
    except (ParameterError, OverflowError) as error:
        fields.fault("needs", str(error))
        return None
    return replace(plan, metric=name)


def _check_kinds(needs: Fields) -> None:
    """Note every need whose value is of another kind than it takes."""
    for key, value in needs.table.items():
        if key == "thrifty":
            fits, wanted = isinstance(value, bool), "true or false"
        elif key == "estimate":
            fits, wanted = value in ESTIMATES, " or ".join(ESTIMATES)
        else:
            kind, wanted = (int, "a whole number") if key in WHOLE else ((int, float), "a number")
            fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits:
            needs.fault(key, f"{value!r:.100}: give {wanted}")


def _replaced(text: str, place: TomlPosition, planned: Plan) -> str:
    """Return the text with the needs as a comment, and what was planned under it, indented alike."""
    line_start = text.rfind("\n", 0, place.start) + 1
    indent = text[line_start : place.start]
    ending = "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"
    needs = " ".join(text[place.start : place.stop].split())
    lines = [f"# {needs}", *planned.toml().split("\n")]
    return text[: place.start] + f"{ending}{indent}".join(lines) + text[place.stop :]
