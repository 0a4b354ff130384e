"""The commands of a registry, as data: what each is for, and its options. Help loads this module alone."""

from __future__ import annotations

from typing import Final

from overstory.cli.command import TABLES, Command, Needs, Option, flag


class Question(Option):
    """An option that is asked for on a terminal where it is not given; its words are the prompt."""

    def __init__(self, name: str, words: str, metavar: str, default: str | None = None, note: str = "") -> None:
        super().__init__(name, f"{words}{note}{'' if default is None else f' (default: {default})'}", metavar, str)
        self.words, self.default = words, default  # None: there is none, or it depends on other answers


KINDS: Final = {
    "choice": "one of a few named values, such as light, dark, system",
    "yes-no": "yes or no",
    "number": "a number, counted in ranges",
    "words": "words or names that nobody can list in advance",
}
QUESTIONS: Final = (
    Question("--id", "the metric's id, such as colour-theme", "ID", note=" (a-z, 0-9, '.', '_' and '-')"),
    Question("--title", "a title of a few words", "TEXT", note=" (default: from the id)"),
    Question("--description", "one sentence for the person: what is collected", "TEXT"),
    Question("--owner", "who is responsible, such as a team's name", "TEXT"),
    Question("--purpose", "a link (https://...) to why it is collected", "URL"),
    Question("--kind", "the kind of value", "KIND", "choice", f": {', '.join(KINDS)}"),
    Question("--values", "the values of a choice, separated by commas, or the ends of a number, as 0..60", "A,B,..."),
    Question(
        "--epsilon",
        "how much may be learned about one person in a year",
        "E",
        "4",
        " (epsilon, of all metrics together; smaller is more private)",
    ),
    Question("--devices", "how many devices have the program", "N", "100000"),
    Question("--period", "the period of one result (hour, day, week)", "PERIOD", "week"),
)

FILE: Final = Option("file", "the registry", "FILE")
REGISTRY_FILE: Final = "metrics.toml"

METRICS: Final = Command(
    "metrics",
    "overstory metrics init\n"
    "  overstory metrics lint metrics.toml\n"
    "  overstory metrics show metrics.toml search-engine\n"
    "  overstory metrics diff released.toml metrics.toml",
    more="""\
A registry (metrics.toml) lists every metric: what is collected, why, how privately, how often and for how long.
The client is built with it, the collector refuses everything else, and the public can read it. See
docs/reference/metrics.md.""",
    actions=(
        Command(
            "init",
            "overstory metrics init\n"
            "  overstory metrics init --id theme --kind choice --values light,dark,system --description 'The theme in "
            "use.' \\\n"
            "    --owner 'Design team' --purpose https://example.org/issues/7 --yes",
            Option("file", f"default: {REGISTRY_FILE}", "FILE", nargs="?", default=REGISTRY_FILE),
            *QUESTIONS,
            flag("--yes", "ask nothing; use the defaults"),
            summary="write a first registry, with a comment on every key",
            more="""\
On a terminal, it asks for what no option gives; elsewhere that takes its default. FILE has every other key too (when
the collection ends, how long reports are kept, what is published), with a comment: change them there. FILE is never
replaced.""",
            prints_json=False,
            runs="registry.metrics:init",
        ),
        Command(
            "lint",
            "overstory metrics lint metrics.toml --strict",
            FILE,
            flag("--strict", "exit with status 1 if there is a warning"),
            Option("--server", "address of the collector, to compare with that of the relay", "URL"),
            summary="list every fault of a registry, each with its line",
            more="Exit status: 2 for a fault, 1 for a warning (such as an expiry in the past) with --strict, otherwise "
            "0.",
            runs="registry.metrics:check",
        ),
        Command(
            "show",
            "overstory metrics show metrics.toml --markdown > privacy.md",
            FILE,
            Option("metric", "a metric's id", "METRIC", nargs="?"),
            flag("--markdown", "print Markdown"),
            summary="print a metric's public page: what is collected, why, and what it can reveal",
            more="Without METRIC, print the pages of all metrics.",
            runs="registry.metrics:show",
        ),
        Command(
            "diff",
            "overstory metrics diff released.toml metrics.toml",
            Option("old", "the registries that people agreed to, oldest first", "OLD", nargs="+"),
            Option("new", "the registry that replaces the last of them", "NEW"),
            summary="list the promises that a change weakens, and the stored counts that it breaks",
            more="Give every registry that was released, so that what devices reported under each of them counts.\n\n"
            "Exit status: 1 if a metric's privacy is weakened under the same id (give it a new id), 0 otherwise.",
            runs="registry.metrics:diff",
        ),
    ),
)

PRIVACY: Final = Command(
    "privacy",
    "overstory privacy search-engine --registry metrics.toml\n"
    "  overstory privacy loloha --param epsilon_permanent=2 --param epsilon_report=1\n"
    "  overstory privacy --params params.csv --reports 20",
    Option("oracle", "a metric's id, or an oracle: rappor, loloha, square-wave, ...", "METRIC|ORACLE", nargs="?"),
    Option("--registry", "the metric's registry"),
    Option("--param"),
    Option("--params"),
    Option("--reports", "also state epsilon for N reports of a device", "N", int),
    Option(
        "--delta",
        "the chance by which an epsilon may be exceeded, where noise is fresh (default: 1e-6) or with --shuffled "
        "(default: 1e-9)",
        type=float,
    ),
    Option("--shuffled", "also state what a report reveals that arrives shuffled among N others'", "N", int),
    Option("--honest", "with --shuffled: the honest share", "SHARE", float, 1.0),
    TABLES,
    more="""\
Give a metric of a registry (--registry FILE), an oracle with its parameters, or --params for RAPPOR. Epsilon is the
privacy loss (smaller is more private): exact, and rounded up. The odds say what it means: how far a report can move the
odds between any two values.""",
    runs="registry.privacy",
    writes_tables=True,
    rules=(Needs(("--honest",), ("--shuffled",), "it is about shuffled reports"),),
)

COMMANDS: Final = {"metrics": METRICS, "privacy": PRIVACY}
