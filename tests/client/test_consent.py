"""F7: a choice covers what was shown, and nothing that was shown otherwise; what it does not cover is not sent."""

import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import date
from unittest.mock import Mock

import pytest

from overstory.client import Client, Outcome
from overstory.client.consent import Agreement, choose, read_consent
from overstory.client.outcomes import ConsentError, Fault, StateError
from overstory.client.person.commands import main
from overstory.client.person.status import read_status
from overstory.protocol.metrics import MetricRegistry, PersonBudget
from overstory.protocol.wire.upload import decode_uploads
from support.collector_doubles import CountingCollector
from support.devices import DEFAULT, NOON, Clock, device, queue_report, registry

HOME = "https://one.example"
TWO = registry(colour=DEFAULT["colour"], engine=DEFAULT["engine"])
TODAY = date(2026, 11, 21)


class Collector(CountingCollector):
    @property
    def metrics(self):
        return [decode_uploads(body, 1)[0].metric for body in self.bodies]


def client(folder, asked=TWO, *, choice=None, collector=None, server=HOME, clock=None):
    more = {} if server is None else {"server": server, "transport": collector or Collector()}
    return device(folder, registry=asked, choice=choice, spread=0, clock=clock, **more)


def recording(folder, clock=None):
    """A device whose person agreed that reports go to HOME; it sends none itself."""
    recorder = client(folder, choice="on", clock=clock)
    recorder._server = None
    return recorder


def changed(metric="colour", of=TWO, **to):
    return MetricRegistry(dict(of) | {metric: replace(of[metric], **to)}, of.version, of.budget)


WIDER = [
    ({"title": "Age"}, "its title was 'T'"),
    ({"description": "How old you are."}, "its description was 'D'"),
    ({"owner": "Somebody"}, "its owner was 'O'"),
    ({"purpose": "https://example.org/2"}, "its purpose was 'https://example.org/issues/1'"),
    ({"attribute": "age"}, "its attribute was not given"),
    ({"retention_days": 3650}, "reports are to be kept for 3650 days, not for 90"),
    ({"grace_days": 300}, "late reports are to be taken for 300 days, not for 30"),
    ({"expires": date(2100, 1, 1)}, "it is to end on 2100-01-01, not on 2099-01-01"),
    ({"publish": "estimates"}, "estimates of 100 reports or more are to be published, where nothing was"),
    ({"max_values": 2}, "what its reports mean, or how private they are, is not what was shown"),
]


@pytest.mark.parametrize(("to", "reason"), WIDER, ids=[next(iter(to)) for to, _ in WIDER])
def test_what_was_shown_otherwise_is_not_covered_and_status_says_why(tmp_path, to, reason):
    """Nothing is recorded under it, and what waits is sent by a program that asks for what was agreed to alone."""
    recorder = recording(tmp_path)
    queue_report(recorder)
    collector, clock = Collector(), Clock(NOON + 86_400)
    other = client(tmp_path, changed(**to), collector=collector, clock=clock)
    assert other.record("colour", "red") is Outcome.NOT_ASKED
    assert other.status().missing == {"colour": (reason,)}
    assert any(f"colour ({reason})" in line for line in other.status().words())
    assert other.record("engine", "x") is Outcome.RECORDED
    other.flush()
    assert collector.metrics == ["engine"]
    clock.now += 7200
    client(tmp_path, collector=collector, clock=clock).flush()
    assert collector.metrics == ["engine", "colour"]
    other.consent("on")
    assert other.record("colour", "red") is Outcome.RECORDED


def published(least):
    return {"asked": changed(publish="estimates", publish_least=least)}


def with_budget(*limits):
    return {"asked": replace(TWO, budget=PersonBudget(*limits) if limits else None)}


def elsewhere(server):
    return {"server": server}, f"reports would go to {server}, not to {HOME}"


COSTS = "its reports may cost more than the budget that was shown"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (published(100), published(50), "estimates of 50 reports or more are to be published, not of 100 or more"),
        (published(100), published(200), None),
        (published(100), {}, None),
        ({}, {"asked": changed(retention_days=10)}, None),
        ({}, {"asked": changed(grace_days=0)}, None),
        ({}, {"asked": changed(expires=date(2098, 1, 1))}, None),
        ({}, {"server": "https://one.example:443/"}, None),
        ({}, {"server": "https://ONE.example/eu"}, None),
        ({}, *elsewhere("http://one.example")),
        ({}, *elsewhere("https://one.example:444")),
        ({}, *elsewhere("https://www.one.example")),
        (with_budget(20.0), with_budget(20.0), None),
        (with_budget(20.0), with_budget(10.0), None),
        (with_budget(20.0), with_budget(20.5), COSTS),
        (with_budget(20.0), with_budget(), COSTS),
    ],
)
def test_what_allows_more_is_asked_about_and_what_promises_more_is_covered(tmp_path, before, after, reason):
    client(tmp_path, choice="on", **before)
    other = client(tmp_path, **after)
    assert other.record("colour", "red") is (Outcome.RECORDED if reason is None else Outcome.NOT_ASKED)
    assert other.status().missing.get("colour") == (reason and (reason,))


