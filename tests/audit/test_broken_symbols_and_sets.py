"""Faults of clients that report symbols, points and subsets, and of those that choose their cohorts."""

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from overstory.audit.answers import Answers, Declared, Questions, declare
from overstory.audit.audit import Settings, audit
from overstory.audit.checks import pairs_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.sampling import KeyedEntropy

DECLARED = {
    "grr": {"domain_size": 6, "epsilon": 1.0},
    "olh": {"domain_size": 50, "epsilon": 1.0},
    "linear-hash": {"domain_size": 50, "epsilon": 1.0},
    "hadamard": {"domain_size": 50, "epsilon": 1.0},
    "l-grr": {"domain_size": 6, "epsilon_permanent": 2.0, "epsilon_report": 1.0},
    "subset": {"domain_size": 10, "epsilon": 1.0},
    "projective": {"domain_size": 40, "epsilon": 1.0},
}


class Device:
    """Draws a report of a device that nobody has seen before; a subclass breaks one step. Seeds make runs the same."""

    takes_metric = True

    def __init__(self, seed: int) -> None:
        self.seed, self.runs = seed, 0

    def answer(self, declared: Declared, questions: Sequence[Questions]) -> list[Answers]:
        return [self.run(declared, asked) for asked in questions]

    def run(self, declared: Declared, asked: Questions) -> Answers:
        self.runs += 1
        entropy = self.entropy()
        exact: Any = declared.mechanism
        cohorts, payloads = np.zeros(len(asked), np.int64), []
        memo: dict[tuple[int, int], int] = {}
        homes: dict[int, int] = {}
        given = None if asked.cohorts is None else asked.cohorts.tolist()
        for line, (client, value) in enumerate(zip(asked.clients.tolist(), asked.values.tolist(), strict=True)):
            if client not in homes or self.forgets:
                homes[client] = self.cohort(value, declared, entropy) if given is None else given[line]
            cohorts[line] = homes[client]
            if (client, value) not in memo or self.forgets:
                drawn = self.drawn_from(entropy, asked, client, value)
                memo[client, value] = self.permanent(exact, declared.values[value], homes[client], drawn)
            payloads.append(self.report(exact.instantaneous(memo[client, value], entropy.bits), declared, value, line))
        return Answers(asked, cohorts, declared.packed(payloads))

    forgets = False

    def entropy(self) -> Any:
        return KeyedEntropy(b"a client of the tests", str((self.seed, self.runs)).encode(), purpose=b"test")

    def cohort(self, value: int, declared: Declared, entropy: Any) -> int:
        return entropy.bits(62) % declared.num_cohorts

    def drawn_from(self, entropy: Any, asked: Questions, client: int, value: int) -> Any:
        return entropy

    def permanent(self, exact: Any, value: Any, cohort: int, entropy: Any) -> int:
        return exact.draw_permanent(value, cohort, entropy)

    def report(self, payload: int, declared: Declared, value: int, line: int) -> int:
        return payload


class Forgetful(Device):
    """Every report has a new permanent response."""

    forgets = True


class NoiseOfTheFirstValue(Device):
    """Each value of a device draws the same numbers."""

    def drawn_from(self, entropy: Any, asked: Questions, client: int, value: int) -> Any:
        return KeyedEntropy(b"a client of the tests", str((self.seed, self.runs, client)).encode(), purpose=b"test")


class NoiseOfEveryMetric(Device):
    """Each metric of a device draws the same numbers."""

    def drawn_from(self, entropy: Any, asked: Questions, client: int, value: int) -> Any:
        context = str((self.seed, asked.phase, client, value)).encode()
        return KeyedEntropy(b"a client of the tests", context, purpose=b"test")


class SameEachTime(Device):
    """Every run draws the same numbers."""

    def entropy(self) -> Any:
        return KeyedEntropy(b"a client of the tests", b"0", purpose=b"test")


class Weaker(Device):
    """Every report is made with a larger epsilon than declared."""

    def permanent(self, exact: Any, value: Any, cohort: int, entropy: Any) -> int:
        return weaker_than(exact).draw_permanent(value, cohort, entropy)


