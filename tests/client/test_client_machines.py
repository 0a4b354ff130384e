"""State machines: outbox, memo with its ledger, consent, each beside a model of a few lines."""

import os
import tempfile
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from overstory.client import Choice, Outcome
from overstory.client.budget import ledger_of
from overstory.client.consent import choose, read_consent
from overstory.client.outcomes import ConsentError
from overstory.client.randomizer import randomizer_of
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import Bounds, RowState
from overstory.client.state.state import State, erase
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.terms import terms_of
from overstory.protocol.wire.upload import decode_batch, decode_uploads
from support.devices import BINS, Clock, device, registry

OF_NEW_ROWS = st.sampled_from([RowState.WAITING, RowState.WAITING, RowState.LOCAL])
FEW = settings(max_examples=25, stateful_step_count=25)
# Thousands of transactions: what waits for a disk is tested elsewhere.
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class WithFolder(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(dir=IN_MEMORY)
        self.folder = Path(self._folder.name)

    def teardown(self):
        self._folder.cleanup()


class OutboxMachine(WithFolder):
    """The outbox against a list: order, bounds, leases, and that what is settled stays settled."""

    bounds = Bounds(waiting_rows=5, waiting_bytes=60, kept_rows=4)
    numbers = Bundle("numbers")

    def __init__(self):
        super().__init__()
        self.state = State(StatePaths(self.folder / "state"), bounds=self.bounds)
        self.state.begin()
        self.model, self.now, self.made = [], 1000.0, 0

    def find(self, number):
        return next((row for row in self.model if row["id"] == number), None)

    def forget(self):
        settled = [row for row in self.model if row["state"] != "waiting"]
        for row in settled[: max(len(settled) - self.bounds.kept_rows, 0)]:
            self.model.remove(row)

    @rule(target=numbers, size=st.integers(1, 40), delay=st.integers(0, 50), state=OF_NEW_ROWS)
    def add(self, size, delay, state):
        self.made += 1
        row = {"id": self.made, "size": size, "due": self.now + delay, "state": str(state), "attempts": 0}
        with self.state.transaction() as rows:
            body, batch = bytes(size), self.made.to_bytes(16, "little")
            rows.outbox.add(batch, "colour", self.made, body, account=bytes(16), due=row["due"], state=state)
            dropped = rows.outbox.trim()
        self.model.append(row)
        waiting = [r for r in self.model if r["state"] == "waiting"]
        expected = 0
        while len(waiting) > 1 and (len(waiting) > 5 or sum(r["size"] for r in waiting) > 60):
            waiting.pop(0)["state"] = "dropped"
            expected += 1
        assert dropped == expected
        self.forget()
        return row["id"]

    @rule(number=consumes(numbers), state=st.sampled_from([RowState.SENT, RowState.DROPPED]))
    def settle(self, number, state):
        row = self.find(number)
        with self.state.transaction() as rows:
            changed = rows.outbox.finish(number, state, "said")
        assert changed == (row is not None and row["state"] == "waiting")
        if changed:
            row["state"] = str(state)
        self.forget()

    @rule(number=numbers, delay=st.integers(0, 100))
    def postpone(self, number, delay):
        row = self.find(number)
        with self.state.transaction() as rows:
            rows.outbox.postpone(number, self.now + delay, 3, "later")
        if row is not None and row["state"] == "waiting":
            row.update(due=self.now + delay, attempts=3)

    @rule(limit=st.integers(1, 4), lease=st.integers(1, 30))
    def take_due(self, limit, lease):
        with self.state.transaction() as rows:
            taken = rows.outbox.take_due(self.now, limit, lease)
        due = [row for row in self.model if row["state"] == "waiting" and row["due"] <= self.now]
        assert {row.id for row in taken} <= {row["id"] for row in due}
        assert len(taken) == min(limit, len(due))
        for row in taken:
            expected = self.find(row.id)
            assert row.attempts == expected["attempts"], "what is returned is as it was"
            expected.update(due=self.now + lease, attempts=expected["attempts"] + 1)

    @rule(to=st.sampled_from([RowState.DROPPED, RowState.LOCAL]))
    def withdraw(self, to):
        waiting = [row for row in self.model if row["state"] == "waiting"]
        with self.state.transaction() as rows:
            assert rows.outbox.withdraw(to, "consent withdrawn") == len(waiting)
        for row in waiting:
            row["state"] = str(to)
        self.forget()

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds):
        self.now += seconds

    @invariant()
    def they_agree(self):
        with self.state.snapshot() as rows:
            found = rows.outbox.rows()
            tally = rows.outbox.tally()
        expected = [(row["id"], row["state"], row["attempts"]) for row in self.model]
        assert [(row.id, str(row.state), row.attempts) for row in found] == expected
        for row, expected in zip(found, self.model, strict=True):
            assert row.due == (expected["due"] if row.state is RowState.WAITING else 0)
        assert {str(s): n for s, n in tally.items() if n} == dict(Counter(row["state"] for row in self.model))


