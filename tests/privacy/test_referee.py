"""No printed number is below the truth: all oracles, all pairs of histories of up to three reports, also of nothing."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from overstory.privacy.ledger import Account, Ledger
from overstory.privacy.statements import statement
from overstory.protocol.channels import BinaryChannel
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import bit_sampler
from support.contract_cases import SMALL_CASES
from support.referee_cases import SIZED, cases, of_case, truth_of
from support.referee_device import ENDLESS, NOTHING, BitDevice, Device, SymbolDevice, Truth, device

NEAR = 1e-9

ALL = cases()


def ids(case: tuple[str, dict[str, Any]]) -> str:
    return f"{case[0]}-{case[1].get('domain_size', 'strings')}"


def claims_of(one: Any, reports: int) -> dict[str, float]:
    told = statement(one, reports=(1, 2, 3))
    claims = {"n": told.epsilon_n[reports], "own n": one.epsilon_n(reports), "any": told.terms.epsilon_any(reports)}
    if reports == 1:
        claims |= {"report": told.epsilon_report, "permanent": told.epsilon_permanent}
        claims |= {"own report": one.epsilon_report, "own permanent": one.epsilon_permanent}
    for distinct in range(1, reports + 1):
        claims[f"values {distinct}"] = told.epsilon_values(distinct, reports=reports)
        numbered = (0, reports - distinct + 1), *((number, 1) for number in range(1, distinct))
        ledger = Ledger((Account("metric", one.digest.hex(), told.terms, numbered),))
        claims[f"ledger of {distinct} values"] = ledger.epsilon
    claims["ledger, any"] = ledger.epsilon_any
    return claims


def exact_truths_of(truth: Truth, reports: int) -> dict[str, Decimal]:
    """Return the truth of what is claimed exactly: by the statement, and by the mechanism itself."""
    found = {"n": truth.constant(reports)}
    if reports == 1:
        found |= {"report": found["n"], "permanent": truth.permanent()}
    return found | {f"own {name}": true for name, true in found.items()}


def truths_of(truth: Truth, reports: int) -> dict[str, Decimal]:
    found = exact_truths_of(truth, reports) | {"any": truth.anything(reports)}
    found["ledger, any"] = found["any"]
    for distinct in range(1, reports + 1):
        found[f"values {distinct}"] = found[f"ledger of {distinct} values"] = truth.same_pattern(reports, distinct)
    return found


TIGHT = ("n", "report", "permanent", "own n", "own report", "own permanent")


def faults(claims: dict[str, float], truths: dict[str, Decimal]) -> list[str]:
    """Return what is claimed too low, and of what is exact, what is claimed too high."""
    found = []
    for name, true in truths.items():
        claimed = Decimal(claims[name])
        if claimed < true:
            found.append(f"{name}: {claimed} is below {true}")
        elif name in TIGHT and true != ENDLESS and claimed > true + Decimal(NEAR):
            found.append(f"{name}: {claimed} is above {true}")
    return found


def of_size(size: int) -> list[tuple[str, dict[str, Any]]]:
    return [case for case in ALL if case[1].get("domain_size", size) == size]


def check(case: tuple[str, dict[str, Any]], reports: int, most: int, extra: tuple[Any, ...] = ()) -> None:
    """Of so many values and others that cannot be reported, which no claim need be as low as."""
    one = of_case(*case)
    found = faults(claims_of(one, reports), truths_of(truth_of(one, most=most, extra=extra), reports))
    assert [fault for fault in found if not extra or "below" in fault] == []


@pytest.mark.sampled(40)
@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("case", ALL, ids=ids)
def test_no_number_is_below_the_truth(case: tuple[str, dict[str, Any]], reports: int) -> None:
    check(case, reports, 4)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", of_size(3), ids=ids)
def test_no_number_of_three_reports_is_below_the_truth(case: tuple[str, dict[str, Any]]) -> None:
    check(case, 3, 3)


@pytest.mark.sampled(20)
@pytest.mark.slow
@pytest.mark.parametrize("case", [*of_size(4), *of_size(2)], ids=ids)
def test_no_number_of_three_reports_of_four_values_is_below_the_truth(case: tuple[str, dict[str, Any]]) -> None:
    check(case, 3, 4)


def test_values_that_share_a_symbol_are_one_value_to_the_numbers() -> None:
    # Two values with one symbol against two with two: alike as values, not as responses, and no number bounds it.
    one = of_case("olh", {"domain_size": 4, "epsilon": 1.0})
    (split,) = truth_of(one).devices[:1]
    together = next(
        made
        for made in (device(one, cohort) for cohort in range(1, 200))
        if len({made.response(value) for value in (0, 1)}) == 1 and len({made.response(v) for v in (2, 3)}) == 2
    )
    assert together.loss((2, 3), (0, 1)) == ENDLESS
    assert split.loss((0, 1), (2, 3)) <= Decimal(statement(one).epsilon_values(2, reports=2))


class LeftAlone(BitDevice):
    """Broken: bit 0 is never randomized permanently."""

    def permanent(self, draw: Any) -> Any:
        return lambda word, bits: draw(word, bits) & ~1 | word & 1


class OftenKept(BitDevice):
    """Broken: a 1 is kept once in a million times more often than it should be."""

    def permanent(self, draw: Any) -> Any:
        channel = self.mechanism.rounds.permanent
        more = BinaryChannel(channel.keep_one + Fraction(1, 1 << 20), channel.raise_zero)
        return bit_sampler(more, self.mechanism.payload_bits)


class Redrawn(SymbolDevice):
    """Broken: the permanent response is drawn again for every report."""

    redrawn = True


class RedrawnBits(BitDevice):
    redrawn = True


class Loud(SymbolDevice):
    """Broken: the second round is left out once in a million."""

    def second(self, response: int) -> Any:
        rare = Fraction(1, 10**6)
        law = super().second(response)
        return {one: part * (1 - rare) + rare * (one == response) for one, part in law.items()}


class KeptMore(SymbolDevice):
    """Broken: the permanent response is the value once in a million times more often than it should be."""

    def first(self, value: Any) -> Any:
        rare, own = Fraction(1, 10**6), self.mechanism.encode(value, self.cohort)
        return {one: part * (1 - rare) + rare * (one == own) for one, part in super().first(value).items()}


BROKEN = [
    (LeftAlone, "basic-rappor", 1),
    (LeftAlone, "l-osue", 1),
    (OftenKept, "l-sue", 1),
    (KeptMore, "grr", 1),
    (Loud, "l-grr", 1),
    (Loud, "loloha", 2),
    (Redrawn, "grr", 2),
    (Redrawn, "subset", 2),
    (Redrawn, "l-grr", 3),
    (RedrawnBits, "oue", 2),
    (RedrawnBits, "opt-dr", 3),
]


@pytest.mark.parametrize(("broken", "name", "reports"), BROKEN, ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_device_that_is_broken_is_noticed(broken: type[Device], name: str, reports: int) -> None:
    one = of_case(name, SIZED[name])
    truth = truth_of(one, most=3, make=broken)
    assert any("below" in fault for fault in faults(claims_of(one, reports), truths_of(truth, reports)))


def test_epsilons_of_other_parameters_are_noticed() -> None:
    """As pure-LDP's, for the wrong number of hashes."""
    given = {"num_bits": 4, "num_hashes": 2, "num_cohorts": 1}
    truth, other = truth_of(of_case("rappor", given)), of_case("rappor", given | {"num_hashes": 1})
    assert faults(claims_of(of_case("rappor", given), 1), truths_of(truth, 1)) == []
    assert any("report: " in fault and "below" in fault for fault in faults(claims_of(other, 1), truths_of(truth, 1)))


