"""The laws that every oracle obeys, held by enumeration of a small one, or by a sample at one false-alarm rate.

`tests/contract` holds the oracles of the library against them, `overstory check-oracle` those of a file. A law returns
its numbers in words, or raises `Alarm` with them.

All samples share one false-alarm rate: a right oracle fails by chance at most once in a million runs, as at most
`MOST_COMPARISONS` are made (asserted), each at `FALSE_ALARM` / `MOST_COMPARISONS` (Bonferroni). Each oracle of a file
is a run of its own, and the library's suite is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import compress, pairwise, product
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from overstory.analysis.estimate import debias
from overstory.analysis.kinds.base import SimulatedDevices, support_of
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.selection import binomial_law
from overstory.audit.conformance import two_sided
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.kinds.base import Kind, Mechanism, Report
from overstory.protocol.kinds.registry import REGISTRY, parameters_of
from overstory.protocol.sampling import SystemEntropy
from overstory.protocol.wire.upload import decode_batch, encode_reports

FALSE_ALARM: Final = 1e-6
MOST_COMPARISONS: Final = 2_000_000
LEVEL: Final = FALSE_ALARM / MOST_COMPARISONS
NEAR: Final = 1e-9
BIAS: Final = 1e-7  # of four devices: what two numbers that are rounded to 2**-32 can make
SAMPLE: Final = 20_000
PRECISE: Final = Context(prec=60)


class Alarm(AssertionError):  # noqa: N818 - a test reports an assertion, a reader an alarm
    """A law does not hold."""


class Comparisons:
    """How many were made so far in this process."""

    made = 0


def check_binomial(counts: ArrayLike, totals: ArrayLike, chances: ArrayLike, what: str) -> None:
    """Raise Alarm unless each count looks like Bin(total, chance), two-sided and exact."""
    counts, totals, chances = np.broadcast_arrays(counts, totals, chances)
    Comparisons.made += counts.size
    assert Comparisons.made <= MOST_COMPARISONS, "more comparisons than the false-alarm rate was divided among"
    surprise = two_sided(counts, totals, chances)
    if counts.size and surprise.min() < LEVEL:
        at = np.unravel_index(surprise.argmin(), surprise.shape)
        raise Alarm(
            f"{what}, coordinate {tuple(int(i) for i in at)}: {counts[at]} of {totals[at]}, expected a share of "
            f"{chances[at]:.6f} (p = {surprise[at]:.1e}). All comparisons together raise a false alarm in at most "
            f"{FALSE_ALARM:g} of runs: this is a defect, not chance"
        )


def payloads_of(built: Kind, cohort: int) -> list[int]:
    """Return every payload of a cohort: of a mechanism that is split, those of the part that answers there."""
    place_of = getattr(built, "place_of", None)
    limit = built.payload_limit if place_of is None else built.parts[place_of(cohort)[0]].payload_limit  # type: ignore[attr-defined]
    return [payload for payload in range(limit) if built.valid(payload)]


def law_of(built: Kind, value: Any, cohort: int) -> list[Fraction]:
    """P(payload | value), in the order of `payloads_of`."""
    return [built.likelihood(Report(cohort, payload), value) for payload in payloads_of(built, cohort)]


def some_cohorts(built: Kind, most: int = 8) -> list[int]:
    """Return as many of the cohorts: the ends of every range of them, and some between."""
    stops = getattr(built, "bounds", [0, *(stop for stop, _ in built.zones)])
    ends = {end for start, stop in pairwise(stops) for end in (start, stop - 1)}
    return sorted(ends | {built.num_cohorts * i // most for i in range(most)})


def exact_epsilon_of(built: Kind, values: Sequence[Any]) -> Decimal:
    """Return the worst log ratio of one report over all payloads and pairs of values, in the worst of some cohorts."""
    ratios = [worst_ratio([law_of(built, value, cohort) for value in values]) for cohort in some_cohorts(built)]
    return Decimal("Infinity") if None in ratios else log_of(max(ratio for ratio in ratios if ratio is not None))


def worst_ratio(likelihoods: Iterable[Iterable[int | Fraction]]) -> Fraction | None:
    """Return the largest P(y | v) / P(y | w) over outputs y and inputs v, w, an input a row; None for no bound."""
    worst = Fraction(1)
    for column in zip(*likelihoods, strict=True):
        high, low = max(column), min(column)
        if low == 0 and high > 0:
            return None
        if low and high * worst.denominator > low * worst.numerator:
            worst = Fraction(high) / Fraction(low)
    return worst


def log_of(ratio: Fraction) -> Decimal:
    """Return the natural logarithm, to 60 digits."""
    return PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


def values_of(built: Kind, most: int = 6) -> list[Any]:
    """Return symbols of the domain, or strings."""
    size = built.domain_size
    return [f"value-{i}" for i in range(most)] if size is None else list(range(min(most, size)))


def rows_are_stochastic(built: Kind, values: Sequence[Any] = ()) -> str:
    """Each row of P[report | value] has no negative entry, and sums to 1."""
    values, cohorts = values or values_of(built), some_cohorts(built)
    for value, cohort in product(values, cohorts):
        law = law_of(built, value, cohort)
        if sum(law) != 1 or min(law) < 0:
            raise Alarm(f"P(report | value {value}) sums to {float(sum(law)):.9f}, its least is {float(min(law)):.9f}")
    return f"{len(values)} values by {len(payloads_of(built, 0))} reports"


def epsilon_is_as_declared(built: Kind, values: Sequence[Any] = (), *, is_tight: bool = True) -> str:
    """Epsilon of one report is what is stated, tight; more reports reveal more; and no more than is asked for."""
    exact, stated = exact_epsilon_of(built, values or values_of(built)), Decimal(built.epsilon_report)
    if exact > stated or (is_tight and stated - exact > Decimal(NEAR)):
        raise Alarm(f"one report reveals epsilon {exact:.9f}, and {stated:.9f} is stated")
    several = [*map(built.epsilon_n, (1, 2, 5, 100)), built.epsilon_permanent]
    if several != sorted(several) or several[0] != built.epsilon_report:
        raise Alarm(f"of 1, 2, 5, 100 and any number of reports epsilon is {several}")
    given, window = built.parameters, built.parameters.get("window")
    revealed = {"epsilon_report": built.epsilon_report, "epsilon_permanent": built.epsilon_permanent}
    revealed["epsilon"] = built.epsilon_n(window) if window else max(revealed.values())
    for name, epsilon in revealed.items():
        if given.get(name) is not None and epsilon > given[name]:
            raise Alarm(f"{name} = {given[name]} is asked for, and {epsilon:.6f} is revealed")
    return f"{exact:.6f} in one report, {built.epsilon_permanent:.6f} in any number"


def support_rates(built: Mechanism) -> tuple[Fraction, list[Fraction]]:
    """Return P(a report supports its own value), of the first one; and for each two values P(it supports the other)."""
    values, cohorts = values_of(built), range(built.num_cohorts)

    laws = {(value, c): law_of(built, value, c) for value, c in product(values, cohorts)}
    owned = {
        (value, c): [built.supports(Report(c, y), value) for y in payloads_of(built, c)]
        for value, c in product(values, cohorts)
    }

    def rate(value: Any, other: Any) -> Fraction:
        supported = (sum(compress(laws[value, c], owned[other, c]), Fraction(0)) for c in cohorts)
        return sum(supported, Fraction(0)) / built.num_cohorts

    own = {rate(value, value) for value in values}
    if max(own) - min(own) > NEAR:
        raise Alarm(f"a report supports its own value with probability {float(min(own)):.9f} to {float(max(own)):.9f}")
    return own.pop(), [rate(value, other) for value, other in product(values, repeat=2) if value != other]


def estimator_has_the_rates(built: Mechanism) -> str:
    """The estimator's p* and q* are the probabilities of the channel, for every value and every pair."""
    own, others = support_rates(built)
    worst = max(others, key=lambda rate: abs(rate - built.q_star))
    for name, stated, true in (("p*", built.p_star, own), ("q*", built.q_star, worst)):
        if abs(stated - true) > NEAR:
            raise Alarm(f"{name} of the estimator is {float(stated):.9f}, of the channel {float(true):.9f}")
    return f"{float(own):.6f} and {float(built.q_star):.6f}"


