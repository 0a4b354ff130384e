"""Values too many to list: integers and strings, each as a code of one fixed width, and the domain of a metric of them.

A search walks along the code's bits from the most significant one, so whatever has a code can be searched for. A string
becomes its bytes and an end marker, or blocks of symbols of a declared alphabet. A value without a code, such as a
string that is too long, is reported as *elsewhere*, through the same randomizer as any other.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, ClassVar, Final

from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import NoCodeError, ParameterError
from overstory.protocol.kinds.base import check_count

MAX_BYTES: Final = 32  # of a string that can be searched for
MAX_CHARACTERS: Final = 64  # of a string of a declared alphabet
END: Final = 0x80  # follows the last byte of a string
MOST_BLOCK_BITS: Final = 16


class CodedDomain(ABC):
    """An injective map from values to integers below ``2**width``: codes."""

    is_numeric: ClassVar[bool] = False  # whether values are integers; else they are strings
    block_bits: int = 0  # of a code in blocks of symbols, see `AlphabetStrings`; 0: there are none

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits of a code."""

    @abstractmethod
    def code(self, value: Any) -> int:
        """Return the value's code; `NoCodeError` when it has none, and is to be counted as "elsewhere"."""

    @abstractmethod
    def value(self, code: int) -> Any:
        """Return the value whose code this is; None when it is nobody's."""

    def text(self, value: Any) -> str:
        """Return the value as it is shown."""
        return str(value.decode())

    def parse(self, text: str) -> Any:
        """Return the value that a text file means by `text`; `NoCodeError` when it has no code."""
        self.code(text)
        return string_bytes(text)

    @abstractmethod
    def canonical(self) -> dict[str, Any]:
        """Return the parameters, as JSON values."""

    def holds(self, bits: int, num_bits: int) -> bool:  # noqa: ARG002 - of integers
        """Return whether some value's code may begin with these bits; for a code of full width, whether it is one."""
        return True

    def only(self, bits: int, num_bits: int) -> int | None:
        """Return the code that begins with these bits where no other one does: the prefix holds its end."""
        return bits if num_bits == self.width and self.holds(bits, num_bits) else None

    @abstractmethod
    def most_values(self, step: int) -> int:
        """Return a bound on the values that share all but the last `step` bits of their codes."""