TestOutbox = OutboxMachine.TestCase
TestOutbox.settings = FEW

RULES = ("drop", "first", "nearest")
CAPPED = registry(**{rule: BINS + f'max_values = 3\nover_cap = "{rule}"\n' for rule in RULES}, free=BINS)
COLOUR = 'domain = {kind = "categories", names = ["red", "green"]}\noracle = "grr"\nperiod = "day"\n'
COLOUR += "parameters = {epsilon = 1.0}\n"
METRICS = st.sampled_from(list(CAPPED))
VALUES = st.sampled_from([0, 1, 5, 6, 40, 98, 99])


class MemoMachine(WithFolder):
    """Two processes' worth of clients on one state: permanent responses, caps, and the ledger against the reports."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.clients = [self.client(), self.client()]
        self.known = {name: [] for name in CAPPED}  # values reported, in order
        self.reports = {name: Counter() for name in CAPPED}  # by the place of their value in `known`

    def client(self):
        return device(self.folder, clock=self.clock, registry=CAPPED)

    def chosen(self, name, value):
        known = self.known[name]
        held = [v for v in known if v is not None]
        if value in known or name == "free" or len(held) < 3:
            return value
        by_rule = {"drop": None, "first": known[0], "nearest": min(held, key=lambda k: (abs(k - value), k))}
        return by_rule[name]

    @rule(which=st.integers(0, 1), name=METRICS, value=VALUES)
    def record_and_flush(self, which, name, value):
        client = self.clients[which]
        self.clock.tomorrow()
        expected = self.chosen(name, value)
        outcome = client.record(name, value)
        # A process that has not yet seen what the other reported takes the value; its flush sends nothing instead.
        assert outcome is Outcome.RECORDED or (expected is None and outcome is Outcome.CAPPED)
        assert client.flush().written == {"queued": 1}
        self.charge(name, self.reported(name, value, expected, self.last_report()))

    def last_report(self):
        with State(self.clients[0].paths).snapshot() as rows:
            row = rows.outbox.rows()[-1]
            (response,) = [r for r in rows.responses(row.metric) if r.number == row.response]
        (report,) = decode_batch(decode_uploads(row.body, 1)[0].reports)
        return response, report

    def reported(self, name, value, expected, found):
        """Return the value whose permanent response went out: the expected one, or one this process knew of."""
        response, _ = found
        candidates = {expected, *self.known[name]} if expected != value else {expected}
        (mine,) = [v for v in candidates if self.permanent(name, v) == response.permanent]
        return mine

    def permanent(self, name, value):
        secret = State(self.clients[0].paths).begin().key(name)
        randomizer = randomizer_of(CAPPED[name], secret)
        return randomizer.nothing() if value is None else randomizer.permanent(value)

    def charge(self, name, value):
        if value not in self.known[name]:
            self.known[name].append(value)
        self.reports[name][self.known[name].index(value)] += 1

    @rule(which=st.integers(0, 1))
    def restart(self, which):
        self.clients[which].close()
        self.clients[which] = self.client()

    @rule(which=st.integers(0, 1), name=METRICS, value=VALUES)
    def crash(self, which, name, value):
        """What was recorded and not flushed is gone, with its claim on the period."""
        self.clock.tomorrow()
        self.clients[which].record(name, value)
        self.clients[which] = self.client()

    @invariant()
    def the_ledger_is_what_was_spent(self):
        state = State(self.clients[0].paths)
        if not state.exists:
            return
        with state.snapshot() as rows:
            charged = {account.metric: dict(account.numbered) for account in ledger_of(rows).accounts}
            assert charged == {name: dict(reports) for name, reports in self.reports.items() if reports}
            for name, metric in CAPPED.items():
                found = metric_cost(metric, so_far=ledger_of(rows))
                assert found.distinct == len(self.known[name])
                if made := sum(self.reports[name].values()):
                    assert found.headline.epsilon == terms_of(metric.mechanism).epsilon_any(made)
                if name != "free":
                    assert found.distinct <= metric.max_responses
                responses = rows.responses(name)
                assert [r.permanent for r in responses] == [self.permanent(name, v) for v in self.known[name]]

    def teardown(self):
        for client in self.clients:
            client.close()
        super().teardown()


TestMemo = MemoMachine.TestCase
TestMemo.settings = FEW


class ConsentMachine(WithFolder):
    """Choices, reports, restarts and forgetting: nothing waits that the consent in force does not vouch for."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.registries = [registry(), registry(version="later", extra=BINS, colour=COLOUR)]
        self.shown = 0
        self.client = self.anew()
        self.choice, self.covered = None, set()
        self.unflushed, self.waiting, self.ever_withdrawn = [], [], set()

    def anew(self):
        return device(self.folder, clock=self.clock, registry=self.registries[self.shown], choice=None, spread=0)

    @rule(choice=st.sampled_from(list(Choice)))
    def choose(self, choice):
        made = self.client.consent(choice)
        assert made == read_consent(self.client.paths)
        assert made.date == datetime.fromtimestamp(self.clock.now, UTC).date().isoformat()
        covered = {(name, m.digest) for name, m in self.registries[self.shown].items()}
        renewed = choice is Choice.ON and self.choice is Choice.ON
        going_on = {name for name, _ in covered & self.covered} if renewed else set()
        # What the new choice does not cover as it was may not go out any more.
        self.unflushed = [report for report in self.unflushed if report[0] in going_on]
        self.waiting = [report for report in self.waiting if report[0] in going_on]
        self.choice, self.covered = choice, covered
        assert made.missing(self.registries[self.shown]) == {}

    @rule(name=st.sampled_from(["colour", "engine", "extra"]))
    def record(self, name):
        self.clock.tomorrow()
        shown = self.registries[self.shown]
        outcome = self.client.record(name, {"colour": "red", "engine": "x", "extra": 3}[name])
        if name not in shown:
            assert outcome is Outcome.UNKNOWN
        elif self.choice is None:
            assert outcome is Outcome.NOT_ASKED
        elif self.choice is Choice.OFF:
            assert outcome is Outcome.OFF
        elif (name, shown[name].digest) not in self.covered:
            assert outcome is Outcome.NOT_ASKED
        else:
            assert outcome is Outcome.RECORDED
            if self.choice is Choice.ON:
                self.unflushed.append((name, shown[name].period.number(self.clock.now)))

    @rule()
    def flush(self):
        assert self.client.flush().problem is None
        self.waiting += self.unflushed
        self.unflushed = []

    @rule()
    def crash(self):
        self.client, self.unflushed = self.anew(), []

    @rule(shown=st.integers(0, 1))
    def another_version_of_the_program(self, shown):
        self.flush()
        self.shown = shown
        self.client = self.anew()

    @rule()
    def forget(self):
        erase(self.client.paths)
        self.client = self.anew()
        self.choice, self.covered, self.unflushed, self.waiting = None, set(), [], []

    @rule()
    def damage_the_file(self):
        if self.choice is None:
            return
        self.client.paths.consent.write_text('{"consent": 1, "choice": "on"}')
        with pytest.raises(ConsentError):
            read_consent(self.client.paths)
        assert self.client.record("colour", "red") is Outcome.OFF
        assert "not a choice that was written here" in self.client.status().effective.cause
        self.choice, self.unflushed = Choice.OFF, []
        choose(self.client.paths, self.registries[self.shown], Choice.OFF, date(2026, 11, 21))
        self.covered = {(name, m.digest) for name, m in self.registries[self.shown].items()}
        self.waiting = []

    @invariant()
    def only_what_is_consented_to_waits(self):
        state = State(self.client.paths)
        if state.exists:
            with state.snapshot() as rows:
                found = [(row.metric, row.period) for row in rows.outbox.rows(state=RowState.WAITING)]
            assert found == self.waiting


TestConsent = ConsentMachine.TestCase
TestConsent.settings = FEW


def test_local_reports_are_not_charged_and_count_towards_the_cap(tmp_path, clock):
    client = device(tmp_path, clock=clock, registry=CAPPED, choice="local")
    for value in (1, 2, 3, 4):
        clock.tomorrow()
        last = client.record("drop", value)
    assert last is Outcome.CAPPED
    assert client.flush().written == {"kept": 4}
    with State(client.paths).snapshot() as rows:
        assert [(r.reports, r.kept) for r in rows.responses("drop")] == [(0, 1)] * 4
        assert ledger_of(rows).epsilon_any == 0
    client.consent("on")
    clock.tomorrow()
    assert client.record("drop", 4) is Outcome.CAPPED
    clock.tomorrow()
    assert client.record("drop", 2) is Outcome.RECORDED
    client.flush()
    with State(client.paths).snapshot() as rows:
        assert [(r.reports, r.kept) for r in rows.responses("drop")] == [(0, 1), (1, 1), (0, 1), (1, 1)]
        assert rows.outbox.tally()[RowState.LOCAL] == 4