def estimate_is_unbiased(
    built: Mechanism,
    estimator: Callable[[SupportCounts], float] | None = None,
    rates: tuple[Any, Any] | None = None,
) -> str:
    """The mean estimate of a value that t of 4 devices hold is t, over every outcome of the two binomials.

    The estimator takes counts of all values' supports to the estimated count of the first. Without one it is that of
    the server's half; where counts are kept by cohort, debiasing by its two numbers.
    """
    devices, worst, support = 4, 0.0, support_of(built)
    own, others = support_rates(built) if rates is None else (rates[0], [rates[1]])
    width = built.domain_size or 2
    counts = [SupportCounts([devices], [[ones] + [0] * (width - 1)]) for ones in range(devices + 1)]
    if estimator is not None:
        learned = [estimator(each) for each in counts]
    elif support.shape(()) == (1, built.domain_size):
        learned = [float(support.estimate(each, None).raw_counts[0]) for each in counts]
    else:
        names = [str(place) for place in range(width)]
        learned = [float(debias(each, *support.rates, names).raw_counts[0]) for each in counts]
    for truth in range(devices + 1):
        law = np.convolve(binomial_law(truth, float(own)), binomial_law(devices - truth, float(others[0])))
        mean = float(law @ learned)
        worst = max(worst, abs(mean - truth))
        if abs(mean - truth) > BIAS:
            raise Alarm(f"of 4 devices {truth} hold the value, and the mean estimate is {mean:.9f}")
    return f"off by {worst:.1e} at most, of 4 devices"


