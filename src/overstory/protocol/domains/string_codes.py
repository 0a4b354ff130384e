"""How a string becomes bits: its bytes and an end marker, or blocks of symbols of a declared alphabet.

Both codes give the same answers: a string's code, a code's string, and, for a search that sees only the first bits of a
code, whether any string begins so, and whether only one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from overstory.protocol.errors import NoCodeError, ParameterError

END: Final = 0x80
"""Follows the last byte of a string."""
MOST_BLOCK_BITS: Final = 16


def text_of(raw: bytes) -> str | None:
    """Return the text of UTF-8 bytes; None where they are none."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True)
class PaddedBytes:
    r"""The string's bytes, the end marker 0x80, zeros (ISO/IEC 7816-4).

    Where all strings are UTF-8 text, 0x80 after a character can only be the marker, so a prefix that has it belongs to
    one string. Among arbitrary bytes it may be part of a longer string: only a complete code shows it.
    """

    longest: int  # bytes
    is_text: bool

    @property
    def width(self) -> int:
        """Eight bits a byte, the marker's included."""
        return 8 * (self.longest + 1)

    def code(self, raw: bytes) -> int:
        """Return the padded string as a big-endian integer."""
        if len(raw) > self.longest:
            raise NoCodeError(f"{raw[:40]!r} has {len(raw)} bytes: this domain holds strings of up to {self.longest}")
        if self.is_text and text_of(raw) is None:
            raise NoCodeError(f"{raw[:40]!r} is no UTF-8: this domain holds text")
        return int.from_bytes((raw + bytes([END])).ljust(self.longest + 1, b"\0"), "big")

    def value(self, code: int) -> bytes | None:
        """Return the string, or None when the code has no end marker where one must be."""
        raw = code.to_bytes(self.longest + 1, "big").rstrip(b"\0")
        if not raw or raw[-1] != END or (self.is_text and text_of(raw[:-1]) is None):
            return None
        return raw[:-1]

    def holds(self, bits: int, num_bits: int) -> bool:
        """Return whether some string's code begins with these bits."""
        if num_bits == self.width:
            return self.value(bits) is not None
        return not self.is_text or self._end(bits, num_bits) is not False

    def only(self, bits: int, num_bits: int) -> int | None:
        """Return the code that begins with these bits where it is the only one."""
        if num_bits == self.width:
            return bits if self.value(bits) is not None else None
        ends = self.is_text and self._end(bits, num_bits) is True
        return bits << (self.width - num_bits) if ends else None

    def _end(self, bits: int, num_bits: int) -> bool | None:
        """Return True where a text has ended, None where it may go on, False where the bits are no text's."""
        raw = (bits >> num_bits % 8).to_bytes(num_bits // 8, "big")
        rest = bits & ((1 << num_bits % 8) - 1)
        start = unfinished_at(raw)
        if start == len(raw) or raw[start] != END:
            return None if start == len(raw) or _may_go_on(raw[start:]) else False
        return not any(raw[start + 1 :]) and not rest

    def most_values(self, step: int) -> int:
        """Return the most strings that share all but the last `step` bits of their codes."""
        if step < 8:
            return 1
        return (1 << (step - 8)) + self.most_values(step - 8)

    def prefix_text(self, bits: int, num_bits: int) -> bytes:
        """Return the bytes that are certain."""
        raw = (bits >> num_bits % 8).to_bytes(num_bits // 8, "big")
        return raw[: unfinished_at(raw)] if self.is_text else raw


def unfinished_at(raw: bytes) -> int:
    r"""Return where the last complete character before anything that is no UTF-8 ends.

    >>> unfinished_at(b"oak"), unfinished_at(b"o\xc3"), unfinished_at(b"oak\x80")
    (3, 1, 3)
    """
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return len(raw)


def _may_go_on(tail: bytes) -> bool:
    """Return whether bytes are the beginning of one character."""
    try:
        tail.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return True


@dataclass(frozen=True)
class AlphabetBlocks:
    """Symbols of an alphabet, `block` of them at a time as one number in the fewest bits.

    The digit 0 ends a string and fills it up; the alphabet's characters are 1, 2, ... in order. So codes have the order
    of the strings, and what follows the first 0 is zeros.
    """

    alphabet: str
    longest: int  # characters

    def __post_init__(self) -> None:
        if not isinstance(self.alphabet, str) or len(self.alphabet) < 2:
            raise ParameterError(
                f"alphabet = {self.alphabet!r}: give the allowed characters, at least two, as one text"
            )
        if len(set(self.alphabet)) < len(self.alphabet):
            twice = next(c for i, c in enumerate(self.alphabet) if c in self.alphabet[:i])
            raise ParameterError(f"alphabet: {twice!r} is in it twice; give each character once")
        if len(self.alphabet) >= 1 << MOST_BLOCK_BITS:
            raise ParameterError(f"alphabet: {len(self.alphabet)} characters; at most {(1 << MOST_BLOCK_BITS) - 1}")
        if text_of(self.alphabet.encode("utf-8", "surrogatepass")) is None:
            raise ParameterError("alphabet: a character is half of a surrogate pair, and no text has it")

    @property
    def base(self) -> int:
        """Symbols: the characters, and the end."""
        return len(self.alphabet) + 1

    @cached_property
    def block(self) -> int:
        """Symbols in a block: as many as make the code shortest, in blocks of at most 16 bits; of equals the fewest."""
        sizes = range(1, MOST_BLOCK_BITS + 1)
        fitting = [size for size in sizes if (self.base**size - 1).bit_length() <= MOST_BLOCK_BITS]
        return min(fitting, key=lambda size: -(-(self.longest + 1) // size) * (self.base**size - 1).bit_length())

    @cached_property
    def block_values(self) -> int:
        """Numbers that are blocks."""
        values: int = self.base**self.block
        return values

    @cached_property
    def block_bits(self) -> int:
        return (self.block_values - 1).bit_length()

    @cached_property
    def num_blocks(self) -> int:
        """Blocks of a code: the longest string and its end fit in."""
        return -(-(self.longest + 1) // self.block)

    @cached_property
    def width(self) -> int:
        return self.num_blocks * self.block_bits

    @cached_property
    def _digits(self) -> dict[str, int]:
        return {character: place for place, character in enumerate(self.alphabet, 1)}

    def code(self, raw: bytes) -> int:
        text = text_of(raw)
        if text is None or any(character not in self._digits for character in text):
            shown = raw[:40] if text is None else text[:40]
            raise NoCodeError(f"{shown!r} has a character outside the alphabet, {self.alphabet!r}")
        if len(text) > self.longest:
            raise NoCodeError(
                f"{text[:40]!r} has {len(text)} characters: this domain holds strings of up to {self.longest}"
            )
        digits = [self._digits[character] for character in text]
        digits += [0] * (self.num_blocks * self.block - len(digits))
        code = 0
        for start in range(0, len(digits), self.block):
            number = 0
            for digit in digits[start : start + self.block]:
                number = number * self.base + digit
            code = code << self.block_bits | number
        return code

    def value(self, code: int) -> bytes | None:
        """Return the string, or None when a block is no block, or something follows an end."""
        digits = self._read(code, self.num_blocks)
        if digits is None:
            return None
        size = digits.index(0) if 0 in digits else len(digits)
        if size > self.longest or any(digits[size:]):
            return None
        return "".join(self.alphabet[digit - 1] for digit in digits[:size]).encode()

    def _read(self, blocks: int, count: int) -> list[int] | None:
        """Return the digits of some blocks; None where one has no symbols."""
        digits: list[int] = []
        for place in reversed(range(count)):
            number = blocks >> place * self.block_bits & ((1 << self.block_bits) - 1)
            if number >= self.block_values:
                return None
            digits += [number // self.base**power % self.base for power in reversed(range(self.block))]
        return digits

    def holds(self, bits: int, num_bits: int) -> bool:
        first = self._next(bits << (self.width - num_bits))
        return first is not None and first >> (self.width - num_bits) == bits

    def only(self, bits: int, num_bits: int) -> int | None:
        left = self.width - num_bits
        first = self._next(bits << left)
        if first is None or first >> left != bits:
            return None
        second = self._next(first + 1)
        return first if second is None or second >> left != bits else None

    def _next(self, code: int) -> int | None:
        """Return the first code of a string from `code` on; None where there is none."""
        if code >> self.width:
            return None
        digits: list[int] = []
        for place in reversed(range(self.num_blocks)):
            number = code >> place * self.block_bits & ((1 << self.block_bits) - 1)
            if number >= self.block_values:
                return self._after(digits)
            digits += [number // self.base**power % self.base for power in reversed(range(self.block))]
        size = digits.index(0) if 0 in digits else len(digits)
        if size > self.longest:
            return self._after(digits[: self.longest])
        if any(digits[size:]):  # a string goes on after its end: the next one has a character there
            return self._joined([*digits[:size], 1]) if size < self.longest else self._after(digits[:size])
        return code

    def _after(self, digits: list[int]) -> int | None:
        """Return the code of the first string after all that begin with these digits."""
        size = digits.index(0) if 0 in digits else len(digits)
        if size < len(digits) and size < self.longest:
            return self._joined([*digits[:size], 1])
        while size and digits[size - 1] == self.base - 1:
            size -= 1
        return self._joined([*digits[: size - 1], digits[size - 1] + 1]) if size else None

    def _joined(self, digits: list[int]) -> int:
        return self.code("".join(self.alphabet[digit - 1] for digit in digits).encode())

    def most_values(self, step: int) -> int:
        """Return no fewer than the strings that share all but the last `step` bits of their codes."""
        ends: int = self.base ** (self.num_blocks * self.block - self.longest)  # the last digits are zero
        if step <= self.block_bits:
            return (1 << step) // ends + 1
        blocks, rest = divmod(step, self.block_bits)
        between: int = self.block_values ** (blocks - 1)
        return min(1 << rest, self.block_values) * between * -(-self.block_values // ends)

    def prefix_text(self, bits: int, num_bits: int) -> bytes:
        """Return the characters that are certain: those that all codes from the first to the last share."""
        left = self.width - num_bits
        low, high = bits << left, (bits + 1 << left) - 1
        first, last = (self._leading(code) for code in (low, high))
        size = next(
            (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last))
        )
        shared = first[:size]
        shared = shared[: shared.index(0)] if 0 in shared else shared
        return "".join(self.alphabet[digit - 1] for digit in shared).encode()

    def _leading(self, code: int) -> list[int]:
        """Return the digits of a code's blocks, a number that is no block taken as the last one."""
        largest = self.block_values - 1
        numbers = (code >> place * self.block_bits & ((1 << self.block_bits) - 1) for place in range(self.num_blocks))
        blocks = 0
        for place, number in enumerate(numbers):
            blocks |= min(number, largest) << place * self.block_bits
        return self._read(blocks, self.num_blocks) or []
