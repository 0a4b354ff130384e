"""Commands that plan, try, read and audit a collection, as data: what each is for, and its options."""

from __future__ import annotations

from typing import Final

from overstory.cli.command import (
    AT_LEAST_ONE,
    CSV,
    TABLES,
    Command,
    Form,
    Forms,
    Group,
    Idle,
    Needs,
    OneOf,
    Option,
    Together,
    flag,
)

AUDIT: Final = Command(
    "audit",
    "overstory audit --params params.csv -- overstory encode --params params.csv --values - -o -\n"
    "  overstory audit --oracle oue --param domain_size=8 --param epsilon=1\n"
    "  overstory audit --registry metrics.toml --metric colour --own-cohorts --restart -- ./client --audit",
    Group(
        "what is declared (one of)",
        Option("--params"),
        Option("--oracle", "an oracle: rappor, oue, olh, ..., or FILE.py:NAME of your own", "NAME"),
        Option("--param"),
        Option("--registry", "a metric registry; with --metric"),
        Option("--metric", "the metric of the registry", "ID"),
    ),
    Group(
        "how it is audited",
        Option("--reports", "fresh devices (default: 100,000)", "N", int, 100_000),
        Option(
            "--alpha",
            "chance that a right client fails a check, and, apart from that, that its bound is too high",
            type=float,
            default=0.001,
        ),
        flag("--restart", "COMMAND remembers its clients: run it again, and compare"),
        flag("--own-cohorts", "clients choose their cohorts: the column is empty"),
    ),
    Option(
        "program", "the client, after -- (default: the library's own randomizer, in this process)", "COMMAND", nargs="*"
    ),
    more="""\
COMMAND reads lines of client,cohort,value on its standard input and writes a report for each: a header with client,
cohort and irr, then one line a report. Bits are text, most significant first; symbols are numbers. It runs several
times: for fresh devices, three times at once, and for devices that report two values repeatedly. Where {metric} stands
in COMMAND, the metric's id replaces it, and the devices are asked once more as the metric `second`.

Exit status: 0 no fault was found, 1 the client violates or deviates from what it declares, 2 the input or COMMAND
failed. A right client is accused with probability at most 2 alpha: alpha for all checks together, and alpha for the
bound of epsilon. No audit proves an epsilon: it bounds it from below.""",
    runs="analysis.audit",
    rules=(
        OneOf(("--params", "--oracle", "--registry"), why="what the client declares, in one form", must=True),
        Needs(("--param",), ("--oracle",)),
        Together(("--registry", "--metric")),
    ),
)

CHECK_ORACLE: Final = Command(
    "check-oracle",
    "overstory check-oracle mine.py",
    Option("file", "a Python file that registers oracles by @overstory.oracle_kind; it is run", "FILE"),
    more="""\
Small oracles are made of the file's functions (4 values, unless the oracle has a number of its own; epsilon .5 and 2)
and held against the laws that every oracle of the library obeys: the probabilities of its reports, its epsilon, p* and
q*, the estimate, the wire, its seeds, and the reports that it draws. A right oracle fails in one of a million runs.

Exit status: 0 all laws hold, 1 one is broken, 2 the file is at fault. No device and no collector runs such a file.""",
    runs="analysis.audit:check_file",
)

