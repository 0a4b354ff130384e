"""Forward secrecy: once a metric is over, a device that is taken opens none of its reports, here or in a store.

A thief here has the folder's files, and everything that the collector ever received; he tests guesses.
"""

import hashlib
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.client import Outcome
from overstory.client.budget import ledger_of
from overstory.client.person.view import report_in
from overstory.client.randomizer import randomizer_of
from overstory.client.state import secret_file
from overstory.client.state import state as state_module
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState, ends_at
from overstory.client.state.secret_file import DEPTH, DeviceSecret, read_secret, write_secret
from overstory.client.state.state import State
from overstory.privacy.registry.cost import metric_cost
from support.collector_doubles import CountingCollector
from support.devices import BINS, DAY, NOON, STRINGS, Clock, device, queue_report, registry

ENDS, STAYS = "ending", "staying"
SOON, FAR = "2026-11-25", "2099-01-01"
VALUES = ("a page", "another page")
GUESSES = (*VALUES, "a third", "a fourth")


def metrics(expires=SOON):
    ending, staying = registry(expires=expires, ending=STRINGS), registry(expires=FAR, staying=STRINGS, counted=BINS)
    return type(ending)({**ending, **staying}, "now")


def reported(folder, clock, collector, *, hours=6):
    """A device that has reported two pages in turn, under both metrics; one report of each waits."""
    client = device(folder, clock=clock, registry=metrics(), server="http://c", transport=collector, spread=0)
    for hour in range(hours):
        clock.now += 3600
        for name in (ENDS, STAYS):
            assert client.record(name, VALUES[hour % 2]) is Outcome.RECORDED
        if hour < hours - 1:
            client.flush()
    client._session.flush(client._sources, 5)
    client._closed = True
    return client.paths


CUT = {
    secret_file: ("create", "sync_folder", "overwrite_secret"),
    os: ("link",),
    Path: ("replace", "rename", "unlink"),
    state_module: ("connected", "sync_folder", "_is_marked"),
}


class Killed(BaseException):
    """The process ends here."""


def cut_at(patched, number):
    """Let this process end before its step `number`, counting from 0 every call that touches the disk, and after it."""
    done = []

    def wrap(real):
        def step(*arguments, **named):
            for now in ("before", "after"):
                done.append(now)
                if len(done) > number:
                    raise Killed
                if now == "before":
                    answer = real(*arguments, **named)
            return answer

        return step

    for owner, names in CUT.items():
        for name in names:
            patched.setattr(owner, name, wrap(getattr(owner, name)))


def every_cut(monkeypatch, make, act, check):
    """Cut `act` at every step on states that `make` makes, and `check` each; return how many steps there are."""
    for number in range(1000):
        folder = make(number)
        with monkeypatch.context() as patched:
            cut_at(patched, number)
            try:
                act(folder)
            except Killed:
                cut = True
            else:
                cut = False
        check(folder)
        if not cut:
            return number
    raise AssertionError("it never ends")


def opened(paths, bodies, name):
    """Every report in these bodies that a guess opens: it is what the device with these files makes of the value."""
    secret, metric, found = read_secret(paths.secret), metrics()[name], {}
    key = secret.key(metric.id)
    if key is None:
        return found
    own = randomizer_of(metric, key)
    for body in bodies:
        upload, report = report_in(body)
        for guess in GUESSES:
            batch, said = own.report_in(upload.period, own.permanent(guess))
            if upload.metric == name and said == report:
                assert batch == upload.batch
                found[body] = guess
    return found


def everything(paths):
    return b"".join(path.read_bytes() for path in paths.folder.iterdir())


@pytest.fixture
def life(tmp_path):
    """A device's files of before the end, and of after it, and all that a collector was sent."""
    clock, collector = Clock(), CountingCollector()
    paths = reported(tmp_path, clock, collector)
    shutil.copytree(paths.folder, tmp_path / "before")
    clock.now = ends_at(metrics()[ENDS])
    again = device(tmp_path, clock=clock, registry=metrics(), choice=None)
    assert again.flush().problem is None
    with State(StatePaths(tmp_path / "before")).snapshot() as rows:
        waiting = [row.body for row in rows.outbox.rows(state=RowState.WAITING)]
    return StatePaths(tmp_path / "before"), paths, [*collector.bodies, *waiting], clock


def test_before_the_end_who_takes_the_device_opens_everything(life):
    """What the secret is worth while it is there; and that the thief of this test can open what can be opened."""
    before, _, bodies, _ = life
    for name in (ENDS, STAYS):
        found = opened(before, bodies, name)
        assert len(found) == 6
        assert sorted(found.values()) == sorted(VALUES * 3)


