"""One search for every kind of data: of the registered mechanisms that needs determine, the one of least error.

A known domain's oracles are ranked by their variance; numbers by the error of the mean of people who hold the worst
value; sets of items by both parts of an item's error. The variance is exact, of noise and of which item is drawn; the
other part is what a padding length leaves out: of a set of s items ``min(s, L)`` count. Items are taken to be equally
frequent, and sizes to be Poisson about the typical one, none above `most`; without one every device has `most` items.

`plan_registry` writes oracle and parameters into a registry's text, in place of every metric's needs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, Final, NamedTuple

from overstory.analysis.comparison import rank, recommend, trade
from overstory.analysis.selection import detectable_frequency, null_error
from overstory.analysis.variance import frequency_variance
from overstory.planning.detection import (
    check_share,
    critical_value,
    required_sample_size,
    smallest_share,
)
from overstory.planning.needs import plan_from_needs
from overstory.planning.plan import ALPHA, Plan
from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism, check_count
from overstory.protocol.kinds.item_sets import INNER, ItemBits, item_bits, padding_and_sampling
from overstory.protocol.kinds.registry import FAMILIES, VALUES, determined_by, mechanism, names_for, of_domain
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.metrics.metric_table import NOT_PLANNED, Folder, read_domain
from overstory.protocol.metrics.toml_fields import Fault, Fields, TomlPosition, located, positions, read_root

Needs = Mapping[str, Any]


def plan_for_domain(
    domain_size: int,
    epsilon: float,
    num_reports: int,
    *,
    # of any number of reports of one value, where devices report more than once
    epsilon_permanent: float | None = None,
    share: float | None = None,  # to be detected, above 0 and at most 1
    alpha: float = ALPHA,
) -> Plan:
    """Return the plan of a collection over a domain of `domain_size` values."""
    if share is not None:
        check_share(share)
    check_count("reports", num_reports, 1, 1 << 62)
    ranking = rank(domain_size, epsilon, num_reports, epsilon_permanent=epsilon_permanent)
    best = recommend(ranking)
    built = mechanism(best.name, **best.parameters)
    needed = None
    if share is not None:
        with suppress(ParameterError):  # its seeds are too few, whatever the number of people
            needed = required_sample_size(built, share, domain_size, alpha=alpha)
    return Plan(
        mechanism=built,
        written={key: value for key, value in best.parameters.items() if key != "domain_size"},
        num_reports=num_reports,
        num_candidates=domain_size,
        error=best.standard_error,
        alpha=alpha,
        detected_half=critical_value(alpha, domain_size) * best.standard_error,
        detected_nine_in_ten=smallest_share(built, num_reports, domain_size, alpha=alpha),
        instead=trade(ranking, best),
        ranking=ranking,
        choice=best,
        asked=share,
        people_needed=needed,
    )


def plan_for_metric(
    metric: str, domain: AnyDomain, candidates: tuple[str, ...] | None, needs: Needs, reports: int
) -> Plan:
    """Return the plan of a metric's needs; ParameterError where they lack something, or cannot be met."""
    if reports < 1:
        raise ParameterError(f"reports = {reports!r}: give how many reports are expected, a whole number above 0")
    planner = planner_of(domain, needs)
    missing = [name for name in planner.accepts[: planner.required] if name not in needs]
    if missing:
        raise ParameterError(f"needs lack {' and '.join(missing)}")
    return planner.plan(metric, domain, {"candidates": len(candidates or ())} | dict(needs), reports)


def _for_strings(metric: str, domain: AnyDomain, needs: Needs, reports: int) -> Plan:  # noqa: ARG001 - of any
    """RAPPOR with the smallest standard error for rare strings within both epsilons."""
    if not needs["candidates"]:
        raise ParameterError("give candidates, how many strings are looked for, or a candidate file in the domain")
    epsilons, alpha = (needs["epsilon_report"], needs["epsilon_permanent"]), needs.get("alpha", ALPHA)
    plan = plan_from_needs(*epsilons, reports, needs["candidates"], hash_key=metric, alpha=alpha)
    return replace(plan, **_detected(plan.mechanism, plan.error, reports, plan.num_candidates))


