"""The metric registry: one reviewed file that drives client, collector, analysis and the public privacy page."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.errors import FormatError, ParameterError, suggestion
from overstory.protocol.kinds.base import digest
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.metrics.metric_table import Folder, build_metric
from overstory.protocol.metrics.toml_fields import Fields, RegistryError, located, read_root

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from overstory.protocol.metrics.panel import Panel
    from overstory.protocol.metrics.tables import ObliviousRoute, Operator, PersonBudget

TABLES: Final = ("operator", "budget", "oblivious")

MOST_BYTES: Final = 16 << 20  # of a registry file: more is something else, such as /dev/zero


@dataclass(frozen=True)
class MetricRegistry(Mapping[str, Metric]):
    """Metrics by id.

    Examples
    --------
    >>> registry = parse_registry(EXAMPLE)
    >>> registry.version, list(registry), registry["colour"].mechanism.name
    ('2026-11-21', ['colour'], 'grr')
    """

    metrics: Mapping[str, Metric]  # by id, in the order of the file
    version: str  # the version that the file states; a person's consent names it
    # how much all reports of one person may cost; None where the file sets no budget
    budget: PersonBudget | None = None
    # the TOML that it was read from; None where a program built it
    text: str | None = field(default=None, compare=False, repr=False)
    # how a person stops the collection, in a sentence for the public page; required when estimates are published
    opt_out: str | None = None
    # through which relay the reports of oblivious metrics go; None where there is none
    oblivious: ObliviousRoute | None = None
    panel: Panel | None = None  # the panel that the metrics share, unless they say otherwise; None where there is none
    operator: Operator | None = None  # who collects; None where the file does not say

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", MappingProxyType(dict(self.metrics)))

    def __getitem__(self, name: str) -> Metric:
        if name not in self.metrics:
            near = suggestion(name, self.metrics)
            raise UnknownMetricError(f"there is no metric {name!r}: the registry lists {', '.join(self.metrics)}{near}")
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    @property
    def title(self) -> str:
        """What a page for people is called."""
        return "What is collected here" if self.operator is None else f"What {self.operator.name} collects"

    @cached_property
    def digest(self) -> bytes:
        """The 16-byte digest of all that the file says; order, comments and spaces do not matter."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the public registry as JSON values."""
        plain = {"registry": self.version, "metrics": [self.metrics[name].to_json() for name in sorted(self.metrics)]}
        parts = {
            "operator": self.operator,
            "budget": self.budget,
            "oblivious": self.oblivious,
            "panel": self.panel,
        }
        more = {key: part.to_json() for key, part in parts.items() if part is not None}
        return plain | more | ({} if self.opt_out is None else {"opt_out": self.opt_out})


class UnknownMetricError(ParameterError, KeyError):
    """A metric that the registry does not list."""

    __str__ = ParameterError.__str__


def load_registry(path: str | os.PathLike[str] | Traversable, *, read_candidates: bool = True) -> MetricRegistry:
    """Read and check a registry file.

    Parameters
    ----------
    path
        The file, also one inside a package or a zip, as `importlib.resources.files` gives it; candidate files are named
        relative to its folder.
    read_candidates
        Whether to read them. A device has no use for candidates.

    Raises
    ------
    RegistryError
        With every fault and its line.
    FormatError
        When the file is not UTF-8.
    OSError
        When it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "metrics.toml").write_text(EXAMPLE, encoding="utf-8")
    ...     list(load_registry(Path(folder, "metrics.toml")))
    ['colour']
    """
    folder, text = registry_folder(path), registry_text(path)
    return parse_registry(text, folder, source=str(path), read_candidates=read_candidates)


