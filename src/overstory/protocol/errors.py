"""One error, one message: what is wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final


class OverstoryError(Exception):
    """The root of every error this package declares; nothing else may reach a user."""


class ParameterError(OverstoryError, ValueError):
    """A parameter that no mechanism, decoder or plan could honour."""


class NoCodeError(ParameterError):
    """A value that a domain has no code for.

    It is counted as "elsewhere", through the same randomizer as every other value: silence would show that it is
    outside.
    """


class FormatError(OverstoryError, ValueError):
    """Input that does not follow its format.

    Parameters
    ----------
    problem
        What is wrong, and what would be right.
    source
        The file's name, when there is one.
    line
        The line's number, from 1, when there is one.
    field
        The field's name, when there is one.

    Examples
    --------
    >>> print(FormatError("expected 16 characters 0 or 1, found 15", source="reports.csv", line=7, field="irr"))
    reports.csv, line 7, field irr: expected 16 characters 0 or 1, found 15
    """

    def __init__(
        self, problem: str, *, source: str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        self.problem, self.source, self.line, self.field = problem, source, line, field
        where = [source] if source else []
        where += [f"line {line}"] if line is not None else []
        where += [f"field {field}"] if field else []
        super().__init__(f"{', '.join(where)}: {problem}" if where else problem)


class WireError(FormatError):
    """A batch of reports that is not one: `reason` is the stable code a collector answers with."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(problem)


NEAR: Final = 0.7  # how alike names must be; below, `stop` would be taken for `store`


def suggestion(word: object, names: Iterable[str]) -> str:
    """Return a question with the name that may have been meant, to stand after a semicolon; nothing if none is near."""
    import difflib  # only after a mistake: a program's start does without it

    near = difflib.get_close_matches(word, list(names), n=1, cutoff=NEAR) if isinstance(word, str) else None
    return f"; did you mean {near[0]}?" if near else ""


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, from where this package was installed; no index has it."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("overstory").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        origin = {}
    if not origin:
        return f'pip install ".[{extra}]" in the folder of the source'
    return f'pip install "overstory[{extra}] @ {"git+" if "vcs_info" in origin else ""}{origin["url"]}"'