def _for_symbols(metric: str, domain: Any, needs: Needs, reports: int) -> Plan:  # noqa: ARG001 - of any
    """The recommended oracle."""
    ceiling = needs.get("epsilon_permanent")
    return plan_for_domain(domain.size, needs["epsilon_report"], reports, epsilon_permanent=ceiling)


def _of_least_variance(metric: str, domain: Any, needs: Needs, reports: int) -> Plan:
    """The mechanism of the domain's kind that the needs determine, of known variance, and of the least."""
    if "epsilon_window" in needs:
        given = {"epsilon": needs["epsilon_window"], "window": needs["window"]}
    else:
        given = {"epsilon": needs["epsilon_report"]}
    family = domain.families[0]
    built = [each for each in _built(family, {**domain.completes(metric), **given}) if hasattr(each, "q_star")]
    if not built:
        names = ", ".join(names_for(domain.families))
        raise ParameterError(f"no plan is made for {VALUES[family]}: give an oracle ({names}) with parameters")
    best = min(built, key=lambda each: frequency_variance(each, 1, 1 / domain.size))
    return _plan(best, given, reports, domain.size, math.sqrt(frequency_variance(best, reports, 1 / domain.size)))


def _for_sets(metric: str, domain: Any, needs: Needs, reports: int) -> Plan:  # noqa: ARG001 - of any
    """The mechanism and padding length of least error, for sets of the typical size."""
    sizes = sizes_about(needs.get("typical"), domain.most)
    ranking = rank_item_mechanisms(domain.size, domain.most, needs["epsilon_report"], reports, sizes)
    best, instead = ranking[0], other_mechanism(ranking)
    return _plan(best.mechanism, best.parameters, reports, domain.size, best.standard_error, instead=instead)


def _for_a_search(metric: str, domain: AnyDomain, needs: Needs, reports: int) -> Plan:
    """The one search that there is: what follows from the needs is what survives every level and the last test."""
    given = {"epsilon": needs["epsilon_report"]}
    (built,) = _built("codes", domain.completes(metric) | given)
    plan = built.plan
    answers = round(reports * plan.shares[-1])
    half, nine = (detectable_frequency(plan, reports, power=power) for power in (0.5, 0.9))
    return Plan(
        mechanism=built,
        written=given,
        num_reports=reports,
        num_candidates=plan.tried[-1],
        error=null_error(plan.levels[-1].mechanism, answers),
        detected_half=2.0 if half is None else half,
        detected_nine_in_ten=nine,
    )


def _for_numbers(metric: str, domain: Any, needs: Needs, reports: int) -> Plan:  # noqa: ARG001 - of any
    """What gives the mean with the least error in the worst case, or all of the distribution."""
    written = {"epsilon": needs["epsilon_report"], "resolution": needs.get("resolution", RESOLUTION)}
    built = {each.reading: each for each in _built("numbers", written | domain.completes(""))}
    if (best := built.get(needs.get("estimate", "mean"))) is None:
        raise ParameterError(f"estimate = {needs['estimate']!r}: give {' or '.join(ESTIMATES)}")
    return Plan(mechanism=best, written=written, num_reports=reports, num_candidates=1, error=mean_error(best, reports))


class Planner(NamedTuple):
    """How metrics of a family are planned."""

    accepts: tuple[str, ...]  # what may be needed
    required: int  # so many of these, the first, have to be given
    plan: Callable[[str, Any, Needs, int], Plan]


PLANNERS: Final[Mapping[str, Planner]] = {
    "strings": Planner(("epsilon_report", "epsilon_permanent", "reports", "candidates", "alpha"), 2, _for_strings),
    "symbols": Planner(("epsilon_report", "epsilon_permanent", "reports"), 1, _for_symbols),
    "windows": Planner(("epsilon_window", "window", "reports"), 2, _of_least_variance),
    "sets": Planner(("epsilon_report", "reports", "typical"), 1, _for_sets),
    "numbers": Planner(("epsilon_report", "reports", "estimate", "resolution"), 1, _for_numbers),
    "codes": Planner(("epsilon_report", "reports"), 1, _for_a_search),
}
"""By the first family of a domain; for symbols in windows of the thesis by "windows"."""
OTHERS: Final = Planner(("epsilon_report", "reports"), 1, _of_least_variance)


