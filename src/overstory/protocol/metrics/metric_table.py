"""From a metric's table to a metric: everything that can be wrong with it is found in one go.

A domain may name files: one text per line, none twice.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from overstory.protocol.domains import DOMAINS, domain_from
from overstory.protocol.domains.domains import AnyDomain, Strings
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.kinds.registry import BUILDERS, VALUES, any_mechanism, names_for, parameters_of, values_of
from overstory.protocol.metrics.metric import Metric, OverCap, Publish, ReportTransport
from overstory.protocol.metrics.period import Period
from overstory.protocol.metrics.toml_fields import Fields, Row, row
from overstory.protocol.wire import METRIC_ID

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from overstory.protocol.metrics.groups import Groups
    from overstory.protocol.metrics.panel import Panel

MOST_REPORTS: Final = 1 << 20
LARGEST: Final = 1 << 53
SOME: Final = {"domain_size": 16, "most": 4, "values": {"domain": "integers", "bits": 16}}
"""Parameters of a usual domain, to try others with where the domain is wrong."""
HASH_FAMILY: Final = "overstory-v1"  # the hash whose key is the metric's id, unless the parameters name another
MOST_DAYS: Final = 36_500
GRACE_DAYS: Final = 30
PUBLISH_LEAST: Final = 100
NOT_PLANNED: Final = "not planned yet: run `overstory plan --registry FILE`, which writes oracle and parameters"

Folder: TypeAlias = "Path | Traversable"  # where a registry lies: a folder, or one inside a package

MOST_SHOWN: Final = 3  # candidates that are named which stand twice


def _period(fields: Fields, key: str) -> Period | None:
    given = fields.required(key, 'how often a device reports, such as "day"')
    try:
        return None if given is None else Period.parse(given)
    except ParameterError as error:
        fields.fault(key, str(error))
        return None


def _groups(fields: Fields, _: str) -> Groups | None:
    from overstory.protocol.metrics.groups import read_groups  # who has none loads nothing of them

    return read_groups(fields)


ROWS: Final[Mapping[str, Row | None]] = {
    "title": row(Fields.text, "a few words that name it"),
    "description": row(Fields.text, "what is collected, for the person it is collected from"),
    "owner": row(Fields.text, "who answers for it"),
    "purpose": row(Fields.link, "a link to why it is collected"),
    "attribute": Fields.identifier,
    "yearly_reason": row(Fields.text, "why a year of its reports may reveal more than is usual", is_optional=True),
    "domain": None,
    "oracle": None,
    "parameters": None,
    "needs": None,
    "period": _period,
    "panel": None,
    "window": row(Fields.whole, 1, MOST_REPORTS),
    "max_values": row(Fields.whole, 1, MOST_REPORTS),
    "over_cap": row(Fields.choice, get_args(OverCap), "first"),
    "retention_days": row(Fields.whole, 0, MOST_DAYS, wanted="for how many days reports are kept"),
    "grace_days": row(Fields.whole, 0, MOST_DAYS),
    "expires": row(Fields.date, "the first day on which nothing is collected any more"),
    "transport": row(Fields.choice, get_args(ReportTransport), "direct"),
    "publish": row(Fields.choice, get_args(Publish), "nothing"),
    "publish_least": row(Fields.whole, 2, MOST_REPORTS, default=PUBLISH_LEAST),
    "groups": row(_groups, is_optional=True),
}
"""Every key of a metric, in the order in which they are best read; None: it is read with something else."""


def build_metric(
    fields: Fields, folder: Folder | None, shared: Panel | None = None, *, read_candidates: bool = True
) -> Metric | None:
    """Return the metric of a table, or None after noting every fault; without a folder no other file is read."""
    name = fields.path[-1]
    if METRIC_ID.fullmatch(name) is None:
        fields.fault(
            None, f"{name!r:.100} cannot be an id: give up to 64 of a-z, 0-9, '.', '_' and '-', a-z or 0-9 first"
        )
    given = fields.read(ROWS)
    domain, candidates = read_domain(fields, folder, read_candidates=read_candidates)
    built = _mechanism(fields, name, domain)
    panel = _panel(fields, shared)
    _complete(fields, given, built, domain)
    _check_published(fields, given)
    if not fields.is_sound or domain is None or built is None:
        return None
    return Metric(id=name, domain=domain, mechanism=built, panel=panel, candidates=candidates, **given)


def _complete(fields: Fields, given: dict[str, Any], built: Kind | None, domain: AnyDomain | None) -> None:
    """Give what is left out, and note what does not go together: a late report must find all others of its period."""
    own = None if built is None else built.parameters.get("window")
    if own is not None and given["window"] not in {None, own}:
        fields.fault("window", f"{given['window']}, but the oracle's own window is {own}: say it once")
    given["window"] = given["window"] or own
    if given["over_cap"] == "nearest" and domain is not None and not domain.ordered:
        problem = "nearest needs an ordered domain (bins, integers, ordered categories): use drop or first"
        fields.fault("over_cap", problem)
    kept, grace = given["retention_days"], given["grace_days"]
    if kept is not None and grace is not None and grace > kept:
        fields.fault("grace_days", f"{grace} days: late reports are taken for at most retention_days, {kept}")
    if kept is not None and "grace_days" not in fields.table:
        given["grace_days"] = min(GRACE_DAYS, kept)
    if kept == 0 and built is not None and built.reads_reports:
        fields.fault("retention_days", f"{built.name} reads the reports themselves: keep them for a day or more")


def metric_from_json(entry: Mapping[str, Any]) -> Metric:
    """Return the metric of an entry of a public registry, what `Metric.to_json` gave; FormatError when it is none."""
    try:
        name, domain = str(entry["id"]), dict(entry["domain"])
        table = {key: entry[key] for key in ROWS if entry.get(key) is not None and key != "panel"}
        table["domain"] = {"kind": domain.pop("domain")} | {k: v for k, v in domain.items() if v is not None}
        table["expires"] = dt.date.fromisoformat(entry["expires"])
        stated, panel = entry["digest"], None
        if entry.get("panel") is not None:
            from overstory.protocol.metrics.panel import Panel

            panel = Panel.from_json(entry["panel"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"this is no metric of a public registry: {error!r}") from None
    fields = Fields(table, (name,))
    metric = build_metric(fields, None, panel)
    if metric is None:
        raise FormatError("; ".join(f"{'.'.join(path)}: {message}" for path, message in fields.faults))
    if metric.digest.hex() != stated:
        raise FormatError(f"{name}: this version of overstory reads another metric in it than its digest states")
    return metric


def _mechanism(fields: Fields, name: str, domain: AnyDomain | None) -> Kind | None:
    if not _oracle_or_needs(fields):
        return None
    is_one = fields.table["oracle"] in [*BUILDERS]  # else those that fit the domain are named
    oracle = fields.choice("oracle", sorted(BUILDERS) if is_one or domain is None else names_for(domain.families), "")
    given = fields.table.get("parameters", {})
    if not isinstance(given, dict):
        fields.fault("parameters", f"{given!r:.100} is no table: give one such as {{epsilon = 1.0}}")
        return None
    wrong = [key for key, value in given.items() if not _is_parameter(value)]
    for key in wrong:
        fields.fault(f"parameters.{key}", "give a finite number, a text, true or false, or a list of tables of these")
    if oracle is None or wrong:
        return None
    if domain is None:
        accepted = parameters_of(BUILDERS[oracle])
        sized = {key: value for key, value in SOME.items() if key in accepted}
        _built(fields, oracle, _with_window(fields, sized | given, accepted))
        return None
    completed = _completed(fields, name, oracle, domain, given)
    built = None if completed is None else _built(fields, oracle, completed)
    if built is not None and "domain_size" in domain.completes(name) and built.domain_size != domain.size:
        fields.fault("oracle", f"{oracle} is for {built.domain_size} values, and the domain has {domain.size}")
        return None
    return built


def _is_parameter(value: Any) -> bool:
    if isinstance(value, list):  # the known values of a search, in a public registry
        return all(isinstance(part, dict) and all(map(_is_parameter, part.values())) for part in value)
    if isinstance(value, int):
        return abs(value) < LARGEST
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))


def _oracle_or_needs(fields: Fields) -> bool:
    """Whether there is an oracle to build; needs have to be planned first."""
    has_oracle, has_needs = ("oracle" in fields.table or "parameters" in fields.table), "needs" in fields.table
    if has_oracle and has_needs:
        fields.fault("needs", "give either an oracle with its parameters, or the needs to derive them from, not both")
    elif has_needs:
        fields.fault("needs", NOT_PLANNED)
    elif "oracle" not in fields.table:
        fields.fault("oracle", f"missing: give one of {', '.join(sorted(BUILDERS))}, or needs to derive it from")
    return "oracle" in fields.table and not has_needs


def _completed(
    fields: Fields, name: str, oracle: str, domain: AnyDomain, given: Mapping[str, Any]
) -> dict[str, Any] | None:
    if oracle not in names_for(domain.families):
        taken, values = values_of(oracle), VALUES[domain.families[0]]
        choices = ", ".join(names_for(domain.families))
        fields.fault("oracle", f"{oracle} takes {taken}, not {values}: choose one of {choices}")
        return None
    if domain.size is None and "domain_size" in given:
        fields.fault("parameters.domain_size", f"{VALUES[domain.families[0]]} have no domain size: leave it out")
        return None
    accepted, complete = parameters_of(BUILDERS[oracle]), dict(given)
    for key, value in domain.completes(name).items():
        if key not in accepted or (key == "hash_key" and given.get("hash_family", HASH_FAMILY) != HASH_FAMILY):
            continue
        given_too = complete.setdefault(key, value)
        if (tuple(given_too) if isinstance(given_too, list) else given_too) != value and key != "hash_key":
            says = f"has {value} symbols" if key == "domain_size" else f"says {value!r}"
            fields.fault(f"parameters.{key}", f"{complete[key]!r:.100}, but the domain {says}: leave it out")
            return None
    return _with_window(fields, complete, accepted)


def _with_window(fields: Fields, complete: dict[str, Any], accepted: Mapping[str, Any]) -> dict[str, Any]:
    if "window" in accepted and "window" in fields.table:
        complete.setdefault("window", fields.table["window"])
    return complete


def _built(fields: Fields, oracle: str, parameters: Mapping[str, Any]) -> Kind | None:
    try:
        return any_mechanism(oracle, **parameters)
    except (ParameterError, TypeError, OverflowError) as error:
        named_words = re.findall(r"\w+", str(error))
        named = sorted(set(fields.table.get("parameters", {})).intersection(named_words), key=named_words.index)
        fields.fault(f"parameters.{named[0]}" if named else "parameters", str(error))
        return None


def _panel(fields: Fields, shared: Panel | None) -> Panel | None:
    if shared is None and "panel" not in fields.table:
        return None
    from overstory.protocol.metrics.panel import read_own

    panel = read_own(fields, shared)
    if panel is not None and "max_values" in fields.table:
        problem = "every answer of a panel has noise of its own, so no value is remembered: leave it out"
        fields.fault("max_values", problem)
    return panel


def _check_published(fields: Fields, rest: Mapping[str, Any]) -> None:
    """A period is published between its grace and its retention, so there must be days between them."""
    if rest["publish"] == "nothing" and "publish_least" in fields.table:
        fields.fault("publish_least", 'nothing is published: leave it out, or give publish = "estimates"')
    grace, retention = rest["grace_days"], rest["retention_days"]
    if rest["publish"] == "estimates" and None not in (grace, retention) and retention <= grace:
        fields.fault(
            "publish",
            f"a period is published from the end of its {grace} grace_days to that of its {retention} retention_days: "
            "keep reports for longer, or take late ones for fewer days",
        )


def read_candidate_file(folder: Folder, name: str) -> tuple[str, ...]:
    """Return the candidates of a file in the registry's folder: UTF-8 text, one a line, without the blank lines."""
    if not name or "\\" in name or PurePosixPath(name).is_absolute():
        raise FormatError(f"{name!r} is no path relative to the registry's folder, with / between its parts")
    try:
        raw = folder.joinpath(*PurePosixPath(name).parts).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(f"cannot be read: {reason[:1].lower()}{reason[1:]}", source=name) from None
    seen: dict[str, int] = {}
    twice = [
        f"{text!r:.60} (lines {seen[text]} and {n})" for n, text in _lines(raw, name) if seen.setdefault(text, n) != n
    ]
    if twice:
        more = f" and {len(twice) - MOST_SHOWN} more" if len(twice) > MOST_SHOWN else ""
        shown = ", ".join(twice[:MOST_SHOWN]) + more
        raise FormatError(f"candidates stand there twice: {shown}; list each once", source=name)
    if not seen:
        raise FormatError("the file is empty: give one candidate per line", source=name)
    return tuple(seen)


