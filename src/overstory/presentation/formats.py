"""How numbers and texts read: each format is written once, and every table, page and sentence takes it from here.

Standard output may be a terminal that lacks letters or obeys them, or a reader that leaves early.
"""

from __future__ import annotations

import datetime as dt
import io
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Final

Format = Callable[..., str]  # how one or several values of a row read

UNKNOWN: Final = "unknown"
"""How a number reads that is not known: the error of a value that the counts cannot tell from others."""


def marked(value: Any) -> str:
    """Return a value as text, in quotes where it has blanks that nobody sees.

    >>> marked("north"), marked("north "), marked("new  york"), marked(3)
    ('north', '"north "', '"new  york"', '3')
    """
    text = str(value)
    return f'"{text}"' if text != text.strip() or "  " in text else text


def thousands(number: float | None) -> str:
    """Return a count, rounded to a whole number."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def significant(value: float, digits: int = 4, sign: str = "") -> str:
    """Return a number in plain digits, so many of which count, unless nobody could count its zeros."""
    if not 1e-9 < abs(value) < 1e15:
        return f"{value:{sign}.{digits}g}"
    return f"{Decimal(f'{value:.{digits}g}'):{sign},f}"


def percent(share: float | None) -> str:
    """Return a share of 0 to 1 as a percentage."""
    return UNKNOWN if share is None else f"{share:.2%}"


def p_value(probability: float) -> str:
    """Return a p-value or a q-value: its power of ten is what matters, and 0 is below what a float can hold."""
    return f"{probability:.1e}" if probability else "<1e-300"


def detection(detected: bool, low: float | None = None) -> str:  # noqa: FBT001 - it is the format of a column
    """Return whether a value was detected; with the lower end of its interval, also whether how often is unsure."""
    if not detected:
        return "not detected"
    return "detected, how often is unsure" if low is not None and low <= 0 else "detected"


def if_detected(number: Format) -> Format:
    """Return the format of an estimate: a number that cannot be told from noise is not shown."""
    return lambda estimate, detected: number(estimate) if detected else detection(detected)


def interval(ends: Format) -> Format:
    """Return the format of an interval, by the format of its ends."""
    return lambda low, high: UNKNOWN if low is None or high is None else f"{ends(low)} to {ends(high)}"


TRUTH: Final = {True: "true", False: "false"}  # truth values as files hold them


def data_text(value: Any) -> str:
    """Return a value as files hold it: ten digits; nothing where there is no number."""
    if isinstance(value, float):
        return f"{value:.10g}" if math.isfinite(value) else ""
    if isinstance(value, bool):
        return TRUTH[value]
    return "" if value is None else str(value)


def finite(value: Any) -> Any:
    """Return a value as JSON holds it: None in place of a number that JSON has no word for."""
    return value if not isinstance(value, float) else float(value) if math.isfinite(value) else None


def seconds_text(seconds: float) -> str:
    """Return seconds with two digits: they are an estimate."""
    if seconds >= 100:
        step = 10 ** (len(str(int(seconds))) - 2)
        return f"{round(seconds / step) * step:,}"
    return f"{seconds:.0f}" if seconds >= 10 else f"{max(seconds, 0.01):.2f}".rstrip("0").rstrip(".")


def in_bytes(size: float) -> str:
    """Return a number of bytes in a unit that leaves few digits."""
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size:.0f} B"


def epsilon_text(epsilon: float | None, unbounded: str = "no bound", *, digits: int = 3) -> str:
    """Return an epsilon (None: no bound) as it is printed: three digits, and none beyond 0.0001, rounded up."""
    if epsilon is None or math.isinf(epsilon):
        return unbounded
    first = Decimal(epsilon).adjusted()
    text = f"{rounded_up(epsilon, Decimal(1).scaleb(max(first - digits + 1, -digits - 1))):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def epsilons_apart(*epsilons: float) -> list[str]:
    """Return epsilons that are compared, with as many digits, from three, as tell those apart that differ."""
    texts: list[str] = []
    for digits in range(3, 9):
        texts = [epsilon_text(epsilon, "without bound", digits=digits) for epsilon in epsilons]
        if len({*texts}) == len({*epsilons}):
            break
    return texts


def epsilons_text(about: Mapping[str, Any]) -> str:
    """Return both epsilons of a mechanism in words, from ``epsilon_report`` and ``epsilon_permanent``."""
    epsilons = (about[name] for name in ("epsilon_report", "epsilon_permanent"))
    report, permanent = (epsilon_text(each, "without bound") for each in epsilons)
    return f"epsilon {report} for one report, {permanent} for any number of reports of one value"


def repeated_note(per_device: float) -> tuple[str, ...]:
    """Return what is supposed about devices that report several times; nothing for one report each."""
    if per_device == 1:
        return ()
    note = (
        f"a device is taken to have sent {per_device:g} reports of one value that did not change (mean over reports): "
        "standard errors count what they share, and are too large where values changed"
    )
    return (note,)


def rounded_up(number: float, step: Decimal) -> Decimal:
    """Return the least multiple of `step`, a power of ten, that is not below `number`.

    A float is rarely a round number: 0.1 is 5.6e-18 more. So a number within four units in the last place of a float
    above a multiple of `step` is that multiple, and every other is rounded up.
    """
    exact, wide = Decimal(number), Context(prec=400)
    below = exact.quantize(step, ROUND_FLOOR, wide)
    if below and exact - below <= 4 * Decimal(math.ulp(number)):
        return below
    return exact.quantize(step, ROUND_CEILING, wide)


def rounded_down(number: float, step: Decimal) -> Decimal:
    """Return the largest multiple of `step`, a power of ten, not above `number`: of what is "at least" so much."""
    return Decimal(number).quantize(step, ROUND_FLOOR, Context(prec=400))


MOST: Final = math.log(1e6)  # past this epsilon a factor says nothing more to a person
CERTAIN: Final = "practically certain"


def odds_text(epsilon: float) -> str:
    """Return how far an epsilon lets the odds between two values move."""
    if math.isinf(epsilon):
        return "without bound"
    return CERTAIN if epsilon > MOST else f"{factor(epsilon)} times"


def factor(epsilon: float) -> str:
    """Return e**epsilon as a person reads it, rounded up to three digits."""
    if epsilon > MOST:
        return "more than a million"
    odds = Decimal(epsilon).exp(Context(prec=12))  # so that 81.000000000000004 is 81
    return f"{odds.normalize(Context(prec=3, rounding=ROUND_CEILING)):,f}"


def guess_text(epsilon: float, source: str, things: str) -> str:
    """Say how often a guess between two things, alike before, is right at most: e^epsilon / (e^epsilon + 1)."""
    if epsilon > MOST:
        return f"whoever reads {source} could be {CERTAIN} of the truth"
    odds, of = Decimal(epsilon).exp(Context(prec=30)), 100
    right = float(odds / (odds + 1))
    while (cases := int(rounded_up(right * of, Decimal(1)))) >= of:
        of *= 10
    guess = f"whoever guesses from {source} which of two equally likely {things}"
    return f"{guess} is right in at most {cases:,} of {of:,} cases"


def plural(number: int, thing: str) -> str:
    """Return a number of things, in words that agree with it."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def duration(seconds: float) -> str:
    """Return a time in words, its minutes or hours rounded up."""
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    hours = math.ceil(minutes / 60)
    return f"{hours // 24} days" + (f" {hours % 24} h" if hours % 24 else "")


