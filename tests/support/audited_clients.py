"""Simulated clients to audit, of every kind: right ones and some that are broken on purpose, as real ones were.

All noise is a hash of what it depends on, so that a fault of memory is a wrong list of what it depends on.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from overstory.audit.answers import Answers, Declared, Questions, declare
from overstory.protocol.kinds.registry import mechanism

SMALL = {"num_bits": 32, "num_hashes": 2, "num_cohorts": 8}


def small_rappor(**noise: float) -> Declared:
    """The paper's noise on 32 bits."""
    return declare(mechanism("rappor", **SMALL, **noise))


def mixed(number):
    """Hash 64-bit numbers (Steele, Lea, Flood, "Fast splittable pseudorandom number generators")."""
    number = np.asarray(number, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


class SimulatedClient:
    """Does as declared, for all lines of a run at once; a subclass breaks one step. Seeds make runs the same."""

    takes_metric = True

    def __init__(self, seed=1) -> None:
        self.seed, self.run_number = np.random.SeedSequence(seed).generate_state(1, np.uint64), 0

    def answer(self, declared: Declared, questions) -> list[Answers]:
        return [self.run(declared, asked) for asked in questions]

    def run(self, declared: Declared, asked: Questions) -> Answers:
        self.run_number += 1
        cohorts = asked.cohorts if asked.cohorts is not None else self.cohorts(declared, asked)
        true = declared.encoded(asked.values, cohorts)
        width = 1 + declared.mechanism.payload_bits
        permanent = self.permanent(declared, asked, true, self.uniform("permanent", width, *self.kept_for(asked)))
        lines = np.arange(len(asked))
        reports = self.instantaneous(declared, permanent, true, self.uniform("fresh", width, self.this_run, lines))
        dtype = np.uint8 if declared.are_bits else np.int64
        return Answers(asked, cohorts, self.sent(declared, asked, cohorts, reports.astype(dtype)))

    @property
    def this_run(self) -> int:
        """What sets the noise of a run apart from that of others."""
        return self.run_number

    def kept_for(self, asked: Questions) -> tuple[Any, ...]:
        """Return what the noise of a permanent response depends on, in each line."""
        return self.this_run, asked.clients, asked.values

    def uniform(self, purpose: str, width: int, *columns):
        """Return numbers from 0 to 1, a row for each line, that depend on these columns alone."""
        key = mixed(self.seed + np.uint64(sum(purpose.encode())))
        for column in columns:
            key = mixed(key ^ np.asarray(column, np.uint64))
        return (mixed(key[:, None] ^ mixed(np.arange(width))) >> np.uint64(11)) * 2.0**-53

    def cohorts(self, declared: Declared, asked: Questions):
        """Return the cohort that the client of each line chooses."""
        return (self.uniform("cohort", 1, self.this_run, asked.clients)[:, 0] * declared.num_cohorts).astype(np.int64)

    def permanent(self, declared: Declared, asked: Questions, true, noise):
        """Return permanent responses, a line each, from numbers between 0 and 1."""
        exact, values = declared.mechanism, asked.values
        if declared.are_vectors:
            return noise[:, 1:] < chances(true, exact.rounds.permanent)
        is_own, many = noise[:, 0] < exact.permanent_support[0], exact.payload_limit
        if exact.payload == "symbols":
            return np.where(is_own, true, (true + 1 + (noise[:, 1] * (many - 1)).astype(np.int64)) % many)
        symbols = np.array(declared.values)[values]
        if declared.are_bits:  # a subset: the values with the least numbers, the own one first or last
            ranks = noise[:, 1:].copy()
            ranks[np.arange(len(ranks)), symbols] = np.where(is_own, -1.0, 2.0)
            return (ranks.argsort(axis=1).argsort(axis=1) < exact.payload_weight).view(np.uint8)
        points = np.zeros(len(values), np.int64)
        for value in np.unique(values).tolist():
            owned = declared.set_of(value)
            for inside, members in ((True, np.flatnonzero(owned)), (False, np.flatnonzero(~owned))):
                rows = (values == value) & (is_own == inside)
                points[rows] = members[(noise[rows, 1] * len(members)).astype(np.int64)]
        return points

    def instantaneous(self, declared: Declared, kept, true, noise):
        if declared.are_vectors:
            rounds = declared.mechanism.rounds  # type: ignore[attr-defined]
            return noise[:, 1:] < chances(kept, rounds.instantaneous)
        if declared.mechanism.payload != "symbols":
            return kept
        size, stays = declared.mechanism.payload_limit, declared.mechanism.permanent_support[2]
        return np.where(noise[:, 0] < stays, kept, (noise[:, 1] * size).astype(np.int64))

    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        return reports


def chances(bits, channel):
    return np.where(bits, float(channel.keep_one), float(channel.raise_zero))


# Faults of any kind of report.


class Redrawn(SimulatedClient):  # every report draws its permanent response again
    def kept_for(self, asked: Questions) -> tuple[Any, ...]:
        return self.this_run, np.arange(len(asked))


class SharedNoise(SimulatedClient):  # all devices have the same permanent noise
    def kept_for(self, asked: Questions) -> tuple[Any, ...]:
        return self.this_run, np.zeros(len(asked))


class OneNoisePerDevice(SimulatedClient):  # each value of a device draws the same numbers
    def kept_for(self, asked: Questions) -> tuple[Any, ...]:
        return self.this_run, asked.clients


class OneNoiseForMetrics(SimulatedClient):  # each metric of a device draws the same numbers
    def kept_for(self, asked: Questions) -> tuple[Any, ...]:
        return ord(asked.prefix), asked.clients, asked.values


class SameEachTime(SimulatedClient):  # runs that start in the same second draw the same numbers
    this_run = 0


class OtherMechanism(SimulatedClient):
    """Permanent responses are those of another mechanism than declared: of a larger epsilon, or another f."""

    def __init__(self, seed, really) -> None:
        super().__init__(seed)
        self.really = really

    def permanent(self, declared: Declared, asked: Questions, true, noise):
        return super().permanent(replace(declared, mechanism=self.really), asked, true, noise)


class OneValueTrue(SimulatedClient):  # one value is not randomized
    def permanent(self, declared: Declared, asked: Questions, true, noise):
        return super().permanent(declared, asked, true, noise * (asked.values != 3)[:, None])

    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        if declared.mechanism.payload == "sets":
            return reports
        is_third = (asked.values == 3).reshape(-1, *[1] * (reports.ndim - 1))
        return np.where(is_third, declared.encoded(asked.values, cohorts), reports)


class FewCohortsTrue(SimulatedClient):  # some cohorts are not randomized
    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        return np.where(cohorts < 4, declared.encoded(asked.values, cohorts), reports)


class Repeated(SimulatedClient):  # every second fresh device sends the report of the one before
    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        if asked.phase == "fresh devices":
            reports[1::2] = reports[: 2 * (len(asked) // 2) : 2]
        return reports


class CohortOfTheValue(SimulatedClient):  # the seed follows from the value
    def cohorts(self, declared: Declared, asked: Questions):
        return (super().cohorts(declared, asked) & ~1 | asked.values & 1) % declared.num_cohorts


class FewSeeds(SimulatedClient):  # seeds come from 16 bits
    def cohorts(self, declared: Declared, asked: Questions):
        return super().cohorts(declared, asked) >> 15 << 15


class LowCohorts(SimulatedClient):  # half of the cohorts are never chosen
    def cohorts(self, declared: Declared, asked: Questions):
        return super().cohorts(declared, asked) // 2


class CohortForgotten(SimulatedClient):  # every report has a cohort of its own, and one permanent response
    def run(self, declared: Declared, asked: Questions) -> Answers:
        answers = super().run(declared, asked)
        return Answers(asked, np.random.default_rng(1).permutation(answers.cohorts), answers.reports)


# Faults of bits.


class Swapped(SimulatedClient):  # p and q are swapped
    def instantaneous(self, declared: Declared, kept, true, noise):
        return super().instantaneous(declared, ~kept, true, noise)


class OneUniform(SimulatedClient):  # all bits of a report are compared with one number
    def instantaneous(self, declared: Declared, kept, true, noise):
        return super().instantaneous(declared, kept, true, np.broadcast_to(noise[:, :1], noise.shape))


class TrueBit(SimulatedClient):  # bit 5 is never randomized
    def instantaneous(self, declared: Declared, kept, true, noise):
        return np.where(np.arange(true.shape[1]) == 5, true, super().instantaneous(declared, kept, true, noise))


class NeverCleared(SimulatedClient):  # a true bit is always sent
    def instantaneous(self, declared: Declared, kept, true, noise):
        return super().instantaneous(declared, kept, true, noise) | true


class OtherRates(SimulatedClient):
    """Each bit is sent as 1 with the same probability in every report: `one` if it is set, else `zero`."""

    def __init__(self, seed, one: float, zero: float) -> None:
        super().__init__(seed)
        self.one, self.zero = one, zero

    def instantaneous(self, declared: Declared, kept, true, noise):
        return noise[:, 1:] < np.where(true, self.one, self.zero)


class TruthNowAndThen(SimulatedClient):  # some reports are the true bits
    def __init__(self, seed, share: float) -> None:
        super().__init__(seed)
        self.share = share

    def instantaneous(self, declared: Declared, kept, true, noise):
        return np.where(noise[:, :1] < self.share, true, super().instantaneous(declared, kept, true, noise))


class OneCohortSwapped(SimulatedClient):  # in one cohort all bits are inverted
    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        return reports ^ (cohorts == 2)[:, None]


class ManyOrFew(SimulatedClient):  # some reports have more ones and others fewer: on average every rate is right
    def instantaneous(self, declared: Declared, kept, true, noise):
        return super().instantaneous(declared, kept, true, noise + np.where(noise[:, :1] < 0.5, -0.1, 0.1))


class TwoByTwo(SimulatedClient):  # every second report has the noise of the one before
    def uniform(self, purpose: str, width: int, *columns):
        drawn = super().uniform(purpose, width, *columns)
        drawn[1::2] = drawn[: 2 * (len(drawn) // 2) : 2]
        return drawn


# Faults of outputs.


class NeverTheLast(SimulatedClient):  # the last symbol, value or point is never reported
    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        if not declared.are_bits:
            return np.where(reports == declared.mechanism.payload_limit - 1, 0, reports)
        held = reports[:, -1].copy()
        reports[np.arange(len(reports)), reports.argmin(axis=1)] |= held  # the first value that it lacks, instead
        reports[:, -1] = 0
        return reports


class NextSymbol(SimulatedClient):  # a symbol that is not the own one is always the next one
    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        own = declared.encoded(asked.values, cohorts)
        return np.where(reports == own, own, (own + 1) % declared.mechanism.payload_limit)


class Neighbours(SimulatedClient):
    """The other values of a subset are neighbours of each other: each is as frequent as it should be, pairs are not."""

    def sent(self, declared: Declared, asked: Questions, cohorts, reports):
        lines, width = np.arange(len(asked)), reports.shape[1]
        own = np.array(declared.values)[asked.values]
        held = reports[lines, own]
        start = (self.uniform("neighbours", 1, self.run_number, asked.clients)[:, 0] * (width - 1)).astype(np.int64)
        place = (np.arange(width) - own[:, None] - 1) % width  # among the other values, which begin after the own one
        chosen = (place - start[:, None]) % (width - 1) < (declared.mechanism.payload_weight or 0) - held[:, None]
        chosen[lines, own] = held
        return chosen.view(np.uint8)


def f_for(epsilon: float) -> float:
    """The f with which a report has that epsilon, p and q being the paper's."""
    low, high = 0.0, 0.5
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if mechanism("rappor", **SMALL, f=middle).epsilon_report > epsilon else (low, middle)
    return high
