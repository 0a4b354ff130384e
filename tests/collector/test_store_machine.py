"""A store against lists in memory: whatever is done to it, in whatever order, it says what they say."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from overstory.collector.store import open_store
from support.store_databases import KINDS, fresh
from support.store_samples import DAY, NOW, Model, received, registry, reports

METRICS = ("bloom", "colour", "size", "tree")
PERIODS = (20_000, 20_001)
BATCHES = st.lists(
    st.tuples(st.sampled_from(METRICS), st.sampled_from(PERIODS), st.integers(0, 5), st.integers(1, 30)), max_size=4
)


class StoreMachine(RuleBasedStateMachine):
    """Add (again), compact, retain, reopen; every counting agrees with the model's."""

    def __init__(self, kind: str, folder: Path) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.url = self.stack.enter_context(fresh(kind, folder))
        self.metrics, self.model = registry(folder=folder), Model()
        self.store = open_store(self.url, self.metrics, create=True)

    @rule(batches=BATCHES)
    def add(self, batches: Any) -> None:
        given, expected = [], []
        for name, period, size, number in batches:
            # A batch's content follows from its id, as a sender's does: what is sent again is the same.
            batch = f"{name} {period} {size} {number}".encode().ljust(16)[:16]
            sent = reports(self.metrics[name], size, random.Random(repr(batch)))
            given.append(received(self.metrics[name], period, sent, batch=batch))
            expected.append(self.model.add(self.metrics[name], period, batch, sent))
        assert self.store.add(given) == expected

    @rule()
    def compact(self) -> None:
        done = self.store.compact(NOW)
        assert not done.waiting
        assert done.forgotten == 0
        assert done.reports == self.model.compact(self.metrics)
        assert done.rows == 0 or self.store.compact(NOW).rows == 0

    @rule()
    def retain_everything(self) -> None:
        assert self.store.retain(NOW).reports == 0

    @rule()
    def retain_nothing(self) -> None:
        assert self.store.retain(NOW + 1000 * DAY).reports == self.model.retain(self.metrics)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.url)

    @invariant()
    def agrees(self) -> None:
        for name in METRICS:
            expected = self.model.counts(self.metrics[name])
            found = self.store.counts(self.metrics[name], *PERIODS)
            assert found == expected
            sums = self.store.sums(self.metrics[name], *PERIODS)
            # Retention deletes sums with their reports; until then they are of all reports.
            assert all(sums[period].num_reports <= expected[period].num_reports for period in sums)
            assert self.store.periods(name) == sorted(expected)

    def teardown(self) -> None:
        self.store.close()
        self.stack.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_what_lists_in_memory_are(kind: str, server_folder: Path) -> None:
    few = settings(
        max_examples=12,
        stateful_step_count=12,
        deadline=None,
        phases=[phase for phase in Phase if phase is not Phase.shrink],  # which takes minutes
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: StoreMachine(kind, server_folder), settings=few)