def test_after_the_end_nothing_of_it_can_be_opened(life):
    before, after, bodies, _ = life
    assert opened(after, bodies, ENDS) == {}
    assert len(opened(after, bodies, STAYS)) == 6
    (root,) = read_secret(before.secret)._nodes
    files = everything(after)
    for node in walked(root.key, ENDS):
        assert node not in files
    with State(before).snapshot() as rows:
        responses, queue = rows.responses(ENDS), rows.outbox.rows(ENDS)
    needles = [one.tag for one in responses] + [one.permanent.to_bytes(16, "little") for one in responses]
    needles += [row.body[-20:-4] for row in queue] + [row.body[8:24] for row in queue if row.state is RowState.WAITING]
    assert len(needles) > 10
    assert all(needle in everything(before) for needle in needles)
    assert not any(needle in files for needle in needles)


def test_the_ledger_of_what_is_over_stays(life):
    before, after, _, _ = life
    states = []
    for paths in (before, after):
        with State(paths).snapshot() as rows:
            cost = metric_cost(metrics()[ENDS], so_far=ledger_of(rows))
            states.append((cost.reports, cost.distinct, cost.headline.epsilon, rows.claims(ENDS)))
    assert states[0] == states[1]
    assert states[0][:2] == (6, 2)


def test_what_is_over_stays_over_whatever_a_later_registry_says(tmp_path, life):
    *_, clock = life
    client = device(tmp_path, clock=clock, registry=metrics(FAR))
    assert client.record(ENDS, "a page") is Outcome.EXPIRED
    assert client.record(STAYS, "a page") is Outcome.RECORDED
    assert client.flush().written == {"queued": 1}
    assert "erased: the metric is over" in str(shown(client.paths))


def shown(paths):
    from overstory.client.person.view import view_metrics

    with State(paths).snapshot() as rows:
        return view_metrics(rows, metrics())


def test_a_renewal_in_time_keeps_the_key(tmp_path, clock):
    paths = reported(tmp_path, clock, CountingCollector())
    renewed = device(tmp_path, clock=clock, registry=metrics(FAR))
    renewed.record(ENDS, "a page")
    renewed.close()
    clock.now = ends_at(metrics()[ENDS]) + 1
    assert device(tmp_path, clock=clock, registry=metrics(FAR)).record(ENDS, "a page") is Outcome.RECORDED
    device(tmp_path, clock=clock, registry=metrics()).flush()  # an older program: the latest end counts
    assert read_secret(paths.secret).key(ENDS) is not None


def test_the_key_lives_until_the_last_report_can_be_sent(tmp_path, clock):
    paths = reported(tmp_path, clock, CountingCollector())
    metric = metrics()[ENDS]
    assert ends_at(metric) == metric.expires_at + metric.grace_days * DAY
    clock.now = ends_at(metric) - 1
    device(tmp_path, clock=clock, registry=metrics()).flush()
    assert read_secret(paths.secret).key(ENDS) is not None


def test_a_program_that_runs_on_destroys_the_key_too(tmp_path, clock):
    client = device(tmp_path, clock=clock, registry=metrics())
    client.record(ENDS, "a page")
    queue_report(client, STAYS, "a page")
    session = client._session
    clock.now = ends_at(metrics()[ENDS])
    client.flush()
    assert session.state.secret.key(ENDS) is None
    assert set(session._recorders) == {STAYS}
    assert client.record(ENDS, "a page") is Outcome.EXPIRED
    assert client.record(STAYS, "a page") is Outcome.RECORDED


@pytest.mark.parametrize(
    ("recorded", "again"),
    [((ENDS, STAYS), True), ((ENDS, STAYS), False), ((STAYS,), False)],
    ids=["recorded before and after", "recorded before", "not recorded before"],
)
def test_a_key_that_another_process_destroyed_is_found_and_not_held_here(tmp_path, recorded, again):
    """The clock of the other was far ahead: the metric goes on by this one's, and its key is gone all the same."""
    reported(tmp_path, Clock(), CountingCollector())
    clock = Clock(NOON + DAY)
    client = device(tmp_path, clock=clock, registry=metrics())
    for name in recorded:
        assert client.record(name, "a page") is Outcome.RECORDED
    client.flush()
    State(client.paths).retire(metrics(), ends_at(metrics()[ENDS]))
    clock.now += 3600
    for name in recorded if again else ():
        assert client.record(name, "a page") is Outcome.RECORDED  # it has not looked yet
    if ENDS not in recorded:
        assert client.record(ENDS, "a page") is Outcome.EXPIRED
    assert client.flush().written == ({"ended": 1, "queued": 1} if again else {})
    session = client._session
    assert session.state.secret.key(ENDS) is None
    assert set(session._recorders) == {STAYS}
    clock.now += 3600
    assert client.record(ENDS, "a page") is Outcome.EXPIRED
    assert client.record(STAYS, "a page") is Outcome.RECORDED


