"""Recording: what `record` answers, what a flush writes, what is never written."""

import importlib.resources
import json
import pickle
import sqlite3
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from overstory.client import Client, Outcome
from overstory.client.outcomes import Fault, StateError
from overstory.client.randomizer import randomizer_of
from overstory.client.state import rows as rows_module
from overstory.client.state.rows import Bounds, RowState, ends_at
from overstory.client.state.state import State
from overstory.client.upload.http import Response
from overstory.protocol.channels import BinaryChannel
from overstory.protocol.errors import FormatError, ParameterError
from support.devices import BINS, DAY, DEFAULT, NOON, REGISTRY, Clock, device, queue_report, registry, rows_of


def responses_of(client, metric):
    with State(client.paths).snapshot() as rows:
        return rows.responses(metric)


def test_nothing_is_made_before_the_first_record_nor_where_the_environment_forbids_it(tmp_path):
    client = device(tmp_path, choice=None)
    assert client.status().effective.cause == "the person has not been asked"
    assert client.flush().problem is None
    client.close()
    assert list(tmp_path.iterdir()) == []
    forbidden = device(tmp_path, choice=None, environ={"DO_NOT_TRACK": "1"})
    assert forbidden.record("colour", "red") is Outcome.OFF
    forbidden.close()
    assert list(tmp_path.iterdir()) == []


def test_before_anybody_was_asked_there_is_what_is_asked_for_and_nothing_of_the_person(tmp_path):
    """A3: the registry is public; with it the person's commands can show it."""
    client = device(tmp_path, choice=None)
    assert client.record("colour", "red") is Outcome.NOT_ASKED
    client.close()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["application.json"]
    written = json.loads((tmp_path / "state" / "application.json").read_text())
    assert written == {"version": 1, "name": "test", "registry": REGISTRY.text, "server": None}


@pytest.mark.parametrize("value", ["mauve", 3, None, ["red"], float("nan"), b"red"])
def test_a_value_outside_the_domain_is_reported_as_nothing_and_the_log_does_not_tell_it(tmp_path, caplog, value, clock):
    client, found = device(tmp_path, clock=clock), []
    for _ in range(3):
        found += [client.record("colour", value), client.record("colour", "red")]
        clock.tomorrow()
    assert found == [Outcome.UNFIT, Outcome.ALREADY] * 3
    assert len(caplog.records) == 1
    assert "colour" in caplog.messages[0]
    assert repr(value) not in caplog.messages[0]
    assert client.record("colour", "red") is Outcome.RECORDED


def test_an_unknown_metric_is_told_once_and_the_log_does_not_repeat_what_might_be_the_value(caplog, client):
    swapped = [client.record("my-secret-value", "colour"), client.record(["unhashable"], 1), client.record(None, 1)]
    assert swapped == [Outcome.UNKNOWN] * 3
    assert len(caplog.records) == 1
    assert "colour, engine" in caplog.text
    assert "my-secret-value" not in caplog.text


def test_whatever_a_value_does_record_does_not_raise(tmp_path, caplog):
    class Hostile(str):
        __slots__ = ()

        def __hash__(self):
            raise RuntimeError("the value is forty-two")

        def encode(self, *_):
            raise RuntimeError("the value is forty-two")

    client = device(tmp_path)
    assert client.record("engine", Hostile("x")) is Outcome.UNFIT
    assert client.status().pending == 1
    assert "forty-two" not in caplog.text + str(client.status())


def test_a_clock_that_is_broken_disturbs_nobody(tmp_path):
    for now in (float("nan"), float("inf"), -1e18, "noon"):
        client = device(tmp_path)
        client._clock = lambda now=now: now
        assert client.record("colour", "red") in {Outcome.UNAVAILABLE, Outcome.PAST}


@pytest.mark.parametrize("timeout", ["x", None, b"", [], 1j])
def test_a_timeout_that_is_no_number_disturbs_nobody(tmp_path, timeout):
    client = device(tmp_path, background=True, interval=60)
    assert client.record("colour", "red") is Outcome.RECORDED
    assert client.flush(timeout).problem == "flushing failed: TypeError"
    client.close(timeout)
    assert len(rows_of(client)) == 1, "what was in memory is written"


def test_status_is_told_where_not_even_the_choice_can_be_asked_for(tmp_path):
    client = Client("t", registry=REGISTRY, state=f"{tmp_path}/a\0b", environ={})
    status = client.status()
    assert "null" in status.problem
    assert (status.effective.choice, status.effective.cause) == ("off", "it cannot be found out")
    assert status.words()
    assert client.record("colour", "red") is Outcome.UNAVAILABLE
    assert client.flush().problem == "flushing failed: ValueError"


