"""Oblivious HTTP against the RFCs' own examples, against `cryptography`, and against every altered byte."""

import contextlib
import json
import random
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305 as OtherCipher
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.oblivious import messages
from overstory.protocol.oblivious.formats import (
    KeyConfiguration,
    Request,
    Response,
    read_keys,
    read_request,
    read_response,
    varint,
)
from overstory.protocol.oblivious.messages import (
    public_key,
    seal_request,
    shared_secret,
    usable_key,
)
from support.oblivious_receiver import Receiver, read_inner

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "oblivious-http.json").read_text())
AES = messages.Cipher(
    0x0001,
    16,
    lambda key, nonce, message, about: AESGCM(key).encrypt(nonce, message, about),
    lambda key, nonce, sealed, about: AESGCM(key).decrypt(nonce, sealed, about),
)
CIPHERS = {1: AES, 3: messages.CHACHA20_POLY1305}
BASE = (9).to_bytes(32, "little")
hexa = bytes.fromhex


def named(entries):
    return [pytest.param(entry, id=entry["from"]) for entry in entries]


@pytest.mark.parametrize("entry", named(VECTORS["x25519"]))
def test_x25519_of_rfc_7748(entry):
    assert shared_secret(hexa(entry["private"]), hexa(entry["public"])).hex() == entry["shared"]


@pytest.mark.parametrize("times", [1, pytest.param(1000, marks=pytest.mark.slow)])
def test_x25519_iterated_as_in_rfc_7748(times):
    k = u = BASE
    for _ in range(times):
        k, u = shared_secret(k, u), k
    assert k.hex() == VECTORS["x25519_iterated"][str(times)]


def test_x25519_agrees_with_another_implementation_also_where_a_key_is_written_in_an_odd_way():
    drawn = random.Random(7748)
    past_the_field, with_the_bit_to_be_ignored = (messages.P + 2, messages.P + 18), (2**255 - 1, 2**255 + 9)
    odd = [*past_the_field, *with_the_bit_to_be_ignored]
    publics = [number.to_bytes(32, "little") for number in odd] + [drawn.randbytes(32) for _ in range(60)]
    for public in publics:
        private = drawn.randbytes(32)
        theirs = X25519PrivateKey.from_private_bytes(private)
        assert shared_secret(private, public) == theirs.exchange(X25519PublicKey.from_public_bytes(public))
        assert public_key(private) == theirs.public_key().public_bytes_raw()