@dataclass(frozen=True)
class CodedIntegers(CodedDomain):
    """Integers from 0 to ``2**bits - 1``; the code is the integer.

    Examples
    --------
    >>> CodedIntegers(8).code(200)
    200
    >>> CodedIntegers(8).code(256)
    Traceback (most recent call last):
    overstory.protocol.errors.NoCodeError: 256 is outside the domain: integers from 0 to 2**8 - 1
    """

    bits: int = 64  # the width of a value, from 1 to 64 bits

    is_numeric = True

    def __post_init__(self) -> None:
        check_count("bits", self.bits, 1, 64)

    @property
    def width(self) -> int:
        return self.bits

    def code(self, value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise ParameterError(f"{value!r} is no integer; {self._says()}") from None
        if isinstance(value, bool) or not 0 <= number < 1 << self.bits:
            raise NoCodeError(f"{value!r} is outside the domain: {self._says()}")
        return number

    def value(self, code: int) -> int:
        return code

    def text(self, value: int) -> str:
        return str(value)

    def parse(self, text: str) -> int:
        bare = text.strip()
        if not bare.isascii() or not bare.isdigit() or len(bare) > 20:
            raise ParameterError(f"{text[:40]!r} is no whole number in digits; {self._says()}")
        return self.code(int(bare))

    def canonical(self) -> dict[str, Any]:
        return {"domain": "integers", "bits": self.bits}

    def most_values(self, step: int) -> int:
        return 1 << step

    def _says(self) -> str:
        return f"integers from 0 to 2**{self.bits} - 1"


@dataclass(frozen=True)
class CodedStrings(CodedDomain):
    """Texts of up to `max_bytes` bytes of UTF-8: the bytes, the end marker 0x80, zeros (ISO/IEC 7816-4).

    0x80 after a whole character is no UTF-8, so it can only be the marker: no two texts share a code, and a prefix that
    has it belongs to one text.

    Every bit of width costs a search a part of its users: choose `max_bytes` no larger than needed, and declare the
    alphabet where there is one (`AlphabetStrings`).

    Examples
    --------
    >>> words = CodedStrings(4)
    >>> hex(words.code("oak"))
    '0x6f616b8000'
    >>> words.value(words.code("oak")), words.value(0x6F616B0000)
    (b'oak', None)
    """

    max_bytes: int = MAX_BYTES  # the length of the longest string

    def __post_init__(self) -> None:
        check_count("max_bytes", self.max_bytes, 1, MAX_BYTES)

    @property
    def width(self) -> int:
        return 8 * (self.max_bytes + 1)

    def code(self, value: Any) -> int:
        raw = string_bytes(value)
        if len(raw) > self.max_bytes:
            raise NoCodeError(f"{raw[:40]!r} has {len(raw)} bytes: this domain holds strings of up to {self.max_bytes}")
        if text_of(raw) is None:
            raise NoCodeError(f"{raw[:40]!r} is no UTF-8: this domain holds text")
        return int.from_bytes((raw + bytes([END])).ljust(self.max_bytes + 1, b"\0"), "big")

    def value(self, code: int) -> bytes | None:
        raw = code.to_bytes(self.max_bytes + 1, "big").rstrip(b"\0")
        return raw[:-1] if raw and raw[-1] == END and text_of(raw[:-1]) is not None else None

    def canonical(self) -> dict[str, Any]:
        return {"domain": "strings", "max_bytes": self.max_bytes, "text": True}

    def holds(self, bits: int, num_bits: int) -> bool:
        return self.value(bits) is not None if num_bits == self.width else self._end(bits, num_bits) is not False

    def only(self, bits: int, num_bits: int) -> int | None:
        if num_bits < self.width and self._end(bits, num_bits):
            return bits << (self.width - num_bits)
        return super().only(bits, num_bits)

    def _end(self, bits: int, num_bits: int) -> bool | None:
        """Return True where a text has ended, None where it may go on, False where the bits are no text's."""
        raw, rest = (bits >> num_bits % 8).to_bytes(num_bits // 8, "big"), bits & ((1 << num_bits % 8) - 1)
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if raw[error.start] == END:
                return not any(raw[error.start + 1 :]) and not rest
            return None if error.reason == "unexpected end of data" else False
        return None

    def most_values(self, step: int) -> int:
        """Return the most strings: one for each byte that may be the last, and what may stand before it."""
        return sum(1 << place for place in range(step % 8, step - 7, 8)) + 1


@dataclass(frozen=True)
class AlphabetStrings(CodedDomain):
    """Strings of characters of an alphabet: the fewer of them, the shorter the code.

    The alphabet's characters are the digits 1, 2, ... in order; 0 ends a string and fills it up. `block` digits at a
    time are one number in the fewest bits: 39 characters and the end take 16 bits for three, 5.33 each. So codes have
    the order of the strings, and what follows the first 0 is zeros.

    Raises
    ------
    ParameterError
        When there are fewer than two characters, one comes twice, or a number is out of range.

    Examples
    --------
    >>> CodedStrings(20).width, AlphabetStrings(20, "abcdefghijklmnopqrstuvwxyz").width
    (168, 105)
    >>> AlphabetStrings(20, "abc").code("d")
    Traceback (most recent call last):
    overstory.protocol.errors.NoCodeError: 'd' has a character outside the alphabet, 'abc'
    """

    longest: int  # the most characters of a string
    alphabet: str  # the characters that strings are made of, each once

    def __post_init__(self) -> None:
        check_count("max_bytes", self.longest, 1, MAX_CHARACTERS)
        if not isinstance(self.alphabet, str) or len(self.alphabet) < 2:
            raise ParameterError(
                f"alphabet = {self.alphabet!r}: give the allowed characters, at least two, as one text"
            )
        if len(set(self.alphabet)) < len(self.alphabet):
            twice = next(c for i, c in enumerate(self.alphabet) if c in self.alphabet[:i])
            raise ParameterError(f"alphabet: {twice!r} is in it twice; give each character once")
        if len(self.alphabet) >= 1 << MOST_BLOCK_BITS:
            raise ParameterError(f"alphabet: {len(self.alphabet)} characters; at most {(1 << MOST_BLOCK_BITS) - 1}")
        if text_of(string_bytes(self.alphabet)) is None:
            raise ParameterError("alphabet: a character is half of a surrogate pair, and no text has it")

    @property
    def base(self) -> int:
        """Digits: the characters, and the end."""
        return len(self.alphabet) + 1

    @cached_property
    def block(self) -> int:
        """Digits in a block: as many as make the code shortest, in blocks of at most 16 bits; of equals the fewest."""
        sizes = range(1, MOST_BLOCK_BITS + 1)
        fitting = [size for size in sizes if (self.base**size - 1).bit_length() <= MOST_BLOCK_BITS]
        return min(fitting, key=lambda size: -(-(self.longest + 1) // size) * (self.base**size - 1).bit_length())

    @cached_property
    def block_values(self) -> int:
        """Numbers that are blocks."""
        values: int = self.base**self.block
        return values

    @cached_property
    def block_bits(self) -> int:  # type: ignore[override] # nobody sets it
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

    def code(self, value: Any) -> int:
        raw = string_bytes(value)
        text = text_of(raw)
        if text is None or any(character not in self._digits for character in text):
            shown = raw[:40] if text is None else text[:40]
            raise NoCodeError(f"{shown!r} has a character outside the alphabet, {self.alphabet!r}")
        if len(text) > self.longest:
            raise NoCodeError(
                f"{text[:40]!r} has {len(text)} characters: this domain holds strings of up to {self.longest}"
            )
        return self._joined([self._digits[character] for character in text])

    def _joined(self, digits: Sequence[int]) -> int:
        """Return the code of a string's digits."""
        filled = [*digits, *[0] * (self.num_blocks * self.block - len(digits))]
        code = 0
        for start in range(0, len(filled), self.block):
            number = 0
            for digit in filled[start : start + self.block]:
                number = number * self.base + digit
            code = code << self.block_bits | number
        return code

    def value(self, code: int) -> bytes | None:
        if self._next(code) != code:
            return None
        digits = (digit for number in self._numbers(code) for digit in self._spelled(number))
        return "".join(self.alphabet[digit - 1] for digit in takewhile(bool, digits)).encode()

    def canonical(self) -> dict[str, Any]:
        return {"domain": "strings", "max_bytes": self.longest, "alphabet": self.alphabet}

    def _numbers(self, code: int) -> list[int]:
        mask = (1 << self.block_bits) - 1
        return [code >> place * self.block_bits & mask for place in reversed(range(self.num_blocks))]

    def _spelled(self, number: int) -> list[int]:
        return [number // self.base**power % self.base for power in reversed(range(self.block))]

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
        for number in self._numbers(code):
            if number >= self.block_values:
                return self._after(digits)
            digits += self._spelled(number)
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

    def most_values(self, step: int) -> int:
        """Return no fewer than the strings that share all but the last `step` bits of their codes."""
        ends: int = self.base ** (self.num_blocks * self.block - self.longest)  # the last digits are zero
        if step <= self.block_bits:
            return min(1 << step, (1 << step) // ends + 1)
        blocks, rest = divmod(step, self.block_bits)
        between: int = self.block_values ** (blocks - 1)
        return min(1 << step, min(1 << rest, self.block_values) * between * -(-self.block_values // ends))


def coded_strings(max_bytes: int = MAX_BYTES, alphabet: str = "") -> CodedDomain:
    """Return the codes of texts: of an alphabet's characters, where there is one."""
    return AlphabetStrings(max_bytes, alphabet) if alphabet else CodedStrings(max_bytes)


def string_bytes(value: Any) -> bytes:
    """Return a string's bytes, text in UTF-8."""
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        raise ParameterError(f"a {type(value).__name__} is no string: give text or bytes")
    return raw


def text_of(raw: bytes) -> str | None:
    """Return the text of UTF-8 bytes; None where they are none."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def tried_at(domain: CodedDomain, steps: Sequence[int], beam: int) -> tuple[int, ...]:
    """Return how many prefixes a search tries at each level, at most; at the last one, only what is a value's code."""
    parents, counts = 1, []
    for step in steps[:-1]:
        counts.append(parents << step)
        parents = min(beam, counts[-1])
    return (*counts, *(parents * domain.most_values(step) for step in steps[-1:]))


CODED: Final[Mapping[str, Callable[..., CodedDomain]]] = {"integers": CodedIntegers, "strings": coded_strings}


def coded_from(canonical: Any) -> CodedDomain:
    """Return the codes of their `CodedDomain.canonical`."""
    given: dict[str, Any] = dict(canonical)
    kind = given.pop("domain", None)
    if kind == "strings" and given.get("text") is True:
        del given["text"]
    if kind not in CODED:
        raise ParameterError(f"there are no codes {kind!r}: choose one of {', '.join(CODED)}")
    try:
        return CODED[kind](**given)
    except TypeError as error:
        raise ParameterError(f"codes of {kind}: {str(error).partition('() ')[2]}") from None


ELSEWHERE: Final = b""  # what a mechanism takes for a value without a code
ELSEWHERE_LABEL: Final = "a value that the search does not cover"
MOST_KNOWN: Final = 10_000  # values of a dictionary: a question about more of them is a list of candidates


@dataclass(frozen=True)
class UnknownValues(AnyDomain):
    """Texts or whole numbers that nobody listed, each with a code along which a search finds it."""

    coded: CodedDomain
    known: tuple[str, ...] = ()  # what is expected: a share of the devices is asked about these values alone

    size = None
    labels = ()
    ordered = False
    families = ("codes",)
    reading: ClassVar[str | None] = "search"

    def __post_init__(self) -> None:
        given: Any = self.known
        if not isinstance(given, list | tuple) or not all(isinstance(each, str | int) for each in given):
            raise ParameterError("known: give a list of values")
        object.__setattr__(self, "known", tuple(str(each) for each in given))
        if len(self.known) > MOST_KNOWN:
            raise ParameterError(f"known: {len(self.known):,} values: give at most {MOST_KNOWN:,}")
        for text in self.known:
            try:
                self.coded.parse(text)
            except ParameterError as error:
                raise ParameterError(f"known: {error}") from None
        if len(set(self.known)) != len(self.known):
            raise ParameterError("known: a value comes twice")

    @property
    def kind(self) -> str:  # type: ignore[override] # of a registry
        return "unknown-integers" if self.coded.is_numeric else "unknown-strings"

    @property
    def value_type(self) -> type[str | int]:  # type: ignore[override] # nobody sets it
        return int if self.coded.is_numeric else str

    def completes(self, metric: str) -> dict[str, Any]:
        return {"values": self.coded.canonical(), "known": self.known, "hash_key": metric}

    def encode(self, value: Any) -> int | bytes:
        if self.coded.is_numeric:
            fits, wanted = hasattr(value, "__index__") and not isinstance(value, bool), "whole number: give an integer"
        else:
            fits, wanted = isinstance(value, str), "text: give a string"
        if not fits:
            raise ParameterError(f"a {type(value).__name__} is no {wanted}")
        try:
            return self.coded.code(value)
        except NoCodeError:
            return ELSEWHERE

    def label(self, encoded: Any) -> str:
        value = None if encoded == ELSEWHERE else self.coded.value(encoded)
        return ELSEWHERE_LABEL if value is None else self.coded.text(value)

    def encodings(self, labels: Sequence[str]) -> Sequence[Any]:
        return [self.encode(self.read(label)) for label in labels]

    def canonical(self) -> dict[str, Any]:
        codes = {key: value for key, value in self.coded.canonical().items() if key not in {"domain", "text"}}
        return {"domain": self.kind, **codes} | ({"known": list(self.known)} if self.known else {})

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - there are none
        form = self.canonical()
        if self.coded.is_numeric:
            covered, others = f"whole number below 2^{form['bits']}", "another one"
        else:
            letters = f"characters of {form['alphabet']}" if "alphabet" in form else "bytes"
            covered, others = f"text of at most {form['max_bytes']} {letters}", "any other text"
        expected = f"{len(self.known):,} expected value{'s' * (len(self.known) != 1)}"
        asked = f"; some devices are asked about {expected}, the others about the rest" if self.known else ""
        return f"any {covered}{asked}; {others} is reported as elsewhere"


def unknown_strings(max_bytes: int = MAX_BYTES, alphabet: str = "", known: tuple[str, ...] = ()) -> UnknownValues:
    """Return the texts of at most so many bytes; of so many characters, where an alphabet is given."""
    return UnknownValues(coded_strings(max_bytes, alphabet), known)


def unknown_integers(bits: int = 64, known: tuple[str, ...] = ()) -> UnknownValues:
    """Return the whole numbers below ``2**bits``."""
    return UnknownValues(CodedIntegers(bits), known)