@pytest.mark.parametrize("name", ["grr", "oue", "l-osue", "l-grr", "basic-rappor", "subset", "dbitflip", "loloha"])
def test_a_number_that_is_a_little_lower_is_noticed(name: str) -> None:
    one = of_case(name, SIZED[name])
    for reports in (1, 2):
        truths, claims = truths_of(truth_of(one, most=3), reports), claims_of(one, reports)
        for claim in truths:
            exact = claims[claim] if claim in TIGHT else float(truths[claim])
            if math.isinf(exact) or not exact:
                continue
            lowered = faults(claims | {claim: exact * (1 - 1e-9)}, truths)
            assert [fault.split(":")[0] for fault in lowered] == [claim]
            if claim in TIGHT:
                raised = faults(claims | {claim: exact * (1 + 1e-8)}, truths)
                assert [fault.split(":")[0] for fault in raised] == [claim]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("reports", [1, 2])
@pytest.mark.parametrize("case", of_size(3), ids=ids)
def test_what_cannot_be_reported_is_within_the_numbers(case: tuple[str, dict[str, Any]], reports: int) -> None:
    check(case, reports, 2, (NOTHING,))


@pytest.mark.sampled(20)
@pytest.mark.slow
@pytest.mark.parametrize("case", ALL, ids=ids)
def test_three_reports_with_one_of_nothing_are_within_the_numbers(case: tuple[str, dict[str, Any]]) -> None:
    check(case, 3, 2, (NOTHING,))


