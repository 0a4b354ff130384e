"""Functions of a line or two that many rely on: each on a few values, the edges among them."""

import pytest

from overstory.protocol.domains.codes import CodedStrings, tried_at, unfinished_at
from overstory.protocol.errors import suggestion
from overstory.protocol.kinds.base import outward, whole_number
from overstory.protocol.kinds.hashes import balanced_values, dimension_of, seeds_of
from overstory.protocol.kinds.registry import values_of
from overstory.protocol.search import even_levels, level_weights
from overstory.protocol.wire import is_loopback, shared_host, unencrypted_host
from overstory.protocol.wire.upload import cohort_width

HOSTS = ("localhost", "a.localhost", "127.0.0.2", "::1", "192.0.2.1", "example.org")
ADDRESSES = ("example.org", "localhost:8080", "127.0.0.1", "[::1]:80")
CASES = {
    "suggestion": ([suggestion(w, ["grr", "rappor"]) for w in ("rapor", "x")], ["; did you mean rappor?", ""]),
    "outward": (list(outward(1, 4, 2)), [0, 2, 3]),
    "whole_number": ([repr(whole_number(each)) for each in (3, 3.0, True)], ["3", "3.0", "True"]),
    "unfinished_at": ([unfinished_at(raw) for raw in (b"oak", b"o\xc3", b"oak\x80")], [3, 1, 3]),
    "tried_at": (tried_at(CodedStrings(4), [22, 9, 9], 192), (4194304, 98304, 576)),
    "dimension_of": ([dimension_of(*pair) for pair in ((4, 256), (6, 216), (2, 100))], [4, None, None]),
    "balanced_values": ([balanced_values(*pair) for pair in ((2, 1024), (4, 256), (4, 1000))], [1023, 85, 0]),
    "seeds_of": (seeds_of("colour", 64)[:2] == seeds_of("colour", 128)[:2] != seeds_of("size", 64)[:2], True),
    "values_of": ([values_of(name) for name in ("olh", "hybrid")], ["symbols or strings", "numbers"]),
    "even_levels": ([even_levels(64, 22, 14), even_levels(20, 8, 8)], [[22, 36, 50, 64], [8, 14, 20]]),
    "level_weights": ([round(w, 1) for w in level_weights([256, 24576, 24576], 96)], [5.4, 21.7, 36.7]),
    "is_loopback": ([is_loopback(host) for host in HOSTS], [True, True, True, True, False, False]),
    "unencrypted_host": ([unencrypted_host(f"http://{a}") for a in ADDRESSES], ["example.org", None, None, None]),
    "shared_host": (shared_host("https://Example.org/relay", "http://example.org:8000"), "example.org"),
    "no shared_host": (shared_host("https://a.test", None), None),
    "cohort_width": ([cohort_width(16), cohort_width(1 << 31)], [2, 4]),
}


@pytest.mark.parametrize(("found", "expected"), CASES.values(), ids=CASES)
def test_it_gives(found, expected):
    assert found == expected
