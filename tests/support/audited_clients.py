"""Simulated clients of RAPPOR to audit, right ones and some that are broken on purpose, as real ones were."""

from __future__ import annotations

from typing import Any

import numpy as np

from overstory.audit.answers import Answers, Declared, Questions, declare
from overstory.protocol.mechanisms.registry import mechanism

SMALL = {"num_bits": 32, "num_hashes": 2, "num_cohorts": 8}


def small_rappor(**noise: float) -> Declared:
    """The paper's noise on 32 bits."""
    return declare(mechanism("rappor", **SMALL, **noise))


class SimulatedClient:
    """Does as declared, for all lines of a run at once; a subclass breaks one step."""

    takes_metric = True

    def __init__(self, seed: Any) -> None:
        self.rng = np.random.default_rng(seed)

    def answer(self, declared: Declared, questions: Any) -> list[Answers]:
        return [self.run(declared, asked) for asked in questions]

    def run(self, declared: Declared, asked: Questions) -> Answers:
        cohorts = self.cohorts(declared, asked)
        rounds: Any = declared.mechanism.rounds
        true = declared.encoded(asked.values, cohorts).view(np.bool_)
        _, first, devices = np.unique(self.remembered(asked), return_index=True, return_inverse=True)
        permanent = self.permanent(true[first], rounds)
        reports = self.instantaneous(permanent[devices], rounds, true)
        return Answers(asked, cohorts, reports.astype(np.uint8))

    def remembered(self, asked: Questions) -> Any:
        """What a permanent response is kept for: a client and a value."""
        return asked.clients * 1000 + asked.values

    def cohorts(self, declared: Declared, asked: Questions) -> Any:
        if asked.cohorts is not None:
            return asked.cohorts
        drawn = self.rng.integers(0, declared.num_cohorts, int(asked.clients.max()) + 1)
        return drawn[asked.clients]

    def uniform(self, shape: Any) -> Any:
        return self.rng.random(shape, np.float32)

    def permanent(self, true: Any, rounds: Any) -> Any:
        return self.uniform(true.shape) < chances(true, rounds.permanent)

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        return self.uniform(permanent.shape) < chances(permanent, rounds.instantaneous)


def chances(bits: Any, channel: Any) -> Any:
    return np.where(bits, np.float32(channel.keep_one), np.float32(channel.raise_zero))


class Swapped(SimulatedClient):
    """p and q are swapped."""

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        return super().instantaneous(~permanent, rounds, true)


class Redrawn(SimulatedClient):
    """Every report draws its permanent response again."""

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        return super().instantaneous(self.permanent(true, rounds), rounds, true)


class SharedNoise(SimulatedClient):
    """All devices have the same permanent noise."""

    def permanent(self, true: Any, rounds: Any) -> Any:
        return self.uniform((1, true.shape[1])) < chances(true, rounds.permanent)


class OneNoisePerDevice(SimulatedClient):
    """What the first value's permanent response does to its bits, those of the others do to theirs."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        _, first = np.unique(self.remembered(asked), return_index=True)
        _, self.starts, self.owners = np.unique(asked.clients[first], return_index=True, return_inverse=True)
        return super().run(declared, asked)

    def permanent(self, true: Any, rounds: Any) -> Any:
        flips = super().permanent(true, rounds) ^ true
        return true ^ flips[self.starts][self.owners]


class OneNoiseForMetrics(SimulatedClient):
    """Each metric's permanent responses draw the same numbers."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        self.numbers = np.random.default_rng(ord(asked.prefix))
        self.first = np.unique(self.remembered(asked))
        return super().run(declared, asked)

    def permanent(self, true: Any, rounds: Any) -> Any:
        drawn = self.numbers.random((int(self.first.max()) + 1, true.shape[1]), np.float32)
        return drawn[self.first] < chances(true, rounds.permanent)


