"""Functions of a line or two that many rely on: each on a few values, the edges among them."""

from overstory.protocol.kinds.base import outward, whole_number
from overstory.protocol.kinds.hashes import dimension_of, seeds_of


def test_they_give():
    assert list(outward(1, 4, 2)) == [0, 2, 3]
    assert [repr(whole_number(each)) for each in (3, 3.0, True)] == ["3", "3.0", "True"]
    assert [dimension_of(*pair) for pair in ((4, 256), (6, 216), (2, 100))] == [4, None, None]
    assert seeds_of("colour", 64)[:2] == seeds_of("colour", 128)[:2] != seeds_of("size", 64)[:2]
