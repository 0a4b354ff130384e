"""Counts of any oracle in a file that says what they are of: JSON, with the label of the reports.

counts.csv has RAPPOR's counts alone, and a reader must know the parameters; see `overstory.files.rappor`.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from overstory.analysis.reports import SupportCounts
from overstory.files.io import is_standard, reading, writing_text
from overstory.files.labels import Label
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overstory.files.io import FilePath
    from overstory.protocol.mechanisms.base import LocalRandomizer

FORMAT: Final = "overstory counts 1"


@dataclass(frozen=True)
class LabelledCounts:
    """Counts, what made the reports, and which values were counted; None: all of the domain, or none in particular."""

    label: Label
    values: tuple[Any, ...] | None
    counts: SupportCounts

    @classmethod
    def of(
        cls, mechanism: LocalRandomizer, counts: SupportCounts, values: Sequence[Any] | None = None
    ) -> LabelledCounts:
        """Return the counts of a mechanism's reports."""
        return cls(Label.of(mechanism), None if values is None else tuple(values), counts)


def is_labelled(path: FilePath) -> bool:
    """Whether a file of that name has counts with a label.

    >>> is_labelled("monday.json"), is_labelled("monday.csv"), is_labelled("-")
    (True, False, False)
    """
    return not is_standard(path) and os.fspath(path).endswith(".json")


def write_labelled(path: FilePath, labelled: LabelledCounts) -> None:
    """Write counts with their label."""
    counts, values = labelled.counts, labelled.values
    fields = {
        "format": FORMAT,
        "label": json.loads(labelled.label.to_json()),
        "values": None if values is None else list(values),
        "totals": counts.totals.tolist(),
        "ones": counts.ones.tolist(),
    }
    with writing_text(path) as text:
        json.dump(fields, text, separators=(",", ":"))
        text.write("\n")


def read_labelled(path: FilePath) -> LabelledCounts:
    """Read what `write_labelled` wrote; FormatError also where the counts and their label contradict each other."""
    source = os.fspath(path)
    with reading(path) as stream:
        raw = stream.read()
    try:
        fields = json.loads(raw)
        known = fields["format"] == FORMAT
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError("expected counts in JSON, from `overstory sum -o NAME.json`", source=source) from error
    if not known:
        raise FormatError(f"expected the format {FORMAT!r}, found {fields['format']!r:.40}", source=source)
    label = Label.from_json(json.dumps(fields.get("label")).encode(), source)
    try:
        values, counts = _values(fields["values"]), SupportCounts(fields["totals"], fields["ones"])
    except (ParameterError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise FormatError(f"these are no counts: {error}", source=source) from error
    if values is not None and len(values) != counts.num_bits:
        raise FormatError(f"{len(values):,} values, but {counts.num_bits:,} counts", source=source)
    return LabelledCounts(label, values, counts)


def _values(given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if not isinstance(given, list) or {type(value) for value in given} not in ({str}, {int}):
        raise ParameterError("the values are neither texts nor symbols of a domain")
    return tuple(given)
