"""What a person is told of the relay: before agreeing, while reports wait, in the view, and when it changes."""

import contextlib
import io
import json
import re

import pytest

from overstory.client.person.commands import main
from overstory.client.state.rows import RowState
from overstory.client.upload.http import Response
from overstory.collector.service import public_html, public_registry
from overstory.protocol.metrics import MetricRegistry, parse_registry
from support.collector_doubles import accepted
from support.devices import DEFAULT, OBLIVIOUS, Clock, device, oblivious_registry, queue_report, rows_of
from support.oblivious_receiver import Receiver

RECEIVER = Receiver()
RELAY, COLLECTOR = "https://relay.example.net/", "https://collector.example.com"
BOTH = oblivious_registry(RELAY, RECEIVER.keys)
ALONE = oblivious_registry(RELAY, RECEIVER.keys, colour=DEFAULT["colour"] + OBLIVIOUS)
SEES = (
    "encrypted for the collector, through the relay https://relay.example.net/, run by Example Relays. The relay sees "
    "the address that a report comes from, when, and how long it is in steps of 512 bytes; it cannot read it. The "
    "collector reads the report; it sees the relay's address and not the device's. If the two work together, they can "
    "tell which address sent which report"
)
NAMED = f"{RELAY}, run by Example Relays"
DIRECTLY = "reports of first go there directly, from your device's address"
THROUGH = f"reports of colour go there through the relay {NAMED}, and never another way"
KEY_PROBLEM = b'{"type": "https://iana.org/assignments/http-problem-types#ohttp-key", "title": "key"}'

pytestmark = pytest.mark.usefixtures("nothing_forbids")


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", text).replace("&#x27;", "'"))


def asked_of(folder, *argv: str, registry: MetricRegistry = BOTH) -> str:
    (folder / "metrics.toml").write_text(registry.text)
    out = io.StringIO()
    given = [argv[0], "--registry", str(folder / "metrics.toml"), "--app", str(folder / "state"), *argv[1:]]
    with contextlib.redirect_stdout(out):
        assert main(given) == 0
    return out.getvalue()


def test_the_question_names_the_relay_and_says_what_each_side_sees(tmp_path):
    text = plain(asked_of(tmp_path, "on", "--yes", "--details", "--server", COLLECTOR))
    assert f"How reports travel {SEES}" in text
    assert text.count(SEES) == 1, "the other metric is direct"
    assert f"reports go to: {COLLECTOR} {THROUGH} {DIRECTLY}" in text
    assert DIRECTLY not in plain(asked_of(tmp_path, "on", "--yes", "--details", registry=ALONE))
    listed = json.loads(asked_of(tmp_path, "on", "--yes", "--server", COLLECTOR, "--json"))
    assert listed["relay"] == BOTH.oblivious.to_json()
    assert {metric["id"]: metric.get("travels") for metric in listed["metrics"]} == {"colour": SEES, "first": None}


def test_a_registry_without_oblivious_metrics_says_nothing_of_relays(tmp_path):
    direct = parse_registry(BOTH.text.partition("[oblivious]")[0].replace(OBLIVIOUS, ""))
    for argv in (("on", "--yes"), ("status",), ("view",), ("status", "--json"), ("view", "--json")):
        assert "relay" not in asked_of(tmp_path, *argv, registry=direct)
    assert "relay" not in public_html(direct)


def test_the_view_and_the_public_page_say_it_too(tmp_path):
    def transport(request):
        return Response(202) if request.url == RELAY else Response(200, {}, accepted(request.body))

    client = device(tmp_path, registry=BOTH, server=COLLECTOR, spread=0.0, transport=transport)
    client.record("colour", "red")
    assert queue_report(client, "first", 7).sent.sent == 2
    text = plain(asked_of(tmp_path, "view"))
    assert f"How reports travel {SEES}" in text
    assert THROUGH in text
    assert "was sent: the relay has it, and passes it on to the collector" in text
    assert text.count("These bytes leave the device sealed, in a message that is another one each time") == 1
    asked_of(tmp_path, "view", "--html", str(tmp_path / "view.html"))
    assert SEES in plain((tmp_path / "view.html").read_text())
    assert SEES in plain(public_html(BOTH))
    assert plain(public_html(BOTH)).count("How reports travel") == 1
    assert public_registry(BOTH)["oblivious"] == BOTH.oblivious.to_json()


