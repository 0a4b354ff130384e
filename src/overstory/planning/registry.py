"""From a metric's needs to its oracle and parameters, written into the registry's own text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from overstory.analysis.comparison import rank, recommend, trade
from overstory.analysis.selection import detectable_frequency, null_error
from overstory.analysis.variance import frequency_variance
from overstory.planning.detection import critical_value
from overstory.planning.item_sets import other_mechanism, rank_item_mechanisms, sizes_about
from overstory.planning.needs import plan_from_needs
from overstory.planning.sample_size import smallest_share
from overstory.privacy.attacks import Linkability, linkability
from overstory.protocol.domains import AnyDomain, ItemSet
from overstory.protocol.domains.numbers import Interval
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism
from overstory.protocol.mechanisms.registry import FAMILIES, mechanism, names_for
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.metrics.metric_table import NOT_PLANNED, Folder, read_domain
from overstory.protocol.metrics.toml_fields import Fields, read_root
from overstory.protocol.metrics.toml_positions import Path as KeyPath
from overstory.protocol.metrics.toml_positions import TomlPosition
from overstory.protocol.numeric.means import Duchi, Hybrid, MeanRandomizer, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.windows import SquareWave
from overstory.protocol.search.mechanism import SearchMechanism, prefix_search

SEARCH: Final = ("epsilon_report", "reports", "waves")
STRINGS: Final = ("epsilon_report", "epsilon_permanent", "reports", "candidates", "alpha", "thrifty")
SYMBOLS: Final = ("epsilon_report", "epsilon_permanent", "reports")
WINDOW: Final = ("epsilon_window", "window", "reports")
SETS: Final = ("epsilon_report", "reports", "typical")
NUMBERS: Final = ("epsilon_report", "reports", "estimate", "resolution")
ESTIMATES: Final = ("mean", "distribution")
RESOLUTION: Final = 64
"""Positions of a planned metric: values then come again, and are moved by at most a 64th of the range."""
WHOLE: Final = ("reports", "candidates", "window", "resolution", "waves")
"""What is counted; `thrifty` is true or false, and all other needs are numbers."""

ACCEPTED: Final[Mapping[str, tuple[str, ...]]] = {
    "strings": STRINGS,
    "symbols": SYMBOLS,
    "sets": SETS,
    "numbers": NUMBERS,
    "codes": SEARCH,
}
"""What may be needed of a metric, by the first family of its domain."""

ALPHA: Final = 0.05
"""The chance of any false detection, where what is detected is stated."""

NOISE_ONCE: Final = (
    "with epsilon_permanent among the needs, reports are drawn afresh and do not show a change for certain"
)


@dataclass(frozen=True)
class Planned:
    """What was derived for one metric."""

    metric: str  # its id
    mechanism: LocalRandomizer  # what to randomize with
    parameters: Mapping[str, Any]  # those to write down: without what follows from the rest of the metric
    standard_error: float  # of a share, as a fraction: of a rare string's, or on average over the domain
    num_reports: int  # for how many reports that is
    num_values: int  # among how many values: the domain's, or the candidates
    instead: str | None = None  # what else was nearly as good, and why it was not taken
    group: tuple[str, float] | None = None  # the rarest group that reports name, with its share of all devices

    @property
    def linkable(self) -> Linkability:
        return linkability(self.mechanism, self.group)

    @property
    def detected_half(self) -> float:
        """The share that is detected half the time; above 1 where none is. What is rarer is more likely missed."""
        return critical_value(ALPHA, self.num_values) * self.standard_error

    @property
    def detected_nine_in_ten(self) -> float | None:
        """The share that is detected nine times in ten; None where none is."""
        assert isinstance(self.mechanism, Mechanism)
        return smallest_share(self.mechanism, self.num_reports, self.num_values, alpha=ALPHA)

    def unseen(self) -> str:
        """Return from which share a value is detected, half the time and nine times in ten."""
        half, nine = self.detected_half, self.detected_nine_in_ten
        if half >= 1:
            return "no value will be detected: plan for more reports, or a larger epsilon"
        reliable = "no value nine times in ten" if nine is None else f"nine times in ten from {_percent(nine)}"
        return f"a value is detected about half the time from a share of {_percent(half)}, {reliable}"

    def toml(self) -> str:
        return oracle_toml(self.mechanism.name, self.parameters)

    def plain_words(self) -> str:
        lines = self.toml().replace("\n", ", ")
        error = f"standard error of a share {self.standard_error:.3%} at {self.num_reports:,} reports; {self.unseen()}"
        instead = "" if self.instead is None else f" (instead: {self.instead})"
        once = f"; {NOISE_ONCE}" if self.linkable.has_payload else ""
        return f"{self.metric}: {lines}; {error}; {self.linkable.words()}{once}{instead}"

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "oracle": self.mechanism.name,
            "parameters": dict(self.parameters),
            "epsilon_report": self.mechanism.epsilon_report,
            "standard_error": self.standard_error,
            "reports": self.num_reports,
            "detected_half": self.detected_half,
            "detected_nine_in_ten": self.detected_nine_in_ten,
            "linkable": self.linkable.to_json(),
            "instead": self.instead,
        }


def _percent(share: float) -> str:
    """Return a share with two digits that count.

    Examples
    --------
    >>> _percent(0.3604), _percent(0.0123456), _percent(0.00012)
    ('36%', '1.2%', '0.012%')
    """
    return f"{float(f'{100 * share:.2g}'):.10g}%"


def oracle_toml(name: str, parameters: Mapping[str, Any]) -> str:
    """Return an oracle with its parameters as the two lines of a registry."""
    given = ", ".join(f"{key} = {_toml(value)}" for key, value in parameters.items())
    return f'oracle = "{name}"\nparameters = {{{given}}}'


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else repr(value)


def plan_registry(text: str, folder: Folder | None, *, source: str | None = None) -> tuple[str, list[Planned]]:
    r"""Return a registry's text with oracle and parameters in place of every metric's needs, and what was planned.

    The needs stay as a comment; all other text stays as it is.
    """
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
    grouped = ((metrics[name].groups, plan) for name, plan in plans.items())
    return text, [plan if groups is None else replace(plan, group=groups.with_share()) for groups, plan in grouped]


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


def _planned(name: str, fields: Fields, folder: Folder | None) -> Planned | None:
    needs = fields.subtable("needs", "a table such as {epsilon_report = 1.0, reports = 100000}")
    if needs is None:
        return None
    path: KeyPath = (*fields.path, "needs")
    place = fields.positions[path]
    if place.value <= place.start:
        fields.fault("needs", "write needs = {...} as one inline table, so that it can be replaced")
        return None
    quiet = Fields(fields.table, fields.path, fields.positions)  # its domain's faults are noted already
    domain, candidates, _ = read_domain(quiet, folder)
    if domain is None or quiet.faults:
        return None
    family = domain.families[0]
    accepted = WINDOW if family == "symbols" and "epsilon_window" in needs.table else ACCEPTED.get(family, SYMBOLS)
    before = len(needs.faults)
    needs.unknown(accepted)
    reports = needs.required("reports", "how many reports are expected")
    _check_kinds(needs)
    if len(needs.faults) > before:
        return None
    try:
        return _derived(name, domain, candidates, needs.table, reports)
    except (ParameterError, OverflowError) as error:
        fields.fault("needs", str(error))
        return None


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


def _derived(
    name: str, domain: AnyDomain, candidates: tuple[str, ...] | None, needs: Mapping[str, Any], reports: int
) -> Planned:
    if reports < 1:
        raise ParameterError(f"reports = {reports!r}: give how many reports are expected, a whole number above 0")
    if (family := domain.families[0]) not in ACCEPTED:
        names = ", ".join(names_for(domain.families))
        raise ParameterError(f"no plan is made for {FAMILIES[family].values}: give an oracle ({names}) with parameters")
    if isinstance(domain, Interval):
        return _for_numbers(name, domain, needs, reports)
    if "codes" in domain.families:
        return _for_a_search(name, domain, needs, reports)
    if domain.size is None:
        return _for_strings(name, candidates, needs, reports)
    if isinstance(domain, ItemSet):
        return _for_sets(name, domain, needs, reports)
    if "epsilon_window" in needs:
        return _for_a_window(name, domain.size, needs, reports)
    _need(needs, "epsilon_report")
    ranking = rank(domain.size, needs["epsilon_report"], reports, epsilon_permanent=needs.get("epsilon_permanent"))
    best = recommend(ranking)
    built = mechanism(best.name, **best.parameters)
    written = {key: value for key, value in best.parameters.items() if key != "domain_size"}
    return Planned(name, built, written, best.standard_error, reports, domain.size, trade(ranking, best))


def _need(needs: Mapping[str, Any], *names: str) -> None:
    missing = [name for name in names if name not in needs]
    if missing:
        raise ParameterError(f"needs lack {' and '.join(missing)}")


def _for_strings(name: str, candidates: tuple[str, ...] | None, needs: Mapping[str, Any], reports: int) -> Planned:
    """RAPPOR with the smallest standard error for rare strings within both epsilons."""
    _need(needs, "epsilon_report", "epsilon_permanent")
    looked_for = needs.get("candidates", len(candidates or ()))
    if not looked_for:
        raise ParameterError("give candidates, how many strings are looked for, or a candidate file in the domain")
    plan = plan_from_needs(
        needs["epsilon_report"],
        needs["epsilon_permanent"],
        reports,
        looked_for,
        alpha=needs.get("alpha", 0.05),
        thrifty=needs.get("thrifty", False),
        hash_key=name,
    )
    written = {key: plan.mechanism.parameters[key] for key in ("num_bits", "num_hashes", "num_cohorts", "f", "p", "q")}
    return Planned(name, plan.mechanism, written, plan.standard_error / reports, reports, looked_for)


def _for_sets(name: str, domain: ItemSet, needs: Mapping[str, Any], reports: int) -> Planned:
    """The mechanism and padding length of least error, for sets of the typical size."""
    _need(needs, "epsilon_report")
    sizes = sizes_about(needs.get("typical"), domain.most)
    ranking = rank_item_mechanisms(domain.size, domain.most, needs["epsilon_report"], reports, sizes)
    best = ranking[0]
    instead = other_mechanism(ranking)
    return Planned(name, best.mechanism, best.parameters, best.standard_error, reports, domain.size, instead)


@dataclass(frozen=True)
class PlannedSearch(Planned):
    """What was derived for a metric of unknown values."""

    mechanism: SearchMechanism

    @property
    def detected_nine_in_ten(self) -> float | None:
        """The share that survives every level and the last test nine times in ten; None where none does."""
        return detectable_frequency(self.mechanism.plan, self.num_reports)

    @property
    def detected_half(self) -> float:
        """The same, half the time; above 1 where none does."""
        half = detectable_frequency(self.mechanism.plan, self.num_reports, power=0.5)
        return 2.0 if half is None else half


def _for_a_search(name: str, domain: AnyDomain, needs: Mapping[str, Any], reports: int) -> Planned:
    """The one search that there is: what follows from the needs is what it can see."""
    _need(needs, "epsilon_report")
    given = {"epsilon": needs["epsilon_report"]} | ({"waves": needs["waves"]} if "waves" in needs else {})
    built = prefix_search(**domain.completes(name), **given)
    answers = round(reports * built.plan.shares[-1])
    error = null_error(built.plan.mechanism, answers)
    return PlannedSearch(name, built, given, error, reports, built.plan.tried[-1])


def _for_a_window(name: str, domain_size: int, needs: Mapping[str, Any], reports: int) -> Planned:
    """The better of the thesis's two window mechanisms."""
    _need(needs, "window")
    given = {"epsilon": needs["epsilon_window"], "window": needs["window"]}
    built = [mechanism(oracle, domain_size=domain_size, **given) for oracle in ("wb", "opt-wb")]
    best = min(built, key=lambda candidate: frequency_variance(candidate, reports, 1 / domain_size))
    error = frequency_variance(best, reports, 1 / domain_size) ** 0.5
    return Planned(name, best, given, error, reports, domain_size)


