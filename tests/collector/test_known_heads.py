"""What is remembered of requests' heads, and what never is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.collector.http.connection import LONGEST, MOST, HeaderCache
from overstory.collector.http.endpoint import Head

NAMES = (b"host", b"content-length")


def request(body: bytes = b"abc", more: bytes = b"") -> bytes:
    return b"POST /v1/reports HTTP/1.1\r\nHost: c\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), more, body)


def heads(*requests: bytes, names: tuple[bytes, ...] = NAMES, length: int = 3) -> HeaderCache:
    known = HeaderCache()
    for one in requests:
        known.learn(one, Head(length=length), names)
    return known


def test_the_same_head_before_another_body_is_known() -> None:
    assert heads(request()).split(request(b"xyz")) == (Head(length=3), b"xyz")


def test_no_other_head_is_known() -> None:
    known = heads(request())
    assert known.split(request(b"long")) is None
    assert known.split(request(more=b"Accept: */*\r\n")) is None
    assert known.split(request().replace(b"Host", b"HOST")) is None
    assert known.split(b"") is None


@given(st.integers(0, len(request()) - 1), st.binary(min_size=1, max_size=5))
def test_less_or_more_than_one_request_is_not_split(end: int, more: bytes) -> None:
    known = heads(request())
    assert known.split(request()[:end]) is None
    assert known.split(request() + more) is None
    assert known.split(more + request()) is None


@given(st.binary(max_size=60))
def test_what_is_split_is_the_head_that_was_learned_and_a_body_of_its_length(data: bytes) -> None:
    known = heads(request(b"\r\n\r\n"), length=4)
    found = known.split(request(b"1234")[:-4] + data)
    assert found == ((Head(length=4), data) if len(data) == 4 else None)


@pytest.mark.parametrize("name", [b"x-forwarded-for", b"user-agent", b"forwarded", b"cookie", b"transfer-encoding"])
def test_nothing_of_who_sends_is_remembered(name: bytes) -> None:
    assert not len(heads(request(), names=(*NAMES, name)))


@pytest.mark.parametrize("before", [b"\r\n\r\n", b"a\r\n\r\nb"])
def test_a_head_that_ends_elsewhere_is_not_remembered(before: bytes) -> None:
    assert not len(heads(before + request()))
    assert not len(heads(request().replace(b"\r\n\r\n", b"\n\n")))


def test_heads_are_bounded() -> None:
    assert not len(heads(request(more=b"Accept: %b\r\n" % (b"x" * LONGEST))))
    known = heads(*(request(more=b"Accept: %d\r\n" % number) for number in range(3 * MOST)))
    assert 0 < len(known) <= MOST