def _lines(raw: bytes, name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        bare = line.removesuffix(b"\r")
        if bare:
            try:
                yield number, bare.decode()
            except UnicodeDecodeError as error:
                raise FormatError(f"no UTF-8 text ({error.reason})", source=name, line=number) from None


def read_domain(
    fields: Fields, folder: Folder | None, *, read_candidates: bool = True
) -> tuple[AnyDomain | None, tuple[str, ...] | None]:
    """Return a metric's domain, None after noting a fault, and its candidates where there is a file of them."""
    table = fields.subtable("domain", 'a table such as {kind = "bins", min = 0, max = 2, count = 100}')
    if table is None:
        return None, None
    kind = table.required("kind", f"one of {', '.join(DOMAINS)}")
    if not isinstance(kind, str) or kind not in DOMAINS:
        if kind is not None:
            table.fault("kind", f"{kind!r:.100} is no kind of domain: choose one of {', '.join(DOMAINS)}")
        return None, None
    table.unknown(("kind", *DOMAINS[kind][1].split()))
    if not table.is_sound:
        return None, None
    domain = _symbols(fields, table, folder)
    if folder is None or not read_candidates or not isinstance(domain, Strings) or domain.candidates is None:
        return domain, None
    return domain, _file(table, folder, "candidates", domain.candidates)


def _symbols(fields: Fields, table: Fields, folder: Folder | None) -> AnyDomain | None:
    given = dict(table.table)
    if isinstance(given.get("known"), str):  # a device needs the file, too: its answer depends on it
        given["known"] = _file(table, folder, "known", given["known"])
        if given["known"] is None:
            return None
    try:
        return domain_from(given)
    except (ParameterError, TypeError, ValueError) as error:
        if given["kind"] == "strings":  # its one key
            table.fault(
                "candidates", f"{given['candidates']!r:.100}: give the name of a file with one candidate a line"
            )
        else:
            fields.fault("domain", str(error))
        return None


def _file(table: Fields, folder: Folder | None, key: str, name: str) -> tuple[str, ...] | None:
    if folder is None:
        table.fault(key, f"{name!r:.100} cannot be read here: it is a file in the registry's folder")
        return None
    try:
        return read_candidate_file(folder, name)
    except FormatError as error:
        table.fault(key, str(error))
        return None
