"""Questions and answers: from an option, from the person or the script at standard input, or a default; and readers."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from overstory.cli.registry.commands import QUESTIONS
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError
from overstory.protocol.wire import parse_digits

Answer = TypeVar("Answer")


_QUESTIONS: Final = {question.key: question for question in QUESTIONS}


class Asking:
    """Where answers come from."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._ended, self._given = bool(args.yes), self._answers(args)
        self._terminal = not self._ended and sys.stdin is not None and sys.stdin.isatty()

    @staticmethod
    def _answers(args: argparse.Namespace) -> dict[str, str]:
        """Return the answers that options give, by the questions' keys."""
        given = {name: getattr(args, name) for name in _QUESTIONS if getattr(args, name, None) is not None}
        for word in args.answer:
            name, equals, text = word.partition("=")
            key = name.replace("-", "_")
            if not equals or key not in _QUESTIONS or key in given:
                raise ParameterError(f"--answer {word}: give NAME=TEXT, once for each of {', '.join(_QUESTIONS)}")
            given[key] = text
        return given

    def explain(self, *lines: str) -> None:
        """Print lines to the person, if there is a terminal."""
        if self._terminal:
            print("\n".join(("", *lines)), file=sys.stderr)

    def ask(self, name: str, read: Callable[[str], Answer], default: str | None = None) -> Answer:
        """Return the answer to one question, read; on a terminal, ask again until it is right."""
        question, given = _QUESTIONS[name], self._given.get(name)
        flag = question.name if question.is_option else f"--answer {name}"
        if given is not None:
            return _read(given, read, flag)
        default = question.default if default is None else default
        prompt = f"{question.words}{'' if default is None else f' [{default}]'}: "
        while True:
            text = self._line(prompt) or default
            if text is None and (self._ended or not self._terminal):
                raise ParameterError(f"{flag} is missing: give {question.words}")
            try:
                return _read(text or "", read, flag)
            except ParameterError as error:
                if self._ended or not self._terminal:
                    raise
                print(f"  {printable(str(error)).removeprefix(f'{flag}: ')}", file=sys.stderr)

    def _line(self, prompt: str) -> str:
        if self._ended or sys.stdin is None:
            return ""
        if self._terminal:
            print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        self._ended = not line
        return line.strip()


def _read(text: str, read: Callable[[str], Answer], flag: str) -> Answer:
    try:
        return read(text)
    except (ValueError, ParameterError) as error:
        raise ParameterError(f"{flag}: {error}") from None


def a_text(text: str) -> str:
    """Read a text of one line."""
    if not text.strip():
        raise ParameterError("give a text")
    return " ".join(text.split())


def names(text: str) -> list[str]:
    listed = [a_text(name) for name in text.split(",") if name.strip()]
    if len(listed) < 2 or len(set(listed)) < len(listed):
        raise ParameterError("give at least two different values, separated by commas")
    return listed


def reader(read: Callable[[str], Answer], fits: Callable[[Answer], bool], refusal: str) -> Callable[[str], Answer]:
    """Read what another reader reads, where it fits; `refusal` has a place for the text."""

    def read_fitting(text: str) -> Answer:
        if not fits(answer := read(text)):
            raise ParameterError(refusal.format(text))
        return answer

    return read_fitting


def one_of(choices: Collection[str]) -> Callable[[str], str]:
    return reader(str, choices.__contains__, f"{{!r}}: give one of {', '.join(choices)}")


def a_decimal(text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise ParameterError(f"{text!r} is not a number")


def whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = parse_digits(text)
        if number is None or not low <= number <= high:
            raise ParameterError(f"{text!r}: give a whole number from {low} to {high:,}")
        return number

    return read