def reports_survive_the_wire(built: Kind) -> str:
    """Reports are read as they were written; the largest, too."""
    cohorts = some_cohorts(built)
    sent = [Report(cohort, payload) for cohort in cohorts for payload in payloads_of(built, cohort)[-4096:]]
    raw = encode_reports(built, sent)
    read = decode_batch(raw)
    if list(read) != sent or read.digest != built.digest or ReportBatch.from_wire(read).to_wire(built.digest) != raw:
        raise Alarm(f"{len(sent)} reports are not read as they were written")
    return f"{len(sent):,} reports in {len(raw):,} bytes"


def responses_follow_from_the_secret(built: Mechanism) -> str:
    """A device repeats its permanent response, and another one has noise of its own; so has a simulation its seed."""
    values, secrets = values_of(built), [number.to_bytes(32, "big") for number in range(64)]
    answers = []
    for secret in secrets:
        first, again = (built.responder(secret, "metric", 0) for _ in range(2))
        answers.append(tuple(map(first, values)))
        if answers[-1] != tuple(map(again, values)):
            raise Alarm("one secret gives two responses to one value")
    if len(set(answers)) == 1 and not built.fresh:
        raise Alarm("64 secrets all give the same responses: there is no noise in them")
    if built.domain_size is not None:
        held = np.arange(200) % built.domain_size
        one, same, other = (
            SimulatedDevices.holding(built, range(built.domain_size), held, np.random.default_rng(seed))
            for seed in (1, 1, 2)
        )
        parts = np.concatenate([same.report(1, start=0, stop=77).bits, same.report(1, start=77).bits])
        if not np.array_equal(one.report(1).bits, parts) or np.array_equal(parts, other.report(1).bits):
            raise Alarm("simulated reports do not follow from the seed and the device alone")
    return f"{len(set(answers))} of {len(secrets)} devices differ"