def registry_text(path: str | os.PathLike[str] | Traversable) -> str:
    """Return the text of a registry file, its line ends as they are; a byte order mark is no part of it."""
    try:
        with _file(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        if not isinstance(path, str | os.PathLike):  # an archive's error has no words
            raise FormatError("there is no such file in the package", source=str(path)) from None
        raise
    if len(raw) > MOST_BYTES:
        raise FormatError(f"larger than {MOST_BYTES >> 20} MiB: this is not a registry", source=str(path))
    try:
        text: str = raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        problem = f"expected UTF-8 text ({error.reason} at byte {error.start})"
        raise FormatError(problem, source=str(path)) from None
    return text


def registry_folder(path: str | os.PathLike[str] | Traversable) -> Folder:
    """Return where the candidate files of a registry file are."""
    folder: Folder = _file(path).parent
    return folder


def _file(path: str | os.PathLike[str] | Traversable) -> Any:
    return Path(path) if isinstance(path, str | os.PathLike) else path  # what is in a zip has a parent, too


def parse_registry(
    text: str, folder: Folder | None = None, *, source: str | None = None, read_candidates: bool = True
) -> MetricRegistry:
    """Check the text of a registry.

    Parameters
    ----------
    text
        The TOML text of a metric registry.
    folder
        Where candidate files lie; they are left unread unless given.
    source
        The file's name, for messages.
    read_candidates
        Whether to read candidate files. Expected values of a search (``known``) are read in any case.

    Raises
    ------
    RegistryError
        With every fault and its line.

    Examples
    --------
    >>> registry = parse_registry(EXAMPLE)
    >>> list(registry), str(registry["colour"].period)
    (['colour'], 'week')
    """
    root = read_root(text, source=source)
    root.unknown(("registry", *TABLES, "panel", "opt_out", "metrics"))
    version = root.text("registry", "the registry's version, such as its date")
    panel, route, budget, operator = None, None, None, None
    if "panel" in root.table:
        from overstory.protocol.metrics.panel import read_shared

        panel = read_shared(root)
    metrics = _metrics(root, folder, panel, read_candidates=read_candidates)
    opt_out = _opt_out(root, metrics)
    if not root.table.keys().isdisjoint(TABLES) or any(metric.is_oblivious for metric in metrics.values()):
        from overstory.protocol.metrics.tables import read_tables  # a registry without them loads nothing of it

        budget, route, operator = read_tables(root, metrics)
    if root.faults:
        raise RegistryError(located(root.faults, text), source=source)
    assert version is not None
    return MetricRegistry(metrics, version, budget, text, opt_out, route, panel, operator)


def _opt_out(root: Fields, metrics: Mapping[str, Metric]) -> str | None:
    """Return how a person stops the collection: whoever reads published estimates must be able to read that, too."""
    published = [name for name, metric in metrics.items() if metric.publish != "nothing"]
    if "opt_out" in root.table or published:
        whose = f", because estimates of {', '.join(published)} are published" if published else ""
        return root.text("opt_out", f"a sentence on how a person stops the collection{whose}")
    return None


def _metrics(root: Fields, folder: Folder | None, panel: Panel | None, *, read_candidates: bool) -> dict[str, Metric]:
    tables = root.subtable("metrics", "a table [metrics.ID] for each metric")
    if tables is None:
        return {}
    if not tables.table:
        tables.fault(None, "there is no metric: give a table [metrics.ID] for each")
    metrics = {}
    for name in tables.table:
        fields = tables.subtable(name, "a table")
        metric = None if fields is None else build_metric(fields, folder, panel, read_candidates=read_candidates)
        if metric is not None:
            metrics[name] = metric
    if any(metric.groups is not None for metric in metrics.values()):
        from overstory.protocol.metrics.groups import check_one_variable

        check_one_variable(tables, {name: metric.groups for name, metric in metrics.items()})
    if panel is not None:
        from overstory.protocol.metrics.panel import with_sharing

        return with_sharing(metrics)
    return metrics


EXAMPLE: Final = """
registry = "2026-11-21"

[metrics.colour]
title = "Favourite colour"
description = "Which of three colours the person chose as the theme."
owner = "Themes team"
purpose = "https://example.org/issues/7"
domain = {kind = "categories", names = ["red", "green", "blue"]}
oracle = "grr"
parameters = {epsilon = 1.0}
period = "week"
retention_days = 90
expires = 2027-11-21
"""
"""A registry of one metric, with the keys that every metric needs."""