@lru_cache
def weaker_than(exact: Any) -> Any:
    """The same encoding at epsilon 1.5."""
    sizes = {"olh": "hash_range", "subset": "subset_size", "projective": "field_size"}
    same = {size: getattr(exact.encoding, size) for name, size in sizes.items() if name == exact.name}
    return mechanism(exact.name, **{**exact.parameters, **same, "epsilon": 1.5})


class NeverTheLast(Device):
    """The last symbol, value or point is never reported."""

    def report(self, payload: int, declared: Declared, value: int, line: int) -> int:
        if declared.mechanism.name == "subset":
            last = 1 << declared.mechanism.payload_bits - 1
            free = next(1 << bit for bit in range(10) if not payload >> bit & 1)
            return payload - last + free if payload & last else payload
        return 0 if payload == declared.mechanism.payload_limit - 1 else payload


class CohortOfTheValue(Device):
    """The seed follows from the value."""

    def cohort(self, value: int, declared: Declared, entropy: Any) -> int:
        return (super().cohort(value, declared, entropy) & ~1 | value & 1) % declared.num_cohorts


class FewSeeds(Device):
    """Seeds come from 16 bits."""

    def cohort(self, value: int, declared: Declared, entropy: Any) -> int:
        return entropy.bits(16) << 15


class CohortForgotten(Device):
    """Every report has a cohort of its own, and one permanent response."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        answers = super().run(declared, asked)
        return Answers(asked, np.random.default_rng(1).permutation(answers.cohorts), answers.reports)


class NextSymbol(Device):
    """A symbol that is not the own one is always the next one."""

    def report(self, payload: int, declared: Declared, value: int, line: int) -> int:
        exact: Any = declared.mechanism
        own = exact.encoding.symbol(declared.values[value], 0)
        return payload if payload == own else (own + 1) % exact.payload_limit


class OneValueTrue(Device):
    """One value is not randomized."""

    def permanent(self, exact: Any, value: Any, cohort: int, entropy: Any) -> int:
        if value != 3:
            return super().permanent(exact, value, cohort, entropy)
        return exact.encode(value, cohort) if exact.payload == "symbols" else exact.encoding.inside(value, entropy)


class FewCohortsTrue(Device):
    """Some cohorts are not randomized."""

    def permanent(self, exact: Any, value: Any, cohort: int, entropy: Any) -> int:
        return exact.encode(value, cohort) if cohort < 4 else super().permanent(exact, value, cohort, entropy)


class Runs(Device):
    """The other values of a subset are neighbours of each other: each is as frequent as it should be, pairs are not."""

    def report(self, payload: int, declared: Declared, value: int, line: int) -> int:
        exact: Any = declared.mechanism
        symbol, size = declared.values[value], exact.payload_bits
        own = payload & 1 << symbol
        others = [other for other in range(size) if other != symbol]
        start = hash((self.seed, self.runs, value, line)) % len(others)
        run = (others[(start + step) % len(others)] for step in range(exact.payload_weight - bool(own)))
        return own | sum(1 << other for other in run)


class Repeated(Device):
    """Every second device sends the report of the one before."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        answers = super().run(declared, asked)
        if asked.phase == "fresh devices":
            answers.reports[1::2] = answers.reports[: 2 * (len(asked) // 2) : 2]
        return answers


class LowCohorts(Device):
    """Half of the cohorts are never chosen."""

    def cohort(self, value: int, declared: Declared, entropy: Any) -> int:
        return super().cohort(value, declared, entropy) // 2


def failed(name: str, client: Device, reports: int = 2000, **settings: Any) -> list[str]:
    declared = declare(mechanism(name, **DECLARED[name]))
    result = audit(declared, client, Settings(reports=reports, **settings), rng=np.random.default_rng(1))
    return result.failed


@pytest.mark.sampled(5)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", DECLARED)
def test_a_right_client_passes(name: str, own: bool) -> None:
    assert failed(name, Device(1), own_cohorts=own) == []


SETS, LONG, OWN = ("subset", "projective"), {"reports": 10_000}, {"reports": 2000, "own_cohorts": True}
FAULTS: list[tuple[str, type[Device], str, dict[str, Any]]] = [
    *((name, Forgetful, f"memory of the {'report' if name in SETS else 'symbol'}", LONG) for name in DECLARED),
    *((name, NoiseOfEveryMetric, "two metrics of a device", LONG) for name in DECLARED),
    *((name, Weaker, "rate of the own symbol", {}) for name in ("grr", "olh", "hadamard")),
    *((name, Weaker, "rate of reports in the own set", {}) for name in SETS),
    ("grr", NeverTheLast, "reported symbols", {}),
    ("subset", NeverTheLast, "other values alike", {}),
    ("projective", NeverTheLast, "points alike", {}),
    ("grr", NextSymbol, "other symbols even", {}),
    ("grr", OneValueTrue, "values alike", {}),
    ("subset", OneValueTrue, "values alike", {}),
    ("hadamard", FewCohortsTrue, "cohorts alike", {}),
    ("subset", Runs, "pairs of other values", {}),
    *((name, Repeated, "identical neighbouring reports", {}) for name in ("grr", *SETS)),
    *((name, CohortOfTheValue, "cohorts and values", OWN) for name in ("olh", "linear-hash", "hadamard")),
    *((name, LowCohorts, "cohorts uniform", OWN) for name in ("olh", "linear-hash", "hadamard")),
    ("linear-hash", FewSeeds, "seeds drawn twice", OWN),
    ("olh", CohortForgotten, "memory of the cohort", OWN),
]


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("name", "client", "check", "settings"), FAULTS)
def test_the_check_that_fails_names_the_fault(
    name: str, client: type[Device], check: str, settings: dict[str, Any]
) -> None:
    assert check in failed(name, client(1), **{"reports": 4000, **settings})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DECLARED)
