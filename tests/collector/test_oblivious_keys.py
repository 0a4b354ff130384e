"""The file of private keys, and `overstory keys`."""

import dataclasses
import datetime as dt
import json
import os
import signal
import time

import httpx
import pytest

from overstory.cli.main import main
from overstory.collector.checkup import check_keys
from overstory.collector.oblivious import keys as keys_module
from overstory.collector.oblivious.keys import (
    CIPHERS,
    LEAST,
    UNDECRYPTABLE,
    UNKNOWN_KEY,
    KeyRing,
    PrivateKey,
    add_key,
    public_line,
    read_private_keys,
    remove_key,
)
from overstory.protocol.errors import OverstoryError, ParameterError, WireError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.oblivious.formats import REQUEST_TYPE, KeyConfiguration, Request, read_keys, read_request
from overstory.protocol.oblivious.messages import CHACHA20_POLY1305, seal_request
from support.collector_processes import CollectorProcess
from support.sealed_reports import KEYS, METRICS, REGISTRY, opened, seal, upload, write_files

GOOD = '[[keys]]\nid = 1\ncreated = 2026-11-23\nprivate = "{}"\n'.format("ab" * 32)


def test_a_new_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "oblivious.keys"
    (key,) = add_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (key.key_id, key.created) == (1, dt.datetime.now(dt.UTC).date())
    assert read_private_keys(path) == (key,)
    assert [one.name for one in tmp_path.iterdir()] == ["oblivious.keys"]


def test_keys_are_added_and_removed_and_the_newest_comes_first_in_the_registry(tmp_path):
    path = tmp_path / "oblivious.keys"
    add_key(path)
    add_key(path)
    keys = add_key(path)
    assert [key.key_id for key in keys] == [1, 2, 3]
    assert len({key.private for key in keys}) == 3
    assert [key.key_id for key in read_keys(bytes.fromhex(public_line(keys)))] == [3, 2, 1]
    assert [key.key_id for key in remove_key(path, 2)] == [1, 3]
    assert read_private_keys(path) == (keys[0], keys[2])
    assert path.stat().st_mode & 0o777 == 0o600
    assert [key.key_id for key in add_key(path)] == [1, 3, 2], "the next free number"


def test_a_file_with_every_number_takes_no_more_and_stays(tmp_path, monkeypatch):
    path = tmp_path / "oblivious.keys"
    (key,) = add_key(path)
    every = tuple(dataclasses.replace(key, key_id=number) for number in range(256))
    monkeypatch.setattr(keys_module, "read_private_keys", lambda _: every)
    before = path.read_bytes()
    with pytest.raises(ParameterError, match="remove earlier ones"):
        add_key(path)
    assert path.read_bytes() == before


def test_the_newest_key_and_a_missing_one_cannot_be_removed(tmp_path):
    path = tmp_path / "oblivious.keys"
    add_key(path)
    add_key(path)
    with pytest.raises(ParameterError, match="key 2 is the newest"):
        remove_key(path, 2)
    with pytest.raises(ParameterError, match="it has no key 9; it has 1, 2"):
        remove_key(path, 9)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_file_that_others_may_use_is_refused(tmp_path, mode):
    path = tmp_path / "oblivious.keys"
    add_key(path)
    path.chmod(mode)
    with pytest.raises(ParameterError, match=r"chmod 600"):
        read_private_keys(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "keys = 3\n",
        "[[keys\n",
        "\xff",
        GOOD + GOOD,
        GOOD + "other = 1\n",
        "other = 1\n" + GOOD,
        GOOD.replace("id = 1", "id = 256"),
        GOOD.replace("id = 1", "id = true"),
        GOOD.replace("2026-11-23", "2026-11-23T00:00:00"),
        GOOD.replace("2026-11-23", "20"),
        GOOD.replace("abab", "ab", 1),
        GOOD.replace("abab", "xyxy", 1),
    ],
)
def test_a_file_that_is_no_file_of_keys_is_refused_without_its_secret(tmp_path, text):
    path = tmp_path / "oblivious.keys"
    path.write_text(text, "latin-1")
    path.chmod(0o600)
    with pytest.raises(OverstoryError) as caught:
        read_private_keys(path)
    assert str(path) in str(caught.value)
    assert "abab" not in str(caught.value)
    path.write_text(GOOD)
    assert len(read_private_keys(path)) == 1  # the same file without the fault