def planner_of(domain: AnyDomain, needs: Needs) -> Planner:
    """Return what plans a metric with these needs."""
    family = domain.families[0]
    return PLANNERS.get("windows" if family == "symbols" and "epsilon_window" in needs else family, OTHERS)


def _built(family: str, given: Mapping[str, Any]) -> Iterator[Any]:
    """Build each mechanism of a family that these parameters determine."""
    built = (of_domain(name, **given) for name in determined_by(FAMILIES[family], given))
    return (each for each in built if each is not None)


def _plan(built: Mechanism, written: Needs, reports: int, size: int, error: float, **more: Any) -> Plan:
    more |= _detected(built, error, reports, size)
    return Plan(mechanism=built, written=written, num_reports=reports, num_candidates=size, error=error, **more)


def _detected(built: Mechanism, error: float, reports: int, size: int) -> dict[str, Any]:
    """Return which share is detected half the time, above 1 where none is, and which nine times in ten."""
    nine = smallest_share(built, reports, size, alpha=ALPHA)
    return {"detected_half": critical_value(ALPHA, size) * error, "detected_nine_in_ten": nine}


RESOLUTION: Final = 64
"""Positions of a planned metric: values then come again, and are moved by at most a 64th of the range."""


def mean_error(built: Any, reports: int) -> float:
    """Return the standard error of the mean of people who all hold the middle of the range or an end, the larger."""
    low, high = Fraction(built.domain.minimum), Fraction(built.domain.maximum)
    width = high - low  # a large range's variance is beyond floats; its root is not
    worst = max(built.variance(value) for value in ((low + high) / 2, low, high))
    return math.sqrt(worst / width**2 / reports) * float(width)


TRIED: Final = 24
"""Padding lengths up to which all are tried; of longer ones about so many, spread evenly on a logarithmic scale."""
MOST_LEFT_OUT: Final = 0.05
"""The most of all held items that a padding length may lose: a smaller error would be a worse count."""


@dataclass(frozen=True)
class ItemChoice:
    """A mechanism for sets, and how far off an item's share is expected to be."""

    mechanism: Mechanism
    parameters: Mapping[str, Any]  # what a registry writes down: without what follows from the domain
    standard_error: float  # of a share, as a fraction
    left_out: float  # the share of all held items that sets longer than the padding length lose
    error: float  # the root of the mean squared error: both together


def sizes_about(typical: float | None, most: int) -> list[float]:
    """Return the chance of each size from 0 to `most`: Poisson about a typical size; without one, `most` for sure."""
    if typical is None:
        return [0.0] * most + [1.0]
    if not 0 < typical <= most:
        raise ParameterError(f"typical = {typical!r}: give the mean size of a set, above 0 and at most {most}")
    logs = [size * math.log(typical) - math.lgamma(size + 1) for size in range(most + 1)]
    chances = [math.exp(log - max(logs)) for log in logs]
    return [chance / math.fsum(chances) for chance in chances]


def rank_item_mechanisms(
    domain_size: int, most: int, epsilon: float, num_reports: int, sizes: Sequence[float] | None = None
) -> tuple[ItemChoice, ...]:
    """Return the mechanisms for sets that leave out at most 5% of all items, least error first."""
    check_count("reports", num_reports, 1, 1 << 62)
    ItemBits(domain_size, most)  # says so when one is out of range, before a list as long as `most` is made
    given = sizes_about(None, most) if sizes is None else sizes
    total = math.fsum(given)
    if not total > 0 or min(given) < 0:
        raise ParameterError("sizes: give the share of each size from 0, none below 0, not all of them 0")
    held = math.fsum(size * weight for size, weight in enumerate(given)) / total
    share = held / domain_size

    def choice(built: Mechanism, written: Needs, counted: int) -> ItemChoice:
        seen = math.fsum(min(size, counted) * weight for size, weight in enumerate(given)) / total
        left_out = 1 - seen / held if held else 0.0
        error = math.sqrt(frequency_variance(built, num_reports, min(share * (1 - left_out), 1.0)))
        return ItemChoice(built, written, error, left_out, math.hypot(error, share * left_out))

    choices = [choice(item_bits(domain_size=domain_size, most=most, epsilon=epsilon), {"epsilon": epsilon}, most)]
    longest = min(most, domain_size)
    spread = {round(longest ** (place / (TRIED - 1))) for place in range(TRIED)}
    lengths = range(1, longest + 1) if longest <= TRIED else sorted(spread)
    for length, inner in product(lengths, INNER):
        written: dict[str, Any] = {"epsilon": epsilon, "length": length, "inner": inner}
        choices.append(choice(padding_and_sampling(domain_size=domain_size, most=most, **written), written, length))
    most_left_out = max(MOST_LEFT_OUT, choices[0].left_out)  # what `most` itself leaves out cannot be helped
    fair = (each for each in choices if each.left_out <= most_left_out)
    return tuple(sorted(fair, key=lambda each: each.error))