def test_runs_that_draw_the_same_numbers_are_noticed(name: str) -> None:
    assert failed(name, SameEachTime(1)) == ["processes started at once", "two metrics of a device"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DECLARED)
def test_noise_that_two_values_share_is_noticed(name: str) -> None:
    reports = 40_000 if name == "hadamard" else 10_000  # a sign says less, and half of the values have the same one
    assert failed(name, NoiseOfTheFirstValue(1), reports) == ["two values of a device"]


def test_seeds_that_the_system_draws_pass() -> None:
    class FromTheSystem(Device):
        def cohort(self, value: int, declared: Declared, entropy: Any) -> int:
            return int.from_bytes(os.urandom(4), "little") >> 1

    assert failed("linear-hash", FromTheSystem(1), own_cohorts=True, alpha=1e-9) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("grr", {"domain_size": 1 << 20, "epsilon": 8.0}),
        ("olh", {"domain_size": 10**6, "epsilon": 9.0}),
        ("subset", {"domain_size": 400, "epsilon": 1.0}),
        ("oue", {"domain_size": 600, "epsilon": 1.0}),
    ],
)
def test_large_domains_are_checked_in_groups(name: str, parameters: dict[str, Any]) -> None:
    declared = declare(mechanism(name, **parameters))
    result = audit(declared, Device(1), Settings(reports=500), rng=np.random.default_rng(1))
    assert result.verdict == "no fault found", result.failed


def test_more_bits_than_the_memory_holds_are_refused() -> None:
    declared = declare(mechanism("oue", domain_size=60_000, epsilon=1.0), most=2)
    with pytest.raises(ParameterError, match=r"60,000 bits each are too many for the memory; give at most 8,947"):
        audit(declared, Device(1), Settings(reports=100_000))


def test_pairs_of_bits_are_counted_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    ones, lines = (rng.integers(0, 2, (50, 7)) for _ in range(2))
    raised, lowered = ones * lines, (1 - ones) * lines
    for block in (1 << 14, 8):
        monkeypatch.setattr("overstory.audit.checks.BLOCK", block)
        high, low, asked = pairs_of(ones, lines)
        assert np.array_equal(high, raised.T @ raised)
        assert np.array_equal(low, lowered.T @ lowered)
        assert np.array_equal(asked, lines.T @ lines)
