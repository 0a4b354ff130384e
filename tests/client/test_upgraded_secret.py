"""A state of before the key tree: what was reported keeps its permanent responses where that is safe, or it says so."""

import json
import math
import os
from pathlib import Path

import pytest

from overstory.client import Outcome
from overstory.client.budget import spent
from overstory.client.randomizer import Randomizer
from overstory.client.state import lifecycle, secret_file
from overstory.client.state.paths import StatePaths
from overstory.client.state.secret_file import metric_key, read_secret
from overstory.client.state.state import State
from support import states_before
from support.devices import DAY, DEFAULT, NOON, Clock, device, registry

LATER = NOON + 10 * DAY
TWO = {"page": 0.5, "site": 0.25}


@pytest.fixture
def paths(tmp_path):
    return StatePaths(tmp_path / "state")


def old(paths, metrics, told=states_before.TOLD_2):
    states_before.write_2(
        paths.folder, list(states_before.reports_2(metrics, told)), list(dict(states_before.terms_2(metrics)).items())
    )


def responses(paths, metric):
    with State(paths).snapshot() as rows:
        return {one.number: (one.permanent, one.reports) for one in rows.memo.responses(metric)}


def test_the_fixture_is_what_the_code_makes(tmp_path):
    """The version before wrote it: tags and responses by the legacy derivation are the same."""
    again = tmp_path / "again"
    metrics = states_before.registry_2()
    states_before.write_2(again, list(states_before.reports_2(metrics, states_before.TOLD_2)), [])
    found = []
    for folder in (states_before.FOLDER_2, again):
        states_before.copy(tmp_path / f"copy of {folder.name}", folder)
        with State(StatePaths(tmp_path / f"copy of {folder.name}")).snapshot() as rows:
            found.append([(one.metric, one.tag, one.permanent) for one in rows.memo.responses()])
    assert found[0] == found[1]
    assert len(found[0]) == 4


@pytest.mark.parametrize("vector", [states_before.FOLDER, states_before.FOLDER_2], ids=lambda folder: folder.name)
def test_a_state_of_before_opens_and_becomes_this_version(paths, vector):
    states_before.copy(paths.folder, vector)
    secret = State(paths).begin()
    assert secret.legacy == states_before.RAW
    assert paths.secret.read_bytes()[4] == 2
    assert State(paths).begin().reveal() == read_secret(paths.secret).reveal() == secret.reveal()
    assert sorted(path.name for path in paths.folder.iterdir()) == ["lock", "secret", "state.db"]


def test_what_was_reported_keeps_its_permanent_responses(tmp_path, paths):
    """Two colours, and two pages of the one metric of Google's family."""
    states_before.copy(paths.folder, states_before.FOLDER_2)
    before = {name: responses(paths, name) for name in ("colour", "page")}
    client = device(tmp_path, registry=states_before.registry_2(), clock=Clock(LATER))
    for day, (name, value) in enumerate(states_before.TOLD_2):
        client._clock.now = LATER + day * DAY
        assert client.record(name, value) is Outcome.RECORDED
    assert client.flush().written == {"queued": 4}
    for name, known in before.items():
        assert responses(paths, name) == {number: (held, n + 1) for number, (held, n) in known.items()}
    assert client.status().caveats == ()


def test_a_metric_that_was_not_reported_before_follows_from_the_tree(tmp_path, paths):
    states_before.copy(paths.folder, states_before.FOLDER_2)
    metrics = registry(engine=DEFAULT["engine"])
    client = device(tmp_path, registry=metrics, clock=Clock(LATER))
    client.record("engine", "x")
    client.flush()
    secret = State(paths).begin()
    tree, legacy = (
        Randomizer(metrics["engine"].mechanism, secret=key, metric="engine").permanent("x")
        for key in (secret.key("engine"), states_before.RAW)
    )
    assert [held for held, _ in responses(paths, "engine").values()] == [tree]
    assert tree != legacy


def test_two_metrics_that_shared_their_noise_do_so_no_longer_and_the_ledger_says_what_is_out(tmp_path, paths):
    metrics = states_before.registry_2(**TWO)
    old(paths, metrics, (*states_before.TOLD_2, ("site", "a page")))
    before = {name: responses(paths, name) for name in ("page", "site")}
    client = device(tmp_path, registry=metrics, clock=Clock(LATER))
    for name in ("colour", "page", "site"):
        assert client.record(name, "red" if name == "colour" else "a page") is Outcome.RECORDED
    client.flush()
    for name, known in before.items():
        now = responses(paths, name)
        assert {number: now[number] for number in known} == known
        (own,) = now.keys() - known.keys()  # a response of its own, by the key of its own
        expected = Randomizer(metrics[name].mechanism, secret=State(paths).begin().key(name), metric=name)
        assert now[own] == (expected.permanent("a page"), 1)
    with State(paths).snapshot() as rows:
        costs = {name: spent(rows, metrics[name]).epsilon for name in metrics}
    assert math.isinf(costs["page"])
    assert math.isinf(costs["site"])
    assert math.isfinite(costs["colour"])
    (said,) = client.status().caveats
    assert "(page, site)" in said
    assert said in list(client.status().words())