def test_under_a_choice_without_a_collector_nothing_is_sent_until_one_is_agreed_to(tmp_path):
    queue_report(client(tmp_path, choice="on", server=None))
    collector, clock = Collector(), Clock(NOON + 86_400)
    found = client(tmp_path, collector=collector, clock=clock)
    assert found.record("engine", "x") is Outcome.NOT_ASKED
    found.flush()
    assert collector.bodies == []
    reason = f"reports would go to {HOME}, and nobody was named"
    assert found.status().missing == dict.fromkeys(TWO, (reason,))
    told = read_status(found.paths, TWO, found.effective, now=NOON)
    assert told.missing == found.status().missing, "also for a command, which knows what the program left"
    choose(found.paths, TWO, "on", TODAY, server=HOME)
    clock.now += 7200
    found.flush()
    assert collector.metrics == ["colour"]


def test_what_waits_for_one_collector_does_not_go_to_the_next(tmp_path):
    queue_report(recording(tmp_path))
    second = Collector()
    other = client(tmp_path, collector=second, server="https://two.example", clock=Clock(NOON + 86_400))
    other.flush()
    other.consent("on")
    other.flush()
    assert second.bodies == [], "also where that one is agreed to later"
    assert other.status().dropped == {"consent was withdrawn": 1}
    assert other.record("engine", "x") is Outcome.RECORDED
    other.flush()
    assert second.metrics == ["engine"]


def test_a_choice_narrowed_while_a_report_travels_keeps_the_others_from_leaving(tmp_path):
    collector, clock = Collector(), Clock()
    recorder = recording(tmp_path, clock)
    for _ in range(4):
        queue_report(recorder)
        clock.tomorrow()

    def narrowing(request):
        choose(recorder.paths, registry(engine=DEFAULT["engine"]), "on", TODAY)
        return collector(request)

    client(tmp_path, collector=narrowing, clock=clock).flush()
    client(tmp_path, collector=narrowing, clock=clock).flush()
    assert collector.metrics == ["colour"]