PLAN: Final = Command(
    "plan",
    "overstory plan --params params.csv --reports 1000000 --candidates 200 --share 0.01\n"
    "  overstory plan --epsilon 1.0743 --epsilon-permanent 4.3945 --reports 1000000 --candidates 200 -o params.csv\n"
    "  overstory plan --domain-size 100 --epsilon 1 --reports 1000000\n"
    "  overstory plan --domain-size 20 --yearly 4 --metrics 5 --reports 1000000\n"
    "  overstory plan --registry metrics.toml",
    Group("for given parameters", Option("--params")),
    Group(
        "for given needs",
        Option("--epsilon"),
        Option("--epsilon-permanent"),
    ),
    Group(
        "for a known domain",
        Option("--domain-size", "number of values; with --epsilon", "D", int),
    ),
    Group(
        "for a bound on any year",
        Option(
            "--yearly", "epsilon of everything in any year, whatever a device holds; with --domain-size", "E", float
        ),
        Option("--metrics", "metrics of the application, each with --domain-size values", "M", int, 1),
        Option("--period", "the period of one result, such as day or week", "PERIOD", default="week"),
    ),
    Group("for the needs in a registry", Option("--registry", "derive oracle and parameters from each metric's needs")),
    Option("--reports", "number of devices; each reports once (needed, but for a registry)", "N", int),
    Option("--candidates", "number of strings to look for", "M", int),
    Option("--share", "also plan for a string with this share of the reports, such as 0.01", "S", float),
    Option("--alpha", "chance of any false detection"),
    Option(
        "--output",
        "write the table: .md, .tex (LaTeX), .csv; with --epsilon-permanent, .csv is params.csv; with --registry, the "
        "registry (default: into the file itself)",
        "FILE",
    ),
    more="""\
Give either --params, or both --epsilon and --epsilon-permanent. With epsilons, it searches the parameters with the
smallest standard error for rare strings; -o writes them. The plan's epsilons never exceed those that you give. For
values of a known domain give --domain-size and --epsilon: it recommends an oracle (`overstory compare` shows all).
With --domain-size and --yearly it compares the ways to keep within that epsilon in any year, such as panels. With
--registry it writes oracle and parameters into the file; the rest does not change, and the needs stay as a comment.""",
    runs="analysis.plan",
    writes_tables=True,
    rules=(
        Forms(
            Form("for a registry", ("--registry",)),
            Form(
                "for a bound on any year",
                ("--yearly",),
                ("--reports", "--domain-size"),
                ("--metrics", "--period", "--share", "--alpha"),
            ),
            Form(
                "for a known domain",
                ("--domain-size",),
                ("--reports", "--epsilon"),
                ("--epsilon-permanent", "--share", "--alpha"),
            ),
            Form(
                "for given parameters",
                ("--params",),
                ("--reports", "--candidates"),
                ("--candidates", "--share", "--alpha"),
            ),
            Form(
                "for given needs",
                needs=("--reports", "--epsilon", "--epsilon-permanent", "--candidates"),
                takes=(
                    "--reports",
                    "--alpha",
                    "--epsilon",
                    "--epsilon-permanent",
                    "--candidates",
                    "--share",
                ),
            ),
            why="plan for --params, --epsilon and --epsilon-permanent, --domain-size and an epsilon, or a --registry",
        ),
    ),
)

COLLECT: Final = Command(
    "collect",
    "overstory collect survey.csv --column state --epsilon 2\n"
    "  overstory collect survey.csv --column state --column party --epsilon 2\n"
    '  overstory collect survey.csv --column languages --separator ";" --epsilon 2\n'
    "  overstory collect homes.parquet --column kwh --numeric distribution --range 0 5\n"
    "  overstory collect homes.parquet --column kwh --bins 0 5 50 --epsilon 1 --epsilon-permanent 3 -o homes",
    Option("file", "CSV (gz too) or Parquet; - for standard input", "FILE"),
    Option(
        "--column", "the column to collect; give two to see what they say of each other", required=True, action="append"
    ),
    Option("--separator", "count the items of a row that has several, such as ';'", "S"),
    Option(
        "--most",
        "with --separator: as many items of one row count (default: as many as make the least error)",
        "M",
        int,
    ),
    Option(
        "--numeric",
        "collect numbers as they are, and learn their mean (default) or their distribution",
        nargs="?",
        const="mean",
        choices=("mean", "distribution"),
    ),
    Option(
        "--range",
        "with --numeric: the least and the greatest number; others count as the nearer (default: chosen)",
        ("A", "B"),
        float,
        nargs=2,
    ),
    CSV,
    Option("--oracle", "what the devices randomize with (default auto: the best)", "NAME", default="auto"),
    Option("--epsilon", "privacy loss of one report (default 1)"),
    Option("--epsilon-permanent"),
    Option(
        "--bins",
        "count numbers in COUNT equal bins from MIN to MAX (default: chosen)",
        type=float,
        nargs=3,
        metavar=("MIN", "MAX", "COUNT"),
    ),
    Option("--candidates", "values to look for, one per line; all others count as one value", "FILE"),
    Option("--people", "draw N people from the rows, instead of one person per row", "N", int),
    Option("--seed", metavar="S", default=0),
    Option(
        "--output",
        "folder for the results (default out/collect), or a file: .csv, .md, .tex; -: learned.csv, to standard output",
        "DIR",
        default="out/collect",
    ),
    Option("--spreadsheet"),
    more="""\
Each row of the column is one device, which randomizes its value and sends it. The reports are counted and decoded, and
you see the estimates next to the truth, and the privacy loss. You also see which oracle is best for such a column, how
many people rare values need, and which shares these people show. The file is read in a stream, and nothing of it leaves
this machine.

A column of numbers is counted in bins, given or chosen. Rows without a value are counted and send nothing. With
--numeric its numbers are collected as they are: you see the estimated mean, quantiles and shares next to the true ones.

Of two columns each row reports its pair of values: you see the shares of the second in each value of the first, whether
the two depend on each other, and how strongly.

Of a column with several answers in a row, --separator counts each of them, and how many a row has.""",
    runs="analysis.collect",
    rules=(
        OneOf(("--separator", "--numeric", "--bins"), why="each reads the column in its own way"),
        Needs(("--most",), ("--separator",), "it is how many items of a row count"),
        Needs(("--range",), ("--numeric",)),
        Needs(("--epsilon-permanent",), ("--epsilon",), "it says what one report may reveal"),
        Idle(
            ("--candidates", "--people"),
            ("--separator", "--numeric"),
            "they are for one value in a row",
        ),
        Idle(("--epsilon-permanent",), ("--numeric",), "all reports of a number are the same"),
    ),
)

