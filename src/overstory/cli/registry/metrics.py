"""``overstory metrics``: write, check, show and compare the metric registry."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import math
import sys
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from overstory.cli.command import Answer
from overstory.cli.registry.commands import KINDS, QUESTIONS
from overstory.files.io import replacing
from overstory.presentation.document import Block, Heading, KeyValues, Lines, Paragraph
from overstory.presentation.formats import factor, percent, plural, printable
from overstory.presentation.formats import share as percentage
from overstory.presentation.render_text import as_markdown
from overstory.privacy.registry.changes import Harm, compare_registries
from overstory.privacy.registry.cost import HIGH, budget_words, headline, total_costs
from overstory.privacy.registry.page import metric_page, together_blocks
from overstory.privacy.registry.warnings import registry_notes, registry_warnings
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import RegistryError, load_registry, parse_registry
from overstory.protocol.metrics.metric_table import GRACE_DAYS
from overstory.protocol.metrics.period import Period
from overstory.protocol.metrics.registry import registry_folder, registry_text
from overstory.protocol.wire import METRIC_ID, parse_digits

if TYPE_CHECKING:
    from overstory.planning.yearly import Way

WEAKENED: Final = 1


def show(args: argparse.Namespace) -> Answer | int:
    registry = load_registry(args.file)
    names = list(registry) if args.metric is None else [args.metric]
    pages = [metric_page(registry[name], route=registry.oblivious, budget=registry.budget) for name in names]
    totals = total_costs([page.cost for page in pages], registry) if len(pages) > 1 else ()
    words = () if registry.budget is None else tuple(budget_words(registry.budget, registry.values()))
    budget = None if registry.budget is None else registry.budget.to_json()
    about: dict[str, Any] = {"registry": registry.version, "digest": registry.digest.hex(), "budget": budget}
    about |= {} if registry.oblivious is None else {"oblivious": registry.oblivious.to_json()}
    blocks = [block for page in pages for block in page.blocks()] + [*together_blocks(totals, words)]
    if len(pages) > 1:
        year = headline(registry)
        about["headline"], blocks = year.to_json(), [Paragraph(year.sentence), *blocks]
    if args.markdown and not args.json:
        introduction = (
            f"Registry {registry.version}. An epsilon is a privacy loss (smaller is more private), exact and rounded "
            "up. The odds say what it means: how far a report can move them between two values of one device."
        )
        heading = Heading(1, "What is collected, and how privately")
        print(as_markdown([heading, Paragraph(introduction), *blocks]), end="")
        return 0
    about |= {"budget_words": list(words), "totals": [total.to_json() for total in totals]}
    return Answer(about | {"metrics": [page.to_json() for page in pages]}, blocks)


def diff(args: argparse.Namespace) -> Answer:
    earlier, new = [load_registry(file) for file in args.old], load_registry(args.new)
    changes = compare_registries(*earlier, new)
    weaker = list(dict.fromkeys(change.metric for change in changes if change.kind == Harm.WEAKENS))
    larger = any(change.what == "budget" and change.kind == Harm.WEAKENS for change in changes)
    broken = list(dict.fromkeys(change.metric for change in changes if change.kind == Harm.BREAKS))
    outcome = {
        "old": args.old,
        "new": args.new,
        "needs_new_id": [name for name in weaker if name],
        "larger_budget": larger,
        "breaks_counts": broken,
        "changes": [change.to_json() for change in changes],
    }
    lines = [f"{name} needs a new metric id: people agreed to less" for name in weaker if name]
    if larger:
        lines.append("the budget allows more than people agreed to: devices record nothing until people agree again")
    if any(change.what == "any year" for change in changes):
        lines.append("a year tells more than people agreed to: let metrics share a panel, or have smaller epsilons")
    lines += [f"{name}: its stored counts cannot be continued under this id" for name in broken]
    if not weaker and not broken:
        lines.append("no promise is weakened, no stored count is broken" if changes else "nothing changed")
    blocks: list[Block] = []
    for metric, these in groupby(changes, key=attrgetter("metric")):
        details = tuple((str(change.kind), f"{change.what}: {change.detail}") for change in these)
        blocks += [Heading(3, metric or "the registry"), KeyValues(details, "lines")]
    return Answer(outcome, [*blocks, Lines(*lines)], WEAKENED if weaker else 0)


BAD_INPUT: Final = 2
WARNED: Final = 1


def check(args: argparse.Namespace) -> Answer:
    return lint(args.file, strict=args.strict, server=args.server)


def lint(file: str, *, strict: bool = False, server: str | None = None) -> Answer:
    text = registry_text(file)
    try:
        registry = parse_registry(text, registry_folder(file), source=file)
    except RegistryError as error:
        faults, warnings, notes, count = error.faults, [], [], 0
    else:
        faults, count = (), len(registry)
        warnings = registry_warnings(registry, text, dt.datetime.now(dt.UTC).date(), server=server)
        notes = list(registry_notes(registry))
    listed = {"faults": [vars(fault) for fault in faults], "warnings": [vars(fault) for fault in warnings]}
    lines = [
        f"{file}:{fault.line}: {kind}{fault.field}{': ' if fault.field else ''}{fault.message}"
        for kind, listed_faults in (("", faults), ("warning: ", warnings))
        for fault in listed_faults
    ]
    lines += [f"{file}: note: {note}" for note in notes]
    fine = f"{file}: {plural(count, 'metric')}, no fault"
    fine += f", {plural(len(warnings), 'warning')}" if warnings else ""
    lines.append(f"{file}: {plural(len(faults), 'fault')}" if faults else fine)
    status = BAD_INPUT if faults else WARNED if warnings and strict else 0
    return Answer({"file": file, "metrics": count} | listed | {"notes": notes}, [Lines(*lines)], status)


Given = TypeVar("Given")


_QUESTIONS: Final = {question.key: question for question in QUESTIONS}


class Asking:
    """Where answers come from: the options, else a person at a terminal, else the defaults."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._terminal = not args.yes and sys.stdin is not None and sys.stdin.isatty()

    def explain(self, *lines: str) -> None:
        if self._terminal:
            print("\n".join(("", *lines)), file=sys.stderr)

    def ask(self, name: str, read: Callable[[str], Given], default: str | None = None) -> Given:
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


