"""``overstory metrics init``: a first registry, from answers or options; every key in it has a comment."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import math
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, TypeVar

from overstory.cli.registry.commands import KINDS, QUESTIONS
from overstory.cli.registry.lint import lint
from overstory.files.io import replacing
from overstory.presentation.formats import factor
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import GRACE_DAYS
from overstory.protocol.metrics.period import Period
from overstory.protocol.wire import METRIC_ID, parse_digits

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


EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
LARGEST_EPSILON: Final = 20.0


def run(args: argparse.Namespace) -> int:
    path = Path(args.file)
    if path.exists():
        raise ParameterError(f"{args.file} exists: give another FILE, or remove it")
    groups = group_lines(args)
    text, name, value = _registry(Asking(args), dt.datetime.now(dt.UTC).date())
    text += "".join(f"{line}\n" for line in groups)
    parse_registry(text, source="the answers")
    with replacing(str(path)) as partial:
        Path(partial).write_bytes(text.encode())
    print(f"{args.file} is written; `overstory metrics lint {args.file}` prints:")
    status = lint(args.file)
    candidates = " --candidates words.txt" if 'kind = "strings"' in text else ""
    print("\n".join(_next_steps(args.file, name, value, candidates)))
    return status


def _next_steps(file: str, name: str, value: str, candidates: str) -> list[str]:
    return [
        "",
        "Next:",
        f"  overstory metrics show {file}    # the public page: what a person can read about it",
        f"  overstory simulate --registry {file} --devices 10000 --store trial.db    # a trial without people",
        f"  overstory decode --store trial.db --registry {file} --metric {name}{candidates}    # what would be learned",
        f'  in your program: Client("APP", registry="{file}", server="https://...").record("{name}", {value})',
    ]


def _registry(asking: Asking, today: dt.date) -> tuple[str, str, str]:
    """Return the registry's text, the metric's id, and a value that a program may record."""
    asking.explain(
        "A registry lists what is collected. This makes one with a single metric. Enter takes [the default]."
    )
    rule = "{!r}: give up to 64 of a-z, 0-9, '.', '_' and '-', a-z or 0-9 first"
    name = asking.ask("id", reader(str, lambda text: METRIC_ID.fullmatch(text) is not None, rule))
    title = asking.ask("title", a_text, name.replace("-", " ").replace("_", " ").capitalize())
    description = asking.ask("description", a_text)
    owner = asking.ask("owner", a_text)
    purpose = asking.ask("purpose", reader(str, _is_link, "{!r} is not a link: start with https://"))
    asking.explain("Which values does it have?", *(f"  {kind:8}{words}" for kind, words in KINDS.items()))
    kind = asking.ask("kind", one_of(KINDS))
    domain, size, values, example = _DOMAINS[kind](asking)
    asking.explain(
        "How private is one report? A smaller epsilon is more private, and needs more people.",
        *(f"  {epsilon:<4g}{_guess(epsilon)}" for epsilon in EPSILONS),
    )
    private = f"{{}}: give a number from 0.01 to {LARGEST_EPSILON:g}; above that, nothing is private"
    epsilon = asking.ask("epsilon", reader(a_decimal, lambda number: 0.01 <= number <= LARGEST_EPSILON, private))
    period = asking.ask("period", _period)
    expires = asking.ask("expires", _later(today), str(_in_a_year(today)))
    retention = asking.ask("retention_days", whole(0, 36_500))
    publish = asking.ask("publish", one_of(("nothing", "estimates")))
    opt_out = asking.ask("opt_out", a_text) if publish == "estimates" else None
    lines = [
        *_head(today, opt_out),
        "# The id, by which a program records and an analyst decodes. Never use an id again for something else.",
        f"[metrics.{name if '.' not in name else _toml(name)}]",
        "# Shown to the person who is asked: a name, and what is collected.",
        f"title = {_toml(title)}",
        f"description = {_toml(description)}",
        "# Who is responsible, and a public link to the reason.",
        f"owner = {_toml(owner)}",
        f"purpose = {_toml(purpose)}",
        *domain,
        *_oracle(size, epsilon),
        "# A device reports at most once in each period (UTC).",
        f'period = "{period}"',
        *values,
        "# For how many days the collector keeps single randomized reports; then only counts of 10 or more together.",
        f"retention_days = {retention}",
        "# For how many days after its period a report is still accepted, as some devices are switched off.",
        f"grace_days = {min(GRACE_DAYS, retention if publish == 'nothing' else max(0, retention - 1))}",
        "# The day from which nothing is recorded. Every collection has an end; to continue is a decision.",
        f"expires = {expires.isoformat()}",
        "# What everybody may read of the results: nothing, or estimates with their uncertainty.",
        f'publish = "{publish}"',
    ]
    return "\n".join(lines) + "\n", name, example


def _head(today: dt.date, opt_out: str | None) -> list[str]:
    stop = (
        [] if opt_out is None else ["# How a person stops it: the public page says so.", f"opt_out = {_toml(opt_out)}"]
    )
    return [
        "# What is collected, why, and how privately. https://toml.io; docs/reference/metrics.md has every key.",
        "# The client records nothing else, the collector accepts nothing else, and the public can read it.",
        "",
        "# The version of this file: change it with every change of the file. A person's consent names it.",
        f"registry = {_toml(today.isoformat())}",
        *stop,
        "",
    ]


Domain = tuple[list[str], int | None, list[str], str]
"""Lines on the values, how many there are (None: unknown), lines on the cap, and an example in Python."""


def _choice(asking: Asking) -> Domain:
    listed = asking.ask("values", names)
    unlisted = reader(a_text, lambda name: name not in listed, "{!r} is one of the values already")
    other = asking.ask("other", unlisted, _free("other", listed))
    lines = [
        "# The values. Every other value counts as `other`.",
        f'domain = {{kind = "categories", names = [{", ".join(map(_toml, listed))}], other = {_toml(other)}}}',
    ]
    return lines, len(listed) + 1, _cap(2, "first"), _toml(listed[0])


def _yes_no(_: Asking) -> Domain:
    lines = ['# The values: a program records "yes" or "no".', 'domain = {kind = "categories", names = ["no", "yes"]}']
    return lines, 2, [], '"yes"'


def _number(asking: Asking) -> Domain:
    low = asking.ask("min", a_decimal)
    high = asking.ask("max", reader(a_decimal, lambda number: number > low, f"{{}}: give a number above {low:g}"))
    count = asking.ask("ranges", whole(2, 100_000))
    if low.is_integer() and high.is_integer() and high - low < count:
        bounds, size = f'kind = "integers", min = {low:.0f}, max = {high:.0f}', int(high - low) + 1
        meaning = "# Whole numbers from min to max."
    else:
        bounds, size = f'kind = "bins", min = {low!r}, max = {high!r}, count = {count}', count
        meaning = f"# Numbers from min to max, in {count} ranges of one width."
    lines = [
        f'{meaning} outside = "clamp" counts a number beyond them as min or max.',
        f'domain = {{{bounds}, outside = "clamp"}}',
    ]
    return lines, size, _cap(3, "nearest") if size > 3 else [], f"{low:g}"


def _words(_: Asking) -> Domain:
    lines = [
        '# Any text. To look for words of a list later, name the file that lists them: candidates = "words.txt".',
        'domain = {kind = "strings"}',
    ]
    return lines, None, _cap(4, "first"), '"a word"'


_DOMAINS: Final[dict[str, Callable[[Asking], Domain]]] = {
    "choice": _choice,
    "yes-no": _yes_no,
    "number": _number,
    "words": _words,
}


def _free(wanted: str, taken: list[str]) -> str:
    return next(name for name in (wanted, *(f"{wanted} ({n})" for n in range(1, len(taken) + 1))) if name not in taken)


def _cap(most: int, over_cap: str) -> list[str]:
    reported = {"first": "the first response again", "nearest": "the response of the nearest value that was reported"}
    return [
        "# How many different values one device ever reports: each has a privacy loss of its own, and they add up.",
        f"# Every later value is reported as {reported[over_cap]}.",
        f"max_values = {most}",
        f'over_cap = "{over_cap}"',
    ]


def _oracle(size: int | None, epsilon: float) -> list[str]:
    permanent = 2 * epsilon
    lines = [
        "# How a value is randomized: a response drawn once and kept on the device (epsilon_permanent bounds what all",
        "# reports of one value reveal), and drawn from again for each report (epsilon_report bounds a single one).",
        f"# {_guess(epsilon)}.",
        "# `overstory metrics plan` derives other parameters from needs that you state.",
    ]
    if size is None:
        f, p = _rappor(epsilon, permanent)
        given = f"num_bits = 128, num_hashes = 1, num_cohorts = 16, f = {f!r}, p = {p!r}, q = {round(1 - p, 6)!r}"
        lines[0] = "# How a text is randomized (RAPPOR): it sets one of 128 bits. Each bit gets noise once, permanently"
        lines[1] = (
            f"# (epsilon {permanent:g} for all reports of one text) and again for each report (epsilon {epsilon:g})."
        )
        return [*lines, 'oracle = "rappor"', f"parameters = {{{given}}}"]
    # Direct randomized response has the smaller error while d < 3 e^epsilon + 2 (Wang et al. 2017), roughly here too.
    oracle = "l-grr" if size < 3 * math.exp(epsilon) + 2 else "l-osue"
    return [
        *lines,
        f'oracle = "{oracle}"',
        f"parameters = {{epsilon_permanent = {permanent!r}, epsilon_report = {epsilon!r}}}",
    ]


def _rappor(epsilon: float, permanent: float) -> tuple[float, float]:
    """Return f, and p = 1 - q, with which RAPPOR of one hash function stays within both epsilons.

    A bit's permanent response is wrong with chance f/2 = 1 / (1 + e^(permanent/2)); p is the least, to six digits,
    with which one report has no more than `epsilon`.
    """
    f = math.ceil(2e6 / (1 + math.exp(permanent / 2))) / 1e6
    low, high = 0, 499_999  # millionths: at the one epsilon may be too large, at the other it is next to nothing
    while high - low > 1:
        p = (low + high) // 2 / 1e6
        built = mechanism("rappor", num_bits=128, num_hashes=1, num_cohorts=16, f=f, p=p, q=round(1 - p, 6))
        low, high = (low, round(p * 1e6)) if built.epsilon_report <= epsilon else (round(p * 1e6), high)
    return f, high / 1e6


def _guess(epsilon: float) -> str:
    return f"One report can change anyone's guess between two values by a factor of at most {factor(epsilon)}"


def _is_link(text: str) -> bool:
    return text.startswith(("https://", "http://"))


def _period(text: str) -> str:
    return str(Period.parse(text))


def _later(today: dt.date) -> Callable[[str], dt.date]:
    def read(text: str) -> dt.date:
        with contextlib.suppress(ValueError):
            if (day := dt.date.fromisoformat(text)) > today:
                return day
        raise ParameterError(f"{text!r}: give a day after today, such as {_in_a_year(today)}")

    return read


def _in_a_year(today: dt.date) -> dt.date:
    return today + dt.timedelta(days=365)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def group_lines(args: argparse.Namespace) -> list[str]:
    """Return the lines on groups, or none where no option asks for them.

    >>> print(group_lines(argparse.Namespace(group_by="release", groups="1.0=0.6,1.1=0.3", devices="500000"))[-1])
    groups = {by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}
    """
    given = args.group_by, args.groups, args.devices
    if None in given:
        return []
    try:
        devices = whole(1, 1 << 40)(args.devices)
    except ParameterError as error:
        raise ParameterError(f"--devices: {error}") from None
    shares = ", ".join(f"{json.dumps(name)} = {share!r}" for name, share in _shares(args.groups).items())
    return [
        "# The group of the device, which each report names in clear: no epsilon protects it. With the public share of",
        "# each group; all other devices are in the group other. A group of fewer than 1,000 devices is a fault.",
        f"groups = {{by = {json.dumps(args.group_by)}, shares = {{{shares}}}, devices = {devices}}}",
    ]


def _shares(text: str) -> dict[str, float]:
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = part.strip().rpartition("=")
        if not equals or not name or name in shares:
            raise ParameterError(f"--groups: {part.strip()!r}: give each group once, with its share, such as 1.0=0.6")
        try:
            shares[name] = a_decimal(share)
        except ParameterError as error:
            raise ParameterError(f"--groups: {error}") from None
    return shares