@contextmanager
def held(paths):
    """Another process holds the database."""
    with closing(sqlite3.connect(paths.database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


def test_local_is_taken_while_the_database_is_busy_and_nothing_is_sent_after_it(tmp_path):
    collector, clock = Collector(), Clock()
    recorder = client(tmp_path, choice="on", collector=collector, clock=clock)
    recorder.record("colour", "red")
    recorder._server = None
    recorder.flush()
    with held(recorder.paths):
        assert recorder.consent("local").choice == "local"
    assert read_consent(recorder.paths).choice == "local"
    clock.tomorrow()
    for one in (recorder, client(tmp_path, collector=collector, clock=clock)):
        one.flush()
    assert collector.bodies == []


def test_local_is_taken_where_the_secret_is_damaged(tmp_path):
    recorder = client(tmp_path, choice="on")
    queue_report(recorder)
    recorder.paths.secret.write_bytes(b"not a secret")
    assert recorder.consent("local").choice == "local"


@pytest.mark.parametrize("before", ["off", "local", None])
def test_a_choice_that_allows_no_less_waits_for_the_database(tmp_path, before):
    recorder = client(tmp_path, choice="on")
    queue_report(recorder)
    if before is None:
        recorder.paths.consent.unlink()
    else:
        recorder.consent(before)
    with held(recorder.paths), pytest.raises(StateError) as caught:
        recorder.consent("local")
    assert caught.value.fault is Fault.BUSY


@pytest.mark.parametrize("error", [StateError(Fault.FOREIGN, "another user's"), ConsentError("no room")], ids=repr)
@pytest.mark.parametrize("choice", ["local", "off"])
def test_a_choice_that_cannot_be_kept_is_obeyed_by_this_client(tmp_path, monkeypatch, choice, error):
    collector = Collector()
    recorder = client(tmp_path, choice="on", collector=collector)
    recorder.record("colour", "red")
    with monkeypatch.context() as patched:
        patched.setattr("overstory.client.consent.choose", Mock(side_effect=error))
        with pytest.raises(type(error)):
            recorder.consent(choice)
    assert recorder.record("engine", "x") is Outcome.OFF
    recorder.flush()
    assert collector.bodies == []
    recorder.consent("on")
    assert recorder.record("engine", "x") is Outcome.RECORDED


def test_a_choice_is_read_as_it_was_written(paths):
    asked = MetricRegistry(dict(changed(attribute="taste")), "1", PersonBudget(9.0, {"taste": 2.0}))
    made = choose(paths, asked, "on", TODAY, server="https://c.example:8443/x")
    assert made.server == "https://c.example:8443"
    assert read_consent(paths) == made
    assert made.metrics["colour"] == Agreement.to(asked["colour"])


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (("server",), 5),
        (("budget",), {"epsilon": -1, "per": "ever"}),
        (("budget",), {"epsilon": 1.0, "per": "everything"}),
        (("budget",), {"epsilon": 10**400, "per": "ever"}),
        (("budget",), {"epsilon": 1.0, "per": "ever", "attributes": {"taste": 10**400}}),
        (("metrics", "colour", "title"), 5),
        (("metrics", "colour", "retention_days"), "90"),
        (("metrics", "colour", "retention_days"), True),
        (("metrics", "colour", "expires"), "soon"),
        (("metrics", "colour", "owner"), None),
        (("metrics", "colour", "publish_least"), "100"),
        (("metrics", "colour"), "0123"),
        (("consent",), 3),
    ],
)
def test_a_file_that_was_not_written_here_is_off(tmp_path, where, wrong):
    asking = client(tmp_path, choice="on")
    read = json.loads(asking.paths.consent.read_text())
    at = read
    for key in where[:-1]:
        at = at[key]
    at[where[-1]] = wrong
    asking.paths.consent.write_text(json.dumps(read))
    fresh = client(tmp_path)
    assert fresh.record("colour", "red") is Outcome.OFF
    assert "not a choice that was written here" in fresh.effective.cause
    assert "not a choice that was written here" in fresh.status().effective.cause


def test_a_window_without_a_collector_agrees_for_the_program_that_sends(tmp_path):
    sends, window = client(tmp_path), client(tmp_path, server=None)
    assert sends.record("colour", "red") is Outcome.NOT_ASKED
    assert window.consent("on").server == HOME
    assert sends.record("colour", "red") is Outcome.RECORDED


def test_a_mistyped_collector_is_forgotten_with_the_next_choice(tmp_path, capsys, monkeypatch):
    (tmp_path / "metrics.toml").write_text(TWO.text)
    monkeypatch.chdir(tmp_path)
    for server in ("https://wrong.example", "https://right.example"):
        typed = ["on", "--yes", "--app", "./state", "--registry", "metrics.toml", "--server", server]
        assert main(typed, environ={}) == 0
    capsys.readouterr()
    assert main(["status", "--app", "./state"], environ={}) == 0
    shown = capsys.readouterr().out
    assert "right.example" in shown
    assert "wrong" not in shown


def test_the_command_names_a_collector(tmp_path, capsys, monkeypatch):
    asked = registry(colour=DEFAULT["colour"])
    (tmp_path / "metrics.toml").write_text(asked.text)
    monkeypatch.chdir(tmp_path)
    ask = ["on", "--yes", "--app", "./state", "--registry", "metrics.toml"]
    assert main([*ask, "--server", "https://C.example/x"], environ={}) == 0
    assert "https://c.example" in capsys.readouterr().out
    assert main(ask, environ={}) == 0
    assert "reports go to: https://c.example" in capsys.readouterr().out, "a renewed choice keeps what was named"
    reporting = Client("t", registry=asked, state="state", environ={}, policy="none", server=HOME)
    assert reporting.record("colour", "red") is Outcome.NOT_ASKED
    assert main([*ask, "--server", "no address"], environ={}) == 2
    assert main(ask, environ={}) == 0
    assert f"reports go to: {HOME}" in capsys.readouterr().out, "what the program says is what is asked for"
    assert reporting.record("colour", "red") is Outcome.RECORDED
    assert main([*ask, "--server", "https://wrong.example"], environ={}) == 0
    assert reporting.record("colour", "red") is Outcome.NOT_ASKED
    capsys.readouterr()
    assert main(ask, environ={}) == 0
    assert f"reports go to: {HOME}" in capsys.readouterr().out, "a person's own address is not the program's"
