"""The frequency oracle: a mechanism paired with the server's half, which reads its encoding and channels alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Rng, SimulatedDevices, Support, count_reports, generator, support_of
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.tables.columns import Column, Label, coded, labels_from, missing_values, read_column
from overstory.analysis.tables.output import label_text
from overstory.analysis.variance import frequency_variance
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism, Report
from overstory.protocol.kinds.registry import REGISTRY
from overstory.protocol.kinds.registry import mechanism as build_mechanism
from overstory.protocol.sampling import Entropy
from overstory.protocol.wire.upload import Batch

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind


@dataclass(frozen=True, repr=False)
class FrequencyOracle:
    """From values to reports, and from reports to frequencies.

    Parameters
    ----------
    mechanism
        The device's half: an encoding and one or two channels.
    labels
        What the symbols mean, if that is given: columns of these values go in, and estimates are named by them.

    Examples
    --------
    >>> import numpy as np, overstory
    >>> basic = overstory.oracle("basic-rappor", domain_size=4, f=0.25, p=0.25, q=0.75)
    >>> values = np.random.default_rng(1).choice(4, size=100_000, p=[0.4, 0.3, 0.2, 0.1])
    >>> reports = basic.simulate(values, np.random.default_rng(2))
    >>> estimate = basic.estimate(basic.accumulate(reports))
    >>> bool(abs(estimate.frequencies[0] - 0.4) < 0.02)
    True
    """

    mechanism: Mechanism
    labels: tuple[Label, ...] | None = None

    def __repr__(self) -> str:
        given = {key: value for key, value in self.mechanism.parameters.items() if value not in (None, "", False)}
        if self.labels is not None:
            given |= {"labels": f"<{len(self.labels)}>"}
        return f"oracle({', '.join([repr(self.name), *(f'{key}={value}' for key, value in given.items())])})"

    @property
    def support(self) -> Support[Any]:
        """The server's half: how reports of this encoding are simulated and counted."""
        return support_of(self.mechanism)

    @property
    def name(self) -> str:
        """The registry's name."""
        return self.mechanism.name

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up."""
        return self.mechanism.epsilon_report

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, in nats, rounded up."""
        return self.mechanism.epsilon_permanent

    def randomize(self, value: Any, entropy: Entropy, *, cohort: int | None = None) -> Report:
        """Return one report of a device that nobody has seen before; see `Mechanism.randomize`."""
        if self.labels is not None:
            place = int(coded([value], self.labels)[0])
            value = place if self.support.domain_size is not None else label_text(value)
        return self.mechanism.randomize(value, entropy, cohort=cohort)

    def devices(self, symbols: Any, rng: Rng = None, *, candidates: Sequence[str] | None = None) -> SimulatedDevices:
        """Make a population of devices, for experiments: see `simulate` for its parameters."""
        size, drawn = self.support.domain_size, generator(rng)
        if self.labels is not None:
            values: Sequence[Any] = range(size) if size is not None else [label_text(label) for label in self.labels]
            return SimulatedDevices.holding(self.mechanism, values, coded(symbols, self.labels), drawn)
        if size is not None:
            return SimulatedDevices.holding(self.mechanism, range(size), _symbols(symbols), drawn)
        if candidates is not None:
            held = _as_given(symbols)
            indices = coded(symbols, candidates) if held is None else held
            return SimulatedDevices.holding(self.mechanism, candidates, indices, drawn)
        texts, indices = _texts(symbols)
        return SimulatedDevices.holding(self.mechanism, texts, indices, drawn)

    def simulate(self, symbols: Any, rng: Rng = None, *, candidates: Sequence[str] | None = None) -> ReportBatch:
        """Return one report of each of n simulated devices.

        Parameters
        ----------
        symbols : array_like, shape (n,)
            With labels, a column of them, of pandas, Polars, Arrow, NumPy, or a list. Otherwise the symbols; without a
            domain the strings or, with `candidates`, indices into them.
        rng
            Where all randomness comes from, as NumPy takes it: a seed, a generator, or None for a fresh one. Equal
            seeds give equal reports, so a seed is for simulations only: it would give a real device's value away.
        candidates
            The strings that `symbols` index.

        Raises
        ------
        ParameterError
            When a value is outside the domain, or missing and no label.
        """
        return self.devices(symbols, rng, candidates=candidates).report()

    def accumulate(
        self, reports: ReportBatch | Batch | Iterable[Report], candidates: Sequence[Any] | None = None
    ) -> SupportCounts:
        """Reduce reports to support counts; counts of several batches add up in any order.

        Parameters
        ----------
        reports
            A batch, as arrays or from the wire, or reports one by one.
        candidates
            Which values to count: strings, needed where a hashing oracle has no domain; or some symbols of a domain.
            Bloom filters and sampled bits take theirs when estimating.

        Raises
        ------
        ParameterError
            When the reports are another mechanism's, or candidates are missing or outside the domain.
        """
        if isinstance(reports, Batch):
            batch = ReportBatch.from_wire(reports)
        else:
            batch = reports if isinstance(reports, ReportBatch) else ReportBatch.of(self.mechanism, reports)
        return count_reports(self.mechanism, batch, candidates)

    def estimate(
        self,
        counts: SupportCounts,
        candidates: Sequence[str] | None = None,
        *,
        reports_per_device: float = 1.0,
        interval_kind: IntervalKind = "reports",
        **choices: Any,
    ) -> Estimate:
        """Estimate how many devices hold each value.

        Parameters
        ----------
        counts
            Support counts of the collection.
        candidates
            Names for what was counted (the labels, or numbers, unless given). Bloom: the strings to look for; more can
            be tried later.
        reports_per_device
            How many of the reports one device sent, its value unchanged: they share its permanent response, and
            standard errors grow by that. For uneven numbers see `overstory.analysis.variance.reports_per_device`.
        interval_kind
            What intervals are for: ``reports``, the devices that reported (noise of randomization alone), or
            ``population``, all devices like these, as comparisons need (`analysis.difference`). Both stay available.
        **choices
            For Bloom filters: `method`, "gls", weighted least squares over all candidates, or pursuit where there are
            more of them than rows (cohorts times bits), or nearly as many; or "lasso", the RAPPOR paper's procedure.
            `correction`, "fdr" or "bonferroni": how detection pays for looking at all candidates. `alpha`: the false
            discovery rate, or the chance of any false detection. `complete`: every reported string is in the list, and
            frequencies sum to one; if that is not so, the missing strings' reports are counted as candidates'.

        Returns
        -------
        Estimate
            For Bloom filters a `Decoded`, which is one.

        Raises
        ------
        ParameterError
            When a Bloom collection is to be read without candidates, the counts are another mechanism's or are
            reports, or a device sends less than one report.
        """
        if isinstance(counts, ReportBatch):
            raise ParameterError("these are reports, not counts: give oracle.accumulate(reports)")
        if self.labels is None or candidates is not None:
            learned = self.support.estimate(counts, candidates, reports_per_device=reports_per_device, **choices)
        else:
            texts = [label_text(label) for label in self.labels]
            learned = self.support.estimate(counts, texts, reports_per_device=reports_per_device, **choices)
            learned = replace(learned, values=self.labels)
        return learned if learned.interval_kind == interval_kind else replace(learned, interval_kind=interval_kind)

    def variance(self, num_reports: float, frequency: float = 0.0, *, num_candidates: int | None = None) -> float:
        """Variance of a frequency estimate from that many reports; see `frequency_variance`."""
        return frequency_variance(self.mechanism, num_reports, frequency, num_candidates=num_candidates)


