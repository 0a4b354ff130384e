"""What is asked of any mechanism's privacy, through the class of terms that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from overstory.privacy.payloads.base import CANDIDATES, Attack, terms_class
from overstory.privacy.terms import Terms
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Kind, Mechanism

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

MODULES: Final = ("bits", "symbols", "single_round", "combined")
"""Where the classes of terms are that a canonical form may name."""


def terms_of(mechanism: Kind) -> Terms:
    """Return the terms of a mechanism, or of what takes numbers (of a range tree: its worst level's).

    Parameters
    ----------
    mechanism
        A frequency oracle's mechanism, or a numeric randomizer.

    Raises
    ------
    ParameterError
        When its kind is unknown.

    Examples
    --------
    >>> from overstory.protocol.kinds.symbols import grr
    >>> terms_of(grr(domain_size=4, epsilon=1.0))
    SymbolTerms(num_symbols=4, permanent=1290591209, instantaneous=4294967296, most_values=4)
    """
    return terms_class(mechanism).of(mechanism)


def metric_terms(metric: Metric) -> Terms:
    """Return the terms of a metric: those of its mechanism or, in a panel, of answers with noise of their own."""
    terms = terms_of(metric.mechanism)
    if metric.panel is None:
        return terms
    from overstory.privacy.payloads.combined import AfreshTerms

    return AfreshTerms(terms)


def change_leak(mechanism: Mechanism, reports: int = 2) -> float:
    """Exact epsilon between `reports` reports of a and reports of a that become b on the way, rounded up.

    The worst over the time of the change and over the values, one of which may be nothing to report. It is infinite
    when every report is the permanent response itself (the one-time modes): two different reports then prove a change.

    Parameters
    ----------
    mechanism
        The mechanism whose reports an attacker links to one device.
    reports
        How many reports the device sends in all; at least 2.

    Raises
    ------
    ParameterError
        When there are fewer than two reports, or too many to look at every time of a change.

    Examples
    --------
    RAPPOR's own parameters, whose epsilon_permanent is 4.39:

    >>> from overstory.protocol.kinds.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> [round(change_leak(rappor, n), 2) for n in (2, 3, 4)]
    [8.61, 15.83, 25.18]
    """
    return terms_of(mechanism).change_leak(reports)


def epsilon_between(mechanism: Mechanism, first: Sequence[Any], second: Sequence[Any], *, cohort: int = 0) -> float:
    """Exact epsilon between two histories of values of one device, rounded up.

    Of values alone: that a device had nothing to report is no value here. `change_leak` and `Terms.epsilon_any` count
    that as well.

    Parameters
    ----------
    mechanism
        The mechanism that both histories are reported with.
    first, second
        The value of each report, in order.
    cohort
        The device's cohort, or its hash seed, from 0.

    Raises
    ------
    ParameterError
        When the histories differ in length or are too varied to enumerate, or a value is outside the domain.

    Examples
    --------
    Two reports of one value against two of another, and against a change, which is more visible:

    >>> from overstory.protocol.kinds.registry import mechanism
    >>> basic = mechanism("basic-rappor", domain_size=64)
    >>> round(epsilon_between(basic, [1, 1], [2, 2]), 3)
    1.009
    >>> round(epsilon_between(basic, [1, 1], [1, 2]), 3)
    4.305
    """
    return terms_class(mechanism).epsilon_between(mechanism, first, second, cohort)


def attack(mechanism: Kind, values: int | None = None) -> Attack:
    """Return what the best attacker achieves against a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism, or what takes numbers.
    values
        How many values are equally likely before; ignored where there is a domain. None: `CANDIDATES`.

    Raises
    ------
    ParameterError
        When `values` is not at least two.

    Examples
    --------
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> from overstory.privacy.payloads.base import percent
    >>> grr = attack(mechanism("grr", domain_size=4, epsilon=1.0))
    >>> percent(grr.prior), percent(grr.report.guess), percent(grr.report.true_positives)
    ('25.00%', '47.54%', '2.72%')
    """
    if values is not None and (not isinstance(values, int) or isinstance(values, bool) or values < 2):
        raise ParameterError(f"values = {values!r}: give a whole number, at least 2")
    return terms_class(mechanism).attack(mechanism, values or CANDIDATES)


def terms_from_json(read: Mapping[str, Any]) -> Terms:
    """Return the terms that `canonical` wrote."""
    from overstory.privacy.payloads.combined import part_of

    for module in MODULES:
        import_module(f"overstory.privacy.payloads.{module}")
    if not isinstance(read, Mapping) or read.get("kind") not in Terms.kinds:
        raise FormatError(f"expected terms of a kind {', '.join(sorted(Terms.kinds))}, found {read!r}", field="terms")
    kind = Terms.kinds[read["kind"]]
    try:
        terms: Terms = part_of(read)
        usable = terms.most_values is None or terms.most_values >= 1
        usable = usable and terms.epsilon_n(1) <= terms.epsilon_permanent and terms.change_leak(2) >= 0
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"these are no terms of {kind.kind}: {error}", field="terms") from error
    if not usable:
        raise FormatError(f"these are no terms of {kind.kind}: they promise nothing", field="terms")
    return terms
