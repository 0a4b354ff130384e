"""Plans: which groups the devices fall into, what each group is asked, through which mechanism, and what that costs.

A plan is public and the same on every device and on the server; everything about a report follows from it and from
the device's secret.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from overstory.protocol.channels import ONE
from overstory.protocol.domains.codes import CodedDomain, tried_at
from overstory.protocol.domains.unknown import ELSEWHERE
from overstory.protocol.encodings.hashing import OverstoryV1
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism, digest
from overstory.protocol.mechanisms.registry import mechanism as build_mechanism

BUCKETS: Final = 1 << 20

OracleChoice = str | Callable[[float, int, str], Mechanism]
"""A registry name, or a function (epsilon, domain size, key) -> mechanism."""


def build(oracle: OracleChoice, epsilon: float, domain_size: int, key: str) -> Mechanism:
    """Return the mechanism of that name at `epsilon`.

    "linear-hash" takes 64-bit words, each report under a seed of its own, so that a test is exact for any candidate: a
    device answers once. Every other oracle works on a domain of `domain_size` symbols.
    """
    if callable(oracle):
        made = oracle(epsilon, domain_size, key)
    elif oracle == "linear-hash":
        made = build_mechanism(oracle, epsilon=epsilon, domain_size=1 << 64)
    else:
        made = build_mechanism(oracle, epsilon=epsilon, domain_size=domain_size)
    if not made.encoding.pure or made.encoding.by_seed or made.domain_size is None:
        raise ParameterError(f"{made.name} cannot search: its reports do not speak of every value; take another oracle")
    return made


def symbols_for(num_bits: int) -> int:
    """Return how many symbols stand for prefixes of `num_bits` bits and for "elsewhere", hashed where they are many."""
    return (1 << num_bits) + 1 if 1 << num_bits < BUCKETS else BUCKETS


def prefix_bytes(code: int, width: int, num_bits: int) -> bytes:
    """Return the first `num_bits` bits of a code of `width` bits: whole bytes, the last filled up with zeros."""
    return (code >> (width - num_bits) << (-num_bits % 8)).to_bytes(-(-num_bits // 8), "big")


def bucket(raw: bytes, key: str, buckets: int) -> int:
    """Return the bucket that a public keyed hash puts `raw` in."""
    return hashed_by(key).digest(raw) * buckets >> 64


def hashed_by(key: str) -> OverstoryV1:
    """Return the hash of a public key."""
    if not isinstance(key, str):
        raise ParameterError(f"key = {key!r}: give text, the metric's id")
    return OverstoryV1(key.encode())


@dataclass(frozen=True)
class Question:
    """The first `num_bits` bits of the value's code."""

    name: str  # a device's permanent responses to two names are independent
    width: int
    num_bits: int
    step: int
    mechanism: Mechanism
    key: str = ""  # public; of the hash that the mechanism's own symbols come from, where it needs one

    def __post_init__(self) -> None:
        hashed_by(self.key)

    def value(self, code: int | None) -> int:
        """Return what the mechanism is given for a code; None is "elsewhere"."""
        return self.name_of(ELSEWHERE if code is None else prefix_bytes(code, self.width, self.num_bits))

    def name_of(self, raw: bytes) -> int:
        """Return what the mechanism is given for a prefix's bytes."""
        if self.is_linear:
            return self._word(raw)
        if self.domain_size > 1 << self.num_bits:
            return int.from_bytes(raw, "big") >> (-self.num_bits % 8) if raw else 1 << self.num_bits
        return bucket(raw, self.key, self.domain_size)

    @property
    def domain_size(self) -> int:
        """How many symbols the mechanism knows."""
        size = self.mechanism.domain_size
        assert size is not None
        return size

    @property
    def is_linear(self) -> bool:
        """Whether extensions of one prefix can be counted by one transform."""
        linear: bool = self.mechanism.encoding.linear
        return linear

    def parent_word(self, parent: bytes) -> int:
        """Return the word of a prefix `step` bits shorter: its digest, the lowest `step` bits zero."""
        return hashed_by(self.key).digest(b"prefix" + parent) >> self.step << self.step

    def _word(self, raw: bytes) -> int:
        """Return the digest of all but the last `step` bits, and those bits."""
        if not raw:
            return hashed_by(self.key).digest(b"elsewhere")
        prefix = int.from_bytes(raw, "big") >> (-self.num_bits % 8)
        before = self.num_bits - self.step
        parent = prefix_bytes(prefix >> self.step, before, before)
        return self.parent_word(parent) | prefix & ((1 << self.step) - 1)


