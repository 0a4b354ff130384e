import struct

import numpy as np
import pytest

from overstory.kernels.random.streams import LANES, fill_blocks, key_words
from support.kernel_twins import chacha_block

RFC_KEY = bytes(range(32))


def blocks(key: bytes, counter: int, names: list[tuple[int, int, int]], rounds: int) -> list[bytes]:
    columns = np.zeros((3, LANES), dtype=np.uint32)
    columns[:, : len(names)] = np.array(names, dtype=np.uint32).T
    out = np.zeros((16, LANES), dtype=np.uint32)
    fill_blocks(np.frombuffer(key, dtype="<u4"), counter, columns.reshape(-1), out.reshape(-1), len(names), rounds)
    return [column.astype("<u4").tobytes() for column in out.T[: len(names)]]


def test_rfc_8439_section_2_3_2():
    expected = bytes.fromhex(
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    nonce = struct.unpack("<3I", bytes.fromhex("000000090000004a00000000"))
    assert blocks(RFC_KEY, 1, [nonce] * 11, 20) == [expected] * 11
    assert chacha_block(RFC_KEY, (1, *nonce)) == expected  # the twin itself


@pytest.mark.parametrize(
    ("key", "counter", "last", "start"),  # RFC 8439, appendix A.1: vectors 1 to 5
    [
        (bytes(32), 0, 0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"),
        (bytes(32), 1, 0, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"),
        (bytes(31) + b"\1", 1, 0, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"),
        (b"\0\xff" + bytes(30), 2, 0, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"),
        (bytes(32), 0, 2 << 24, "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"),
    ],
)
def test_rfc_8439_appendix(key, counter, last, start):
    assert blocks(key, counter, [(0, 0, last)], 20)[0][:32].hex() == start


@pytest.mark.parametrize("rounds", [20, 12])
@pytest.mark.parametrize("count", [1, 7, 8, 9, LANES])
def test_every_lane_equals_the_twin(rounds, count):
    rng = np.random.default_rng(count)
    names = [tuple(map(int, row)) for row in rng.integers(0, 2**32, (count, 3))]
    got = blocks(RFC_KEY, 2**32 - 1, names, rounds)
    assert got == [chacha_block(RFC_KEY, (2**32 - 1, *name), rounds) for name in names]


def test_domains_have_keys_of_their_own():
    assert not np.array_equal(key_words(RFC_KEY, b"perm-v1"), key_words(RFC_KEY, b"inst-v1"))
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        key_words(bytes(31), b"perm-v1")
