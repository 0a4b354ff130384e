"""A search as a mechanism: each device answers one question about the bits of its value's code, once.

The public part of a report is one number that follows from the device's secret and the metric, uniform below 2^31. It
decides everything but the answer: the wave in which the device is asked, its question in that wave's plan, and the seed
of its hash. Waves are ranges of that number, and so are the questions of a wave:

    |  wave 1                   |  wave 2                   |  ...      the number, from 0 to 2^31 - 1
    |  dictionary | 22 | 36 ... |  dictionary | 22 | 36 ... |

So a device that was asked in one wave is never asked in another, whatever the plans of the waves are, as long as their
number stays. Users are divided over the questions, and epsilon never is.

*Once.* A device sends one answer by a plan: in the first period in which it has a value or nothing to report, and never
again, whether the value changes or not. Two histories of any length differ in that answer alone, so they cost one
epsilon, and the time of the answer depends on no value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final

from overstory.protocol.channels import ONE
from overstory.protocol.domains.codes import CodedDomain
from overstory.protocol.domains.unknown import ELSEWHERE, coded_from
from overstory.protocol.encodings.base import SEEDS, check_cohort, check_count, whole_number
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism, digest
from overstory.protocol.mechanisms.split import Split
from overstory.protocol.search.plans import BEAM, DICTIONARY, DICTIONARY_SHARE, LONG_STEP, Plan, Question, discover

MOST_WAVES: Final = 1 << 10
LONGEST_KEY: Final = 48
"""Bytes of a hash's key, to which every question adds its own name."""


