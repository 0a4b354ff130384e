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
from overstory.cli.registry.metrics import lint
from overstory.files.io import replacing
from overstory.planning.needs import plan_from_needs, sufficient_permanent
from overstory.planning.yearly import SHARE, Way, YearPlan
from overstory.presentation.formats import factor, percent
from overstory.presentation.formats import share as percentage
from overstory.presentation.streams import printable
from overstory.privacy.registry.yearly import HIGH
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import GRACE_DAYS
from overstory.protocol.metrics.period import Period
from overstory.protocol.wire import METRIC_ID, parse_digits

Answer = TypeVar("Answer")


_QUESTIONS: Final = {question.key: question for question in QUESTIONS}


class Asking:
    """Where answers come from: the options, else a person at a terminal, else the defaults."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._terminal = not args.yes and sys.stdin is not None and sys.stdin.isatty()

    def explain(self, *lines: str) -> None:
        if self._terminal:
            print("\n".join(("", *lines)), file=sys.stderr)

    def ask(self, name: str, read: Callable[[str], Answer], default: str | None = None) -> Answer:
        """Return the answer to one question, read; on a terminal, ask again until it is right."""
        question, given = _QUESTIONS[name], getattr(self._args, name)
        default = question.default if default is None else default
        while given is None and self._terminal:
            prompt = f"{question.words}{'' if default is None else f' [{default}]'}: "
            print(prompt, end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            self._terminal = bool(line)  # nothing at all: the end of the input
            try:
                return _read(line.strip() or default or "", read, question.name)
            except ParameterError as error:
                print(f"  {printable(str(error)).removeprefix(f'{question.name}: ')}", file=sys.stderr)
        if given is None and default is None:
            raise ParameterError(f"{question.name} is missing: give {question.words}")
        return _read(str(default if given is None else given), read, question.name)


def _read(text: str, read: Callable[[str], Answer], flag: str) -> Answer:
    try:
        return read(text)
    except (ValueError, ParameterError) as error:
        raise ParameterError(f"{flag}: {error}") from None


def a_text(text: str) -> str:
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


def ends(text: str) -> tuple[float, float]:
    low, dots, high = text.partition("..")
    with contextlib.suppress(ParameterError):
        if dots and (pair := (a_decimal(low), a_decimal(high))) == tuple(sorted(set(pair))):
            return pair
    raise ParameterError(f"{text!r}: give the smallest and the largest number, such as 0..60")


def whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = parse_digits(text)
        if number is None or not low <= number <= high:
            raise ParameterError(f"{text!r}: give a whole number from {low} to {high:,}")
        return number

    return read


EPSILONS: Final = (1.0, 2.0, 4.0, HIGH)
CANDIDATES: Final = 1000  # words that somebody may look for: what the parameters of a metric of words are chosen for


def run(args: argparse.Namespace) -> int:
    path = Path(args.file)
    if path.exists():
        raise ParameterError(f"{args.file} exists: give another FILE, or remove it")
    text, name, value = _registry(Asking(args), dt.datetime.now(dt.UTC).date())
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
    link = reader(str, lambda text: text.startswith(("https://", "http://")), "{!r} is not a link: start with https://")
    purpose = asking.ask("purpose", link)
    asking.explain("Which values does it have?", *(f"  {kind:8}{words}" for kind, words in KINDS.items()))
    kind = asking.ask("kind", one_of(KINDS))
    domain, size, example = _DOMAINS[kind](asking)
    epsilon = _epsilon_of_a_year(asking)
    devices = asking.ask("devices", whole(1, 1 << 40))
    period = asking.ask("period", lambda text: str(Period.parse(text)))
    best = YearPlan(devices, size or CANDIDATES, epsilon, period=period).best_panel()
    lines = [
        "# What is collected, why, and how privately. https://toml.io; docs/reference/metrics.md has every key.",
        "# The client records nothing else, the collector accepts nothing else, and the public can read it.",
        "",
        "# The version of this file: change it with every change of the file. A person's consent names it.",
        f"registry = {_toml(today.isoformat())}",
        "",
        *_bound(best, epsilon),
        "# The id, by which a program records and an analyst decodes. Never use an id again for something else.",
        f"[metrics.{name if '.' not in name else _toml(name)}]",
        "# Shown to the person who is asked: a name, and what is collected.",
        f"title = {_toml(title)}",
        f"description = {_toml(description)}",
        "# Who is responsible, and a public link to the reason.",
        f"owner = {_toml(owner)}",
        f"purpose = {_toml(purpose)}",
        *domain,
        *_oracle(name, size, devices, best, period),
        "# For how many days the collector keeps single randomized reports; then only counts of 10 or more together.",
        "retention_days = 90",
        "# For how many days after its period a report is still accepted, as some devices are switched off.",
        f"grace_days = {GRACE_DAYS}",
        "# The day from which nothing is recorded. Every collection has an end; to continue is a decision.",
        f"expires = {(today + dt.timedelta(days=365)).isoformat()}",
        "# What everybody may read of the results: nothing, or estimates with their uncertainty.",
        'publish = "nothing"',
    ]
    return "\n".join(lines) + "\n", name, example


def _epsilon_of_a_year(asking: Asking) -> float:
    asking.explain(
        "How much may be learned about one person in a year, by all metrics of this file together?",
        "A smaller epsilon is more private, and needs more devices.",
        *(f"  {epsilon:<4g}{_guess(epsilon)}" for epsilon in EPSILONS),
    )
    private = f"{{}}: give a number from 0.01 to {HIGH:g}; above that, hardly anything is private"
    return asking.ask("epsilon", reader(a_decimal, lambda number: 0.01 <= number <= HIGH, private))


Domain = tuple[list[str], int | None, str]
"""Lines on the values, how many there are (None: unknown), and an example in Python."""


def _choice(asking: Asking) -> Domain:
    listed = asking.ask("values", names)
    unlisted = ("other", *(f"other ({n})" for n in range(1, len(listed) + 1)))
    other = next(name for name in unlisted if name not in listed)
    lines = [
        "# The values. Every other value counts as `other`.",
        f'domain = {{kind = "categories", names = [{", ".join(map(_toml, listed))}], other = {_toml(other)}}}',
    ]
    return lines, len(listed) + 1, _toml(listed[0])


def _yes_no(_: Asking) -> Domain:
    lines = ['# The values: a program records "yes" or "no".', 'domain = {kind = "categories", names = ["no", "yes"]}']
    return lines, 2, '"yes"'


def _number(asking: Asking) -> Domain:
    low, high = asking.ask("values", ends)
    count = 10
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
    return lines, size, f"{low:g}"


def _words(_: Asking) -> Domain:
    lines = [
        '# Any text. To look for words of a list later, name the file that lists them: candidates = "words.txt".',
        'domain = {kind = "strings"}',
    ]
    return lines, None, '"a word"'


_DOMAINS: Final[dict[str, Callable[[Asking], Domain]]] = {
    "choice": _choice,
    "yes-no": _yes_no,
    "number": _number,
    "words": _words,
}


def _bound(best: Way, epsilon: float) -> list[str]:
    """Return the lines that bound what any year reveals; the panel is the one with the least error."""
    assert best.panel is not None
    answers, cycle = best.panel.answers, best.panel.cycle
    question = "one question" if answers == 1 else f"{answers} questions"
    return [
        f"# In each {cycle} a device answers {question} about one of the metrics below, in a period of its own.",
        "# So each period asks other devices, and a further metric takes its share of them.",
        f'panel = {{cycle = "{cycle}", answers = {answers}}}',
        "# What any 366 days reveal of a person, whatever she holds and however it changes: at most this epsilon.",
        f"# {_guess(epsilon)}.",
        f'budget = {{epsilon = {epsilon!r}, per = "year"}}',
        "",
    ]


def _oracle(name: str, size: int | None, devices: int, best: Way, period: str) -> list[str]:
    """Return the lines on how an answer is randomized: with the least error at its epsilon."""
    error, lines = best.error, ["# How an answer is randomized: with the least error at its epsilon.", best.toml()]
    if size is None:
        permanent = max(best.epsilon, sufficient_permanent(best.epsilon))
        plan = plan_from_needs(best.epsilon, permanent, max(1, round(best.reports)), CANDIDATES, hash_key=name)
        error = math.hypot(plan.error_at(SHARE), math.sqrt(SHARE * (1 - SHARE) / plan.num_reports))
        lines = [
            "# How an answer is randomized (RAPPOR): a text sets one of the bits, and every bit gets noise; with the",
            f"# least error at its epsilon, where {CANDIDATES:,} texts are looked for.",
            plan.toml(),
        ]
    return [
        *lines,
        f"# A result is of one {period} (UTC). Of {devices:,} devices about {best.reports:,.0f} answer in each:",
        f"# a share of {percentage(SHARE)} has a standard error of {percent(error)}. A second metric takes half.",
        f'period = "{period}"',
    ]


def _guess(epsilon: float) -> str:
    return f"It can change anyone's guess between two answers by a factor of at most {factor(epsilon)}"


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