def _read(text: str, read: Callable[[str], Given], flag: str) -> Given:
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


def reader(read: Callable[[str], Given], fits: Callable[[Given], bool], refusal: str) -> Callable[[str], Given]:
    """Read what another reader reads, where it fits; `refusal` has a place for the text."""

    def read_fitting(text: str) -> Given:
        if not fits(answer := read(text)):
            raise ParameterError(refusal.format(text))
        return answer

    return read_fitting


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


MOST_DEVICES: Final = 1 << 40


def a_number_of_devices(text: str) -> int:
    number = parse_digits(text)
    if number is None or not 1 <= number <= MOST_DEVICES:
        raise ParameterError(f"{text!r}: give a whole number from 1 to {MOST_DEVICES:,}")
    return number


EPSILONS: Final = (1.0, 2.0, 4.0, HIGH)
CANDIDATES: Final = 1000  # words that somebody may look for: what the parameters of a metric of words are chosen for


def init(args: argparse.Namespace) -> int:
    """Write a first registry, from answers or options; every key in it has a comment."""
    path = Path(args.file)
    if path.exists():
        raise ParameterError(f"{args.file} exists: give another FILE, or remove it")
    text, name, value = _registry(Asking(args), dt.datetime.now(dt.UTC).date())
    parse_registry(text, source="the answers")
    with replacing(str(path)) as partial:
        Path(partial).write_bytes(text.encode())
    print(f"{args.file} is written; `overstory metrics lint {args.file}` prints:")
    status = lint(args.file).give(args)
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
    kind = asking.ask("kind", reader(str, KINDS.__contains__, f"{{!r}}: give one of {', '.join(KINDS)}"))
    domain, size, example = _DOMAINS[kind](asking)
    epsilon = _epsilon_of_a_year(asking)
    devices = asking.ask("devices", a_number_of_devices)
    period = asking.ask("period", lambda text: str(Period.parse(text)))
    from overstory.planning.yearly import YearPlan  # whose laws the other actions can do without

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
    from overstory.planning.needs import plan_from_needs, sufficient_permanent
    from overstory.planning.yearly import SHARE

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
