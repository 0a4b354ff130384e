"""A column's texts, block by block: Arrow's array of them, or a list where there are few; both are asked the same."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]


class Texts(ABC):
    """Some rows of a column of text, of which any may have none."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def missing(self) -> int:
        """Rows without a text."""

    @abstractmethod
    def counted(self) -> dict[str, int]:
        """Return how many rows have each text."""

    @abstractmethod
    def numbered(self, known: dict[str, int]) -> I32:
        """Return each row's number, -1 where it has no text; new texts are given numbers as they come."""


class FewTexts(Texts):
    """Texts in a list; None where a row has none."""

    def __init__(self, texts: list[str | None]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def missing(self) -> int:
        """Rows without a text."""
        return self._texts.count(None)

    def counted(self) -> dict[str, int]:
        """Return how many rows have each text."""
        return Counter(text for text in self._texts if text is not None)

    def numbered(self, known: dict[str, int]) -> I32:
        """Return each row's number."""
        return np.array([-1 if text is None else known.setdefault(text, len(known)) for text in self._texts], np.int32)


class ArrowTexts(Texts):
    """Texts in an Arrow array; nulls where a row has none."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @property
    def missing(self) -> int:
        """Rows without a text."""
        return int(self._array.null_count)

    def counted(self) -> dict[str, int]:
        """Return how many rows have each text."""
        return {entry["values"]: entry["counts"] for entry in self._array.drop_null().value_counts().to_pylist()}

    def numbered(self, known: dict[str, int]) -> I32:
        """Return each row's number."""
        encoded = self._array.dictionary_encode()
        numbers = [known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()]
        rows: I32 = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        return np.array([*numbers, -1], np.int32)[rows]