CAPPED = states_before.GOOGLE + 'max_values = 1\nover_cap = "{over_cap}"\n'


@pytest.mark.parametrize("over_cap", ["first", "drop"])
@pytest.mark.parametrize(
    "before", [{"page": 0.5, "site": 0.5}, {"page": 0.25, "site": 0.25}], ids=["the same", "other parameters"]
)
def test_at_the_cap_a_response_that_shared_its_noise_is_not_reported_again(tmp_path, paths, before, over_cap):
    """The response of before filled the cap of one value, and every report after was one of it, the shared noise."""
    reported = registry(**{name: CAPPED.format(f=f, over_cap=over_cap) for name, f in before.items()})
    metrics = registry(**{name: CAPPED.format(f=0.5, over_cap=over_cap) for name in before})
    old(paths, reported, [("page", "a page"), ("site", "a page")])
    known, clock = {name: responses(paths, name) for name in before}, Clock(LATER)
    if over_cap == "first":
        after = [(0, Outcome.RECORDED, 1), (0, Outcome.RECORDED, 2), (0, Outcome.RECORDED, 3)]
    else:
        after = [(0, Outcome.RECORDED, 1), (1, Outcome.CAPPED, 1), (0, Outcome.RECORDED, 2)]
    for value, (place, outcome, reports) in zip(("a page", "another", "a page"), after, strict=True):
        with device(tmp_path, registry=metrics, clock=clock) as client:
            for name in before:
                assert client.record(name, value) is outcome
            assert client.flush().written == {"queued": 2}
        clock.tomorrow()
        for name, (shared,) in ((name, one.values()) for name, one in known.items()):
            with State(paths).snapshot() as rows:
                found = [(one.permanent, one.reports) for one in rows.memo.responses(name)]
            assert shared in found
            found.remove(shared)
            own = Randomizer(metrics[name].mechanism, secret=State(paths).begin().key(name), metric=name)
            assert found[place] == ((own.permanent("a page"), own.nothing())[place], reports)
            assert len(found) <= 1 + (over_cap == "drop")
    with State(paths).snapshot() as rows:
        assert all(math.isinf(spent(rows, metrics[name]).epsilon) for name in metrics)


def test_the_last_place_goes_to_no_response_that_shared_its_noise(tmp_path, paths):
    """Two processes at the cap of one value: the second one to write sends the first one's, of the key of its own."""
    metrics = registry(**{name: CAPPED.format(f=0.5, over_cap="first") for name in TWO})
    old(paths, metrics, [("page", "a page"), ("site", "a page")])
    (shared,) = responses(paths, "page").values()
    clock = Clock(LATER)
    one, two = (device(tmp_path, registry=metrics, clock=clock) for _ in range(2))
    assert two.record("page", "another") is Outcome.RECORDED
    clock.tomorrow()
    assert one.record("page", "a page") is Outcome.RECORDED
    for client in (one, two):
        assert client.flush().written == {"queued": 1}
    tree = Randomizer(metrics["page"].mechanism, secret=State(paths).begin().key("page"), metric="page")
    assert list(responses(paths, "page").values()) == [shared, (tree.permanent("a page"), 2)]


def test_parameters_that_changed_under_one_id_had_shared_their_noise_too(tmp_path, paths):
    """The audit's device: f .5, then .25. The registry at hand knows only the second; the terms kept tell the first."""
    first, second = states_before.registry_2(page=0.5), states_before.registry_2(page=0.25)
    rows = [*states_before.reports_2(first, [("page", "a page")])]
    (late,) = states_before.reports_2(second, [("page", "a page")])
    rows.append((late[0], late[1] + 1, *late[2:]))
    states_before.write_2(paths.folder, rows, [*states_before.terms_2(first), *list(states_before.terms_2(second))[1:]])
    client = device(tmp_path, registry=second, clock=Clock(LATER))
    assert "(page)" in client.status().caveats[0]
    with State(paths).snapshot() as opened:
        assert math.isinf(spent(opened, second["page"]).epsilon)