MEANS: Final[tuple[type[MeanRandomizer], ...]] = (Hybrid, Piecewise, Duchi)


@dataclass(frozen=True)
class PlannedNumbers(Planned):
    """What was derived for one metric of numbers: the error is that of the mean of people who hold the worst value."""

    mechanism: NumericRandomizer

    def plain_words(self) -> str:
        lines, learned = self.toml().replace("\n", ", "), self.mechanism.reading
        error = f"standard error of the mean at most {self.standard_error:.3g} at {self.num_reports:,} reports"
        return f"{self.metric}: {lines}; for the {learned}; {error}; {self.linkable.words()}"

    def to_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "oracle": self.mechanism.name,
            "parameters": dict(self.parameters),
            "epsilon_report": self.mechanism.epsilon_report,
            "estimate": self.mechanism.reading,
            "standard_error": self.standard_error,
            "reports": self.num_reports,
            "linkable": self.linkable.to_json(),
        }


def worst_error(built: NumericRandomizer, reports: int) -> float:
    """Return the standard error of the mean of people who all hold the worst value.

    Examples
    --------
    >>> round(worst_error(Hybrid(1.0), 10_000), 4)
    0.0207
    """
    low, high = Fraction(built.domain.minimum), Fraction(built.domain.maximum)
    width = high - low
    worst = max(built.variance(value) / width**2 for value in (low, (low + high) / 2, high))
    return math.sqrt(worst / reports) * float(width)


