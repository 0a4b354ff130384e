"""Values that nobody listed, and the codes of likely strings: what a metric of unknown strings or integers measures.

A search finds such values along the bits of their codes (`overstory.protocol.domains.codes`). A value without a code,
such as a string that is too long, is reported as *elsewhere*, through the same randomizer as any other.

Under a public model of characters, built from a file of candidates, a string has an arithmetic code of few bits. Device
and server build the same model from the same reviewed file, in integers alone, so they agree on every bit. It must not
be made of collected data, for then codes would speak of the people it was collected from.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Final

from overstory.protocol.domains.codes import MAX_BYTES, CodedDomain, CodedIntegers, coded_strings, string_bytes, text_of
from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import NoCodeError, ParameterError
from overstory.protocol.kinds.base import check_count

ORDER: Final = 2
WIDTH: Final = 96
MOST_ORDER: Final = 4
MOST_WIDTH: Final = 256
LONGEST: Final = 64  # characters of a string; a longer one has no code
MOST_KINDS: Final = 4096  # different characters of the candidates

SAMPLES: Final = 256
MOST_TRIES: Final = 32  # random prefixes looked at for one that may go on

UNIT_BITS: Final = 16
UNIT: Final = 1 << UNIT_BITS  # cumulative frequencies of the characters after a context end here
_FINE: Final = 1 << 32  # the unit of probabilities before they are rounded to frequencies
_START: Final = "\ud800"  # halves of surrogate pairs: no text has them
_END: Final = "\ud801"


class CharacterModel:
    """How often each character follows the last few, in frequencies of sum 2**16, each at least 1.

    The shares after a context are mixed with those after the context one character shorter, and so on down to equal
    shares: of n occurrences with k different characters, n / (n + 2 k) is the context's own (Witten and Bell 1991,
    method C, with twice the weight for what is new).
    """

    def __init__(self, words: tuple[str, ...], order: int) -> None:
        self.order = order
        self.symbols = [_END, *sorted(set("".join(words)))]
        self.places = {symbol: place for place, symbol in enumerate(self.symbols)}
        self._after: dict[str, list[int]] = {}
        self._counts: dict[str, dict[str, int]] = {}
        spelled = [f"{_START}{word}{_END}" for word in set(words)]
        for size in range(order + 1):
            grams = Counter(word[at - size : at + 1] for word in spelled for at in range(max(size, 1), len(word)))
            for gram, count in grams.items():
                self._counts.setdefault(gram[:-1], {})[gram[-1]] = count

    def bounds(self, before: str) -> list[int]:
        """Return where each symbol's interval begins after `before`, and, last, 2**16."""
        context = f"{_START}{before}"[-self.order :] if self.order else ""
        if context not in self._after:
            self._after[context] = [0, *accumulate(self._frequencies(context))]
        return self._after[context]

    def _frequencies(self, context: str) -> list[int]:
        shares = [_FINE // len(self.symbols)] * len(self.symbols)
        for start in range(len(context), -1, -1):
            seen = self._counts.get(context[start:])
            if seen is None:
                break
            total, new = sum(seen.values()), 2 * len(seen)
            shares = [
                (seen.get(symbol, 0) * _FINE + new * share) // (total + new)
                for symbol, share in zip(self.symbols, shares, strict=True)
            ]
        room, whole = UNIT - len(shares), sum(shares)
        frequencies = [1 + share * room // whole for share in shares]
        frequencies[frequencies.index(max(frequencies))] += UNIT - sum(frequencies)
        return frequencies


@dataclass(frozen=True)
class ModelStrings(CodedDomain):
    """Strings, likely ones in few bits: an arithmetic code under a model of the characters of public `words`.

    A string and its end are an interval, as long as the model finds them likely; the code is the first binary fraction
    inside of as few bits as its length needs, filled up with zeros to `width` bits. A string that needs more bits, is
    longer than 64 characters or has a character that no word has is "elsewhere". Names of 12 characters take some 50
    bits, in place of the 264 of 32 bytes.

    Raises
    ------
    ParameterError
        When there are no words, one of them is no text, or a number is out of range.

    Examples
    --------
    >>> trees = ModelStrings(("oak", "elm", "ash", "alder", "hazel"), width=24)
    >>> trees.value(trees.code("hazel")), trees.value(trees.code("haze"))
    (b'hazel', b'haze')
    >>> trees.code("yew")
    Traceback (most recent call last):
    overstory.protocol.errors.NoCodeError: 'yew': no candidate of the model has 'y'
    """

    # what the model is built from, on both sides: the candidates of a reviewed, public file
    words: tuple[str, ...] = field(repr=False)
    order: int = ORDER  # how many characters before the next one the model looks at, from 0 to 4
    width: int = WIDTH  # bits of a code, from 8 to 256

    def __post_init__(self) -> None:
        check_count("order", self.order, 0, MOST_ORDER)
        check_count("width", self.width, 8, MOST_WIDTH)
        words: Any = self.words
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise ParameterError("words: give the model's candidates, texts")
        object.__setattr__(self, "words", tuple(sorted(set(self.words) - {""})))
        if not self.words:
            raise ParameterError("words: a model needs at least one candidate that is not empty")
        if any(text_of(word.encode("utf-8", "surrogatepass")) is None for word in self.words):
            raise ParameterError("words: a candidate holds half of a surrogate pair, and is no text")
        kinds = len(set("".join(self.words)))
        if kinds > MOST_KINDS:
            raise ParameterError(f"words: {kinds} different characters; a model holds at most {MOST_KINDS}")

    @cached_property
    def model(self) -> CharacterModel:
        """The model, built when the first string is coded."""
        return CharacterModel(self.words, self.order)

    @cached_property
    def digest(self) -> str:
        """A digest, in base 16, of what the model is built from; equal digests mean equal codes."""
        hashed = hashlib.blake2b(digest_size=16, person=b"model")
        for word in (f"1 {self.order} {self.width}", *self.words):
            raw = word.encode()
            hashed.update(len(raw).to_bytes(4, "big") + raw)
        return hashed.hexdigest()

    def code(self, value: Any) -> int:
        raw = string_bytes(value)
        text = text_of(raw)
        strange = None if text is None else next((c for c in text if c not in self.model.places), None)
        if text is None or strange is not None:
            raise NoCodeError(f"{raw[:40]!r} is no UTF-8" if text is None else
                              f"{text[:40]!r}: no candidate of the model has {strange!r}")  # fmt: skip
        if len(text) > LONGEST:
            raise NoCodeError(f"{text[:40]!r} has {len(text)} characters: a model codes up to {LONGEST}")
        low, size, depth = 0, 1, 0
        for at in range(len(text) + 1):
            bounds, place = self.model.bounds(text[:at]), self.model.places[text[at : at + 1] or _END]
            low = (low << UNIT_BITS) + size * bounds[place]
            size *= bounds[place + 1] - bounds[place]
            depth += UNIT_BITS
        code = self._shortest(low, size, depth)
        if code is None:
            raise NoCodeError(f"{text[:40]!r} needs more than the {self.width} bits of a code under this model")
        return code

    def _shortest(self, low: int, size: int, depth: int) -> int | None:
        """Return the first fraction in ``[low, low + size) / 2**depth`` of the fewest bits for that size, as a code.

        A fraction of fewer bits may lie in a small interval by chance. It is not looked for: a string has a code, or
        none, by its probability alone, and few codes of full width are some unlikely string's.
        """
        for num_bits in range(max(depth - size.bit_length(), 0), self.width + 1):
            left = depth - num_bits
            point = -(-low >> left) if left >= 0 else low << -left
            if left <= 0 or point << left < low + size:
                return point << (self.width - num_bits)
        return None

    def value(self, code: int) -> bytes | None:
        text, low, size, depth = self._walk(code, self.width, is_point=True)
        return text.encode() if size and self._shortest(low, size, depth) == code else None

    def _walk(self, bits: int, num_bits: int, *, is_point: bool = False) -> tuple[str, int, int, int]:
        """Return the characters that all fractions beginning with these bits share, and where the string has ended.

        That is its interval, ``[low, low + size) / 2**depth``; the size is 0 where it may go on. With `is_point`, all
        is about the one fraction that ends with these bits.
        """
        text, low, size, depth = "", 0, 1, 0
        while len(text) <= LONGEST and depth - size.bit_length() <= self.width:
            bounds = self.model.bounds(text)
            offset = (bits << depth) - (low << num_bits)
            place = bisect_right(bounds, (offset << UNIT_BITS) // (size << num_bits)) - 1
            depth += UNIT_BITS
            low, size = (low << UNIT_BITS) + size * bounds[place], size * (bounds[place + 1] - bounds[place])
            if not is_point and bits + 1 << depth > low + size << num_bits:
                break
            if not place:
                return text, low, size, depth
            text += self.model.symbols[place]
        return text, low, 0, depth

    def may_begin(self, bits: int, num_bits: int) -> bool:
        text, low, size, depth = self._walk(bits, num_bits)
        return len(text) <= LONGEST if not size else self._beginning(low, size, depth, bits, num_bits) is not None

    def ended(self, bits: int, num_bits: int) -> int | None:
        _, low, size, depth = self._walk(bits, num_bits)
        return self._beginning(low, size, depth, bits, num_bits) if size else None

    def _beginning(self, low: int, size: int, depth: int, bits: int, num_bits: int) -> int | None:
        code = self._shortest(low, size, depth)
        return code if code is not None and code >> (self.width - num_bits) == bits else None

    def most_values(self, step: int) -> int:
        """Return about the most strings that share all but the last `step` bits: counted on fixed random prefixes.

        Three standard errors above the share of values among one random extension of each.
        """
        if step not in self._values:
            hits = sum(self._random_extension_holds(step, number) for number in range(SAMPLES))
            self._values[step] = min(1 << step, math.ceil((hits + 3 * math.sqrt(hits) + 3) * (1 << step) / SAMPLES))
        return self._values[step]

    @cached_property
    def _values(self) -> dict[int, int]:
        return {}

    def _random_extension_holds(self, step: int, number: int) -> bool:
        """Return whether a random extension of a random prefix that may go on is a string's code."""
        bits, before = number, self.width - step
        for tries in range(MOST_TRIES):
            raw = hashlib.blake2b(f"{step} {number} {tries}".encode(), digest_size=32).digest()
            bits = int.from_bytes(raw, "big") >> (256 - self.width)
            if not before or (self.holds(bits >> step, before) and self.only(bits >> step, before) is None):
                break
        return self.holds(bits, self.width)

    def canonical(self) -> dict[str, Any]:
        return {"domain": "strings", "model": self.digest, "order": self.order, "width": self.width}

    @property
    def parameters(self) -> dict[str, Any]:
        return {"domain": "model", "words": list(self.words), "order": self.order, "width": self.width}

    def prefix_text(self, bits: int, num_bits: int) -> str:
        return self._walk(bits, num_bits)[0]


ELSEWHERE: Final = b""  # what a mechanism takes for a value without a code
ELSEWHERE_LABEL: Final = "a value that the search does not cover"
MOST_KNOWN: Final = 10_000  # values of a dictionary: a question about more of them is a list of candidates


class UnknownValues(AnyDomain):
    """A set of values too large to list, each with a code along which a search finds it."""

    size = None
    labels = ()
    ordered = False
    families = ("codes",)
    reading: ClassVar[str | None] = "search"
    kind: ClassVar[str]
    known: tuple[str, ...]

    @property
    @abstractmethod
    def coded(self) -> CodedDomain:
        """The values' codes."""

    def completes(self, metric: str) -> dict[str, Any]:
        return {"values": self.coded.parameters, "known": self.known, "hash_key": metric}

    def encode(self, value: Any) -> int | bytes:
        self._check_type(value)
        try:
            return self.coded.code(value)
        except NoCodeError:
            return ELSEWHERE

    @abstractmethod
    def _check_type(self, value: Any) -> None: ...

    def label(self, encoded: Any) -> str:
        if encoded == ELSEWHERE:
            return ELSEWHERE_LABEL
        value = self.coded.value(encoded)
        return ELSEWHERE_LABEL if value is None else self.coded.text(value)

    def encodings(self, labels: Sequence[str]) -> Sequence[Any]:
        return [self.encode(self.read(label)) for label in labels]

    def canonical(self) -> dict[str, Any]:
        codes = {key: value for key, value in self.coded.canonical().items() if key not in {"domain", "text"}}
        return {"domain": self.kind, **codes} | ({"known": list(self.known)} if self.known else {})

    def _check(self) -> None:
        _ = self.coded  # says so when a parameter is none
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

    def describe(self, num_candidates: int | None = None) -> str:  # noqa: ARG002 - there are none
        covered, others = self._covers()
        expected = f"{len(self.known):,} expected value{'s' * (len(self.known) != 1)}"
        asked = f"; some devices are asked about {expected}, the others about the rest" if self.known else ""
        return f"any {covered}{asked}; {others} is reported as elsewhere"

    @abstractmethod
    def _covers(self) -> tuple[str, str]:
        """Return what the search finds, and what any other value is called."""


@dataclass(frozen=True)
class UnknownStrings(UnknownValues):
    """Texts that nobody listed; one that is too long, or has another character than the alphabet's, is elsewhere."""

    max_bytes: int = MAX_BYTES  # of the longest text; characters, where there is an alphabet
    alphabet: str = ""  # the characters that texts are made of, each once; "" allows all
    known: tuple[str, ...] = ()  # texts that are expected: a share of the devices is asked about them alone
    model: tuple[str, ...] = field(default=(), repr=False)  # public texts like those looked for: see `ModelStrings`
    order: int = ORDER  # of the model
    width: int = WIDTH

    kind = "unknown-strings"

    def __post_init__(self) -> None:
        if self.model and (self.alphabet or self.max_bytes != MAX_BYTES):
            raise ParameterError("a model takes the place of max_bytes and alphabet: leave them out")
        if not self.model and (self.order, self.width) != (ORDER, WIDTH):
            raise ParameterError("order and width are of a model: name a file of texts, model = FILE")
        given: Any = self.model
        if isinstance(given, str):  # a digest, where the file was not at hand
            raise ParameterError("model: its texts are in a file of the registry's folder, which was not read")
        object.__setattr__(self, "model", tuple(self.model))
        self._check()

    @cached_property
    def coded(self) -> CodedDomain:
        if self.model:
            return ModelStrings(self.model, self.order, self.width)
        return coded_strings(self.max_bytes, self.alphabet, is_text=not self.alphabet)

    def _check_type(self, value: Any) -> None:
        if not isinstance(value, str):
            raise ParameterError(f"a {type(value).__name__} is no text: give a string")

    def _covers(self) -> tuple[str, str]:
        if self.model:
            return "text that is not too unlikely", "any other text"
        size = f"{self.max_bytes} characters of {self.alphabet}" if self.alphabet else f"{self.max_bytes} bytes"
        return f"text of at most {size}", "any other text"


@dataclass(frozen=True)
class UnknownIntegers(UnknownValues):
    """Whole numbers below ``2**bits``, none of which is listed; a larger one is reported as elsewhere."""

    bits: int = 64
    known: tuple[str, ...] = ()  # in decimal digits

    kind = "unknown-integers"
    value_type: ClassVar[type[str | int | float]] = int

    def __post_init__(self) -> None:
        self._check()

    @cached_property
    def coded(self) -> CodedDomain:
        return CodedIntegers(self.bits)

    def _check_type(self, value: Any) -> None:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ParameterError(f"a {type(value).__name__} is no whole number: give an integer")

    def _covers(self) -> tuple[str, str]:
        return f"whole number below 2^{self.bits}", "another one"


CODED: Final[Mapping[str, Callable[..., CodedDomain]]] = {
    "integers": CodedIntegers,
    "strings": coded_strings,
    "model": ModelStrings,
}


def coded_from(canonical: Any) -> CodedDomain:
    """Return the codes of their `CodedDomain.parameters`."""
    given: dict[str, Any] = {"is_text" if key == "text" else key: value for key, value in dict(canonical).items()}
    kind = given.pop("domain", None)
    if kind not in CODED:
        raise ParameterError(f"there are no codes {kind!r}: choose one of {', '.join(CODED)}")
    try:
        return CODED[kind](**given)
    except TypeError as error:
        raise ParameterError(f"codes of {kind}: {str(error).partition('() ')[2]}") from None
