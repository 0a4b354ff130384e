"""An eavesdropper at each side of a relay: what they record, and that records of a broken relay are noticed."""

import sys

import pytest

from overstory.client.upload.http import Request, http_transport
from overstory.protocol.oblivious.formats import REQUEST_TYPE
from support import broken_relay
from support.eavesdroppers import Recorded, faults, held, listening_in
from support.misfortunes import until
from support.relays import message, receiving, relaying, shuffling

DEVICES = 40
SECRETS = {"token": b"ovw_the-write-token", "metric": b"secret-theme"}


def observed(folder, *, shuffle=True, fault=None):
    options = shuffling(folder, least=DEVICES, every="0.2s") if shuffle else ["OVERSTORY_RELAY_PER_HOUR=1000"]
    more = {} if fault is None else {"program": (sys.executable, broken_relay.__file__, fault)}
    with receiving() as side, listening_in(address_of(side.url)) as behind:
        url = "http://{}:{}".format(*behind.address)
        with relaying(url, *options, log=folder / "log", **more) as relay, listening_in(relay.address) as before:
            send = http_transport({})
            for number in range(DEVICES):
                before.source = f"127.0.1.{number + 1}"
                sealed = Request("http://{}:{}/".format(*before.address), message(number), REQUEST_TYPE)
                assert send(sealed).status == (202 if shuffle else 200)
            until(lambda: not shuffle or "release is complete" in (folder / "log").read_text())
            assert relay.stop() == 0
    return before.records, behind.records, folder


def address_of(url):
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


@pytest.mark.parametrize("shuffle", [True, False], ids=["shuffle", "pass-through"])
def test_of_a_relay_they_record_nothing_that_they_must_not(tmp_path, shuffle):
    arrived, passed, folder = observed(tmp_path, shuffle=shuffle)
    assert faults(arrived, passed, SECRETS) == []
    assert len(arrived) == DEVICES
    assert len(passed) == (1 if shuffle else DEVICES)
    assert {record.source for record in arrived} == {f"127.0.1.{number + 1}" for number in range(DEVICES)}
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "relay-token"]
    assert {path.name for path in files} == ({"log", "lock", "waiting.slots"} if shuffle else {"log"})
    written = b"".join(path.read_bytes() for path in files)
    assert (
        held(written, {"address": b"127.0.1."} | {f"message {n}": record.body for n, record in enumerate(arrived)})
        == []
    )


def test_a_relay_that_forwards_addresses_is_noticed(tmp_path):
    arrived, passed, _ = observed(tmp_path, shuffle=False, fault="addresses")
    wrong = faults(arrived, passed, SECRETS)
    assert "relay to collector: address 127.0.1.7" in wrong
    assert f"relay to collector: {DEVICES} kinds of headers" in wrong


def test_a_shuffler_that_forwards_one_address_is_noticed(tmp_path):
    arrived, passed, _ = observed(tmp_path, fault="addresses")
    assert f"relay to collector: address 127.0.1.{DEVICES}" in faults(arrived, passed, SECRETS)


def test_a_shuffler_that_keeps_the_order_of_arrival_is_noticed(tmp_path):
    assert faults(*observed(tmp_path, fault="order")[:2], SECRETS) == ["relay to collector: the order of arrival"]


@pytest.mark.parametrize(
    ("head", "body", "fault"),
    [
        (b"User-Agent: overstory\r\n", bytes(567), "headers"),
        (b"Authorization: Bearer ovw_the-write-token\r\n", bytes(567), "token"),
        (b"", bytes(600), "a message of 600 bytes"),
        (b"", b"Secret-Theme" + bytes(555), "metric"),
        (b"", b"secret-theme".hex().encode() + bytes(543), "metric"),
    ],
)
def test_what_a_device_must_not_send_is_noticed(head, body, fault):
    usual = (
        b"POST / HTTP/1.1\r\nHost: r\r\nContent-Type: message/ohttp-req\r\nConnection: close\r\nContent-Length: 5\r\n"
    )
    record = Recorded("127.0.1.1", bytearray(usual + head + b"\r\n" + body))
    passed = Recorded("127.0.0.1", bytearray(usual + b"\r\n"))
    assert faults([Recorded("127.0.1.1", bytearray(usual + b"\r\n" + bytes(567)))], [passed], SECRETS) == []
    assert [fault for wrong in faults([record], [passed], SECRETS) if fault in wrong] == [fault]
