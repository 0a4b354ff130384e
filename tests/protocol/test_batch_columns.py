"""A batch's columns are checked alike with NumPy and without it."""

import random
import sys
import zlib
from types import SimpleNamespace

import pytest

from overstory.protocol.errors import WireError
from overstory.protocol.wire.upload import HEADER, TRAILER, decode_batch, encode_columns


def encoded(num_cohorts, cohorts, bits, num_bits):
    width = 2 if num_cohorts <= 65_536 else 4
    column = b"".join(cohort.to_bytes(width, "little") for cohort in cohorts)
    octets = b"".join(report.to_bytes(-(-num_bits // 8), "little") for report in bits)
    return encode_columns(bytes(16), num_bits, num_cohorts, column, octets)


@pytest.fixture(params=["with NumPy", "without it"])
def library(request, monkeypatch):
    if request.param == "without it":
        monkeypatch.setattr("overstory.protocol.wire.upload.sys", SimpleNamespace(modules={}, byteorder=sys.byteorder))
    else:
        assert "numpy" in sys.modules or __import__("numpy")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("count", [1, 255, 256, 3000])
@pytest.mark.parametrize("num_cohorts", [7, 300, 65_535, 65_537, 1 << 31])
def test_one_cohort_too_large_is_refused_wherever_it_lies(count, num_cohorts):
    drawn = random.Random(count)
    cohorts = [drawn.randrange(num_cohorts) for _ in range(count)]
    reports = [drawn.randrange(8) for _ in range(count)]
    assert [report.cohort for report in decode_batch(encoded(num_cohorts, cohorts, reports, 3))] == cohorts
    for place in {0, count // 2, count - 1}:
        wrong = [*cohorts[:place], num_cohorts, *cohorts[place + 1 :]]
        with pytest.raises(WireError, match=f"cohort {num_cohorts} does not exist"):
            decode_batch(encoded(num_cohorts, wrong, reports, 3))


@pytest.mark.parametrize("num_bits", [1, 3, 7, 9, 15])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_one_bit_past_the_last_is_refused_wherever_it_lies(num_bits, place):
    every = (1 << num_bits) - 1
    reports = [every] * 1000
    assert decode_batch(encoded(1, [0] * 1000, reports, num_bits)).num_reports == 1000
    reports[place] = 1 << num_bits
    with pytest.raises(WireError, match=f"bits past its {num_bits}"):
        decode_batch(encoded(1, [0] * 1000, reports, num_bits))


def test_no_reports_are_a_batch():
    raw = encoded(5, [], [], 3)
    assert len(raw) == HEADER.size + TRAILER.size
    assert zlib.crc32(raw[: HEADER.size]) == TRAILER.unpack(raw[HEADER.size :])[0]
    assert decode_batch(raw).num_reports == 0
