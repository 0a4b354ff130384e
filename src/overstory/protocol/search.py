"""A search for values that nobody listed: devices are divided over questions about the bits of their values' codes.

A question is answered through one oracle, the linear hash: its words have 64 bits, each report is under a seed of its
own, so a test is exact for any candidate, and all extensions of a prefix are counted at once. The public part of a
report is one number, uniform below 2^31, that follows from the device's secret and the metric. It decides the question
and the seed. Users are divided over the questions, and epsilon never is.

Without a panel, a device sends one answer by a plan, and never again, whether the value changes or not: two histories
of any length differ in that answer alone, so they cost one epsilon. Another plan asks it again, and both cost.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from types import MappingProxyType
from typing import Any, ClassVar, Final

from overstory.protocol.channels import ONE
from overstory.protocol.domains.codes import ELSEWHERE, CodedDomain, CodedIntegers, coded_from, tried_at
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import (
    SEEDS,
    Mechanism,
    check_cohort,
    check_count,
    check_epsilon,
    digest,
    whole_number,
)
from overstory.protocol.kinds.hashes import linear_hash
from overstory.protocol.kinds.hashing import OverstoryV1
from overstory.protocol.kinds.split import Split
from overstory.protocol.kinds.symbols import SymbolMechanism

BEAM: Final = 192
LONG_STEP: Final = 14
MAX_STEP: Final = 26
MOST_BEAM: Final = 1 << 20
MOST_TRIED: Final = 1 << 28
DICTIONARY: Final = "dictionary"
DICTIONARY_SHARE: Final = 0.3


def prefix_bytes(code: int, width: int, num_bits: int) -> bytes:
    """Return the first `num_bits` bits of a code of `width` bits: whole bytes, the last filled up with zeros."""
    return (code >> (width - num_bits) << (-num_bits % 8)).to_bytes(-(-num_bits // 8), "big")


def hashed_by(key: str) -> OverstoryV1:
    """Return the hash of a public key."""
    return OverstoryV1(key.encode())


@dataclass(frozen=True)
class Question:
    """The first `num_bits` bits of the value's code, asked of a group of the devices."""

    name: str  # a device's permanent responses to two names are independent
    width: int
    num_bits: int
    step: int
    mechanism: SymbolMechanism
    key: str = ""  # public; of the hash that the mechanism's words come from
    threshold: int = ONE  # a device whose 32-bit draw is below this, and not below the question's before, is asked

    def __post_init__(self) -> None:
        hashed_by(self.key)

    def value(self, code: int | None) -> int:
        return self.word(b"" if code is None else prefix_bytes(code, self.width, self.num_bits))

    def word(self, raw: bytes) -> int:
        """Return what the mechanism is given: the digest of all of a prefix but its last `step` bits, and those."""
        if not raw:
            return hashed_by(self.key).digest(b"elsewhere")
        prefix = int.from_bytes(raw, "big") >> (-self.num_bits % 8)
        before = self.num_bits - self.step
        parent = prefix_bytes(prefix >> self.step, before, before)
        return self.parent_word(parent) | prefix & ((1 << self.step) - 1)

    def parent_word(self, parent: bytes) -> int:
        """Return the word of a prefix `step` bits shorter: its digest, the lowest `step` bits zero."""
        return hashed_by(self.key).digest(b"prefix" + parent) >> self.step << self.step


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every device and the server agree on: prefixes are extended level by level; the most frequent go on."""

    domain: CodedDomain  # the codes of the values: `CodedIntegers`, `CodedStrings` or `AlphabetStrings`
    # in order of their thresholds: that about the dictionary first, if there is one. A device answers one of them
    questions: tuple[Question, ...]
    # codes of the dictionary: asked of a group of their own, and "elsewhere" to all others
    known: frozenset[int] = field(repr=False)
    beam: int  # how many prefixes of a level are extended

    @property
    def epsilon(self) -> float:
        """The most that any device reveals by its one answer, exactly, rounded up."""
        return max(question.mechanism.epsilon_permanent for question in self.questions)

    @property
    def mechanism(self) -> SymbolMechanism:
        """What every question is answered through."""
        return self.questions[0].mechanism

    @property
    def levels(self) -> tuple[Question, ...]:
        """The questions about prefixes, in order."""
        return self.questions[bool(self.known) :]

    @property
    def shares(self) -> tuple[float, ...]:
        """The expected share of the devices that are asked about each level."""
        ends = [0, *(question.threshold for question in self.questions)]
        return tuple((end - start) / ONE for start, end in pairwise(ends))[bool(self.known) :]

    @property
    def tried(self) -> tuple[int, ...]:
        """How many prefixes are tried at each level, at most: of those of the last one, only values."""
        return tried_at(self.domain, [question.step for question in self.levels], self.beam)

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
            {"threshold": q.threshold, "questions": [[q.name, q.key, q.mechanism.digest.hex()]]} for q in self.questions
        ]
        dictionary = digest({"known": [str(code) for code in sorted(self.known)]}).hex()
        return digest({"domain": self.domain.canonical(), "groups": groups, "known": dictionary})


def discover(
    *,
    epsilon: float,
    domain: CodedDomain | None = None,
    known: Iterable[Any] = (),
    known_share: float = DICTIONARY_SHARE,
    step: int = LONG_STEP,
    beam: int = BEAM,
    levels: Sequence[int] | None = None,
    key: str = "",
) -> Plan:
    """A dictionary of known values first, asked of a share of the users; the others search the remainder.

    The search is prefix extension (PEM): each group of users reports a longer prefix, and only likely ones are
    extended. A device answers one question once, so the whole epsilon goes into it. Steps are few and long, which the
    linear hash affords; the first level is longer, for there is but one prefix to extend.

    A user of the search whose value is in the dictionary says "elsewhere" (a reserved value, through the same
    randomizer), so known values take no place in the beam; a user of the dictionary whose value is not in it says so
    too.

    Parameters
    ----------
    epsilon
        What one device reveals in all.
    domain
        `CodedIntegers` of 64 bits unless given.
    known
        Values that are expected; with none, all users search.
    known_share
        Share of the users who are asked about them.
    step
        The most bits of a level after the first.
    beam
        Prefixes extended at each level; six times the values hoped for is a good choice.
    levels
        The prefix lengths themselves, in place of `step`; the last is the domain's width.
    key
        Public key of the hashes: the metric's id.

    Raises
    ------
    ParameterError
        When the levels do not lead through the domain, too many prefixes would have to be counted, or `known_share` is
        not between 0 and 1.

    References
    ----------
    Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE TDSC 2021 (PEM); Bassily, Nissim,
    Stemmer, Thakurta, "Practical locally private heavy hitters", NeurIPS 2017 (TreeHist: one bit a step).

    Examples
    --------
    >>> plan = discover(epsilon=4.0, known=[80, 443])
    >>> [question.name for question in plan.questions], plan.epsilon <= 4.0
    (['dictionary', '22 bits', '36 bits', '50 bits', '64 bits'], True)
    """
    domain = CodedIntegers() if domain is None else domain
    check_count("beam", beam, 1, MOST_BEAM)
    check_count("step", step, 1, MAX_STEP)
    first = min(step + (beam - 1).bit_length(), MAX_STEP)
    lengths = even_levels(domain.width, first, step) if levels is None else levels
    steps = _steps(domain.width, lengths, beam)
    weights = [*level_weights(tried_at(domain, steps, beam), beam)]
    mechanism = linear_hash(epsilon=check_epsilon("epsilon", epsilon), domain_size=1 << 64)
    asked = [(f"{length} bits", length, step, f"{key}/{length}") for length, step in zip(lengths, steps, strict=True)]
    codes = frozenset(domain.code(value) for value in known)
    if codes:
        if not 0 < known_share < 1:
            raise ParameterError(f"known_share = {known_share!r}: give a share between 0 and 1")
        asked.insert(0, (DICTIONARY, domain.width, 0, f"{key}/known"))
        weights.insert(0, sum(weights) * known_share / (1 - known_share))
    questions = tuple(
        Question(name, domain.width, length, step, mechanism, own, threshold)
        for (name, length, step, own), threshold in zip(asked, thresholds(weights), strict=True)
    )
    return Plan(domain=domain, questions=questions, known=codes, beam=beam)


def thresholds(weights: Sequence[float]) -> tuple[int, ...]:
    """Return the groups' thresholds for shares proportional to `weights`, each above 0; the last is 2**32."""
    total, running, out = math.fsum(weights), 0.0, []
    for weight in weights:
        running += weight
        out.append(round(ONE * min(running / total, 1.0)))
    return (*out[:-1], ONE)