COMPARE: Final = Command(
    "compare",
    "overstory compare --domain-size 100 --epsilon 1 --reports 1000000\n"
    "  overstory compare survey.csv --column state --epsilon 2\n"
    "  overstory compare mine.py --domain-size 7 --epsilon 1 --reports 1000000",
    Option(
        "file",
        "true values to simulate: CSV (also .gz) or Parquet; -: standard input. A Python file (.py): it is "
        "run, and the oracles that it registers take part",
        "FILE",
        nargs="*",
    ),
    Option("--epsilon", required=True),
    Option("--epsilon-permanent"),
    Option("--domain-size", "number of values (default: those in FILE)", "D", int),
    Option("--reports", "how many devices report, once each (default: the rows of FILE)", "N", int),
    Option("--column", "the column of FILE with the values"),
    CSV,
    Option(
        "--measure",
        "simulate R collections of each oracle (with FILE: 4 to 20, by the number of values)",
        "R",
        int,
        fits=AT_LEAST_ONE,
    ),
    Option("--seed", "seed of the simulation (default: 0)", "S", int, 0),
    TABLES,
    more="""\
Ranks the registered oracles by their exact average error over the domain, which no population changes. With
--epsilon-permanent: the oracles that memoize and send fresh reports; without: those that send one report. Among the
oracles within 1% of the least variance, it recommends the one of which two reports share the fewest bits, equal or
alike; then the one with the smallest reports. An oracle that takes more than ten core-seconds, and more than ten times
those of another of them, is left out. With FILE, or --measure, collections are simulated and the table has the measured
error next to the exact one, with its own standard error: the trial does not separate oracles whose measured errors
overlap.""",
    runs="analysis.compare",
    writes_tables=True,
)

_OF_A_METRIC: Final = ("--registry", "--metric", "--candidates", "--steps")
_OF_PERIODS: Final = (
    *("--from", "--to", "--group", "--by-group", "--aggregate", "--pool", "--compare"),
    *("--range", "--candidates-out"),
)


ENGINE: Final = Option(
    "--engine",
    "what counts Parquet: local[:THREADS], dask[:SCHEDULER] or spark[:MASTER] (default: local)",
    "ENGINE",
)

