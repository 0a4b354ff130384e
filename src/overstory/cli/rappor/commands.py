"""The commands of files of reports, as data: what each is for, and its options."""

from __future__ import annotations

from typing import Final

from overstory.cli.arguments import ENGINE, OF_SOURCES, SOURCES, Command, Option

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
    runs="rappor.file_tools:encode",
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
    runs="rappor.file_tools:map_candidates",
)

SUM: Final = Command(
    "sum",
    "overstory sum --params params.csv monday.csv.gz tuesday.parquet -o counts.csv\n"
    "  overstory sum --engine dask s3://reports/metric=theme -o counts.csv",
    Option("reports", "files of reports, folders, globs or addresses", "INPUT", nargs="+"),
    SOURCES,
    _output("file for the counts: a row per cohort, its reports and then each bit's count"),
    ENGINE,
    more="""\
Reads reports.csv (also gz) and Parquet, recognized by their first bytes, in a stream: memory does not grow with the
files. Of a CSV it uses only the columns cohort and irr.

Parquet of any oracle is also counted in units by several processes, by Dask or by Spark: name files, folders, globs or
addresses in an object store (s3://..., gs://...).

A row of a Parquet file is a block of reports of one cohort. Its label says what mechanism made the reports, so that
nothing else need be given to count them.""",
    runs="rappor.file_tools:count",
    rules=OF_SOURCES,
)

COMMANDS: Final = {command.name: command for command in (ENCODE, MAP, SUM)}
