"""The parser of every command: a fault of the command line is one sentence, with a suggestion."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from overstory.presentation.streams import printable
from overstory.protocol.errors import suggestion

_WHOLE: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|[\d_]+)")
_POWER: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)[eE]\+?(\d{1,2})")


class Parser(argparse.ArgumentParser):
    """An argument parser whose subcommands report their own errors; numbers may be written 1,000,000 or 1e6."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("type", int, whole_number)
        self.register("type", float, number)

    def error(self, message: str) -> NoReturn:
        """Leave with one line and status 2."""
        if "://" in message and "@" in message:
            from overstory.engines.folders import shown_address

            for word in {word.strip("'\",()") for word in message.split()}:
                message = message.replace(word, shown_address(word)) if "://" in word else message
        self.exit(2, f"{self.prog}: error: {printable(message)} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse; the subcommand itself, and not its parent, reports an unknown argument."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            shown = (option for option in self._actions if option.help != argparse.SUPPRESS)
            self.error(_unknown(unknown, [name for option in shown for name in option.option_strings]))
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        near = suggestion(str(value), names) or f"; choose one of {', '.join(names)}"
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no public name for it
            raise argparse.ArgumentError(None, f"there is no command {value!r}{near}")
        raise argparse.ArgumentError(action, f"there is no choice {value!r}{near}")


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Writes help as wide as the terminal, without argparse's `shutil`, which loads every kind of compression."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **{"width": terminal_width() - 2, **kwargs})


def terminal_width() -> int:
    """Return the width of a line: from ``COLUMNS``, from the terminal, or 80."""
    try:
        width = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        width = 0
    if width > 0:
        return width
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def _unknown(arguments: Sequence[str], options: Iterable[str]) -> str:
    flags = [argument for argument in arguments if argument.startswith("-")]
    if not flags:
        return f"unexpected argument: {' '.join(arguments)}"
    option = flags[0].partition("=")[0]
    return f"there is no option {option}{suggestion(option, options)}"


def whole_number(text: str) -> int:
    """Return a whole number, also from forms such as 1,000,000 and 1e6.

    >>> whole_number("1,000,000"), whole_number("1e6"), whole_number("2.5e3")
    (1000000, 1000000, 2500)
    """
    power = _POWER.fullmatch(text)
    if power is not None:
        digits, _, decimals = power[1].partition(".")
        zeros = int(power[2]) - len(decimals)
        if zeros >= 0:
            return int(digits + decimals) * int(10**zeros)
    if _WHOLE.fullmatch(text) is not None:
        try:
            return int(text.replace(",", ""))
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number: give one such as 1000000, 1,000,000 or 1e6")


def number(text: str) -> float:
    """Return a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number: give one such as 0.5") from None
