"""The commands of a registry, as data: what each is for, and its options. Help loads this module alone."""

from __future__ import annotations

from typing import Final

from overstory.cli.arguments import Command, Needs, Option, Together, flag


class Question(Option):
    """An option that is asked for where it is not given; its words are the prompt."""

    def __init__(
        self,
        name: str,
        words: str,
        metavar: str,
        default: str | None = None,
        note: str = "",
        *,
        is_option: bool = False,
    ) -> None:
        self.is_option = is_option  # else its answer is given by --answer
        super().__init__(name, f"{words}{note}{'' if default is None else f' (default: {default})'}", metavar, str)
        self.words, self.default = words, default  # None: there is none, or it depends on other answers


KINDS: Final = {
    "choice": "one of a few named values, such as light, dark, system",
    "yes-no": "yes or no",
    "number": "a number, counted in ranges",
    "words": "words or names that nobody can list in advance",
}
QUESTIONS: Final = (
    Question(
        "--id", "the metric's id, such as colour-theme", "ID", note=" (a-z, 0-9, '.', '_' and '-')", is_option=True
    ),
    Question("--title", "a title of a few words", "TEXT", note=" (default: from the id)", is_option=True),
    Question("--description", "one sentence for the person: what is collected", "TEXT", is_option=True),
    Question("--owner", "who is responsible, such as a team's name", "TEXT", is_option=True),
    Question("--purpose", "a link (https://...) to why it is collected", "URL", is_option=True),
    Question("--kind", "the kind of value", "KIND", "choice", f": {', '.join(KINDS)}", is_option=True),
    Question("--values", "the values, separated by commas", "A,B,...", note="; of a choice", is_option=True),
    Question("--other", "what any other value counts as", "NAME", "other", "; of a choice"),
    Question("--min", "the smallest number", "X", note="; of a number"),
    Question("--max", "the largest number", "X", note="; of a number"),
    Question("--ranges", "how many ranges it is counted in", "N", "10", "; of a number"),
    Question(
        "--epsilon",
        "how much may be learned about one person in a year",
        "E",
        "4",
        " (epsilon, of all metrics together; smaller is more private)",
        is_option=True,
    ),
    Question("--devices", "how many devices have the program", "N", "100000", is_option=True),
    Question("--period", "the period of one result (hour, day, week)", "PERIOD", "week"),
    Question("--expires", "the day on which the collection ends", "DATE", note=" (default: in a year)"),
    Question("--retention-days", "for how many days single reports are kept", "DAYS", "90"),
    Question("--publish", "what everybody may read of the results: nothing or estimates", "WHAT", "nothing"),
    Question("--opt-out", "one sentence for the public page: how a person stops it", "TEXT", note="; with estimates"),
)
"""In the order of the help; the order of the questions is that of `metrics_init`."""

FILE: Final = Option("file", "the registry", "FILE")
REGISTRY_FILE: Final = "metrics.toml"

METRICS: Final = Command(
    "metrics",
    "overstory metrics init\n"
    "  overstory metrics lint metrics.toml\n"
    "  overstory metrics show metrics.toml search-engine\n"
    "  overstory metrics diff released.toml metrics.toml\n"
    "  overstory metrics plan metrics.toml",
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
            *(question for question in QUESTIONS if question.is_option),
            Option(
                "--answer",
                "the answer to any other question; may be repeated",
                "NAME=TEXT",
                action="append",
                default=[],
            ),
            Option("--group-by", "what devices are grouped by, in clear, such as release", "NAME"),
            Option("--groups", "the groups, each with its public share of all devices", "A=SHARE,..."),
            flag("--yes", "ask nothing; use the defaults"),
            summary="write a first registry, with a comment on every key",
            more="""\
On a terminal, it asks. In a script, give options, or the answers on standard input, one per line. A question without
an answer takes its default. FILE is written after every answer is valid, and never replaced. The other questions:
"""
            + "\n".join(
                f"  {question.key:15} {question.settings['help']}" for question in QUESTIONS if not question.is_option
            ),
            prints_json=False,
            rules=(Together(("--group-by", "--groups")),),
            runs="registry.metrics_init",
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
            Option("--reports", "state epsilon for N reports (default: the window, or 30)", "N", int),
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
        Command(
            "plan",
            "overstory metrics plan metrics.toml",
            FILE,
            Option("--output", "write to OUT instead of FILE", "OUT"),
            summary="derive oracle and parameters from each metric's needs, and write them into the file",
            more="The rest of the file does not change, and the needs stay as a comment.",
            runs="registry.metrics:plan",
        ),
    ),
)

PRIVACY: Final = Command(
    "privacy",
    "overstory privacy search-engine --registry metrics.toml\n"
    "  overstory privacy loloha --param epsilon_permanent=2 --param epsilon_report=1\n"
    "  overstory privacy --params params.csv --reports 20 --values 3",
    Option("oracle", "a metric's id, or an oracle: rappor, loloha, square-wave, ...", "METRIC|ORACLE", nargs="?"),
    Option("--registry", f"the metric's registry (default: {REGISTRY_FILE}, if it exists)"),
    Option("--param"),
    Option("--params"),
    Option("--reports", "also state epsilon for N reports of a device", "N", int),
    Option("--values", "also state epsilon for D distinct values of a device", "D", int),
    Option(
        "--delta",
        "the chance by which an epsilon may be exceeded, where noise is fresh (default: 1e-6) or with --shuffled "
        "(default: 1e-9)",
        type=float,
    ),
    Option("--shuffled", "also state what a report reveals that arrives shuffled among N others'", "N", int),
    Option("--honest", "with --shuffled: the honest share", "SHARE", float, 1.0),
    more="""\
Give a metric of a registry (--registry FILE, or ./metrics.toml if it exists), an oracle with its parameters, or
--params for RAPPOR. A name that is both a metric and an oracle means the oracle, unless --registry is given.
Epsilon is the privacy loss (smaller is more private): exact, and rounded up. The odds say what it means: how far a
report can move the odds between any two values.""",
    runs="registry.privacy",
    writes_tables=True,
    rules=(Needs(("--honest",), ("--shuffled",), "it is about shuffled reports"),),
)

COMMANDS: Final = {"metrics": METRICS, "privacy": PRIVACY}