DICTIONARY: Final = "dictionary"


@dataclass(frozen=True)
class Group:
    """Devices that are asked the same questions; all of them are answered, and their epsilons add up."""

    threshold: int  # a device whose 32-bit draw is below this, and not below the group's before, is here
    questions: tuple[Question, ...]

    @property
    def epsilon(self) -> float:
        """Of all that one device of this group sends, exactly, rounded up."""
        epsilons = [question.mechanism.epsilon_permanent for question in self.questions]
        if len(epsilons) == 1:
            return epsilons[0]
        return math.nextafter(math.fsum(epsilons), math.inf)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every device and the server agree on: prefixes are extended level by level; the most frequent go on.

    Attributes
    ----------
    domain
        The domain of the values: `CodedIntegers` or `CodedStrings`.
    groups
        In order of their thresholds.
    known
        Codes of the dictionary: asked of a group of their own, and "elsewhere" to all others.
    beam
        How many prefixes of a level are extended.
    """

    domain: CodedDomain
    groups: tuple[Group, ...]
    known: frozenset[int] = field(default=frozenset(), repr=False)
    beam: int = 96

    @property
    def epsilon(self) -> float:
        """The most that any device reveals by all it sends about one value, exactly, rounded up."""
        return max(group.epsilon for group in self.groups)

    def share(self, index: int) -> float:
        """Return the expected share of the devices in a group."""
        before = self.groups[index - 1].threshold if index else 0
        return (self.groups[index].threshold - before) / ONE

    def held(self, question: Question, code: int | None) -> int | None:
        """Return the code, or None where the question is not about it.

        The dictionary's group answers about the dictionary, all others about what is not in it.
        """
        if code is None or not self.known:
            return code
        return code if (code in self.known) == (question.name == DICTIONARY) else None

    @cached_property
    def digest(self) -> bytes:
        """The 16-byte digest of all that a report's meaning depends on."""
        groups = [
            {
                "threshold": group.threshold,
                "questions": [[q.name, q.key, q.mechanism.digest.hex()] for q in group.questions],
            }
            for group in self.groups
        ]
        dictionary = digest({"known": [str(code) for code in sorted(self.known)]}).hex()
        return digest({"domain": self.domain.canonical(), "groups": groups, "known": dictionary})

    @property
    def levels(self) -> tuple[Question, ...]:
        """The questions about prefixes, in order."""
        asked = (question for group in self.groups for question in group.questions)
        return tuple(q for q in asked if q.name != DICTIONARY)

    @property
    def level_groups(self) -> tuple[int, ...]:
        """The group that answers each level."""
        return tuple(i for i, group in enumerate(self.groups) if group.questions[0].name != DICTIONARY)

    @property
    def tried(self) -> tuple[int, ...]:
        """How many prefixes are tried at each level, at most: of those of the last one, only values."""
        return tried_at(self.domain, [question.step for question in self.levels], self.beam)


def thresholds(weights: Sequence[float]) -> tuple[int, ...]:
    """Return the groups' thresholds for shares proportional to `weights`; the last is 2**32."""
    if not weights or not all(isinstance(w, int | float) and 0 < w < math.inf for w in weights):
        raise ParameterError(f"shares = {list(weights)!r}: give a number above 0 for each group")
    total, running, out = math.fsum(weights), 0.0, []
    for weight in weights:
        running += weight
        out.append(round(ONE * min(running / total, 1.0)))
    return (*out[:-1], ONE)


def codes_of(domain: CodedDomain, known: Iterable[Any]) -> frozenset[int]:
    """Return the codes of a dictionary's values."""
    return frozenset(domain.code(value) for value in known)