def oracle(name: str, *, labels: Any = None, **parameters: Any) -> FrequencyOracle:
    """Return the frequency oracle of that registry name: the device's half and the server's, as one object.

    Parameters
    ----------
    name
        The registry name of a mechanism: one of `oracles`.
    labels
        What the symbols stand for, instead of ``domain_size``: a list of strings, whole numbers or booleans, None for
        a missing value; or a column of a data frame, whose distinct values are then known to everyone. Columns of
        these values go into `simulate`, and estimates are named by them.
    **parameters
        The oracle's own: ``epsilon``, ``domain_size`` and so on, as docs/reference/oracles.md lists them.

    Raises
    ------
    overstory.ParameterError
        When there is no such oracle, or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import overstory
    >>> rappor = overstory.oracle("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> round(rappor.epsilon_report, 3), round(rappor.epsilon_permanent, 3)
    (1.074, 4.394)
    >>> grr = overstory.oracle("grr", labels=["no", "yes"], epsilon=1)
    >>> reports = grr.simulate(["no", "yes", "no"] * 10_000, rng=1)
    >>> round(grr.estimate(grr.accumulate(reports))["yes"].frequency, 1)
    0.3
    """
    if labels is None:
        return FrequencyOracle(build_mechanism(name, **parameters))
    listed = labels_from(labels)
    if name in REGISTRY and "domain_size" in inspect.signature(REGISTRY[name]).parameters:
        size = parameters.setdefault("domain_size", len(listed))
        if size != len(listed):
            raise ParameterError(f"domain_size = {size}, but {len(listed)} labels: give the labels alone")
    return FrequencyOracle(build_mechanism(name, **parameters), listed)


def _as_given(symbols: Any) -> NDArray[Any] | None:
    """Return whole numbers as they are; None for a column that is yet to be read."""
    held = np.asarray(symbols)
    return held if held.dtype.kind in "iu" or not held.size else None


def _complete(values: Any) -> Column:
    column = read_column(values)
    if None in column.labels:
        raise missing_values(column.missing, len(column.codes))
    return column


def _symbols(values: Any) -> NDArray[Any]:
    """Return a column's numbers: whole floats are whole numbers, booleans are 0 and 1."""
    held = _as_given(values)
    if held is not None:
        return held
    column = _complete(values)
    if any(isinstance(label, str) for label in column.labels):
        raise ParameterError(
            "a column of text, but this oracle numbers its values: name them, as in "
            "overstory.oracle(name, labels=column, ...)"
        )
    return np.array([int(label) for label in column.labels if label is not None])[column.codes]


def _texts(values: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct strings of a column, and which one each row holds."""
    held = np.asarray(values)
    if held.dtype.kind in "USiu" or not held.size:
        distinct, indices = np.unique(held.astype(np.str_), return_inverse=True)
        return distinct.tolist(), indices.astype(np.int64)
    column = _complete(values)
    return [label_text(label) for label in column.labels], column.codes