def level_weights(tried: Sequence[int], beam: int) -> tuple[float, ...]:
    """Return how many users each level needs, in proportion.

    A prefix stays when its estimate, of standard error s, is among the best `beam` of those tried: noise alone reaches
    ``z s`` there, z the normal quantile of 1 - beam / tried. To stay surely it needs a frequency of (z + 2) s or so; s
    falls with the root of the users. At the last level z is that of the selection rule, about .05 / tried.
    """
    normal = NormalDist()
    last = len(tried) - 1
    boundaries = [
        normal.inv_cdf(1 - min(0.05 * max(beam / 8, 1) / many if level == last else beam / many, 0.5))
        for level, many in enumerate(tried)
    ]
    return tuple((z + 2) ** 2 for z in boundaries)


def even_levels(width: int, first: int, step: int) -> list[int]:
    """Return prefix lengths from `first` to `width`, in equal steps (to a bit) of at most `step`."""
    if first >= width:
        return [width]
    more = -(-(width - first) // step)
    return [first + (width - first) * i // more for i in range(more + 1)]


def _steps(width: int, lengths: Sequence[int], beam: int) -> list[int]:
    """Return by how much each level is longer than the one before; refuse levels that count too many prefixes."""
    if not lengths or not all(isinstance(length, int) for length in lengths):
        raise ParameterError(f"levels = {lengths!r}: give prefix lengths, whole numbers")
    steps = [length - before for before, length in zip([0, *lengths], lengths, strict=False)]
    if min(steps) < 1 or lengths[-1] != width:
        raise ParameterError(f"levels = {list(lengths)}: give rising lengths that end with the domain's width, {width}")
    parents = 1
    for step in steps:
        if step > MAX_STEP or parents << step > MOST_TRIED:
            raise ParameterError(
                f"{parents} prefixes extended by {step} bits are {parents << step:,} to count; at most {MOST_TRIED:,} "
                f"are, in steps of at most {MAX_STEP} bits: give shorter steps or a smaller beam"
            )
        parents = min(beam, parents << step)
    return steps


LONGEST_KEY: Final = 48  # bytes of a hash's key, to which every question adds its own name


@dataclass(frozen=True)
class SearchMechanism(Split):
    """The device's half of a search: one question, and the answer to it."""

    parameters: Mapping[str, Any] = field(hash=False)
    plan: Plan

    name = "prefix-search"
    payload: ClassVar[str] = "search"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:SearchTerms"
    reading: ClassVar[str] = "search"
    domain_size = None
    num_cohorts = SEEDS
    reads_reports: ClassVar[bool] = True
    once: ClassVar[bool] = True
    server: ClassVar[str] = "analysis.kinds.split:SearchSupport"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        return (0, *(-(-question.threshold * SEEDS // ONE) for question in self.plan.questions))

    @property
    def counted_by_value(self) -> bool:
        """Never: reports are kept, and a search reads them; what is counted is how many answer each question."""
        return False

    def project(self, value: Any, place: int) -> int:
        question = self.plan.questions[place]
        if value == ELSEWHERE:
            return question.value(None)
        code = whole_number(value)
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code < 1 << self.plan.domain.width:
            raise ParameterError(f"{value!r:.60} is no code of {self.plan.domain.width} bits")
        return question.value(self.plan.held(question, code))

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        return tuple(question.mechanism for question in self.plan.questions)

    def place_of(self, cohort: int) -> tuple[int, int]:
        check_cohort(cohort, self.num_cohorts)
        place = bisect_right(self.bounds, cohort) - 1
        return place, cohort % self.parts[place].num_cohorts

    def noise_name(self, metric: str, place: int) -> str:
        return f"{metric}/{self.digest.hex()}/{self.plan.questions[place].name}"

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - it names no value
        return f"answer {payload} to this device's one question"

    def canonical(self) -> dict[str, Any]:
        return {"name": self.name, "plan": self.plan.digest.hex(), "epsilon": float(self.parameters["epsilon"])}


def prefix_search(
    *,
    values: Mapping[str, Any] | CodedDomain,  # codes, by their parameters
    epsilon: float,  # of one answer
    known: Iterable[str] = (),
    known_share: float = DICTIONARY_SHARE,  # of the devices, asked about the `known` values
    step: int = LONG_STEP,  # the bits that a level adds
    beam: int = BEAM,  # the prefixes that a level lets through
    hash_key: str = "",  # the metric's id
) -> SearchMechanism:
    """Search for frequent values that nobody listed: prefix extension, one question an answer (`discover`).

    Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE TDSC 2021 (PEM).
    """
    given = dict(locals())
    domain = coded_from(values) if isinstance(values, Mapping) else values
    expected = tuple(known)
    parameters = given | {"values": domain.canonical(), "known": list(expected)}
    plan = discover(
        epsilon=epsilon,
        domain=domain,
        known=[domain.parse(text) for text in expected],
        known_share=known_share,
        step=step,
        beam=beam,
        key=hash_key if len(hash_key.encode()) <= LONGEST_KEY else digest({"key": hash_key}).hex(),
    )
    return SearchMechanism(parameters, plan)
