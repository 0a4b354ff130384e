"""Reports of an oblivious metric: through the relay over real HTTP, opened by other code, and never another way."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from overstory.client.state.rows import RowState
from overstory.client.upload.delivery import Collector, oblivious_transport
from overstory.client.upload.http import Request, Response
from overstory.gateway.gateway import AT_ONCE, Gateway, Settings
from overstory.gateway.readings import Reading
from overstory.protocol.metrics.tables import ObliviousRoute
from overstory.protocol.wire.upload import decode_uploads
from support.collector_doubles import CountingCollector, accepted
from support.collector_in_process import NOW
from support.devices import NOON, OBLIVIOUS, Clock, device, oblivious_registry, queue_report, rows_of
from support.oblivious_receiver import RESPONSE_TYPE, Receiver, hop, inner_response, opening, passing_on, read_inner
from support.running import within
from support.sealed_reports import METRICS, RING
from support.served import served

TOKEN = "ovw_of-this-application"
RECEIVER = Receiver()
RELAY = "https://relay.example.net/pass/on?to=collector"
COLLECTOR = "https://collector.example.com/eu"
KEY_PROBLEM = b'{"type": "https://iana.org/assignments/http-problem-types#ohttp-key", "title": "key"}'


def taken(fields, body):
    """What a collector answers that takes everything from whoever has the token."""
    assert fields == {"content-type": "application/vnd.overstory.reports", "authorization": f"Bearer {TOKEN}"}
    return 200, accepted(body)


class Hears(CountingCollector):
    def relayed(self):
        """Return the requests, all of which went to the relay, with nothing but a message."""
        for request in self.requests:
            assert request.url == RELAY
            assert request.headers() == {"Content-Type": "message/ohttp-req", "Connection": "close"}
        return self.requests


def recording(folder, registry, transport, **settings):
    """A device that agreed, with a report of each metric, due now."""
    more = {"server": COLLECTOR, "token": TOKEN, "transport": transport, "spread": 0.0} | settings
    client = device(folder, registry=registry, **more)
    for name in registry:
        assert client.record(name, "red" if name == "colour" else 7) == "recorded"
    return client


def alone(relay=RELAY, keys=RECEIVER.keys):
    both = oblivious_registry(relay, keys)
    return replace(both, metrics={"colour": both["colour"]})


def test_a_report_goes_through_the_relay_and_the_collector_reads_it(tmp_path):
    with (
        hop(lambda _: (500, {}, b"")) as (collector, directly),
        hop(opening(RECEIVER, taken)) as (gateway, opened),
        hop(passing_on(f"{gateway}/v1/oblivious")) as (relay, passed),
    ):
        client = device(tmp_path, registry=alone(f"{relay}/pass/on?to=1"), server=collector, token=TOKEN, spread=0.0)
        assert queue_report(client).sent.sent == 1
    (message,), (same,) = passed, opened
    assert directly == []
    assert message.target == "/pass/on?to=1"
    assert set(message.headers) == {"host", "content-length", "content-type", "connection"}
    assert message.headers["content-type"] == "message/ohttp-req"
    assert same.body == message.body
    inner, _ = RECEIVER.open(message.body)
    assert len(inner) % 512 == 0
    head, _, body = read_inner(inner)
    assert head == ["POST", "http", collector.removeprefix("http://"), "/v1/reports"]
    (row,) = rows_of(client)
    assert (row.state, row.answer, row.attempts) == (RowState.SENT, "accepted", 1)
    (upload,) = decode_uploads(body, 1)
    assert (upload.metric, upload.period) == ("colour", row.period)
    for secret in (TOKEN.encode(), b"colour", b"collector", upload.batch, body, b"overstory"):
        assert secret not in message.everything


def test_messages_of_two_metrics_are_of_one_length_and_alike_in_nothing_else(tmp_path):
    transport = Hears(lambda _: Response(202))
    both = oblivious_registry(RELAY, RECEIVER.keys)
    far = replace(both["first"], transport="oblivious")
    client = recording(tmp_path, replace(both, metrics={"colour": both["colour"], "first": far}), transport)
    client.flush()
    first, second = (request.body for request in transport.relayed())
    assert len(first) == len(second) == 7 + 32 + 512 + 16
    assert first[:7] == second[:7] == bytes([1, 0, 0x20, 0, 1, 0, 3])
    same = sum(a == b for a, b in zip(first[7:], second[7:], strict=True))
    assert same < 20  # 560 bytes, each alike with probability 1/256: more than 20 in one run of 10^12


def refused(request):
    problem = {"type": "/problems/bits", "status": 400, "detail": "...", "reason": "bits", "results": []}
    _, seal = RECEIVER.open(request.body)
    return Response(200, {"content-type": RESPONSE_TYPE}, seal(inner_response(400, json.dumps(problem).encode())))


def test_a_refusal_inside_the_encryption_is_the_collectors_and_is_judged_as_one(tmp_path):
    client = recording(tmp_path, alone(), Hears(refused))
    assert dict(client.flush().sent.dropped) == {"bits": 1}


def sealed(status, body=b"", **fields):
    def answer(request):
        _, seal = RECEIVER.open(request.body)
        return Response(200, {"content-type": RESPONSE_TYPE}, seal(inner_response(status, body, **fields)))

    return answer


def altered(request):
    answer = refused(request)
    return replace(answer, body=answer.body[:-1] + bytes([answer.body[-1] ^ 1]))


def of_another_message(request):
    other = Receiver(RECEIVER.private)
    transport = Hears(lambda sent: Response(202))
    oblivious_transport(ObliviousRoute(RELAY, "", other.keys), transport)(Request(f"{COLLECTOR}/v1/reports", b"", ""))
    return refused(transport.requests[0])


BITS = b'{"type": "/problems/bits", "detail": "x", "reason": "bits", "results": []}'
AS_JSON, ACCEPTED = {"content-type": "application/json"}, b'{"results": [{"accepted": 1}]}'
PASSING = {
    "no connection": (lambda _: Response(None, error="no connection: refused"), "relay: no connection: refused"),
    "busy": (lambda _: Response(503), "relay: http-503"),
    "too many": (lambda _: Response(429, {"retry-after": "60"}), "relay: http-429"),
    "keys": (lambda _: Response(400, {}, KEY_PROBLEM), "relay: keys refused"),
    "bad request": (lambda _: Response(400, {}, b"no"), "relay: http-400, other bytes"),
    "a refusal in clear": (lambda _: Response(400, {}, BITS), "relay: http-400, bits"),
    "an acceptance in clear": (lambda _: Response(200, AS_JSON, ACCEPTED), "relay: http-200, JSON"),
    "a page": (lambda _: Response(200, {"content-type": "text/html"}, b"<html>"), "relay: http-200, a page"),
    "202 with a page": (lambda _: Response(202, {}, b"<html>"), "relay: http-202, a page"),
    "redirect": (lambda _: Response(307, {"location": COLLECTOR}), "relay: http-307, empty"),
    "nothing inside": (lambda _: Response(200, {"content-type": RESPONSE_TYPE}), "relay: an answer that does not open"),
    "altered": (altered, "relay: an answer that does not open"),
    "of another message": (of_another_message, "relay: an answer that does not open"),
    "a busy collector": (sealed(503, retry_after="60"), "http-503"),
    "202 inside, which is no relay's": (sealed(202), "http-202, empty"),
}


@pytest.mark.parametrize(("answer", "says"), PASSING.values(), ids=list(PASSING))
def test_after_any_other_answer_the_row_waits_and_goes_again_in_a_new_message(tmp_path, answer, says):
    transport, clock = Hears(answer), Clock()
    client = recording(tmp_path, alone(), transport, clock=clock)
    for attempt in range(1, 4):
        done = client.flush().sent
        assert (done.sent, dict(done.dropped), done.put_off) == (0, {}, 1)
        (row,) = rows_of(client)
        assert (row.state, row.answer, row.attempts) == (RowState.WAITING, says, attempt)
        assert row.due > clock.now
        clock.now += 86400
    messages = [request.body for request in transport.relayed()]
    assert len({message[7:39] for message in messages}) == 3
    assert {read_inner(RECEIVER.open(message)[0])[2] for message in messages} == {row.body}


def test_a_relay_that_fails_does_not_keep_other_metrics_waiting(tmp_path):
    transport = Hears(lambda request: Response(503) if request.url == RELAY else None)
    client = recording(tmp_path, oblivious_registry(RELAY, RECEIVER.keys), transport)
    done = client.flush().sent
    assert (done.sent, done.put_off) == (1, 1)
    assert {row.metric: row.state for row in rows_of(client)} == {"colour": RowState.WAITING, "first": RowState.SENT}
    (direct,) = [request for request in transport.requests if request.url != RELAY]
    assert [upload.metric for upload in decode_uploads(direct.body, 9)] == ["first"]


def test_a_collector_that_refuses_directly_does_not_send_a_report_another_way(tmp_path):
    """Each metric goes its own way, whichever is tried: one a round, by lot, so one is missed once in 2^49 runs."""
    transport = Hears(lambda _: Response(None, error="no connection"))
    client = recording(tmp_path, oblivious_registry(RELAY, RECEIVER.keys), transport, clock=(clock := Clock()))
    for _ in range(50):
        client.flush()
        clock.now += 86400
    ways = {}
    for request in transport.requests:
        inner = request.body if request.url != RELAY else read_inner(RECEIVER.open(request.body)[0])[2]
        ways.setdefault(decode_uploads(inner, 9)[0].metric, set()).add(request.url)
    assert ways == {"colour": {RELAY}, "first": {f"{COLLECTOR}/v1/reports"}}


OF_P256 = bytes.fromhex("0045" + "02" + "0010" + "04" * 64 + "00" * 2)
OF_AES = Receiver(RECEIVER.private, ciphers=(1,)).keys
SMALL_ORDER = bytes.fromhex("0029" + "01" + "0020") + bytes(32) + bytes.fromhex("0004" + "0001" + "0003")


@pytest.mark.parametrize(
    ("registry", "says"),
    [
        (replace(alone(), oblivious=None), "relay: none in the registry"),
        (alone(keys=OF_P256), "relay: no usable key"),
        (alone(keys=OF_AES), "relay: no usable key"),
        (alone(keys=SMALL_ORDER), "relay: no usable key"),
    ],
)
def test_without_a_relay_or_a_key_nothing_at_all_is_sent(tmp_path, registry, says):
    transport = Hears(lambda _: Response(202))
    client = recording(tmp_path, registry, transport)
    assert client.flush().sent.sent == 0
    (row,) = rows_of(client)
    assert (row.state, row.answer, row.due > NOON) == (RowState.WAITING, says, True)
    assert transport.requests == []


def test_the_first_key_that_can_be_used_is_used(tmp_path):
    second = Receiver(key_id=2)
    transport = Hears(lambda _: Response(202))
    recording(tmp_path, alone(keys=OF_P256 + OF_AES + second.keys + RECEIVER.keys), transport).flush()
    (request,) = transport.relayed()
    assert read_inner(second.open(request.body)[0])[0][0] == "POST"


MODE = 'domain = {kind = "categories", names = ["on", "off"]}\noracle = "grr"\nparameters = {epsilon = 2.0}\n'
METERED = oblivious_registry(RELAY, RECEIVER.keys, mode=f'{MODE}period = "30 minutes"\n{OBLIVIOUS}')


def gateway_with(folder, collector):
    return Gateway(METERED, Settings("mode", folder / "state", agree="on"), collector, environ={})


def test_a_gateway_stops_where_a_relay_takes_no_more_and_goes_on_later(tmp_path):
    answers = iter([*[Response(202)] * 5, *[Response(429, {"retry-after": "3600"})], *[Response(202)] * 20])
    transport = Hears(lambda _: next(answers))
    gateway = gateway_with(tmp_path, Collector(COLLECTOR, transport, TOKEN, most_uploads=AT_ONCE))
    for period in range(12):
        gateway.take(Reading(period + 1, NOON + period * 1800, "on"))
    gateway.finish()
    assert (gateway.summary()["handed_over"], gateway.summary()["waiting"], len(transport.relayed())) == (5, 7, 6)
    gateway.pass_time(NOON + 5 * 86400)
    gateway.take(Reading(13, NOON + 5 * 86400, "on"))
    gateway.finish()
    assert gateway.summary()["waiting"] == 0


def test_the_gateway_program_posts_to_the_relay_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERSTORY_WRITE_TOKEN", TOKEN)
    with hop(lambda _: (500, {}, b"")) as (collector, directly), hop(lambda _: (202, {}, b"")) as (relay, relayed):
        (tmp_path / "metrics.toml").write_text(METERED.text.replace(RELAY, relay))
        (tmp_path / "readings.csv").write_text("time,value\n2026-11-21T09:00Z,on\n2026-11-21T09:30Z,off\n")
        gateway = ("gateway", "--metric", "mode", "--registry", "metrics.toml", "--readings", "readings.csv")
        device = ("--state", "state", "--agree", "on")
        done = within(*gateway, *device, "--server", collector, cwd=tmp_path)
    assert "2 handed over, 0 refused, 0 waiting" in done.stdout
    assert [heard.headers["content-type"] for heard in relayed] == ["message/ohttp-req"] * 2
    assert directly == []


def test_the_program_that_simulates_devices_refuses_such_a_metric_before_anything_is_posted(tmp_path):
    with hop(lambda _: (500, {}, b"")) as (collector, directly), hop(lambda _: (202, {}, b"")) as (relay, relayed):
        (tmp_path / "metrics.toml").write_text(METERED.text.replace(RELAY, relay))
        simulate = ("simulate", "--registry", "metrics.toml", "--devices", 2, "--store", collector)
        done = within(*simulate, cwd=tmp_path)
    assert done.returncode == 2
    assert "mode: reports go through a relay" in done.stderr
    assert directly == relayed == []


PROGRAM = """
import sys
from overstory.client import Client
from overstory.protocol.metrics import parse_registry
registry, server = parse_registry(sys.stdin.read()), "http://127.0.0.1:1"
client = Client("test", registry, state=sys.argv[1], server=server, spread=0.0, environ={})
client.consent("on")
for name in sys.argv[2:]:
    client.record(name, "red" if name == "colour" else 7)