def test_what_goes_on_is_decided_by_the_whole_registry_and_stays_decided(tmp_path, paths):
    """No terms were kept: that the colours share nothing with the pages is in the registry, and later in the state."""
    metrics, clock = states_before.registry_2(), Clock(LATER)
    states_before.write_2(paths.folder, list(states_before.reports_2(metrics, states_before.TOLD_2)), [])
    before = responses(paths, "page")
    for reports in (1, 2):
        with device(tmp_path, registry=metrics, clock=clock) as client:
            for name, value in states_before.TOLD_2[1:3]:
                assert client.record(name, value) is Outcome.RECORDED
            assert client.status().caveats == ()
        clock.tomorrow()
        first, second = sorted(before)
        assert responses(paths, "page") == {first: (before[first][0], 1 + reports), second: before[second]}


def test_what_has_left_the_secret_of_before_never_returns(tmp_path, paths):
    """A registry that knew less decided: a later one that knows more flips no permanent response, and no ledger."""
    both, clock = states_before.registry_2(), Clock(LATER)
    states_before.write_2(paths.folder, list(states_before.reports_2(both, states_before.TOLD_2)), [])
    before = responses(paths, "page")
    pages = registry(page=states_before.GOOGLE.format(f=0.5))
    for day, metrics in enumerate((pages, both, pages)):
        with device(tmp_path, registry=metrics, clock=clock) as client:
            assert client.record("page", "a page") is Outcome.RECORDED
            if "colour" in metrics:
                assert client.record("colour", "red") is Outcome.RECORDED
            client.flush()
            assert "(colour, page)" in client.status().caveats[0]
        clock.tomorrow()
        with State(paths).snapshot() as rows:
            assert math.isinf(spent(rows, both["page"]).epsilon)
        now = responses(paths, "page")
        assert {number: now[number] for number in before} == before
        (own,) = now.keys() - before.keys()
        tree = Randomizer(both["page"].mechanism, secret=State(paths).begin().key("page"), metric="page")
        assert now[own] == (tree.permanent("a page"), day + 1)


def test_copies_of_an_old_state_become_one_state(tmp_path):
    secrets = set()
    for name in "abc":
        states_before.copy(tmp_path / name, states_before.FOLDER_2)
        secrets.add(State(StatePaths(tmp_path / name)).begin().reveal())
    assert len(secrets) == 1


def test_the_secret_of_before_goes_with_the_last_metric_that_needs_it(tmp_path, paths):
    states_before.copy(paths.folder, states_before.FOLDER_2)
    text = {"colour": DEFAULT["colour"], "page": states_before.GOOGLE.format(f=0.5)}
    metrics = registry(expires="2026-12-24", **text)
    with device(tmp_path, registry=metrics, clock=Clock(LATER)) as client:
        assert client.record("colour", "red") is Outcome.RECORDED
    assert read_secret(paths.secret).legacy == states_before.RAW
    over = Clock(LATER + 60 * DAY)
    device(tmp_path, registry=metrics, clock=over, choice=None).flush()
    assert read_secret(paths.secret).legacy is None
    files = b"".join(path.read_bytes() for path in paths.folder.iterdir())
    assert states_before.RAW not in files
    assert {held for name in ("colour", "page") for held, _ in responses(paths, name).values()} == {None}


# --- killed in the middle

CUT = (
    (secret_file, "create"),
    (secret_file, "sync_folder"),
    (secret_file, "overwrite_secret"),
    (os, "link"),
    (Path, "replace"),
    (Path, "unlink"),
    (lifecycle, "connected"),
    (lifecycle, "_is_marked"),
)


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

    for owner, name in CUT:
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


def test_an_upgrade_killed_at_any_step_is_completed(tmp_path, monkeypatch):
    states_before.copy(tmp_path / "reference", states_before.FOLDER_2)
    expected = State(StatePaths(tmp_path / "reference")).begin().reveal()

    def make(number):
        states_before.copy(tmp_path / str(number), states_before.FOLDER_2)
        return StatePaths(tmp_path / str(number))

    def check(paths):
        assert State(paths).begin().reveal() == read_secret(paths.secret).reveal() == expected
        assert sorted(path.name for path in paths.folder.iterdir()) == ["lock", "secret", "state.db"]

    assert every_cut(monkeypatch, make, lambda paths: State(paths).begin(), check) > 10


def test_a_legacy_metric_is_derived_as_before_and_another_is_not():
    metrics = states_before.registry_2()
    secret = secret_file.DeviceSecret.of_version_1(states_before.RAW)
    assert metric_key(secret, metrics["page"], legacy=True).key == states_before.RAW
    assert metric_key(secret, metrics["page"]).key == secret.key("page") != states_before.RAW


def test_the_caveats_are_in_the_json(tmp_path, paths):
    metrics = states_before.registry_2(**TWO)
    old(paths, metrics, (*states_before.TOLD_2, ("site", "a page")))
    client = device(tmp_path, registry=metrics, clock=Clock(LATER))
    assert "page, site" in json.dumps(client.status().to_json()["caveats"])
