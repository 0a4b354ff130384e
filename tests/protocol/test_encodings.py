from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.kinds.base import encode
from overstory.protocol.kinds.bits import Bloom, OneHot

GOOGLE = "google-rappor-python"


def patterns(bits: int, hashes: int, *, distinct: bool) -> set[int]:
    filters = (set(p) for p in product(range(bits), repeat=hashes))
    return {sum(1 << i for i in f) for f in filters if not distinct or len(f) == hashes}


def dominating(pairs):
    """Pairs that no other pair is at least as large as in both."""
    return {p for p in pairs if not any(p != o and o[0] >= p[0] and o[1] >= p[1] for o in pairs)}


@pytest.mark.parametrize("family", ["overstory-v1", GOOGLE])
@pytest.mark.parametrize(("bits", "hashes"), [(k, h) for k in range(2, 7) for h in range(1, min(k, 5))])
def test_differences_are_the_worst_over_all_pairs_of_filters(bits, hashes, family):
    bloom = Bloom(bits, hashes, 1, family)
    reachable = patterns(bits, hashes, distinct=bloom.hashes.distinct)
    apart = {((a & ~b).bit_count(), (b & ~a).bit_count()) for a in reachable for b in reachable}
    assert dominating(apart) == set(bloom.differences)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_one_hot_differences_by_brute_force(size):
    vectors = [encode(OneHot(size), s, 0) for s in range(size)]
    apart = {((a & ~b).bit_count(), (b & ~a).bit_count()) for a in vectors for b in vectors}
    assert dominating(apart) == set(OneHot(size).differences)


@given(st.binary(), st.integers(0, 3))
def test_bits_are_the_positions(value, cohort):
    bloom = Bloom(67, 5, 4)
    bits = encode(bloom, value, cohort)
    assert bits.bit_count() == 5
    assert {i for i in range(67) if bits >> i & 1} == set(bloom.positions(value, cohort))


def test_the_hash_key_changes_the_filter():
    values = [f"v{i}" for i in range(50)]
    one, two = Bloom(128, 2, 1, hash_key="a"), Bloom(128, 2, 1, hash_key="b")
    assert sum(one.positions(v, 0) == two.positions(v, 0) for v in values) < 5