def test_what_was_delivered_is_told_also_where_a_key_cannot_be_destroyed_then(tmp_path, clock, monkeypatch):
    client = device(tmp_path, clock=clock, spread=0, server="https://c.example", transport=lambda _: Response(503))
    fine = queue_report(client)
    assert (fine.sent.put_off, fine.problem) == (1, None)
    clock.tomorrow()
    client.record("colour", "red")
    full = StateError(Fault.FULL, "there is no room")
    monkeypatch.setattr(client._session, "retire_hourly", Mock(side_effect=[full, RuntimeError()]))
    flushed = client.flush()
    assert flushed.written == {"queued": 1}
    assert flushed.sent.put_off >= 1
    assert flushed.problem == "there is no room"
    clock.tomorrow()
    flushed = client.flush()
    assert (flushed.sent is not None, flushed.problem) == (True, "flushing failed: RuntimeError")


def test_a_closed_client_records_nothing_and_kept_what_it_had(tmp_path, clock):
    with device(tmp_path, clock=clock) as client:
        client.record("colour", "red")
    assert client.record("engine", "x") is Outcome.CLOSED
    client.close()
    assert [row.metric for row in rows_of(client)] == ["colour"]


def test_no_time_finer_than_the_period_is_kept_without_a_delay(tmp_path, clock):
    client = device(tmp_path, clock=clock, spread=0)
    clock.now += 1234.567
    queue_report(client)
    assert rows_of(client)[0].due == NOON - DAY / 2


def test_a_report_is_due_after_a_random_delay(tmp_path, clock):
    bound = registry(**{f"m{i}": BINS for i in range(30)})
    client = device(tmp_path, clock=clock, registry=bound, spread=1000)
    for name in bound:
        client.record(name, 1)
    client.flush()
    delays = {row.due - NOON for row in rows_of(client)}
    assert len(delays) == 30
    assert all(0 <= delay < 1000 for delay in delays)
    assert max(delays) - min(delays) > 300  # thirty uniform draws: missed once in 10^12


def test_the_default_delay_is_the_period_and_six_hours_at_most(client):
    client.record("colour", "red")
    queue_report(client, "engine", "x")
    due = {row.metric: row.due - NOON for row in rows_of(client)}
    assert 0 <= due["engine"] < 3600
    assert 0 <= due["colour"] < 6 * 3600


def test_no_object_shows_a_value_or_a_secret(tmp_path, clock):
    client = device(tmp_path, clock=clock, token="token-in-the-request")
    client.record("engine", "the-value")
    session = client._session
    (pending,) = session._pending
    secret = session.state.secret.key("engine")
    state, recorder = session.state, session._recorders["engine"]
    shown = [client, session, state, pending, recorder, state.secret, client.status()]
    client.flush()
    shown += [*rows_of(client), *responses_of(client, "engine")]
    for text in map(repr, shown):
        assert "the-value" not in text
        assert "token-in" not in text
        assert secret.hex() not in text
        assert repr(secret)[2:12] not in text
        assert pending.body.hex()[80:] not in text
    for unpicklable in (client, session.state.secret):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(unpicklable)


def test_a_metric_that_ends_within_a_period_takes_no_report_after_its_end(tmp_path):
    """The week began before the end, so that the day of the record alone decides."""
    ends = registry(expires="2026-11-21", weekly=BINS.replace('"day"', '"week"'))
    for now, outcome in ((NOON, Outcome.EXPIRED), (NOON - DAY, Outcome.RECORDED)):
        assert device(tmp_path, clock=Clock(now), registry=ends).record("weekly", 1) is outcome


def test_the_queue_in_memory_is_bounded(tmp_path, clock, monkeypatch):
    monkeypatch.setattr("overstory.client.session.MOST_PENDING", 2)
    client = device(tmp_path, clock=clock)
    outcomes = [client.record(name, value) for name, value in (("colour", "red"), ("engine", "x"), ("first", 1))]
    assert outcomes == [Outcome.RECORDED, Outcome.RECORDED, Outcome.UNAVAILABLE]
    client.flush()
    assert client.record("first", 1) is Outcome.RECORDED