@dataclass(frozen=True)
class SearchMechanism(Split):
    """The device's half of a search: its one question, and its one answer.

    ParameterError where a question has a larger epsilon.

    >>> search = prefix_search(values={"domain": "integers", "bits": 64}, epsilon=4.0)
    >>> [question.name for question in search.questions], search.epsilon_permanent <= 4.0
    (['22 bits', '36 bits', '50 bits', '64 bits'], True)
    >>> half = prefix_search(values={"domain": "integers", "bits": 64}, epsilon=4.0, wave=2, waves=2)
    >>> half.asks(7), half.asks(2**31 - 1), search.asks(7)
    (False, True, True)
    """

    parameters: Mapping[str, Any] = field(hash=False)
    plan: Plan
    epsilon: float  # declared; a question's exact epsilon may lie below, by what rounding takes
    wave: int = 1  # of the equal parts of all devices, the one that is asked
    waves: int = 1

    name = "prefix-search"
    payload: ClassVar[str] = "search"
    terms_place: ClassVar[str] = "privacy.payloads.combined:SearchTerms"
    reading: ClassVar[str] = "search"
    domain_size = None
    num_cohorts = SEEDS
    reads_reports: ClassVar[bool] = True
    once: ClassVar[bool] = True
    server: ClassVar[str] = "analysis.support.searches:SearchSupport"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        check_count("waves", self.waves, 1, MOST_WAVES)
        check_count("wave", self.wave, 1, self.waves)
        if self.plan.epsilon > self.epsilon:
            raise ParameterError(f"{self.name}: the plan's epsilon, {self.plan.epsilon}, is above {self.epsilon}")

    @property
    def questions(self) -> tuple[Question, ...]:
        return self.plan.questions

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """The first number of the wave, and for each group the number after its last."""
        thresholds = (0, *(question.threshold for question in self.questions))
        before, all_waves = (self.wave - 1) * ONE, ONE * self.waves
        return tuple(-(-(before + threshold) * SEEDS // all_waves) for threshold in thresholds)

    @property
    def zones(self) -> tuple[tuple[int, int], ...]:
        """The groups' numbers and payloads; nobody of another wave sends any."""
        limits = (0, *(question.mechanism.payload_limit for question in self.questions), 0)
        stops, starts = (*self.bounds, SEEDS), (0, *self.bounds)
        return tuple((stop, limit) for start, stop, limit in zip(starts, stops, limits, strict=True) if stop > start)

    @property
    def counted_by_value(self) -> bool:
        """Never: reports are kept, and a search reads them; what is counted is how many answer each question."""
        return False

    @property
    def num_asked(self) -> int:
        """The numbers of this wave."""
        return self.bounds[-1] - self.bounds[0]

    def asks(self, cohort: int) -> bool:
        """Whether a device of that number is asked in this wave."""
        return self.bounds[0] <= cohort < self.bounds[-1]

    def group_of(self, cohort: int) -> int:
        """Return the group of a device that is asked; ParameterError where it is not."""
        check_cohort(cohort, self.num_cohorts)
        if not self.asks(cohort):
            raise ParameterError(f"the device of number {cohort} is not asked in wave {self.wave} of {self.waves}")
        return bisect_right(self.bounds, cohort) - 1

    def question_text(self, cohort: int) -> str:
        """Return what the device's question is about."""
        question = self.questions[self.group_of(cohort)]
        if question.name == DICTIONARY:
            return f"which of {len(self.plan.known):,} expected values it has, if any"
        return f"the first {question.num_bits} of the code's {question.width} bits"

    def given(self, question: Question, value: Any) -> int:
        """Return what the question's mechanism is given for a code, or for `ELSEWHERE`."""
        if value == ELSEWHERE:
            return question.value(None)
        code = whole_number(value)
        if not isinstance(code, int) or isinstance(code, bool) or not 0 <= code < 1 << self.plan.domain.width:
            raise ParameterError(f"{value!r:.60} is no code of {self.plan.domain.width} bits")
        return question.value(self.plan.held(question, code))

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        return tuple(question.mechanism for question in self.questions)

    def place_of(self, cohort: int) -> tuple[int, int]:
        place = self.group_of(cohort)
        return place, cohort % self.parts[place].num_cohorts

    def project(self, value: Any, place: int) -> int:
        return self.given(self.questions[place], value)

    def noise_name(self, metric: str, place: int) -> str:
        return f"{metric}/{self.digest.hex()}/{self.questions[place].name}"

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the function from a code to the device's answer; of a device that is not asked, one that raises."""
        check_cohort(cohort, self.num_cohorts)
        if not self.asks(cohort):
            return lambda value: self.group_of(cohort)  # noqa: ARG005 - it raises, whatever the value
        return super().responder(secret, metric, cohort)

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - it names no value
        return f"answer {payload} to this device's one question"

    def epsilon_n(self, reports: int) -> float:
        """The declared epsilon: the device answers one question, once."""
        check_count("reports", reports, 1, ONE)
        return self.epsilon

    @property
    def epsilon_permanent(self) -> float:
        return self.epsilon

    def canonical(self) -> dict[str, Any]:
        plan = {"plan": self.plan.digest.hex(), "epsilon": self.epsilon}
        return {"name": self.name, **plan, "wave": self.wave, "waves": self.waves, "once": True}


def prefix_search(
    *,
    values: Mapping[str, Any] | CodedDomain,  # codes, by their parameters
    epsilon: float,  # of all that one device reveals
    known: Iterable[str] = (),
    known_share: float = DICTIONARY_SHARE,  # of the devices, asked about the `known` values
    step: int = LONG_STEP,  # the bits that a level adds
    beam: int = BEAM,  # the prefixes that a level lets through
    wave: int = 1,  # of the equal parts of the devices, the one that is asked
    waves: int = 1,
    hash_key: str = "",  # the metric's id
) -> SearchMechanism:
    """Search for frequent values that nobody listed: prefix extension, one question a device (`discover`).

    Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE TDSC 2021 (PEM).
    """
    given = dict(locals())
    domain = coded_from(values) if isinstance(values, Mapping) else values
    expected = tuple(known)
    parameters = given | {"values": domain.parameters, "known": list(expected)}
    plan = discover(
        epsilon=epsilon,
        domain=domain,
        known=[domain.parse(text) for text in expected],
        known_share=known_share,
        step=step,
        beam=beam,
        key=hash_key if len(hash_key.encode()) <= LONGEST_KEY else digest({"key": hash_key}).hex(),
    )
    return SearchMechanism(parameters, plan, float(epsilon), wave, waves)