print(client.flush().sent)
print(*sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith("overstory.protocol.oblivious.")))
"""


@pytest.mark.parametrize(
    ("table", "recorded", "loaded"),
    [(False, ["first"], ""), (True, ["first"], "formats"), (True, ["colour"], "formats messages")],
)
def test_a_cipher_is_loaded_when_an_oblivious_metric_has_something_to_send(tmp_path, table, recorded, loaded):
    registry = oblivious_registry("http://127.0.0.1:1/", RECEIVER.keys)
    text = registry.text if table else registry.text.partition("[oblivious]")[0].replace('transport = "oblivious"', "")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "state"), *recorded]
    run = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    sent, modules = run.stdout.splitlines()
    assert "put_off=1" in sent
    assert modules == loaded


def test_a_report_of_a_registry_in_which_the_metric_is_direct_is_refused_for_good(tmp_path):
    """Both sides' guards: a device whose registry is out of date posts directly, and the collector takes nothing."""
    direct = replace(METRICS["hidden"], transport="direct")
    with served(metrics=METRICS, ring=RING, clock=lambda: NOW) as (_, (host, port)):
        registry = replace(METRICS, metrics={"hidden": direct}, oblivious=None)
        client = device(tmp_path, registry=registry, server=f"http://{host}:{port}", spread=0.0, clock=Clock(NOW))
        client.record("hidden", "red")
        assert dict(client.flush().sent.dropped) == {"wrong-transport": 1}