def test_a_full_outbox_drops_the_oldest_and_counts_it(tmp_path, clock):
    client = device(tmp_path, clock=clock, bounds=Bounds(waiting_rows=2))
    for _ in range(4):
        queue_report(client)
        clock.tomorrow()
    states = [row.state for row in rows_of(client)]
    assert states == [RowState.DROPPED] * 2 + [RowState.WAITING] * 2
    assert client.status().counts == {"made-room": 2, "queued": 4}
    assert responses_of(client, "colour")[0].reports == 4  # still charged


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"app": "a/b"}, "app = 'a/b'"),
        ({"app": ""}, "app = ''"),
        ({"spread": -1}, "spread = -1"),
        ({"spread": float("nan")}, "spread = nan"),
        ({"interval": 0}, "interval = 0"),
        ({"registry": 7}, "give a file or a MetricRegistry"),
        ({"server": "collector"}, "server = 'collector'"),
    ],
)
def test_a_setting_that_cannot_be_is_the_developers_error(tmp_path, wrong, said):
    settings = {"app": "app", "registry": REGISTRY, "state": tmp_path} | wrong
    with pytest.raises(ParameterError, match=said.replace("(", r"\(")):
        Client(settings.pop("app"), **settings)


def test_the_registry_may_lie_in_a_package_inside_a_zip(tmp_path, monkeypatch):
    from overstory.protocol.metrics import load_registry
    from overstory.protocol.metrics.registry import EXAMPLE

    words = EXAMPLE.replace("metrics.colour", "metrics.word").replace("categories", "strings")
    words = words.replace('names = ["red", "green", "blue"]', 'candidates = "lists/words.txt"')
    words = words.replace('"grr"', '"rappor"').replace("parameters = {epsilon = 1.0}\n", "")
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        archive.writestr("notes_app/__init__.py", "")
        archive.writestr("notes_app/metrics.toml", EXAMPLE)
        archive.writestr("notes_app/words.toml", words)
        archive.writestr("notes_app/lists/words.txt", "oak\nash\n")
        archive.writestr("notes_app/damaged.toml", "registry = ")
    monkeypatch.syspath_prepend(tmp_path / "shipped.zip")
    files = importlib.resources.files("notes_app")
    assert list(Client("notes", files / "metrics.toml", state=tmp_path).registry) == ["colour"]
    assert load_registry(files / "words.toml")["word"].candidates == ("oak", "ash")
    with pytest.raises(FormatError, match=r"shipped\.zip/notes_app/damaged\.toml, line 1"):
        Client("notes", files / "damaged.toml", state=tmp_path)
    with pytest.raises(FormatError, match=r"nowhere\.toml: there is no such file"):
        Client("notes", files / "nowhere.toml", state=tmp_path)
    with pytest.raises(FormatError, match=r"nowhere\.toml: cannot be read"):
        Client("notes", tmp_path / "nowhere.toml", state=tmp_path)


@pytest.mark.parametrize("choice", [None, "on"])
def test_a_strict_client_raises_for_what_is_mistyped_whatever_was_chosen(tmp_path, choice):
    client = device(tmp_path, choice=choice, strict=True)
    for metric, value, says in (
        ("color", "red", r"no metric 'color': the registry lists .*; did you mean colour"),
        (["colour"], "red", "a metric is named by a string, not by list"),
        ("colour", "gren", r"colour: 'gren' is not a category: .*; did you mean green"),
        ("first", "five", "first: value = 'five'"),
        ("engine", 7, "engine: this metric takes a string, not int"),
    ):
        with pytest.raises(ParameterError, match=says):
            client.record(metric, value)
    assert client.record("colour", "red") == ("not-asked" if choice is None else "recorded")


MISTYPED = """
import sys
from overstory.client import Client

client = Client("notes", sys.argv[1], state=sys.argv[2], environ={})
print(client.record("color", "red"))
print(client.record("colour", "my-secret-value"))
print(client.record("colour", "my-secret-value"))
"""


