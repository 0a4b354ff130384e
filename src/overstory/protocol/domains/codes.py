"""Values too many to list: integers and byte strings, each as a code of one fixed width.

A search walks along the code's bits from the most significant one, so whatever has a code can be searched for.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from overstory.protocol.domains.string_codes import END, AlphabetBlocks, PaddedBytes
from overstory.protocol.encodings.base import check_count
from overstory.protocol.errors import NoCodeError, ParameterError

__all__ = [
    "END",
    "MAX_BYTES",
    "MAX_CHARACTERS",
    "CodedDomain",
    "CodedIntegers",
    "CodedStrings",
    "tried_at",
]

MAX_BYTES: Final = 32
"""Of a string that can be searched for."""
MAX_CHARACTERS: Final = 64
"""Of a string of a declared alphabet."""


class CodedDomain(Protocol):
    """An injective map from values to integers below ``2**width``."""

    @property
    def width(self) -> int:
        """Bits of a code."""
        ...

    def code(self, value: Any) -> int:
        """Return the value's code; `NoCodeError` when it has none, and is to be counted as "elsewhere"."""
        ...

    def value(self, code: int) -> Any:
        """Return the value whose code this is; None when it is nobody's."""
        ...

    def text(self, value: Any) -> str:
        """Return the value as it is shown."""
        ...

    def parse(self, text: str) -> Any:
        """Return the value that a text file means by `text`."""
        ...

    def canonical(self) -> dict[str, Any]:
        """Return the parameters, as JSON values."""
        ...

    def holds(self, bits: int, num_bits: int) -> bool:
        """Return whether some value's code may begin with these bits; for a code of full width, whether it is one."""
        ...

    def only(self, bits: int, num_bits: int) -> int | None:
        """Return the code that begins with these bits where no other one does: the prefix holds its end."""
        ...

    def most_values(self, step: int) -> int:
        """Return a bound on the values that share all but the last `step` bits of their codes."""
        ...

    def prefix_text(self, bits: int, num_bits: int) -> str:
        """Return what is certain of values whose codes begin with these bits, as it is shown; "" where nothing is."""
        ...


