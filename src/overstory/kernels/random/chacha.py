"""ChaCha by NumPy, and what the compiled one shares with it: many blocks at once, without a compiler.

A block is 64 bytes, a function of a 256-bit key and of four 32-bit words; see `overstory.kernels.random.streams`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U32 = NDArray[np.uint32]

LANES = 256  # blocks in a tile: 16 KiB of stream, which stays in the first-level cache
CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"


def key_words(key: bytes, domain: bytes) -> U32:
    """Derive the key of one domain (keyed BLAKE2s, RFC 7693): streams of different domains have nothing in common.

    Parameters
    ----------
    key : bytes
        32 bytes.
    domain : bytes
        At most 8 bytes that say what the stream is for.
    """
    if len(key) != 32:
        raise ValueError(f"key must be 32 bytes, not {len(key)}")
    derived = hashlib.blake2s(key=key, person=domain).digest()
    return np.frombuffer(derived, dtype="<u4").astype(np.uint32)


ON, ACROSS, BACK = (np.roll(np.arange(4), -rows) for rows in (1, 2, 3))


def blocks(key: U32, names: tuple[Any, Any, Any, Any], rounds: int) -> U32:
    """Return a block for each name.

    Parameters
    ----------
    key : uint32[8]
        See `key_words`.
    names
        The four words of each name: columns of n, or one word that all share; taken modulo 2 ** 32.

    Returns
    -------
    uint32[16, n]
        Row ``i`` holds word ``i`` of every block.

    Examples
    --------
    >>> first = blocks(np.zeros(8, np.uint32), (0, 0, 0, np.zeros(1, np.int64)), 20)[0, 0]
    >>> int(first).to_bytes(4, "little").hex()  # RFC 8439, appendix A.1
    '76b8e0ad'
    """
    columns = np.broadcast_arrays(*(np.asarray(word, np.int64) & 0xFFFFFFFF for word in names))
    start = np.empty((16, columns[0].size), np.uint32)
    # RFC 8439, section 2.3: four constants, the key's eight words, then the four words of the name.
    start[:4] = np.array(CONSTANTS, np.uint32)[:, None]
    start[4:12] = key[:, None]
    start[12:] = columns
    a, b, c, d = (start[row : row + 4].copy() for row in (0, 4, 8, 12))
    for half in range(rounds):
        _quarter_rounds(a, b, c, d)
        left, right = (BACK, ON) if half % 2 else (ON, BACK)  # columns become diagonals, and columns again
        b, c, d = b[left], c[ACROSS], d[right]
    # Feed-forward: the start is added to the state after the rounds.
    return np.concatenate([a, b, c, d]) + start


def _quarter_rounds(a: U32, b: U32, c: U32, d: U32) -> None:
    """RFC 8439, section 2.1, on four quarters at once, in place."""
    for target, other, into, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        # a += b; d ^= a; d <<<= 16 and so on: the four steps differ only in registers and rotation.
        np.add(target, other, out=target)
        np.bitwise_xor(into, target, out=into)
        into[:] = into << np.uint32(by) | into >> np.uint32(32 - by)