STEP = 2.0**-32
TINY = (2.0**-31, 1e-9, 0.5)
EPSILONS = (1e-6, 0.01, 0.1, 1.0, math.log(3), 2.0, 5.0, 12.0, 20.0, 40.0)


def of_epsilons() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for epsilon in EPSILONS:
        for size in (2, 5):
            given = {"domain_size": size, "epsilon": epsilon}
            found += [(name, given) for name in ("grr", "sue", "oue", "hadamard", "blh", "random-matrix")]
            found.append(("olh", given | {"hash_range": 3}))
            for window in (1, 7):
                found += [(name, given | {"window": window}) for name in ("wb", "opt-wb")]
            if epsilon >= 0.1:
                found.append(("opt-dr", {"domain_size": size, "epsilon_permanent": epsilon}))
    for epsilon in (0.01, 1.0, 3.0):
        found += [("subset", {"domain_size": 4, "epsilon": epsilon, "subset_size": size}) for size in (1, 2, 3)]
        found += [("projective", {"domain_size": 4, "epsilon": epsilon, "field_size": size}) for size in (2, 3)]
        found += [("dbitflip", {"domain_size": 4, "epsilon": epsilon, "sampled_bits": bits}) for bits in (1, 2, 4)]
    return found


def of_rounds() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for permanent, report in ((1e-3, 1e-4), (2.0, 1.0), (2.0, 1.9999999), (8.0, 0.5)):
        both = {"domain_size": 4, "epsilon_permanent": permanent, "epsilon_report": report}
        found += [(name, both) for name in ("l-grr", "l-sue", "l-osue", "l-soue")]
        found.append(("loloha", both | {"hash_range": 3}))
    rare = ((0.5, 0.5 + STEP), (0.5, 0.5 - 3 * STEP), (STEP, 1 - STEP))
    for p, q in ((0.0, 0.75), (0.25, 1.0), (0.75, 0.25), *rare, (0.0, 1.0)):
        for f in (*TINY, 1 - 2.0**-31, 0.0):
            if f or (0 < p < 1 and 0 < q < 1):
                found.append(("basic-rappor", {"domain_size": 3, "f": f, "p": p, "q": q}))
    for hashes in (1, 2, 3):
        for f in (0.5, 1e-9, 0.0):
            given = {"num_bits": 4, "num_hashes": hashes, "num_cohorts": 1, "f": f, "p": 0.25, "q": 0.75}
            found.append(("rappor", given))
    found += [("rappor-one-time", {"num_bits": 4, "num_hashes": 2, "num_cohorts": 2, "f": f}) for f in TINY]
    found += [("basic-rappor-one-time", {"domain_size": 3, "p": p, "q": q}) for p, q in ((STEP, 1 - STEP), (0.9, 0.1))]
    return found


EDGES = of_epsilons() + of_rounds()
EDGES += [one for case in SMALL_CASES if (one := (case.name, case.parameters)) not in EDGES]


def parameters_of(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *(f"{value}" for value in case[1].values())])


BETWEEN = (2.0, 5.0, 12.0, 20.0)
"""Epsilons of oracles that are looked at with a smaller and a larger one as well."""
SLOW = [case for case in EDGES if case[0] == "loloha" and case[1].get("epsilon_permanent") == 8.0]
"""Enumerated in tens of seconds."""
SLOW += [case for case in of_epsilons() if case[1].get("epsilon", case[1].get("epsilon_permanent")) in BETWEEN]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(
    "case",
    [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in EDGES],
    ids=map(parameters_of, EDGES),
)
def test_single_reports_cost_what_is_said(case: tuple[str, dict[str, Any]]) -> None:
    name, given = case
    one = mechanism(name, **given)
    truth = truth_of(one, most=4 if one.encoding.domain_size else 30, extra=(NOTHING,))
    for reports in (1, 2):
        assert faults(claims_of(one, reports), exact_truths_of(truth, reports)) == []
    wished = given.get("epsilon_report", given.get("epsilon"))
    if wished is not None:
        assert one.epsilon_n(1) <= wished / given.get("window", 1)
    if "epsilon_permanent" in given:
        assert one.epsilon_permanent <= given["epsilon_permanent"]