@dataclass(frozen=True)
class CodedIntegers:
    """CodedIntegers from 0 to ``2**bits - 1``; the code is the integer.

    Parameters
    ----------
    bits
        The width of a value, from 1 to 64 bits.

    Examples
    --------
    >>> CodedIntegers(8).code(200)
    200
    >>> CodedIntegers(8).code(256)
    Traceback (most recent call last):
    overstory.protocol.errors.NoCodeError: 256 is outside the domain: integers from 0 to 2**8 - 1
    """

    bits: int = 64

    def __post_init__(self) -> None:
        check_count("bits", self.bits, 1, 64)

    @property
    def width(self) -> int:
        """Bits of an integer."""
        return self.bits

    def code(self, value: Any) -> int:
        """Return the value itself.

        Raises
        ------
        NoCodeError
            When it lies outside the domain.
        ParameterError
            When it is no integer.
        """
        try:
            number = operator.index(value)
        except TypeError:
            raise ParameterError(f"{value!r} is no integer; {self._says()}") from None
        if isinstance(value, bool) or not 0 <= number < 1 << self.bits:
            raise NoCodeError(f"{value!r} is outside the domain: {self._says()}")
        return number

    def value(self, code: int) -> int:
        """Return the code itself."""
        return code

    def text(self, value: int) -> str:
        """Return decimal digits."""
        return str(value)

    def parse(self, text: str) -> int:
        """Return the integer in decimal digits.

        Raises
        ------
        ParameterError
            When there is none, or it is outside the domain.
        """
        bare = text.strip()
        if not bare.isascii() or not bare.isdigit() or len(bare) > 20:
            raise ParameterError(f"{text[:40]!r} is no whole number in digits; {self._says()}")
        return self.code(int(bare))

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"domain": "integers", "bits": self.bits}

    def holds(self, bits: int, num_bits: int) -> bool:  # noqa: ARG002
        """Return True: every code is an integer's."""
        return True

    def only(self, bits: int, num_bits: int) -> int | None:
        """Return the code when it has full width."""
        return bits if num_bits == self.bits else None

    def most_values(self, step: int) -> int:
        """Return the number of extensions."""
        return 1 << step

    def prefix_text(self, bits: int, num_bits: int) -> str:
        """Return the leading digits in base 16, as far as they are certain."""
        open_digits = -(-(self.bits - num_bits) // 4)
        digits = -(-self.bits // 4) - open_digits
        return f"0x{bits >> (num_bits - self.bits) % 4:0{digits}x}" if digits > 0 else ""

    def _says(self) -> str:
        return f"integers from 0 to 2**{self.bits} - 1"


@dataclass(frozen=True)
class CodedStrings:
    r"""Strings of up to `max_bytes` bytes, or of characters of an alphabet: the fewer of them, the shorter the code.

    Without an alphabet, the code is the string, then the end marker 0x80, then zeros up to ``max_bytes + 1`` bytes (the
    padding of ISO/IEC 7816-4): whatever the string ends in, what follows its last marker is zeros, so no two strings
    share a code. With one, the characters and an end are the digits of numbers, several in one block of bits: 39
    characters and the end take 16 bits for three, 5.33 each. Every bit of width costs a search a part of its users:
    declare the alphabet where there is one, and choose `max_bytes` no larger than needed.

    Parameters
    ----------
    max_bytes
        The length of the longest string, in bytes; in characters where there is an alphabet.
    alphabet
        The characters that strings are made of, each once; "" allows all bytes.
    is_text
        Whether all strings are UTF-8; then a search can tell early that a string has ended. Always so with an alphabet.

    Examples
    --------
    >>> words = CodedStrings(4)
    >>> hex(words.code("oak"))
    '0x6f616b8000'
    >>> words.value(words.code(b"a\x80")), words.value(0x6F616B0000)
    (b'a\x80', None)
    >>> CodedStrings(20).width, CodedStrings(20, alphabet="abcdefghijklmnopqrstuvwxyz").width
    (168, 105)
    >>> CodedStrings(20, alphabet="abc").code("d")
    Traceback (most recent call last):
    overstory.protocol.errors.NoCodeError: 'd' has a character outside the alphabet, 'abc'
    """

    max_bytes: int = MAX_BYTES
    alphabet: str = ""
    is_text: bool = False

    def __post_init__(self) -> None:
        check_count("max_bytes", self.max_bytes, 1, MAX_CHARACTERS if self.alphabet else MAX_BYTES)
        _ = self.scheme

    @cached_property
    def scheme(self) -> PaddedBytes | AlphabetBlocks:
        """The code of bytes, or of the alphabet."""
        if self.alphabet:
            return AlphabetBlocks(self.alphabet, self.max_bytes)
        return PaddedBytes(self.max_bytes, self.is_text)

    @property
    def width(self) -> int:
        """Bits of a code: eight a byte, the marker's included; with an alphabet, its blocks'."""
        return self.scheme.width

    def code(self, value: Any) -> int:
        """Return the string's code; text is taken in UTF-8.

        Raises
        ------
        NoCodeError
            When it is too long, or has a character outside the alphabet.
        ParameterError
            When it is no string.
        """
        return self.scheme.code(string_bytes(value))

    def value(self, code: int) -> bytes | None:
        """Return the string, or None when the code is no string's."""
        return self.scheme.value(code)

    def text(self, value: bytes) -> str:
        """Return the string, bytes that are no UTF-8 as escapes."""
        return shown(value)

    def parse(self, text: str) -> bytes:
        """Return the text's bytes.

        Raises
        ------
        NoCodeError
            When they are too many, or have no code.
        """
        self.code(text)
        return text.encode("utf-8", "surrogatepass")

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        more: dict[str, Any] = {"alphabet": self.alphabet} if self.alphabet else {}
        if self.is_text and not self.alphabet:
            more["text"] = True
        return {"domain": "strings", "max_bytes": self.max_bytes, **more}

    def holds(self, bits: int, num_bits: int) -> bool:
        """Return whether some string's code may begin with these bits."""
        return self.scheme.holds(bits, num_bits)

    def only(self, bits: int, num_bits: int) -> int | None:
        """Return the code that begins with these bits where no other one does: the string has ended."""
        return self.scheme.only(bits, num_bits)

    def most_values(self, step: int) -> int:
        """Return a bound on the strings that share all but the last `step` bits of their codes."""
        return min(1 << step, self.scheme.most_values(step))

    def prefix_text(self, bits: int, num_bits: int) -> str:
        """Return the characters that are certain."""
        return shown(self.scheme.prefix_text(bits, num_bits))


def string_bytes(value: Any) -> bytes:
    """Return a string's bytes, text in UTF-8."""
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        raise ParameterError(f"a {type(value).__name__} is no string: give text or bytes")
    return raw


def shown(raw: bytes) -> str:
    """Return bytes as text, those that are no UTF-8 as escapes."""
    return raw.decode("utf-8", "backslashreplace")


def tried_at(domain: CodedDomain, steps: Sequence[int], beam: int) -> tuple[int, ...]:
    """Return how many prefixes a search tries at each level, at most; at the last one, only what is a value's code.

    >>> tried_at(CodedStrings(4), [22, 9, 9], 192)
    (4194304, 98304, 576)
    """
    parents, counts = 1, []
    for step in steps[:-1]:
        counts.append(parents << step)
        parents = min(beam, counts[-1])
    return (*counts, *(parents * domain.most_values(step) for step in steps[-1:]))