def date_words(label: str, year: int | None = None) -> str:
    """Return a period's label as people say it: "week of 9 November", "9 November", with its year unless it is this."""
    start = dt.datetime.fromisoformat(label)
    day = f"{start.day} {start:%B}" + ("" if start.year == year else f" {start.year}")
    return f"week of {day}" if "W" in label else f"{day}, {start:%H:%M} UTC" if "T" in label else day


def with_article(date: str) -> str:
    """Return a date in words as a sentence has it: "the week of 9 November"."""
    return f"the {date}" if date.startswith("week") else date


def short_dates(labels: Sequence[str]) -> list[str]:
    """Return periods' labels as a picture has room for: the first day, with its year where there are several."""
    if any("T" in label for label in labels):
        return list(labels)
    starts = [dt.datetime.fromisoformat(label) for label in labels]
    several = len({start.year for start in starts}) > 1
    return [f"{start.day} {start:%b}{f' {start.year}' if several else ''}" for start in starts]


def share(probability: float) -> str:
    """Return a probability as a percentage of three digits that means something; never 0 or 100 where it is not."""
    percent = 100 * probability
    text = f"{percent:.3g}"
    if text == "100" and probability < 1:
        text = f"{percent:.6g}" if percent < 99.9999 else "above 99.9999"
    return f"{'below 0.0001' if 0 < percent < 0.0001 else text}%"


def parameter_words(parameters: Mapping[str, Any]) -> str:
    """Return parameters that are numbers or texts, of parts by their oracle; others follow from the domain."""
    own = [
        f"{key} = {value}" for key, value in parameters.items() if isinstance(value, str | int | float) and value != ""
    ]
    listed = [part for value in parameters.values() if isinstance(value, list) for part in value]
    parts = [
        f"{part['oracle']}: {parameter_words({**part, 'oracle': None})}" for part in listed if isinstance(part, Mapping)
    ]
    return "; ".join([*([", ".join(own)] if own else []), *parts])


PIPE_CLOSED: Final = 141  # the exit status of a program whose reader has left


def write_anything() -> None:
    """Let a terminal that lacks a character show its escape instead of failing, and a closed stream take what comes."""
    # Under cron, some supervisors and `pythonw` they are closed and None; in order, no other file gets their numbers.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def close_quietly() -> None:
    """Let the interpreter's own last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def printable(text: str) -> str:
    """Return `text` with what could steer a terminal escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