def other_mechanism(ranking: Sequence[ItemChoice]) -> str:
    """Return the best mechanism of the other kind, in words."""
    best = ranking[0]
    other = next(choice for choice in ranking if choice.mechanism.name != best.mechanism.name)
    drawn = other.mechanism.drawn
    name = other.mechanism.name if drawn is None else f"{other.mechanism.name} ({drawn[0].name})"
    return f"{name} would have {other.error / best.error:.2f} times the error"


ESTIMATES: Final = ("mean", "distribution")
WHOLE: Final = ("reports", "candidates", "window", "resolution")
"""What is counted; all other needs are numbers."""


def plan_registry(text: str, folder: Folder | None, *, source: str | None = None) -> tuple[str, list[Plan]]:
    """Return a registry's text with oracle and parameters for all needs, which stay as comments, and the plans."""
    root, where = read_root(text, source=source), positions(text)
    given = root.table.get("metrics")
    tables = given.items() if isinstance(given, dict) else ()
    waiting = [name for name, table in tables if isinstance(table, dict) and "needs" in table and "oracle" not in table]
    places = {name: where["metrics", name, "needs"] for name in waiting}
    plans = {}
    for name, place in sorted(places.items(), key=lambda pair: pair[1].start):
        fields = Fields(root.table["metrics"][name], ("metrics", name), root.faults)
        plan = _planned(fields, folder, text[place.start : place.stop])
        if plan is not None:
            plans[name] = replace(plan, metric=name)
    if faults := [*located(root.faults, text), *_other_faults(text, folder)]:
        raise RegistryError(faults, source=source)
    for name in reversed(plans):
        text = _replaced(text, places[name], plans[name])
    metrics = parse_registry(text, folder, source=source)
    return text, [replace(plan, of=metrics[name]) for name, plan in plans.items()]


def _other_faults(text: str, folder: Folder | None) -> list[Fault]:
    try:
        parse_registry(text, folder)
    except RegistryError as error:
        return [fault for fault in error.faults if fault.message != NOT_PLANNED]
    return []


def _planned(fields: Fields, folder: Folder | None, written: str) -> Plan | None:
    needs = fields.subtable("needs", "a table such as {epsilon_report = 1.0, reports = 100000}")
    if needs is None:
        return None
    if not re.match("[\"']?needs[\"']?[ \t]*=", written):
        fields.fault("needs", "write needs = {...} as one inline table, so that it can be replaced")
        return None
    quiet = Fields(fields.table, fields.path)  # its domain's faults are noted already
    domain, candidates = read_domain(quiet, folder)
    if domain is None or quiet.faults:
        return None
    before = len(needs.faults)
    needs.unknown(planner_of(domain, needs.table).accepts)
    reports = needs.required("reports", "how many reports are expected")
    _check_kinds(needs)
    if len(needs.faults) > before:
        return None
    try:
        return plan_for_metric(fields.path[-1], domain, candidates, needs.table, reports)
    except (ParameterError, OverflowError) as error:
        fields.fault("needs", str(error))
        return None


def _check_kinds(needs: Fields) -> None:
    """Note every need whose value is of another kind than it takes."""
    for key, value in needs.table.items():
        if key == "estimate":
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
    needs = " ".join(text[place.start : place.stop].splitlines())
    lines = [f"# {needs}", *planned.toml().split("\n")]
    return text[: place.start] + f"{ending}{indent}".join(lines) + text[place.stop :]