DECODE: Final = Command(
    "decode",
    "overstory decode --params params.csv --counts counts.csv --map map.csv -o results\n"
    "  overstory decode exported/metric=colour --registry metrics.toml --aggregate per-period\n"
    "  overstory decode --store reports.db --registry metrics.toml --metric colour --from 2026-11-01",
    Option("inputs", "folders that `overstory export` wrote, or their addresses", "INPUT", nargs="*", default=[]),
    Group(
        "from files",
        Option("--params"),
        Option("--counts", "counts, from `overstory sum`", "FILE"),
        Option("--map", "candidate map, from `overstory map`", "FILE"),
    ),
    Group(
        "from a store, a collector, or exported folders",
        Option(
            "--store",
            "a file, postgresql://..., or a collector's address, https://..., which needs an admin token in "
            "OVERSTORY_ADMIN_TOKEN",
            "URL",
        ),
        Option("--metric", "the metric's id (not needed where folders hold one)", "ID"),
        Option("--registry", "the metric registry (not needed with a collector's address)"),
        Option("--from"),
        Option("--to"),
        Option("--group"),
        flag("--by-group", "estimate each group separately"),
        Option(
            "--aggregate",
            "one estimate of the range (total), of each period, or of each period together with all earlier ones",
            choices=("total", "per-period", "cumulative"),
            default="total",
        ),
        Option(
            "--pool",
            "estimate each period together with the N - 1 before it",
            "N",
            int,
            fits=(lambda number: number > 1, "give a whole number from 2"),
        ),
        Option(
            "--compare",
            "two ranges of periods, such as 2026-W45..2026-W47 2026-W41..2026-W44, or two groups: the shares of the "
            "first less those of the second",
            "A..B",
            nargs=2,
        ),
        Option("--candidates", "strings to look for, instead of the registry's list", "FILE"),
        Option(
            "--candidates-out",
            "of a search: add the detected values to this file of candidates, one per line; values that it has stay",
            "FILE",
        ),
        Option("--range", "of a metric of ranges: also the share from A to B, both included", "A:B", action="append"),
        Option("--steps", "post-processing steps, in order: norm-sub, base-cut, ...", "NAMES"),
        ENGINE,
    ),
    Option(
        "--method",
        "least squares, or the RAPPOR paper's Lasso",
        choices=("gls", "lasso"),
        default="gls",
    ),
    Option(
        "--correction",
        "what --alpha bounds: fdr, the share of false detections; bonferroni, the chance of any",
        choices=("fdr", "bonferroni"),
        default="fdr",
    ),
    Option("--alpha"),
    flag("--complete", "there are no other values: the candidates' counts add up to all reports"),
    Option(
        "--reports-per-device",
        "reports of one device (if uneven: sum of squares over sum; default: 1 for files, else the number of periods "
        "with reports)",
        "R",
        float,
    ),
    Option(
        "--interval",
        "intervals for these reports (noise alone), or for all devices like these (sampling of people too) (default: "
        "reports; population where periods are compared, and of a metric with a panel)",
        choices=("reports", "population"),
    ),
    flag("--all", "also show what was not detected, or did not change (CSV files always have it)"),
    Option(
        "--output",
        "folder for the results, required for files; -: the CSV alone, to standard output; or a file: .csv, .md, .tex",
        "DIR",
    ),
    Option(
        "--plot",
        "draw a picture into this file, an .svg",
        "FILE",
        fits=(lambda name: name.endswith(".svg"), "pictures are SVG: give a name that ends in .svg"),
    ),
    Option("--spreadsheet"),
    more="""\
From files: writes results.csv (every candidate, most frequent first) and metrics.json into DIR, and prints the
detected candidates. The map is not checked: make it with the hash family and key of the devices.

From a store, or from a collector by its address: estimates a metric of the registry over a range of periods: in total,
per period, with the periods before, or cumulative (over all reports so far); or compares two ranges or groups. A device
reports once a period and its reports share permanent responses. Standard errors assume that every device reported in
every period (of a panel: as often as it asks one device), unless --reports-per-device is given. From folders of
`overstory export`, with --registry: the same, by counts of an engine. A metric of unknown values is searched;
`overstory discover` tries that on a column.""",
    runs="analysis.decode",
    rules=(
        Forms(
            Form(
                "on exported folders",
                ("INPUT",),
                needs=("--registry",),
                takes=(*_OF_A_METRIC, *_OF_PERIODS, "--engine"),
            ),
            Form("with --store", ("--store",), ("--metric",), (*_OF_A_METRIC, *_OF_PERIODS)),
            Form(
                "without INPUT or --store",
                needs=("--params", "--counts", "--map", "--output"),
                takes=("--params", "--counts", "--map"),
            ),
            why="`overstory decode --help` shows the forms",
        ),
        OneOf(("--aggregate", "--pool", "--compare")),
        OneOf(("--group", "--by-group")),
        OneOf(("--by-group", "--compare")),
        Idle(("--plot", "--steps", "--candidates-out"), ("--compare",), "these are differences"),
    ),
)

DISCOVER: Final = Command(
    "discover",
    "overstory discover crashes.csv --column address --epsilon 4 --bits 64",
    Option("file", "CSV (also .gz) or Parquet; -: standard input", "FILE"),
    Option("--column", required=True),
    CSV,
    Option("--epsilon", "privacy loss of each device (epsilon; smaller is more private)", required=True),
    Option("--bits", "values are integers of B bits (default: 64)", "B", int),
    Option(
        "--bytes",
        "values are texts of at most B bytes in UTF-8 (at most 32; with --alphabet, B characters, at most 64)",
        "B",
        int,
    ),
    Option("--alphabet", "values are texts of these characters alone", "CHARACTERS"),
    Option("--known", "expected values, one per line", "FILE"),
    Option("--seed"),
    Option("--output", "write every value of the last level into this file: .csv, .md or .tex (LaTeX)"),
    Option("--spreadsheet"),
    more="""\
Each row of the column is one person's value. A simulated device per row answers one question about its value, with the
full epsilon, and the search sees only the answers. So this is what a real collection would find. --known names expected
values: some devices are asked about those, the others about the rest.

The answers of real devices, to a metric whose domain is unknown strings or integers, are in a store or in files:
`overstory decode` searches those.""",
    runs="analysis.discover",
    rules=(OneOf(("--bits", "--bytes")), OneOf(("--alphabet", "--bits"))),
)