def best_for_mean(epsilon: float, domain: Interval, resolution: int) -> MeanRandomizer:
    """Return the mechanism whose mean has the least error in the worst case; of equal ones the smaller reports."""
    built = [kind(epsilon, domain, resolution) for kind in MEANS]
    return min(built, key=lambda each: (round(worst_error(each, 1), 9), each.payload_bits))


def _for_numbers(name: str, domain: Interval, needs: Mapping[str, Any], reports: int) -> Planned:
    """The mean with the least error in the worst case, or all of the distribution."""
    _need(needs, "epsilon_report")
    epsilon, resolution = needs["epsilon_report"], needs.get("resolution", RESOLUTION)
    built: NumericRandomizer = SquareWave(epsilon, domain, resolution)
    if needs.get("estimate", "mean") == "mean":
        built = best_for_mean(epsilon, domain, resolution)
    written = {"epsilon": epsilon, "resolution": resolution}
    return PlannedNumbers(name, built, written, worst_error(built, reports), reports, num_values=1)


def _replaced(text: str, place: TomlPosition, planned: Planned) -> str:
    """Return the text with the needs as a comment, and what was planned under it, indented alike."""
    line_start = text.rfind("\n", 0, place.start) + 1
    indent = text[line_start : place.start]
    ending = "\r\n" if text[: text.find("\n") + 1].endswith("\r\n") else "\n"
    needs = " ".join(text[place.start : place.stop].split())
    lines = [f"# {needs}", *planned.toml().split("\n")]
    return text[: place.start] + f"{ending}{indent}".join(lines) + text[place.stop :]
