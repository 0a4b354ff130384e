"""``overstory metrics init``: a first registry, from answers or options; every key in it has a comment."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from overstory.cli.arguments import add_command
from overstory.cli.registry.lint import lint
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError

MORE = """\
Asks on a terminal. In a script, give options, or the answers on standard input, one a line; what has no answer takes
its default. Nothing is written until every answer is right, and FILE is replaced only with --force."""

EXAMPLE = """\
overstory metrics init
  overstory metrics init --id theme --kind choice --values light,dark,system --description 'The theme in use.' \\
    --owner 'Design team' --purpose https://example.org/issues/7 --yes"""

KINDS: Final = {
    "choice": "one of a few named values, such as light, dark, system",
    "yes-no": "yes or no",
    "number": "a number, counted in ranges",
    "words": "words or names that nobody can list in advance",
}
EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
LARGEST_EPSILON: Final = 20.0

Answer = TypeVar("Answer")


def add_parser(actions: Any) -> None:
    """Add the action."""
    init = add_command(
        actions, "init", "write a first registry: asks, explains every key, checks it", more=MORE, example=EXAMPLE
    )
    init.add_argument("file", metavar="FILE", nargs="?", default="metrics.toml", help="default: metrics.toml")
    init.add_argument("--id", metavar="ID", help="the metric's id: a-z, 0-9, '.', '_' and '-'")
    init.add_argument("--title", metavar="TEXT", help="a few words that name it (default: from the id)")
    init.add_argument("--description", metavar="TEXT", help="what is collected, for the person it is collected from")
    init.add_argument("--owner", metavar="TEXT", help="who is responsible for it")
    init.add_argument("--purpose", metavar="URL", help="a link to why it is collected")
    init.add_argument("--kind", metavar="KIND", help=f"{', '.join(KINDS)} (default: choice)")
    init.add_argument("--values", metavar="A,B,...", help="of a choice: the values")
    init.add_argument("--other", metavar="NAME", help="of a choice: what every other value counts as (default: other)")
    init.add_argument("--min", metavar="X", help="of a number: the smallest")
    init.add_argument("--max", metavar="X", help="of a number: the largest")
    init.add_argument("--ranges", metavar="N", help="of a number: how many ranges it is counted in (default: 10)")
    init.add_argument("--period", metavar="PERIOD", help="a device reports once in each (default: week)")
    init.add_argument("--epsilon", metavar="E", help="privacy loss of one report; smaller is more private (default: 1)")
    init.add_argument("--expires", metavar="DATE", help="when the collection ends (default: in a year)")
    init.add_argument("--retention-days", metavar="DAYS", help="how long reports are kept (default: 90)")
    init.add_argument("--yes", action="store_true", help="ask nothing: what no option says takes its default")
    init.add_argument("--force", action="store_true", help="replace FILE if it exists")


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    from overstory.files.io import replacing
    from overstory.protocol.metrics import parse_registry

    path = Path(args.file)
    if path.exists() and not args.force:
        raise ParameterError(f"{args.file} exists: give another FILE, or --force to replace it")
    text, name, value = _registry(_Asking(args), dt.datetime.now(dt.UTC).date())
    parse_registry(text, source="the answers")
    with replacing(str(path)) as partial:
        Path(partial).write_bytes(text.encode())
    print(f"{args.file} is written; what `overstory metrics lint {args.file}` says of it:")
    status = lint(args.file)
    words = 'kind = "strings"' in text
    print("\n".join(_next_steps(args.file, name, value, " --candidates words.txt" if words else "")))
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