def test_the_command_prints_the_registrys_line(tmp_path, capsys):
    path = str(tmp_path / "oblivious.keys")
    assert main(["keys", "--new", path]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert main(["keys", path, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert line == f'keys = "{shown["keys"]}"'
    assert [(key["id"], key["current"]) for key in shown["listed"]] == [(1, True)]
    assert main(["keys", "--new", path]) == 0
    assert main(["keys", "--remove", "1", path]) == 0
    (left,) = read_keys(bytes.fromhex(capsys.readouterr().out.splitlines()[-1].split('"')[1]))
    assert left.key_id == 2
    private = read_private_keys(tmp_path / "oblivious.keys")[0].private
    assert main(["keys", path]) == 0
    assert private.hex() not in capsys.readouterr().out


def test_a_missing_file_is_one_line(tmp_path, capsys):
    assert main(["keys", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# Keys over time: what doctor says of a rotation, and a collector that reads its keys again while it serves
@pytest.fixture
def path(tmp_path):
    made = tmp_path / "oblivious.keys"
    add_key(made)
    return made


def findings(path, keys=None, text=REGISTRY):
    keys = read_private_keys(path) if keys is None else keys
    registry = parse_registry(text.replace(public_line(KEYS), public_line(keys)))
    return [f"{finding.level}: {finding.detail}" for finding in check_keys(registry, path)]


def test_a_rotation_step_by_step(path):
    first = read_private_keys(path)
    assert [line.partition(":")[0] for line in findings(path)] == ["ok"]
    both = add_key(path)
    assert findings(path, first) == [
        f"warning: key 2, the newest of {path}, is not in the registry: no device uses it",
        f"ok: {path} opens what is sealed for the registry's keys: 1",
    ]
    assert findings(path) == [f"ok: {path} opens what is sealed for the registry's keys: 2, 1"]
    assert findings(path, both[1:]) == [
        f"warning: key 1 of {path} is no longer in the registry",
        f"ok: {path} opens what is sealed for the registry's keys: 2",
    ]
    remove_key(path, 1)
    assert findings(path) == [f"ok: {path} opens what is sealed for the registry's keys: 2"]


def test_keys_that_cannot_be_opened_are_errors(path):
    both = add_key(path)
    remove_key(path, 1)
    (line, *_) = findings(path, both)
    assert line.startswith("error: the registry lists key 1 (")
    assert line.endswith("no key of this id")
    assert "another key of this id" in findings(path, KEYS)[0]


def test_an_earlier_key_that_is_listed_first_is_a_warning(path):
    both = add_key(path)
    assert "warning: the registry lists key 1 first: devices use it" in findings(path, both[::-1])


def test_an_oblivious_metric_without_a_file_and_a_file_without_a_route(path):
    (finding,) = check_keys(METRICS, None)
    assert (finding.level, "hidden, other" in finding.detail) == ("warning", True)
    direct = REGISTRY.split("[oblivious]")[0].replace('transport = "oblivious"\n', "")
    (line,) = findings(path, text=direct)
    assert "has no table [oblivious]" in line
    assert list(check_keys(parse_registry(direct), None)) == []


def test_doctor_compares_the_registry_with_the_file(tmp_path, capsys, monkeypatch):
    registry, keys = write_files(tmp_path)
    monkeypatch.setenv("OVERSTORY_OBLIVIOUS_KEYS", str(keys))
    arguments = ["doctor", "--registry", str(registry)]
    assert main(arguments) == 0
    assert f"ok       oblivious keys: {keys} opens what is sealed" in capsys.readouterr().out
    remove_key(keys, 1)
    assert main(arguments) == 1
    assert "error    oblivious keys: the registry lists key 1 (" in capsys.readouterr().out
    keys.chmod(0o644)
    assert main(arguments) == 1
    assert f"chmod 600 {keys}" in capsys.readouterr().out


def test_a_serving_collector_reads_its_keys_again(tmp_path):
    registry, keys = write_files(tmp_path)
    options = ("--open-writes", f"OVERSTORY_OBLIVIOUS_KEYS={keys}")
    collector = CollectorProcess(registry, str(tmp_path / "store.db"), options)
    collector.start()
    now = METRICS["hidden"].period.number(time.time())

    def status(key):
        sealed = seal(upload(period=now), key=key)
        headers = {"Content-Type": REQUEST_TYPE}
        answer = httpx.post(f"{collector.url}/v1/oblivious", content=sealed.body, headers=headers, trust_env=False)
        return answer.status_code if answer.status_code != 200 else opened(sealed, answer.content)[0].status

    def reloaded_to(expected):
        os.kill(collector.pid, signal.SIGHUP)
        deadline = time.monotonic() + 30
        while [status(key) for key in KEYS] != expected:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    try:
        assert [status(key) for key in KEYS] == [200, 200]
        keys.chmod(0o644)
        os.kill(collector.pid, signal.SIGHUP)
        time.sleep(0.5)
        assert [status(key) for key in KEYS] == [200, 200]
        keys.chmod(0o600)
        remove_key(keys, 1)
        reloaded_to([400, 200])
    finally:
        assert collector.stop() == 0


# Opening requests and sealing responses: RFC 9458 byte for byte, and every altered byte refused
# RFC 9458, appendix A.
PRIVATE = bytes.fromhex("3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a")
CONFIGURATION = bytes.fromhex(
    "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e79815500080001000100010003"
)
MESSAGE = bytes.fromhex("00034745540568747470730b6578616d706c652e636f6d012f")
REQUEST = bytes.fromhex(
    "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b4726374e469135906992e1268c594d2a10c695d"
    "858c40a026e7965e7d86b83dd440b2c0185204b4d63525"
)
NONCE = bytes.fromhex("c789e7151fcba46158ca84b04464910d")
ANSWER = bytes.fromhex("0140c8")
RESPONSE = bytes.fromhex("c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd")

KEY = PrivateKey(1, dt.date(2026, 11, 23), PRIVATE)
OTHER = PrivateKey(2, dt.date(2026, 11, 23), bytes(range(32)))
RING = KeyRing([KEY, OTHER])


def refusal(message, ring=RING):
    with pytest.raises(WireError) as caught:
        ring.open(message)
    return caught.value.reason


def test_the_example_of_the_standard_byte_for_byte():
    assert KEY.public.encode()[2:] == CONFIGURATION
    opened = RING.open(REQUEST)
    assert opened.message == MESSAGE
    assert read_request(opened.message) == Request("GET", "https", "example.com", "/")
    assert opened.seal(ANSWER, draw=lambda length: NONCE[:length]) == RESPONSE


@pytest.mark.parametrize("cipher", [*CIPHERS, CHACHA20_POLY1305], ids=["aes", "chacha", "chacha of the device"])
@pytest.mark.parametrize("key", [KEY, OTHER], ids=["key 1", "key 2"])
def test_what_a_device_seals_is_opened_and_its_response_can_be_read(cipher, key):
    sealed = seal_request(MESSAGE, key.public, cipher)
    opened = RING.open(sealed.body)
    assert opened.message == MESSAGE
    assert sealed.open(opened.seal(b"an answer")) == b"an answer"
    assert opened.seal(b"an answer") != opened.seal(b"an answer")  # the nonce is drawn


@pytest.mark.parametrize("cipher", CIPHERS, ids=["aes", "chacha"])
def test_every_altered_byte_is_refused(cipher):
    body = seal_request(MESSAGE, KEY.public, cipher).body
    for place in range(len(body)):
        for mask in (0x01, 0x80, 0xFF):
            altered = bytearray(body)
            altered[place] ^= mask
            expected = {UNKNOWN_KEY, UNDECRYPTABLE} if place < 7 else {UNDECRYPTABLE}
            assert refusal(bytes(altered)) in expected, place


def test_every_cut_message_is_refused():
    assert [refusal(REQUEST[:length]) for length in range(len(REQUEST))] == [UNDECRYPTABLE] * len(REQUEST)
    assert refusal(REQUEST + b"\0") == UNDECRYPTABLE
    assert len(seal_request(b"", KEY.public).body) == LEAST


def test_a_request_for_a_missing_key_says_so():
    assert refusal(REQUEST, KeyRing([OTHER])) == UNKNOWN_KEY
    with pytest.raises(WireError, match="there is no key 1 here"):
        KeyRing([OTHER]).open(REQUEST)
    with pytest.raises(WireError, match="cipher 0x0002 are not read here: use 0x0020, 0x0001 and 0x0001 or 0x0003"):
        RING.open(REQUEST[:6] + b"\2" + REQUEST[7:])


def test_a_request_for_another_key_of_the_same_id_cannot_be_opened():
    assert refusal(REQUEST, KeyRing([PrivateKey(1, dt.date(2026, 11, 23), bytes(32))])) == UNDECRYPTABLE


def test_a_public_key_of_small_order_is_refused():
    assert refusal(REQUEST[:7] + bytes(32) + REQUEST[39:]) == UNDECRYPTABLE
    assert refusal(REQUEST[:7] + (1).to_bytes(32, "little") + REQUEST[39:]) == UNDECRYPTABLE


def test_no_secret_is_shown():
    for shown in (repr(KEY), repr(RING.open(REQUEST)), repr(RING)):
        assert PRIVATE.hex() not in shown
        assert "private" not in shown
    assert isinstance(KEY.public, KeyConfiguration)
