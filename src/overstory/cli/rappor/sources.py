"""Which mechanism made the reports of some files: by their label, by params.csv, or by a registry."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import add_hashing, add_option, add_params
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.files.labels import Label
    from overstory.protocol.mechanisms.base import LocalRandomizer


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Add ``--params``, ``--registry`` and their own."""
    group = parser.add_argument_group("what made the reports (unless given: the label of a Parquet file)")
    add_params(group, required=False)
    add_hashing(group, otherwise="any", note="; packed and Parquet files are checked against it")
    add_option(group, "--registry")
    group.add_argument("--metric", metavar="ID", help="with --registry: the metric")


def check_sources(args: argparse.Namespace) -> None:
    """Refuse two sources, or half of one."""
    if args.params and args.registry:
        raise ParameterError("--params and --registry are two sources: give one")
    if bool(args.registry) != bool(args.metric):
        raise ParameterError("--registry and --metric belong together: the file, and the metric's id in it")
    if (args.hash_family or args.hash_key) and not args.params:
        raise ParameterError("--hash-family and --hash-key have no effect without --params")


def stated_mechanism(args: argparse.Namespace, digest: bytes, label: Label | None, source: str) -> LocalRandomizer:
    """Return the mechanism of reports with this digest.

    Raises
    ------
    FormatError
        When the reports are of another one than the options state, or nothing says of which.
    """
    if args.params:
        return _of_params(args, digest, source)
    if args.registry:
        from overstory.protocol.metrics import load_registry

        mechanism: LocalRandomizer = load_registry(args.registry)[args.metric].mechanism
        if mechanism.digest != digest:
            raise FormatError(f"these reports were not made with the parameters of {args.metric}", source=source)
        return mechanism
    if label is None:
        problem = "packed batches say which parameters they are of by a digest alone: give --params, or --registry"
        raise FormatError(f"{problem} and --metric", source=source)
    return label.mechanism(source)


def _of_params(args: argparse.Namespace, digest: bytes, source: str) -> LocalRandomizer:
    from overstory.files.rappor import read_params
    from overstory.files.reports import LabelCheck

    parameters = read_params(args.params)
    check = LabelCheck(source, parameters, args.hash_family, args.hash_key)
    check.check(parameters.k, parameters.m, digest)
    return check.mechanisms[digest]


def asked_values(args: argparse.Namespace, mechanism: Any) -> list[Any] | None:
    """Return the values to count, where the reports are not enough to say which; symbols, where there is a domain."""
    encoding = getattr(mechanism, "encoding", None)
    # Counted by bit or seed: strings are looked for when the counts are decoded.
    if encoding is None or encoding.by_seed or encoding.decoded:
        return None
    if args.candidates:
        from overstory.files.candidates import read_candidates

        given = read_candidates(args.candidates)
        return given if mechanism.domain_size is None else _symbols(args, given, mechanism.domain_size)
    if mechanism.domain_size is not None:
        return None
    listed = metric_labels(args)
    if listed is None:
        raise ParameterError(f"{mechanism.name} without a domain counts given strings: name them by --candidates FILE")
    return list(listed)


def metric_labels(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the labels of the metric that the options name."""
    if not args.registry:
        return None
    from overstory.protocol.metrics import load_registry

    return load_registry(args.registry)[args.metric].labels or None


def _symbols(args: argparse.Namespace, given: list[str], size: int) -> list[int]:
    """Return the symbols of candidates of a domain: the places of a metric's labels, or the numbers that they are."""
    labels = metric_labels(args)
    places = {label: place for place, label in enumerate(labels)} if labels and len(labels) == size else {}
    symbols = []
    for text in given:
        number = places.get(text, int(text) if text.isascii() and text.isdigit() and len(text) < 19 else size)
        if number >= size:
            raise FormatError(f"{text[:40]!r} is no value of the domain 0 .. {size - 1}", source=args.candidates)
        symbols.append(number)
    return symbols
