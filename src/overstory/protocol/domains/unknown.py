"""Values that nobody listed: what a metric of unknown strings or integers measures.

A search finds such values along the bits of their codes (`overstory.protocol.domains.codes`). A value without a code,
such as a string that is too long, is reported as *elsewhere*, through the same randomizer as any other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from overstory.protocol.domains.codes import MAX_BYTES, CodedDomain, CodedIntegers, coded_strings
from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import NoCodeError, ParameterError

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
        return {"values": self.coded.canonical(), "known": self.known, "hash_key": metric}

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

    kind = "unknown-strings"

    def __post_init__(self) -> None:
        self._check()

    @cached_property
    def coded(self) -> CodedDomain:
        return coded_strings(self.max_bytes, self.alphabet, is_text=not self.alphabet)

    def _check_type(self, value: Any) -> None:
        if not isinstance(value, str):
            raise ParameterError(f"a {type(value).__name__} is no text: give a string")

    def _covers(self) -> tuple[str, str]:
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
}


def coded_from(canonical: Any) -> CodedDomain:
    """Return the codes of their `CodedDomain.canonical`."""
    given: dict[str, Any] = {"is_text" if key == "text" else key: value for key, value in dict(canonical).items()}
    kind = given.pop("domain", None)
    if kind not in CODED:
        raise ParameterError(f"there are no codes {kind!r}: choose one of {', '.join(CODED)}")
    try:
        return CODED[kind](**given)
    except TypeError as error:
        raise ParameterError(f"codes of {kind}: {str(error).partition('() ')[2]}") from None