def samples_follow_the_channel(built: Kind, values: Sequence[Any] = ()) -> str:
    """Reports come as often as P[report | value] says: by the system's randomness, from secrets, and simulated ones."""
    values = values or values_of(built, 64)
    held_by = [(values[i % len(values)], some_cohorts(built)[i // len(values) % 2 - 1]) for i in range(SAMPLE // 10)]
    batches = [[built.randomize(value, SystemEntropy(), cohort=cohort) for value, cohort in held_by]]
    if built.repeats:
        respond = (built.responder(i.to_bytes(32, "big"), "law", cohort) for i, (_, cohort) in enumerate(held_by))
        batches.append([Report(c, answer(v)) for (v, c), answer in zip(held_by, respond, strict=True)])
    if built.counts_values and built.domain_size and type(values[0]) is int:
        held = np.array(values)[np.arange(SAMPLE) % len(values)]
        population = SimulatedDevices.holding(built, range(built.domain_size), held, np.random.default_rng(3))
        batches.append(list(decode_batch(population.report().to_wire(built.digest))))
    for reports in batches:
        seen = Counter((r.cohort, i % len(values), r.bits) for i, r in enumerate(reports))
        totals = Counter((r.cohort, i % len(values)) for i, r in enumerate(reports))
        for (cohort, place), total in totals.items():
            counts = [seen[cohort, place, payload] for payload in payloads_of(built, cohort)]
            law = law_of(built, values[place], cohort)
            if sum(counts) != total:
                raise Alarm(
                    f"{total - sum(counts)} of {total} reports of value {values[place]} are none that there are"
                )
            check_binomial(
                counts, total, [float(p) for p in law], f"reports of value {values[place]} in cohort {cohort}"
            )
    return f"{sum(map(len, batches)):,} reports; false alarms: {FALSE_ALARM:g} of runs"


LAWS: Final[Mapping[str, Callable[[Mechanism], str]]] = {
    "probabilities": rows_are_stochastic,
    "epsilon": epsilon_is_as_declared,
    "p* and q*": estimator_has_the_rates,
    "unbiased": estimate_is_unbiased,
    "wire": reports_survive_the_wire,
    "seeds": responses_follow_from_the_secret,
    "frequencies": samples_follow_the_channel,
}
"""By a short name; docs/explanation/laws.md numbers them all."""

SMALL: Final = {"domain_size": 4, "epsilon": 1.0, "epsilon_permanent": 2.0, "epsilon_report": 1.0, "window": 3}
"""Parameters that a small oracle is made of."""


MOST_PAYLOADS: Final = 1 << 10
MOST_SMALL_COHORTS: Final = 16


def small_oracles(name: str) -> Iterator[Mechanism]:
    """Yield an oracle with little privacy loss and one with more, small enough to enumerate."""
    accepted = parameters_of(REGISTRY[name])
    needed = {key for key, parameter in accepted.items() if parameter.default is parameter.empty}
    if unknown := sorted(needed - SMALL.keys()):
        raise ParameterError(
            f"{name}: give {', '.join(unknown)} a default, to be checked with; {', '.join(SMALL)} have one"
        )
    usual = {key: each.default for key, each in accepted.items() if key not in needed and each.default is not None}
    ours = (needed | {key for key in usual if "epsilon" in key}) & SMALL.keys()
    for scale in (0.5, 2) if any("epsilon" in key for key in ours) else (1,):
        asked = {key: value * scale if "epsilon" in key else value for key, value in SMALL.items() if key in ours}
        built = REGISTRY[name](**usual | asked)
        if built.payload_limit > MOST_PAYLOADS or built.num_cohorts > MOST_SMALL_COHORTS:
            raise ParameterError(
                f"{name}: {built.payload_limit:,} payloads in {built.num_cohorts:,} cohorts are too many to enumerate: "
                "give it a smaller domain to be checked with"
            )
        yield built


def check_laws(built: Mechanism) -> Iterator[tuple[str, bool, str]]:
    """Yield of each law its name, whether it holds, and its numbers."""
    before, Comparisons.made = Comparisons.made, 0
    try:
        for name, law in LAWS.items():
            try:
                yield name, True, law(built)
            except (Alarm, OverstoryError) as broken:
                yield name, False, str(broken)
    finally:
        Comparisons.made += before