def test_what_is_over_and_cannot_be_destroyed_keeps_no_other_metric_from_being_recorded(tmp_path, clock):
    """Another process holds the database; one metric is over. The others wait once at most, and go on."""
    paths = reported(tmp_path, clock, CountingCollector())
    clock.now = ends_at(metrics()[ENDS])
    client = device(tmp_path, clock=clock, registry=metrics(), choice=None)
    client._begun()._opened()
    waited = []
    transaction = client._session.state.transaction

    def counted(timeout=0.01):
        waited.append(timeout)
        return transaction(0.01)

    client._session.state.transaction = counted
    with closing(sqlite3.connect(paths.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for name, value in ((STAYS, "a page"), ("counted", 7)):
            assert client.record(name, value) is Outcome.RECORDED
        assert client.record(ENDS, "a page") is Outcome.EXPIRED
        assert len(waited) == 1
        assert read_secret(paths.secret).key(ENDS) is not None
    del client._session.state.transaction
    assert client.flush().written == {"queued": 2}
    clock.now += 3600
    client.flush()
    assert read_secret(paths.secret).key(ENDS) is None


def test_killed_at_any_step_a_key_is_whole_or_gone_and_then_gone(tmp_path, monkeypatch, clock):
    whole = reported(tmp_path, clock, CountingCollector())
    kept = read_secret(whole.secret).key(STAYS)
    over = ends_at(metrics()[ENDS])

    def make(number):
        shutil.copytree(whole.folder, tmp_path / str(number))
        return StatePaths(tmp_path / str(number))

    def act(paths):
        State(paths).retire(metrics(), over)

    def check(paths):
        state = State(paths)
        state.begin()
        state.retire(metrics(), over)
        assert read_secret(paths.secret).key(ENDS) is None
        assert read_secret(paths.secret).key(STAYS) == kept
        names = sorted(path.name for path in paths.folder.iterdir())
        assert names == ["application.json", "consent.json", "lock", "secret", "state.db"]
        with state.snapshot() as rows:
            assert rows.erased() == {ENDS}

    assert every_cut(monkeypatch, make, act, check) > 8


def test_what_is_settled_has_lost_its_batch_id(tmp_path):
    """Who takes the device has no list of ids to search a store's files for; while it waits, a report needs its id."""
    clock, collector = Clock(NOON), CountingCollector()
    paths = reported(tmp_path, clock, collector)
    files = everything(paths)
    ids = {report_in(body)[0].batch for body in collector.bodies}
    assert len(ids) == 10
    assert not any(batch in files for batch in ids)
    with State(paths).snapshot() as rows:
        waiting = rows.outbox.rows(state=RowState.WAITING)
    assert len(waiting) == 2
    assert all(row.batch in files and row.batch not in ids for row in waiting)
    assert all(row.batch == report_in(row.body)[0].batch for row in waiting)


# --- the key tree: what is taken away is gone, and nothing else is ----------------------------------------------------

ROOT = bytes(range(32))
names = st.text("abcdefgh", min_size=1, max_size=6)


def walked(root, metric):
    """The keys on the way from the root to a metric's leaf, from the words that describe the tree."""
    leaf = hashlib.blake2b(metric.encode(), digest_size=8, person=b"metric leaf").digest()
    bits = "".join(f"{octet:08b}" for octet in leaf)
    path = [root]
    for bit in bits:
        path.append(hashlib.blake2b(bytes([int(bit)]), key=path[-1], digest_size=32, person=b"key tree").digest())
    return path


@settings(max_examples=50)
@given(st.lists(names, max_size=6), st.lists(names, max_size=6))
def test_only_what_is_taken_away_is_gone(taken, others):
    tree = DeviceSecret.of_root(ROOT).without(taken)
    held = {node.key for node in tree._nodes}
    for metric in taken:
        assert tree.key(metric) is None
        assert not held & set(walked(ROOT, metric)), "no node on its way is left"
    for metric in set(others) - set(taken):
        assert tree.key(metric) == walked(ROOT, metric)[-1]
    assert len(held) <= 1 + DEPTH * len(set(taken))


def test_a_tree_that_keeps_the_last_node_is_caught():
    """What the check above is worth: the leaf's parent gives the key back."""
    parent = walked(ROOT, "colour")[-2]
    bit = walked(ROOT, "colour")[-1]
    assert bit in {hashlib.blake2b(bytes([b]), key=parent, digest_size=32, person=b"key tree").digest() for b in (0, 1)}
    assert parent not in {node.key for node in DeviceSecret.of_root(ROOT).without(["colour"])._nodes}


@settings(max_examples=25)
@given(st.lists(names, max_size=4))
def test_a_secret_comes_back_from_its_file(tmp_path_factory, taken):
    path = tmp_path_factory.mktemp("secret") / "secret"
    secret = DeviceSecret.of_root(ROOT).without(taken)
    write_secret(path, secret)
    again = read_secret(path)
    assert again.reveal() == secret.reveal()
    assert again.fingerprint == secret.fingerprint
    assert all(again.key(metric) is None for metric in taken)
    assert again.key("another metric") == secret.key("another metric") is not None