DEMO: Final = Command(
    "demo",
    "overstory demo --reports 1000000 --states 58 --json",
    Option("--reports", "how many respondents (default: 1,000,000)", "N", int, 1_000_000),
    Option("--seed", "the same seed gives the same output (default: 20210418)", "S", int, 20210418),
    Option("--states", "how many states, those with the most cases (default: 26)", "N", int, 26),
    Option("--params", "RAPPOR's parameters (default: k 128, h 2, m 16, p 0.5, q 0.75, f 0.5)"),
    Option("--output", "folder for the files", "DIR", default="out/demo"),
    more="""\
Draws respondents from real figures, randomizes each one's state on a simulated device, sends, counts and decodes the
reports. Shows the truth, the estimates with their intervals, and the privacy loss.""",
    runs="analysis.demo",
)

_PARAMS: Final = Option("--params", required=True)
_HASHING: Final = Option(
    "--hash-family",
    "overstory-v1 or google-rappor-python, unless the parameters say so (default: overstory-v1)",
    "NAME",
)


def _output(meaning: str) -> Option:
    return Option("--output", f"{meaning} (-: standard output)", "FILE", required=True)


ENCODE: Final = Command(
    "encode",
    "overstory encode --params params.csv --values values.csv -o reports.csv",
    _PARAMS,
    Option("--values", "true values: header client,cohort,value", "FILE", required=True),
    _HASHING,
    Option("--seed", "the same seed gives the same output. For experiments; a seed protects nobody", type=str),
    _output("file for the reports"),
    more="""\
Every client is a device with its own secret, drawn from the operating system for this run: a client that has a value
twice has one permanent response to it. The output's name decides its format: .csv, .csv.gz or
.parquet. Only the CSV has the columns bloom and prr, which never leave a real device: use them to test clients against
each other.""",
    runs="analysis.file_tools:encode",
)

MAP: Final = Command(
    "map",
    "overstory map --params params.csv --candidates candidates.txt -o map.csv",
    _PARAMS,
    Option("--candidates", "the strings that may have been reported", "FILE", required=True),
    _HASHING,
    _output("file for the map: a row per candidate, then m * h integers cohort * k + bit + 1"),
    more="""\
The file has one candidate per line. A file named .csv has them as its only column, quoted where needed. Give the hash
family (and key) that the devices used.""",
    runs="analysis.file_tools:map_candidates",
)

SUM: Final = Command(
    "sum",
    "overstory sum --params params.csv monday.csv.gz tuesday.parquet -o counts.csv\n"
    "  overstory sum --engine dask s3://reports/metric=theme -o counts.csv",
    Option("reports", "files of reports, folders, globs or addresses", "INPUT", nargs="+"),
    Group(
        "what made the reports (unless given: the label of a Parquet file)",
        Option("--params"),
        Option("--registry"),
        Option("--metric", "with --registry: the metric", "ID"),
    ),
    _output("file for the counts: a row per cohort, its reports and then each bit's count"),
    ENGINE,
    more="""\
Reads reports.csv (also gz) and Parquet, recognized by their first bytes, in a stream: memory does not grow with the
files. Of a CSV it uses only the columns cohort and irr.

Parquet of any oracle is also counted in units by several processes, by Dask or by Spark: name files, folders, globs or
addresses in an object store (s3://..., gs://...).

A row of a Parquet file is a block of reports of one cohort. Its label says what mechanism made the reports, so that
nothing else need be given to count them.""",
    runs="analysis.file_tools:count",
    rules=(OneOf(("--params", "--registry")), Together(("--registry", "--metric"))),
)

_EVERY: Final = (AUDIT, CHECK_ORACLE, COLLECT, COMPARE, DECODE, DEMO, DISCOVER, ENCODE, MAP, PLAN, SUM)
COMMANDS: Final = {command.name: command for command in _EVERY}
