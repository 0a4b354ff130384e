"""The bits that many values set, in bulk: the server's copy of the device's encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.encodings import Bloom, Encoding, OneHot
from overstory.protocol.errors import ParameterError
from overstory.protocol.hashing import GoogleRapporPython, OverstoryV1
from overstory.protocol.symbol_encodings import LocalHash, SignMatrix, value_word


def positions_of(encoding: Encoding, values: Sequence[Any]) -> NDArray[np.integer[Any]]:
    """Return the positions each value sets in each cohort.

    Parameters
    ----------
    encoding
        One-hot (values are symbols) or Bloom (values are strings; an Arrow string array is taken without a copy).
    values
        M values.

    Returns
    -------
    ndarray of int, shape (num_cohorts, M, num_hashes)

    Raises
    ------
    ParameterError
        When a value is outside the domain.

    Examples
    --------
    >>> positions_of(OneHot(4), [3, 0])[0, :, 0].tolist()
    [3, 0]
    >>> bloom = Bloom(128, 2, 4)
    >>> positions_of(bloom, ["Ohio"])[3, 0].tolist() == list(bloom.positions("Ohio", 3))
    True
    """
    if isinstance(encoding, OneHot):
        symbols = [encoding.positions(int(value), 0) for value in values]
        return np.array(symbols, dtype=np.int32).reshape(1, -1, 1)
    if isinstance(encoding, Bloom):
        return _bloom(encoding, values)
    raise ParameterError(f"there is no bulk form of the encoding {type(encoding).__name__}")


# Up to this many (value, cohort) pairs the device's own code is quicker than importing the compiled kernels.
FEW = 50_000


def _bloom(encoding: Bloom, values: Sequence[Any]) -> NDArray[np.integer[Any]]:
    if len(values) * encoding.num_cohorts <= FEW:
        cohorts = range(encoding.num_cohorts)
        table = [[encoding.positions(value, cohort) for value in values] for cohort in cohorts]
        return np.array(table, dtype=np.uint16).reshape(encoding.num_cohorts, len(values), encoding.num_hashes)
    return _bloom_kernel(encoding, values)


def _bloom_kernel(encoding: Bloom, values: Sequence[Any]) -> NDArray[np.integer[Any]]:
    from overstory.kernels.hashing import digest64, positions_google, positions_v1

    offsets, octets = _columns(values)
    shape = encoding.num_bits, encoding.num_hashes, encoding.num_cohorts
    family = encoding.hashes
    if isinstance(family, OverstoryV1):
        positions = positions_v1(digest64(offsets, octets, family.key, family.padded_person), *shape)
    elif isinstance(family, GoogleRapporPython):
        positions = positions_google(offsets, octets, *shape)
    else:
        raise ParameterError(f"there is no bulk form of the hash family {encoding.family}")
    found: NDArray[np.integer[Any]] = positions
    return found


def words_of(encoding: LocalHash | SignMatrix, values: Sequence[Any]) -> NDArray[np.uint64]:
    """Return the 64-bit word that each value is hashed from: `value_word` of many.

    Raises
    ------
    ParameterError
        When a value is outside the domain.

    Examples
    --------
    >>> from overstory.protocol.symbol_encodings import value_word
    >>> words_of(LocalHash(4, domain_size=10), [7]).tolist() == [value_word(7, 10, "")]
    True
    """
    if encoding.domain_size is None:
        if len(values) <= FEW:
            return np.array([value_word(value, None, encoding.key) for value in values], np.uint64)
        from overstory.kernels.hashing import digest64

        family = OverstoryV1(encoding.key.encode())
        return digest64(*_columns(values), family.key, family.padded_person)
    symbols = np.asarray(values, np.int64)
    if symbols.size and not 0 <= symbols.min() <= symbols.max() < encoding.domain_size:
        raise ParameterError(f"a symbol is outside the domain 0 .. {encoding.domain_size - 1}")
    twice = 2 * symbols.astype(np.uint64)
    low, high = (_mix32(twice + np.uint64(which)) for which in (1, 2))
    return low | high << np.uint64(32)


def _mix32(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix32` of many."""
    low = np.uint64(0xFFFFFFFF)
    word = (word ^ (word >> np.uint64(16))) * np.uint64(0x21F0AAAD) & low
    word = (word ^ (word >> np.uint64(15))) * np.uint64(0x735A2D97) & low
    return word ^ (word >> np.uint64(15))


def _columns(values: Any) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Lay strings end to end: offsets (M + 1) and bytes, as Arrow does; an Arrow array's own are used as they are."""
    if hasattr(values, "buffers"):
        import pyarrow as pa

        held = values.cast(pa.large_binary())
        _, starts, octets = held.buffers()
        offsets = np.frombuffer(starts, np.int64)[held.offset : held.offset + len(held) + 1]
        return offsets, np.frombuffer(octets or b"", np.uint8)
    raw = [value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass") for value in values]
    offsets = np.zeros(len(raw) + 1, np.int64)
    np.cumsum([len(one) for one in raw], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(raw), np.uint8)
