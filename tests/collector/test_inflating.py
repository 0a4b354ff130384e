"""Compression is undone up to a bound, whatever a body announces."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.collector.ingest.ingest import inflate
from overstory.protocol.errors import WireError

PACK = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress}


@given(st.binary(max_size=2_000), st.sampled_from(sorted(PACK)))
def test_what_was_packed_comes_back(body, encoding) -> None:
    assert inflate(PACK[encoding](body), encoding, 2_000) == body


def refused(body: bytes, encoding: str, most: int = 1000) -> str:
    with pytest.raises(WireError) as caught:
        inflate(body, encoding, most)
    return caught.value.reason


@pytest.mark.parametrize("encoding", sorted(PACK))
def test_a_bomb_is_stopped_at_the_bound(encoding) -> None:
    bomb = PACK[encoding](bytes(64 << 20))
    assert len(bomb) < 100_000
    tracemalloc.start()
    assert refused(bomb, encoding, 1 << 16) == "too-large"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("encoding", sorted(PACK))
def test_anything_but_one_whole_stream_is_damaged(encoding) -> None:
    whole = PACK[encoding](b"abc" * 100)
    assert refused(whole[:-1], encoding) == "damaged"
    assert refused(whole + b"x", encoding) == "damaged"
    assert refused(whole + whole[:-1], encoding) == "damaged"
    assert refused(b"", encoding) == "damaged"
    assert refused(b"abc", encoding) == "damaged"


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=16), st.sampled_from(["gzip", "x-gzip"]))
def test_a_gzip_body_may_have_several_members(parts, encoding) -> None:
    body = b"".join(gzip.compress(part) for part in parts)
    whole = b"".join(parts)
    assert inflate(body, encoding, 1_000) == whole
    assert not whole or refused(body, encoding, len(whole) - 1) == "too-large"


def test_members_are_few_and_deflate_has_none() -> None:
    assert refused(gzip.compress(b"") * 17, "gzip") == "damaged"
    assert refused(zlib.compress(b"a") * 2, "deflate") == "damaged"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "gzip;q=1", "\x00"])
def test_other_encodings_are_not_read(encoding) -> None:
    assert refused(b"", encoding) == "wrong-type"


def test_no_encoding_is_the_body_itself() -> None:
    assert inflate(b"abc", "", 1) == inflate(b"abc", "identity", 1) == b"abc"


@given(st.binary(max_size=200), st.sampled_from(sorted(PACK)))
def test_any_bytes_are_inflated_or_refused(body, encoding) -> None:
    try:
        outcome = "sound" if len(inflate(body, encoding, 100)) <= 100 else "too long"
    except WireError as error:
        outcome = error.reason
    assert outcome in {"sound", "damaged", "too-large"}