class _Asking:
    """Where answers come from: an option, the person or the script at standard input, the default."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args, self._ended = args, bool(args.yes)
        self._terminal = not self._ended and sys.stdin is not None and sys.stdin.isatty()

    def explain(self, *lines: str) -> None:
        """Print lines to whoever is asked, if anyone is."""
        if self._terminal:
            print("\n".join(("", *lines)), file=sys.stderr)

    def given(self, option: str) -> bool:
        """Whether an option was given."""
        return getattr(self._args, option) is not None

    def ask(self, option: str, words: str, read: Callable[[str], Answer], default: str | None = None) -> Answer:
        """Return the answer to one question, read; on a terminal, ask again until it is right."""
        flag = "--" + option.replace("_", "-")
        if self.given(option):
            return self._read(getattr(self._args, option), read, flag)
        while True:
            text = self._line(f"{words}{'' if default is None else f' [{default}]'}: ") or default
            if text is None and (self._ended or not self._terminal):
                raise ParameterError(f"{flag} is missing: give {words}")
            try:
                return self._read(text or "", read, flag)
            except ParameterError as error:
                if self._ended or not self._terminal:
                    raise
                print(f"  {printable(str(error)).removeprefix(f'{flag}: ')}", file=sys.stderr)

    @staticmethod
    def _read(text: str, read: Callable[[str], Answer], flag: str) -> Answer:
        try:
            return read(text)
        except (ValueError, ParameterError) as error:
            raise ParameterError(f"{flag}: {error}") from None

    def _line(self, prompt: str) -> str:
        if self._ended or sys.stdin is None:
            return ""
        if self._terminal:
            print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        self._ended = not line
        return line.strip()


def _registry(asking: _Asking, today: dt.date) -> tuple[str, str, str]:
    """Return the registry's text, the metric's id, and a value that a program may record."""
    asking.explain(
        "A registry lists what is collected. This makes one with a single metric; Enter takes [the default]."
    )
    name = asking.ask("id", "the metric's id, such as colour-theme", _id)
    title = asking.ask("title", "a title of a few words", _text, name.replace("-", " ").replace("_", " ").capitalize())
    description = asking.ask("description", "one sentence for the person: what is collected", _text)
    owner = asking.ask("owner", "who is responsible, such as a team's name", _text)
    purpose = asking.ask("purpose", "a link (https://...) to why it is collected", _link)
    asking.explain("What values does it have?", *(f"  {kind:8}{words}" for kind, words in KINDS.items()))
    kind = asking.ask("kind", "the kind of value", _kind, "choice")
    domain, size, values, example = _DOMAINS[kind](asking)
    asking.explain(
        "How private is one report (epsilon; smaller is more private, and takes more people)?",
        *(f"  {epsilon:<4g}{_guess(epsilon)}" for epsilon in EPSILONS),
    )
    epsilon = asking.ask("epsilon", "epsilon of one report", _epsilon, "1")
    period = asking.ask("period", "how often a device reports (hour, day, week)", _period, "week")
    expires = asking.ask("expires", "the day on which the collection ends", _later(today), str(_in_a_year(today)))
    retention = asking.ask("retention_days", "for how many days single reports are kept", _whole(0, 36_500), "90")
    oracle = _oracle(size, epsilon)
    lines = [
        "# What is collected, why, and how privately. https://toml.io; docs/reference/metrics.md has every key.",
        "# The client records nothing else, the collector takes nothing else, and the public may read it.",
        "",
        "# The version of this file: give another whenever you change something. A person's consent names it.",
        f"registry = {_toml(today.isoformat())}",
        "",
        "# The id, by which a program records and an analyst decodes. An id is never used again for something else.",
        f"[metrics.{name if '.' not in name else _toml(name)}]",
        "# Shown to the person who is asked: a name, and what is collected.",
        f"title = {_toml(title)}",
        f"description = {_toml(description)}",
        "# Who is responsible, and a public link to the reason.",
        f"owner = {_toml(owner)}",
        f"purpose = {_toml(purpose)}",
        *domain,
        *oracle,
        "# A device reports at most once in each period (UTC).",
        f'period = "{period}"',
        *values,
        "# For how many days the collector keeps single randomized reports; the counts they were added to stay.",
        f"retention_days = {retention}",
        "# For how many days after its period a report is still taken: devices that were switched off need it.",
        "grace_days = 30",
        "# The first day on which nothing is recorded any more. Every collection has an end; going on is a decision.",
        f"expires = {expires.isoformat()}",
    ]
    return "\n".join(lines) + "\n", name, example


Domain = tuple[list[str], int | None, list[str], str]
"""Lines on the values, how many there are (None: nobody knows), lines on the cap, and an example in Python."""


def _choice(asking: _Asking) -> Domain:
    names = asking.ask("values", "the values, separated by commas", _names)
    other = asking.ask("other", "what any other value counts as", _not_among(names), _free("other", names))
    lines = [
        "# The values. Whatever is not listed counts as `other`.",
        f'domain = {{kind = "categories", names = [{", ".join(map(_toml, names))}], other = {_toml(other)}}}',
    ]
    return lines, len(names) + 1, _cap(2, "first"), _toml(names[0])


def _yes_no(_: _Asking) -> Domain:
    lines = ['# The values: a program records "yes" or "no".', 'domain = {kind = "categories", names = ["no", "yes"]}']
    return lines, 2, [], '"yes"'


def _number(asking: _Asking) -> Domain:
    low = asking.ask("min", "the smallest number", _decimal)
    high = asking.ask("max", "the largest number", _above(low))
    count = asking.ask("ranges", "how many ranges it is counted in", _whole(2, 100_000), "10")
    if low.is_integer() and high.is_integer() and high - low < count:
        bounds, size = f'kind = "integers", min = {low:.0f}, max = {high:.0f}', int(high - low) + 1
        said = "# Whole numbers from min to max."
    else:
        bounds, size = f'kind = "bins", min = {low!r}, max = {high!r}, count = {count}', count
        said = f"# Numbers from min to max, in {count} ranges of one width."
    lines = [
        f'{said} outside = "clamp" counts a number beyond them as min or max.',
        f'domain = {{{bounds}, outside = "clamp"}}',
    ]
    return lines, size, _cap(3, "nearest") if size > 3 else [], f"{low:g}"


def _words(_: _Asking) -> Domain:
    lines = [
        '# Any text. To look for a list of known words later, name a file of them: candidates = "words.txt".',
        'domain = {kind = "strings"}',
    ]
    return lines, None, _cap(4, "first"), '"a word"'


_DOMAINS: Final[dict[str, Callable[[_Asking], Domain]]] = {
    "choice": _choice,
    "yes-no": _yes_no,
    "number": _number,
    "words": _words,
}


def _cap(most: int, over_cap: str) -> list[str]:
    said = {"first": "the first response again", "nearest": "the response of the nearest value that was reported"}
    return [
        "# How many different values one device ever reports: each has a privacy loss of its own, and they add up.",
        f"# Whatever comes later is reported as {said[over_cap]}.",
        f"max_values = {most}",
        f'over_cap = "{over_cap}"',
    ]


def _oracle(size: int | None, epsilon: float) -> list[str]:
    permanent = 2 * epsilon
    lines = [
        "# How a value is randomized: a response drawn once and kept on the device (epsilon_permanent bounds what all",
        "# reports of one value reveal), and drawn from again for each report (epsilon_report bounds a single one).",
        f"# {_guess(epsilon)}.",
        "# `overstory metrics plan` finds other parameters for needs that you state.",
    ]
    if size is None:
        f, p = _rappor(epsilon, permanent)
        given = f"num_bits = 128, num_hashes = 1, num_cohorts = 16, f = {f!r}, p = {p!r}, q = {round(1 - p, 6)!r}"
        lines[0] = "# How a text is randomized (RAPPOR): it sets one of 128 bits, and every bit is noisy, once for ever"
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
    from overstory.protocol.mechanisms.registry import mechanism

    f = math.ceil(2e6 / (1 + math.exp(permanent / 2))) / 1e6
    low, high = 0, 499_999  # millionths: at the one epsilon may be too large, at the other it is next to nothing
    while high - low > 1:
        p = (low + high) // 2 / 1e6
        built = mechanism("rappor", num_bits=128, num_hashes=1, num_cohorts=16, f=f, p=p, q=round(1 - p, 6))
        low, high = (low, round(p * 1e6)) if built.epsilon_report <= epsilon else (round(p * 1e6), high)
    return f, high / 1e6


def _guess(epsilon: float) -> str:
    from overstory.privacy.text import factor

    return f"One report can change anyone's guess between two values by a factor of at most {factor(epsilon)}"


def _id(text: str) -> str:
    from overstory.protocol.wire.upload import METRIC_ID

    if METRIC_ID.fullmatch(text) is None:
        raise ParameterError(f"{text!r}: give up to 64 of a-z, 0-9, '.', '_' and '-', a-z or 0-9 first")
    return text


def _text(text: str) -> str:
    if not text.strip():
        raise ParameterError("give a text")
    return " ".join(text.split())


def _link(text: str) -> str:
    if not text.startswith(("https://", "http://")):
        raise ParameterError(f"{text!r} is not a link: start with https://")
    return text


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ParameterError(f"{text!r}: give one of {', '.join(KINDS)}")
    return text


def _names(text: str) -> list[str]:
    names = [_text(name) for name in text.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ParameterError("give at least two different values, separated by commas")
    return names


def _not_among(names: list[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if _text(text) in names:
            raise ParameterError(f"{text!r} is one of the values already")
        return _text(text)

    return read


def _free(wanted: str, names: list[str]) -> str:
    return next(name for name in (wanted, *(f"{wanted} ({n})" for n in range(1, len(names) + 1))) if name not in names)


def _decimal(text: str) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(text)):
            return number
    raise ParameterError(f"{text!r} is not a number")


def _above(low: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        if (number := _decimal(text)) <= low:
            raise ParameterError(f"{text}: give a number above {low:g}")
        return number

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise ParameterError(f"{text!r}: give a whole number from {low} to {high:,}")
        return int(text)

    return read


def _epsilon(text: str) -> float:
    if not 0.01 <= (number := _decimal(text)) <= LARGEST_EPSILON:
        raise ParameterError(f"{text}: give a number from 0.01 to {LARGEST_EPSILON:g}; above that nothing is private")
    return number


def _period(text: str) -> str:
    from overstory.protocol.metrics.metric import Period

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
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
