"""Single reports, permanent responses and one change at the edges of what parameters may be."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from overstory.privacy.statements import statement
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from support.referee_cases import truth_of
from support.referee_device import Truth

NEAR = 1e-9
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
                found += [
                    (name, {"domain_size": size, "epsilon": epsilon, "window": window}) for name in ("wb", "opt-wb")
                ]
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
        found += [("l-grr", both | {"published": True}), ("loloha", both | {"hash_range": 3, "published": True})]
    for p, q in (
        (0.0, 0.75),
        (0.25, 1.0),
        (0.75, 0.25),
        (0.5, 0.5 + STEP),
        (0.5, 0.5 - 3 * STEP),
        (STEP, 1 - STEP),
        (0.0, 1.0),
    ):
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


ALL = of_epsilons() + of_rounds()

IMPOSSIBLE: list[tuple[str, dict[str, Any]]] = [
    ("basic-rappor", {"domain_size": 3, "f": 1.0}),
    ("basic-rappor", {"domain_size": 3, "p": 0.5, "q": 0.5}),
    ("basic-rappor", {"domain_size": 3, "f": 0.0, "p": 0.0, "q": 0.75}),
    ("basic-rappor", {"domain_size": 3, "f": 0.0, "p": 0.25, "q": 1.0}),
    ("basic-rappor", {"domain_size": 1}),
    ("basic-rappor", {"domain_size": 3, "f": math.nan}),
    ("basic-rappor-one-time", {"domain_size": 3, "f": 0.0}),
    ("rappor", {"num_bits": 2, "num_hashes": 2}),
    ("rappor", {"num_bits": 1, "num_hashes": 1}),
    ("rappor", {"num_cohorts": 0}),
    ("grr", {"domain_size": 3, "epsilon": math.nan}),
    ("grr", {"domain_size": 3, "epsilon": 0.0}),
    ("grr", {"domain_size": 1, "epsilon": 1.0}),
    ("sue", {"domain_size": 3, "epsilon": -1.0}),
    ("subset", {"domain_size": 4, "epsilon": 1.0, "subset_size": 4}),
    ("l-grr", {"domain_size": 3, "epsilon_permanent": 1.0, "epsilon_report": 1.0}),
    ("dbitflip", {"domain_size": 3, "epsilon": math.inf}),
]


def ids(case: tuple[str, dict[str, Any]]) -> str:
    return "-".join([case[0], *(f"{value}" for value in case[1].values())])


BETWEEN = (2.0, 5.0, 12.0, 20.0)
"""Epsilons of oracles that are looked at with a smaller and a larger one as well."""
SLOW = [case for case in ALL if case[0] == "loloha" and case[1].get("epsilon_permanent") == 8.0]
"""Enumerated in tens of seconds."""
SLOW += [case for case in of_epsilons() if case[1].get("epsilon", case[1].get("epsilon_permanent")) in BETWEEN]


@pytest.mark.sampled(40)
@pytest.mark.parametrize(
    "case", [pytest.param(one, marks=[pytest.mark.slow] * (one in SLOW)) for one in ALL], ids=map(ids, ALL)
)
def test_single_reports_cost_what_is_said(case: tuple[str, dict[str, Any]]) -> None:
    name, given = case
    one = mechanism(name, **given)
    truth = truth_of(one, most=4)
    told = statement(one, reports=(1, 2), change_reports=(2,))
    single = truth.constant(1)
    exact(single, told.epsilon_report)
    exact(single, told.epsilon_n[1])
    exact(truth.constant(2), told.epsilon_n[2])
    exact(truth.change(2), told.change_leak[2])
    if not told.terms.fresh:
        exact(truth.permanent(), told.epsilon_permanent)
    wished = given.get("epsilon_report", given.get("epsilon"))
    if wished is not None:
        assert told.epsilon_n[1] <= wished / given.get("window", 1)
    if "epsilon_permanent" in given:
        assert told.epsilon_permanent <= given["epsilon_permanent"]


def exact(true: Decimal, claimed: float) -> None:
    assert true <= Decimal(claimed), "below the truth"
    assert true == Decimal(claimed) or Decimal(claimed) <= true + Decimal(NEAR), "above the truth"


@pytest.mark.parametrize("lowered", [1 - 1e-9, 1 + 1e-8])
def test_a_number_that_is_a_little_off_is_noticed(lowered: float) -> None:
    one = mechanism("oue", domain_size=3, epsilon=1.0)
    true = Truth(truth_of(one).devices, [0, 1]).constant(1)
    exact(true, one.epsilon_report)
    with pytest.raises(AssertionError, match="the truth"):
        exact(true, one.epsilon_report * lowered)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("case", IMPOSSIBLE, ids=ids)
def test_what_protects_nothing_or_says_nothing_is_refused(case: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(ParameterError):
        mechanism(case[0], **case[1])