class SeededByTheSecond(SimulatedClient):
    """Processes that start in the same second draw the same numbers."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        self.rng, before = np.random.default_rng(1_795_413_480), self.rng
        answers = super().run(declared, asked)
        self.rng = before
        return answers


class OneUniform(SimulatedClient):
    """All bits of a report are compared with one number."""

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        return self.uniform((len(permanent), 1)) < chances(permanent, rounds.instantaneous)


class TrueBit(SimulatedClient):
    """Bit 5 is never randomized."""

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        reports = super().instantaneous(permanent, rounds, true)
        reports[:, 5] = true[:, 5]
        return reports


class NeverCleared(SimulatedClient):
    """A true bit is always sent."""

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        return super().instantaneous(permanent, rounds, true) | true


class OtherParameters(SimulatedClient):
    """Reports are made with another f than declared."""

    def __init__(self, seed: Any, f: float) -> None:
        super().__init__(seed)
        self.really: Any = mechanism("rappor", **SMALL, f=f)

    def permanent(self, true: Any, rounds: Any) -> Any:
        return super().permanent(true, self.really.rounds)


class OtherRates(SimulatedClient):
    """Each bit is sent as 1 with the same probability in every report: `one` if it is set, else `zero`."""

    def __init__(self, seed: Any, one: float, zero: float) -> None:
        super().__init__(seed)
        self.one, self.zero = one, zero

    def permanent(self, true: Any, rounds: Any) -> Any:
        return true

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        return self.uniform(true.shape) < np.where(true, np.float32(self.one), np.float32(self.zero))


class OtherEpsilonOfSymbols(SimulatedClient):
    """Direct symbols, memoized, the true one kept as often as another epsilon says."""

    def __init__(self, seed: Any, epsilon: float) -> None:
        super().__init__(seed)
        self.epsilon = epsilon

    def run(self, declared: Declared, asked: Questions) -> Answers:
        size, odds = declared.mechanism.payload_limit, np.exp(self.epsilon)
        cohorts = self.cohorts(declared, asked)
        own = declared.encoded(asked.values, cohorts)
        _, first, devices = np.unique(self.remembered(asked), return_index=True, return_inverse=True)
        is_kept = self.rng.random(len(first)) < odds / (odds + size - 1)
        others = self.rng.integers(1, size, len(first))
        return Answers(asked, cohorts, (own + np.where(is_kept, 0, others)[devices]) % size)


class TruthNowAndThen(SimulatedClient):
    """Some reports are the true bits."""

    def __init__(self, seed: Any, share: float) -> None:
        super().__init__(seed)
        self.share = share

    def instantaneous(self, permanent: Any, rounds: Any, true: Any) -> Any:
        leaks = self.rng.random((len(true), 1)) < self.share
        return np.where(leaks, true, super().instantaneous(permanent, rounds, true))


class OneValueTrue(SimulatedClient):
    """One value is not randomized."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        answers = super().run(declared, asked)
        rows = asked.values == 3
        answers.reports[rows] = declared.encoded(asked.values, answers.cohorts)[rows]
        return answers


class OneCohortSwapped(SimulatedClient):
    """In one cohort all bits are inverted."""

    def run(self, declared: Declared, asked: Questions) -> Answers:
        answers = super().run(declared, asked)
        answers.reports[answers.cohorts == 2] ^= 1
        return answers


class ManyOrFew(SimulatedClient):
    """Some reports have more ones and others fewer: on average every rate is right."""

    def uniform(self, shape: Any) -> Any:
        return super().uniform(shape) + self.rng.choice((-0.1, 0.1), (shape[0], 1))


class TwoByTwo(SimulatedClient):
    """Every second report has the noise of the one before."""

    def uniform(self, shape: Any) -> Any:
        drawn = super().uniform(shape)
        drawn[1::2] = drawn[: 2 * (shape[0] // 2) : 2]
        return drawn


def f_for(epsilon: float) -> float:
    """The f with which a report has that epsilon, p and q being the paper's."""
    low, high = 0.0, 0.5
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if mechanism("rappor", **SMALL, f=middle).epsilon_report > epsilon else (low, middle)
    return high