SMALL = (
    0,
    1,
    messages.P - 1,
    messages.P,
    messages.P + 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""The points of small order (Bernstein, cr.yp.to/ecdh.html), and two written otherwise."""


@pytest.mark.parametrize("point", SMALL)
def test_a_public_key_of_small_order_is_refused(point):
    with pytest.raises(ParameterError, match="small order"):
        shared_secret(bytes(range(32)), point.to_bytes(32, "little"))


@pytest.mark.parametrize(("private", "public"), [(b"", BASE), (bytes(31), BASE), (bytes(32), bytes(33))])
def test_a_key_of_another_length_is_refused(private, public):
    with pytest.raises(ParameterError, match="has 32 bytes"):
        shared_secret(private, public)


@pytest.mark.parametrize("entry", named(VECTORS["chacha20_poly1305"]))
def test_chacha20_poly1305_of_rfc_8439(entry):
    key, nonce, message, about = (hexa(entry[name]) for name in ("key", "nonce", "message", "about"))
    sealed = messages.seal(key, nonce, message, about)
    assert sealed.hex() == entry["sealed"]
    assert messages.unseal(key, nonce, sealed, about) == message


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 63, 64, 65, 128, 200, 1024])
def test_chacha20_poly1305_agrees_with_another_implementation(length):
    drawn = random.Random(length)
    for about in (b"", drawn.randbytes(16), drawn.randbytes(5)):
        key, nonce, message = drawn.randbytes(32), drawn.randbytes(12), drawn.randbytes(length)
        sealed = messages.seal(key, nonce, message, about)
        assert sealed == OtherCipher(key).encrypt(nonce, message, about)
        assert messages.unseal(key, nonce, sealed, about) == message


def test_every_altered_byte_of_a_sealed_message_is_refused():
    key, nonce, about = bytes(range(32)), bytes(12), b"about"
    sealed = messages.seal(key, nonce, b"a message of some length", about)
    for altered in alterations(sealed):
        with pytest.raises(ParameterError, match="was altered"):
            messages.unseal(key, nonce, altered, about)
    for short in range(len(sealed)):
        with pytest.raises(ParameterError, match="was altered"):
            messages.unseal(key, nonce, sealed[:short], about)
    for other in ((bytes(32), nonce, about), (key, b"\1" * 12, about), (key, nonce, b"About")):
        with pytest.raises(ParameterError, match="was altered"):
            messages.unseal(other[0], other[1], sealed, other[2])


def alterations(message: bytes) -> list[bytes]:
    """Every message that differs in one byte: by its lowest bit, its highest, or all."""
    return [
        message[:place] + bytes([message[place] ^ mask]) + message[place + 1 :]
        for place in range(len(message))
        for mask in (1, 0x80, 0xFF)
    ]


@pytest.mark.parametrize("entry", named(VECTORS["hpke"]))
def test_hpke_of_rfc_9180(entry):
    cipher, private, recipient = CIPHERS[entry["cipher"]], hexa(entry["sender"]), hexa(entry["recipient"])
    context = messages.sender(recipient, hexa(entry["info"]), cipher, draw=lambda _: private)
    exchanged = shared_secret(private, recipient)
    assert context.enc.hex() == entry["enc"]
    assert messages.encapsulated_secret(exchanged, context.enc, recipient).hex() == entry["shared"]
    assert (context.key.hex(), context.nonce.hex()) == (entry["key"], entry["nonce"])
    assert context.exporter.hex() == entry["exporter"]
    sealed = cipher.seal(context.key, context.nonce, hexa(entry["message"]), hexa(entry["about"]))
    assert sealed.hex() == entry["sealed"]
    assert {label: context.export(hexa(label), 32).hex() for label in entry["exports"]} == entry["exports"]


def test_the_example_of_rfc_9458_byte_for_byte():
    example = VECTORS["oblivious"]
    (key,) = read_keys(hexa(example["keys"]))
    assert key == KeyConfiguration(1, public_key(hexa(example["private"])), (1, 3))
    assert key.encode().hex() == example["keys"]
    request = hexa(example["request"])
    assert read_request(request) == Request("GET", "https", "example.com", "/")
    sealed = seal_request(request, key, AES, draw=lambda _: hexa(example["sender"]))
    assert sealed.body.hex() == example["encapsulated_request"]
    context = sealed._context
    assert context.export(messages.RESPONSE_LABEL, 16).hex() == example["secret"]
    keys = messages.response_keys(context, hexa(example["response_nonce"]))
    assert [part.hex() for part in keys] == [example["response_key"], example["response_cipher_nonce"]]
    opened = sealed.open(hexa(example["encapsulated_response"]))
    assert opened.hex() == example["response"]
    assert read_response(opened) == Response(200)


RECEIVER = Receiver()
FIELDS = (("content-type", "application/vnd.overstory.reports"), ("authorization", "Bearer ovw_of-this-application"))
REPORT = Request("POST", "https", "collector.example.com", "/v1/reports", FIELDS, bytes(range(170)) * 2)


def test_a_report_that_is_sealed_here_is_opened_elsewhere_and_its_answer_here():
    sealed = seal_request(REPORT.encode(512), usable_key(RECEIVER.keys))
    inner, answer = RECEIVER.open(sealed.body)
    assert len(inner) % 512 == 0
    head, fields, body = read_inner(inner)
    assert (head, body) == (["POST", "https", "collector.example.com", "/v1/reports"], REPORT.body)
    assert fields == dict(REPORT.fields)
    assert sealed.open(answer(b"an answer")) == b"an answer"


def test_every_altered_byte_of_an_answer_is_refused():
    sealed = seal_request(b"a report", usable_key(RECEIVER.keys))
    _, answer = RECEIVER.open(sealed.body)
    encrypted = answer(b"taken")
    for altered in (*alterations(encrypted), *(encrypted[:short] for short in range(len(encrypted)))):
        with pytest.raises(ParameterError, match="was altered"):
            sealed.open(altered)


def test_an_answer_to_another_message_is_refused():
    first, second = (seal_request(b"a report", usable_key(RECEIVER.keys)) for _ in range(2))
    _, answer = RECEIVER.open(second.body)
    with pytest.raises(ParameterError, match="was altered"):
        first.open(answer(b"taken"))


def test_a_message_says_in_clear_for_which_key_it_is_and_nothing_else_that_two_messages_share():
    """A relay can tell devices of the new registry from others while keys are rotated: threat-model.md says so."""
    keys = [usable_key(Receiver(key_id=number).keys) for number in (1, 2)]
    sealed = [[seal_request(bytes(512), key).body for _ in range(20)] for key in keys]
    assert {message[0] for message in sealed[0]} == {1}
    assert {message[0] for message in sealed[1]} == {2}
    assert len({message[1:7] for many in sealed for message in many}) == 1
    assert len({message[7:39] for many in sealed for message in many}) == 40, "each has a key of its own"
    assert len({message[39:] for many in sealed for message in many}) == 40
    columns = list(zip(*(message[7:] for many in sealed for message in many), strict=True))
    assert all(len(set(column)) > 1 for column in columns)


def test_a_label_that_is_wrong_in_one_byte_would_be_noticed(monkeypatch):
    """What these tests rest on: another derivation of the key is not opened."""
    monkeypatch.setattr(messages, "REQUEST_LABEL", b"message/bhttp request")
    with pytest.raises(InvalidTag):
        RECEIVER.open(seal_request(b"a report", usable_key(RECEIVER.keys)).body)


def test_a_cipher_that_the_gateway_does_not_take_is_refused():
    with pytest.raises(ParameterError, match="key 1 does not take the cipher 0x0001"):
        seal_request(b"a report", usable_key(RECEIVER.keys), AES)


def test_keys_are_read_as_they_are_written_and_those_of_another_kind_are_left_out():
    keys = [KeyConfiguration(number, Receiver().public, (3, 1)) for number in (2, 0, 255)]
    p256 = hexa("0045" + "09" + "0010" + "04" * 64 + "00" * 2)
    other_kdf = hexa("0029" + "08" + "0020" + "11" * 32 + "0004" + "0002" + "0003")
    listed = p256 + keys[0].encode() + other_kdf + keys[1].encode() + keys[2].encode()
    assert read_keys(listed) == tuple(keys)
    assert usable_key(listed) == keys[0]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "no key of the list is of X25519"),
        (hexa("0045" + "09" + "0010" + "04" * 64 + "00" * 2), "no key of the list is of X25519"),
        (Receiver(ciphers=(1,)).keys, "no key of the list is for ChaCha20-Poly1305"),
        (Receiver(ciphers=()).keys, "no key of the list is of X25519"),
    ],
    ids=["none", "of another curve", "by another cipher", "by no cipher"],
)
def test_a_list_without_a_key_that_can_be_used_is_refused(raw, message):
    with pytest.raises(WireError, match=message):
        usable_key(raw)


def test_a_list_of_keys_that_is_cut_off_anywhere_is_refused():
    listed = Receiver(key_id=1).keys + Receiver(key_id=2).keys
    whole = len(listed) // 2
    for length in (length for length in range(1, len(listed)) if length != whole):
        with pytest.raises(WireError, match="cut off"):
            read_keys(listed[:length])


@pytest.mark.parametrize("number", [-1, 256])
def test_a_key_id_is_a_byte(number):
    with pytest.raises(ParameterError, match="give a number from 0 to 255"):
        KeyConfiguration(number, bytes(32))


texts = st.text(st.characters(max_codepoint=255), max_size=30)
fields = st.lists(st.tuples(texts.map(str.lower).filter(lambda name: name.isascii()), texts), max_size=5).map(tuple)


@settings(max_examples=60)
@given(st.tuples(texts, texts, texts, texts), st.integers(200, 599), fields, st.binary(max_size=300))
def test_a_message_is_read_as_it_was_written_whatever_it_is_padded_to(head, status, listed, body):
    request, response = Request(*head, listed, body), Response(status, listed, body)
    for padded_to in (1, 16, 512):
        encoded = [each.encode(padded_to) for each in (request, response)]
        assert not any(len(raw) % padded_to for raw in encoded)
        assert (read_request(encoded[0]), read_response(encoded[1])) == (request, response)


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_whatever_is_read_is_a_message_or_refused(raw):
    for read in (read_request, read_response):
        with contextlib.suppress(WireError):
            assert read(raw) is not None


def test_a_message_that_ends_early_has_empty_parts_and_no_torn_ones():
    whole = Request("GET", "https", "example.com", "/", (("accept", "*"),), b"body").encode()
    head = Request("GET", "https", "example.com", "/").encode()[:-2]
    assert read_request(head) == Request("GET", "https", "example.com", "/")
    fine = {len(head), len(whole) - len(b"body") - 1, len(whole)}
    for length in range(len(whole)):
        if length in fine:
            read_request(whole[:length])
        else:
            with pytest.raises(WireError):
                read_request(whole[:length])


def test_informational_responses_before_the_final_one_are_left_out():
    early = varint(1) + varint(103) + bytes([6]) + b"\4link" + b"\0"
    final = Response(200, (("a", "b"),), b"body")
    assert read_response(early + final.encode()[1:]) == final


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (Response(200).encode(), "a message of kind 1 where one of kind 0 belongs"),
        (Request("GET", "https", "a", "/").encode() + b"\0\0\1", "bytes after the end of the message are not zero"),
        (b"\0" + varint(9) + b"GET", "9 bytes are announced, 3 are here"),
        (Request("GET", "https", "a", "/", (("a", "b"),) * 65).encode(), "more than 64 fields"),
    ],
)
def test_what_is_no_request_is_refused_with_a_reason(raw, message):
    with pytest.raises(WireError, match=message):
        read_request(raw)


@pytest.mark.parametrize("status", [0, 99, 600, 999])
def test_a_status_that_there_is_not_is_refused(status):
    with pytest.raises(WireError, match=f"{status} is no status"):
        read_response(varint(1) + varint(status))


def test_a_number_past_62_bits_has_no_form():
    assert varint((1 << 62) - 1).hex() == "ff" * 8
    with pytest.raises(WireError, match="too large"):
        varint(1 << 62)
