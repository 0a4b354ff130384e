"""Values too many to list: integers and byte strings, each as a code of one fixed width.

A search walks along the code's bits from the most significant one, so whatever has a code can be searched for.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from overstory.protocol.encodings.base import check_count
from overstory.protocol.errors import ParameterError

END = 0x80
MAX_BYTES: Final = 32
"""Of a string that can be searched for."""


class CodedDomain(Protocol):
    """An injective map from values to integers below ``2**width``."""

    @property
    def width(self) -> int:
        """Bits of a code."""
        ...

    def code(self, value: Any) -> int:
        """Return the value's code."""
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
    overstory.protocol.errors.ParameterError: 256 is outside the domain: integers from 0 to 2**8 - 1
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
        ParameterError
            When it is no integer of the domain.
        """
        try:
            number = operator.index(value)
        except TypeError:
            raise ParameterError(f"{value!r} is no integer; {self._says()}") from None
        if isinstance(value, bool) or not 0 <= number < 1 << self.bits:
            raise ParameterError(f"{value!r} is outside the domain: {self._says()}")
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

    def _says(self) -> str:
        return f"integers from 0 to 2**{self.bits} - 1"


@dataclass(frozen=True)
class CodedStrings:
    r"""Byte strings of up to `max_bytes` bytes, each byte allowed.

    The code is the string, then the end marker 0x80, then zeros up to ``max_bytes + 1`` bytes (the padding of ISO/IEC
    7816-4): whatever the string ends in, what follows its last marker is zeros, so no two strings share a code. Every
    eight bits of width cost a search a level, or a share of its users: choose `max_bytes` no larger than needed.

    Parameters
    ----------
    max_bytes
        The length of the longest string, in bytes.

    Examples
    --------
    >>> words = CodedStrings(4)
    >>> hex(words.code("oak"))
    '0x6f616b8000'
    >>> words.value(words.code(b"a\x80")), words.value(0x6F616B0000)
    (b'a\x80', None)
    """

    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        check_count("max_bytes", self.max_bytes, 1, MAX_BYTES)

    @property
    def width(self) -> int:
        """Eight bits a byte, the marker's included."""
        return 8 * (self.max_bytes + 1)

    def code(self, value: Any) -> int:
        """Return the padded string as a big-endian integer; text is taken in UTF-8.

        Raises
        ------
        ParameterError
            When it is no string, or too long.
        """
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        if not isinstance(raw, bytes):
            raise ParameterError(f"a {type(value).__name__} is no string: give text or bytes")
        if len(raw) > self.max_bytes:
            raise ParameterError(
                f"{raw[:40]!r} has {len(raw)} bytes: this domain holds strings of up to {self.max_bytes}"
            )
        return int.from_bytes((raw + bytes([END])).ljust(self.max_bytes + 1, b"\0"), "big")

    def value(self, code: int) -> bytes | None:
        """Return the string, or None when the code has no end marker where one must be."""
        raw = code.to_bytes(self.max_bytes + 1, "big").rstrip(b"\0")
        return raw[:-1] if raw and raw[-1] == END else None

    def text(self, value: bytes) -> str:
        """Return the string, bytes that are no UTF-8 as escapes."""
        return value.decode("utf-8", "backslashreplace")

    def parse(self, text: str) -> bytes:
        """Return the text's bytes.

        Raises
        ------
        ParameterError
            When they are too many.
        """
        self.code(text)
        return text.encode("utf-8", "surrogatepass")

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"domain": "strings", "max_bytes": self.max_bytes}