@pytest.mark.parametrize("options", [(), ("-X", "dev"), ("-X", "dev", "-W", "error")])
def test_development_mode_shows_what_is_mistyped_before_anybody_has_consented(tmp_path, options):
    from overstory.protocol.metrics.registry import EXAMPLE

    (tmp_path / "metrics.toml").write_text(EXAMPLE)
    program = tmp_path / "program.py"
    program.write_text(MISTYPED)
    command = [sys.executable, *options, program, tmp_path / "metrics.toml", tmp_path / "state"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unknown-metric", "not-asked", "not-asked"]
    if options != ("-X", "dev"):
        assert done.stderr == ""
        return
    shown = [line.partition("program.py:")[2] for line in done.stderr.splitlines() if "Warning" in line]
    assert shown == [
        "6: UserWarning: a metric that the registry does not list was not recorded; it lists colour",
        "7: UserWarning: a value is outside the domain of colour: reported as nothing",
    ]
    assert "my-secret-value" not in "".join(shown)


@pytest.mark.parametrize(
    ("name", "values", "stand_ins"),
    [
        ("nearest", (40, 50, 45, 46, 0, 99, 44), (40, 50, 40, 50, 40, 50, 40)),  # of two as near, the lower
        ("first", (40, 50, 45, 99, 50), (40, 50, 40, 40, 50)),
        ("dropping", (1, 2, 3, 4, 3), (1, 2, 3, None, 3)),
    ],
)
def test_past_the_cap_the_metrics_rule_decides(clock, name, values, stand_ins, client):
    metric = REGISTRY[name]
    for value in values:
        clock.tomorrow()
        client.record(name, value)
    client.flush()
    randomizer = randomizer_of(metric, State(client.paths).begin().key(name))
    permanent = {response.number: response.permanent for response in responses_of(client, name)}
    assert len(permanent) == metric.max_responses
    sent = [permanent[row.response] for row in rows_of(client)]
    assert sent == [randomizer.nothing() if value is None else randomizer.permanent(value) for value in stand_ins]


def many_metrics(number):
    return registry(**{f"engine{n}": DEFAULT["engine"] for n in range(number)})


def record_all(client):
    assert {client.record(name, "example.org") for name in client.registry} == {Outcome.RECORDED}


def recorded_twice(folder, number):
    clock = Clock()
    client = device(folder, clock=clock, registry=many_metrics(number))
    record_all(client)
    client.flush()
    clock.tomorrow()
    record_all(client)
    return client


def work_of(call, monkeypatch):
    """The steps of SQLite's machine, and the statements, of a call; and what it returns."""
    steps, statements = [], []

    class Counting(sqlite3.Connection):
        def __init__(self, *given, **settings):
            super().__init__(*given, **settings)
            self.set_progress_handler(lambda: steps.append(1), 1)
            self.set_trace_callback(statements.append)

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Counting))
        returned = call()
    return len(steps), len(statements), returned


def test_a_flush_looks_at_the_rows_of_each_metric_alone_and_a_report_takes_three_statements(tmp_path, monkeypatch):
    """The period, the response, the upload: each took 17, and each metric's responses were looked for among all."""
    work = {}
    for number in (10, 80):
        client = recorded_twice(tmp_path / str(number), number)
        *work[number], flushed = work_of(client.flush, monkeypatch)
        assert flushed.written == {"queued": number}
    (few, of_few), (many, of_many) = work.values()
    assert (many < 10 * few, of_many - of_few) == (True, 3 * 70)


def work_of_status(folder, number, monkeypatch):
    client, channels = recorded_twice(folder, number), []
    client.flush()
    monkeypatch.setattr(BinaryChannel, "__post_init__", lambda channel: channels.append(channel))  # noqa: PLW0108 - a list's own method would not be given the channel
    _, statements, status = work_of(client.status, monkeypatch)
    assert [spent.reports for spent in status.spent] == number * [2]
    return statements, len(channels)


def test_the_status_of_many_metrics_takes_three_statements_for_each_and_no_channel_of_its_own(tmp_path, monkeypatch):
    (few, of_few), (many, of_many) = (work_of_status(tmp_path / str(n), n, monkeypatch) for n in (10, 80))
    assert (many - few, of_many <= of_few) == (3 * 70, True)


def test_a_program_that_starts_again_looks_at_the_keys_of_all_metrics_once(tmp_path, monkeypatch):
    clock, metrics, asked = Clock(), many_metrics(20), []
    before = device(tmp_path, clock=clock, registry=metrics)
    record_all(before)
    before.close()
    clock.tomorrow()
    monkeypatch.setattr(rows_module, "ends_at", lambda metric: asked.append(metric.id) or ends_at(metric))
    record_all(device(tmp_path, clock=clock, registry=metrics))
    assert sorted(asked) == sorted(metrics)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc counts what a process writes")
def test_a_flush_of_one_report_writes_a_few_small_pages(clock, client):
    for _ in range(2):
        client.record("engine", "example.org")
        before = written_so_far()
        client.flush()
        clock.tomorrow()
    assert written_so_far() - before < 24_000


def written_so_far():
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])
