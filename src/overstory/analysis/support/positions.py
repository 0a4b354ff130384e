"""What many values are encoded from, in bulk: symbols, the bits they set, the words they are hashed from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overstory.kernels.columns import COMPILING, are_few
from overstory.protocol.encodings.hashing import OverstoryV1
from overstory.protocol.encodings.seeds import SeededHash
from overstory.protocol.errors import ParameterError


def symbols_of(values: ArrayLike | range, domain_size: int) -> NDArray[np.int64]:
    """Return symbols as an array, each checked to be in the domain."""
    held = np.arange(values.start, values.stop, values.step) if isinstance(values, range) else np.asarray(values)
    domain = f"the domain 0 .. {domain_size - 1}"
    if held.ndim != 1 or (held.size and held.dtype.kind not in "iu"):
        raise ParameterError(f"{held.dtype} of shape {held.shape} is outside {domain}: give a column of whole numbers")
    if held.size and not 0 <= held.min() <= held.max() < domain_size:
        wrong = held[(held < 0) | (held >= domain_size)][0]
        raise ParameterError(f"symbol {wrong} is outside {domain}")
    return held.astype(np.int64)


# Blocks of `overstory.kernels.columns` in whose time the device's own code hashes a value, for one cohort.
EACH = 4


def positions_of(encoding: Any, values: Sequence[Any]) -> NDArray[np.integer[Any]]:
    """Return the positions each string sets in each cohort of a Bloom filter, shape (num_cohorts, M, num_hashes)."""
    if are_few(EACH * len(values) * encoding.num_cohorts, "hash/bloom", at_once=COMPILING):
        table = np.empty((encoding.num_cohorts, len(values), encoding.num_hashes), np.uint16)
        for cohort, row in enumerate(table):
            row[:] = [encoding.positions(value, cohort) for value in values] or row
        return table
    from overstory.kernels.hash.bloom import positions_google, positions_v1

    shape = encoding.num_bits, encoding.num_hashes, encoding.num_cohorts
    if encoding.family == OverstoryV1.name:
        return positions_v1(_digests(OverstoryV1(encoding.hash_key.encode()), values), *shape)
    texts = _texts(values)
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return positions_google(offsets, np.frombuffer(b"".join(texts), np.uint8), *shape)


def words_of(encoding: SeededHash, values: Sequence[Any]) -> NDArray[np.uint64]:
    """Return the 64-bit word that each value is hashed from: `value_word` of many."""
    if encoding.domain_size is None:
        return _digests(OverstoryV1(encoding.key.encode()), values)
    from overstory.kernels.small_hashes import value_words

    return value_words(symbols_of(values, encoding.domain_size))


def _digests(family: OverstoryV1, values: Sequence[Any]) -> NDArray[np.uint64]:
    return np.fromiter(map(family.digest, _texts(values)), np.uint64, len(values))


def _texts(values: Any) -> list[bytes]:
    """Return strings as UTF-8; an Arrow array's are no objects until here."""
    if hasattr(values, "buffers"):
        texts: list[bytes] = values.cast("large_binary").to_pylist()
        return texts
    return [value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass") for value in values]
