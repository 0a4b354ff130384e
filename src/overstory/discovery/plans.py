"""Plans: which groups the devices fall into, what each group is asked, and what that costs.

A plan is public and the same on every device and on the server; everything about a report follows from it and from
the device's secret.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from overstory.discovery.domains import Domain
from overstory.discovery.questions import BitQuestion, Question
from overstory.protocol.canonical import context, digest
from overstory.protocol.entropy import KeyedEntropy
from overstory.protocol.errors import ParameterError
from overstory.protocol.permanent_response import check_secret
from overstory.protocol.probability import ONE

DICTIONARY: Final = "dictionary"


@dataclass(frozen=True)
class Group:
    """Devices that are asked the same questions; all of them are answered, and their epsilons add up.

    Parameters
    ----------
    threshold
        A device whose 32-bit draw is below this, and not below the group's before, belongs here.
    """

    threshold: int
    questions: tuple[Question | BitQuestion, ...]

    @property
    def epsilon(self) -> float:
        """Of all that one device of this group sends, exactly, rounded up."""
        epsilons = [question.mechanism.epsilon_permanent for question in self.questions]
        if len(epsilons) == 1:
            return epsilons[0]
        return math.nextafter(math.fsum(epsilons), math.inf)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every device and the server agree on.

    Attributes
    ----------
    domain
        The domain of the values: `Integers` or `Strings`.
    groups
        In order of their thresholds.
    known
        Codes of the dictionary: asked of a group of their own, and "elsewhere" to all others.
    """

    domain: Domain
    groups: tuple[Group, ...]
    known: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def epsilon(self) -> float:
        """The most that any device reveals by all it sends about one value, exactly, rounded up."""
        return max(group.epsilon for group in self.groups)

    def share(self, index: int) -> float:
        """Return the expected share of the devices in a group."""
        before = self.groups[index - 1].threshold if index else 0
        return (self.groups[index].threshold - before) / ONE

    def group_of(self, secret: bytes, metric: str) -> int:
        """Return the group that a device's secret puts it in, for ever."""
        drawn = KeyedEntropy(check_secret(secret), context(metric, self.digest), purpose=b"discovery group").bits(32)
        return self.group_at(drawn)

    def group_at(self, drawn: int) -> int:
        """Return the group of a uniform 32-bit number."""
        return bisect_right([group.threshold for group in self.groups], drawn)

    def held(self, question: Question | BitQuestion, code: int) -> int | None:
        """Return the code, or None where the question is not about it.

        The dictionary's group answers about the dictionary, all others about what is not in it.
        """
        if not self.known:
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
        known = digest({"known": [str(code) for code in sorted(self.known)]}).hex()
        return digest({"domain": self.domain.canonical(), "groups": groups, "known": known})


@dataclass(frozen=True, kw_only=True)
class PrefixPlan(Plan):
    """Prefixes are extended level by level; of each level's, the `beam` most frequent go on.

    Attributes
    ----------
    beam
        How many prefixes are extended.
    """

    beam: int = 96

    @property
    def levels(self) -> tuple[Question, ...]:
        """The questions about prefixes, in order."""
        asked = (question for group in self.groups for question in group.questions)
        return tuple(q for q in asked if isinstance(q, Question) and q.name != DICTIONARY)

    @property
    def level_groups(self) -> tuple[int, ...]:
        """The group that answers each level."""
        return tuple(i for i, group in enumerate(self.groups) if group.questions[0].name != DICTIONARY)

    @property
    def tried(self) -> tuple[int, ...]:
        """How many prefixes are counted at each level, at most."""
        kept, counts = 1, []
        for question in self.levels:
            counts.append(kept << question.step)
            kept = min(self.beam, counts[-1])
        return tuple(counts)


@dataclass(frozen=True, kw_only=True)
class BitPlan(Plan):
    """The lecture's Theorem 2: a public hash into buckets, and each bit of the value within its bucket.

    Attributes
    ----------
    buckets
        T, the size of the hash's range.
    key
        The public key of the hash into buckets.
    """

    buckets: int
    key: str


def thresholds(weights: Sequence[float]) -> tuple[int, ...]:
    """Return the groups' thresholds for shares proportional to `weights`; the last is 2**32.

    Examples
    --------
    >>> [t / 2**32 for t in thresholds([1, 2, 1])]
    [0.25, 0.75, 1.0]
    """
    if not weights or not all(isinstance(w, int | float) and 0 < w < math.inf for w in weights):
        raise ParameterError(f"shares = {list(weights)!r}: give a number above 0 for each group")
    total, running, out = math.fsum(weights), 0.0, []
    for weight in weights:
        running += weight
        out.append(round(ONE * min(running / total, 1.0)))
    return (*out[:-1], ONE)


def codes_of(domain: Domain, known: Iterable[Any]) -> frozenset[int]:
    """Return the codes of a dictionary's values."""
    return frozenset(domain.code(value) for value in known)
