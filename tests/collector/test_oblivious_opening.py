"""Opening requests and sealing responses: RFC 9458 byte for byte, and every altered byte refused."""

from __future__ import annotations

import datetime as dt

import pytest

from overstory.collector.oblivious.keys import UNDECRYPTABLE, UNKNOWN_KEY, PrivateKey
from overstory.collector.oblivious.opening import CIPHERS, LEAST, KeyRing
from overstory.protocol.errors import WireError
from overstory.protocol.oblivious.binary_http import Request, read_request
from overstory.protocol.oblivious.hpke import CHACHA20_POLY1305
from overstory.protocol.oblivious.messages import KeyConfiguration, seal_request

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


def refusal(message: bytes, ring: KeyRing = RING) -> str:
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