KEYS_REFUSED = "problem: the collector refuses the registry's keys for colour since 2026-11-21"
NO_RELAY = "problem: the answers are not a relay's (http-200, a page) for colour since 2026-11-21"
ANSWERS = {
    "unreachable": (Response(None, error="no connection: x"), None),
    "busy": (Response(503), None),
    "keys refused": (Response(400, {}, KEY_PROBLEM), KEYS_REFUSED),
    "a page": (Response(200, {}, b"<html>"), NO_RELAY),
}


@pytest.mark.parametrize(("answer", "problem"), ANSWERS.values(), ids=list(ANSWERS))
def test_status_says_why_reports_wait_for_the_relay(tmp_path, answer, problem):
    client = device(tmp_path, registry=BOTH, server=COLLECTOR, spread=0.0, transport=lambda _: answer)
    client.record("colour", "red")
    assert client.status().relay_failures == 0
    client.flush()
    said = problem or "the relay has failed 1x in a row; what waits is tried again later"
    assert said in " ".join(asked_of(tmp_path, "status").split())
    for text in (asked_of(tmp_path, "status", "--details"), "\n".join(client.status().words())):
        assert f"{THROUGH}\n{DIRECTLY}\n" in text
        assert said in text
    listed = json.loads(asked_of(tmp_path, "status", "--json"))
    assert listed["relay"] == BOTH.oblivious.to_json() | {"failures": 0 if problem else 1}
    assert listed["collector_failures"] == 0


def test_a_relay_on_the_collectors_own_host_is_noted(tmp_path, caplog):
    one = oblivious_registry("https://collector.example.com:8443/relay", RECEIVER.keys)
    notes = device(tmp_path, registry=one, server=COLLECTOR).status().notes
    assert "the relay and the collector are one host, collector.example.com, which sees both who sends" in notes[0]
    assert notes[0] in caplog.text
    assert device(tmp_path, registry=BOTH, server=COLLECTOR).status().notes == ()


NOW_DIRECT = "its reports would go to the collector directly, which would see your device's address"


def test_a_metric_that_becomes_direct_is_asked_about_again_and_what_waited_never_goes_directly(tmp_path):
    requests = []

    def transport(request):
        requests.append(request)
        if request.url == RELAY:
            return Response(None, error="no connection")
        return Response(200, {}, accepted(request.body))

    clock = Clock()
    settings = {"server": COLLECTOR, "spread": 0.0, "transport": transport, "clock": clock}
    before = device(tmp_path, registry=ALONE, **settings)
    queue_report(before)
    assert [request.url for request in requests] == [RELAY]
    clock.tomorrow()
    direct = parse_registry(ALONE.text.replace(OBLIVIOUS, ""))
    after = device(tmp_path, registry=direct, choice=None, **settings)
    assert after.record("colour", "red") == "not-asked"
    assert after.status().missing == {"colour": (NOW_DIRECT,)}
    after.flush()
    assert len(requests) == 1
    after.consent("on")
    after.flush()
    assert len(requests) == 1
    assert [row.state for row in rows_of(after)] == [RowState.DROPPED]
    assert after.record("colour", "red") == "recorded"
    after.flush()
    assert [request.url for request in requests] == [RELAY, f"{COLLECTOR}/v1/reports"]


OTHER = "https://other.example.net/"
NOW_RELAYED = "its reports would go through a relay, which would see your device's address in the collector's place"
of_others = oblivious_registry(RELAY, RECEIVER.keys, operator="Others Inc.")
moved = oblivious_registry(OTHER, RECEIVER.keys)


@pytest.mark.parametrize(
    ("before", "registry", "choice", "reason"),
    [
        (BOTH, BOTH, "on", None),
        (BOTH, oblivious_registry(RELAY, Receiver(key_id=2).keys), "on", None),
        (BOTH, of_others, "on", f"its reports would go through the relay {RELAY}, run by Others Inc., not {NAMED}"),
        (BOTH, moved, "on", f"its reports would go through the relay {OTHER}, run by Example Relays, not {NAMED}"),
        (BOTH, moved, "local", None),
        (parse_registry(BOTH.text.replace(OBLIVIOUS, "")), BOTH, "on", NOW_RELAYED),
    ],
    ids=["the same", "other keys", "another operator", "another address", "kept here", "direct before"],
)
def test_another_relay_is_asked_about_and_another_key_is_not(tmp_path, before, registry, choice, reason):
    device(tmp_path, registry=before, server=COLLECTOR, choice=choice)
    client = device(tmp_path, registry=registry, server=COLLECTOR, choice=None)
    assert client.status().missing == ({"colour": (reason,)} if reason else {})
    assert client.record("colour", "red") == ("not-asked" if reason else "recorded")
    assert client.record("first", 7) == "recorded"
