"""``overstory doctor``: what is wrong with a collector, or will soon be."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from overstory.cli.command import PREFIX, Answer
from overstory.cli.service.commands import SERVE_SETTINGS
from overstory.cli.service.settings import fill_in
from overstory.collector.checkup import (
    Finding,
    check_certificate,
    check_files,
    check_kernels,
    check_keys,
    check_private,
    check_registry,
    check_store,
    check_url,
    guarded,
)
from overstory.presentation.document import Lines
from overstory.presentation.formats import plural
from overstory.protocol.errors import OverstoryError
from overstory.protocol.metrics import load_registry


def run(args: argparse.Namespace) -> Answer:
    findings = list(_findings(args))
    errors = sum(finding.level == "error" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    outcome = {"checks": [asdict(finding) for finding in findings], "errors": errors, "warnings": warnings}
    advice = (f". To do: {finding.do}" if finding.do else "" for finding in findings)
    lines = (f"{one.level:8} {one.check}: {one.detail}{do}" for one, do in zip(findings, advice, strict=True))
    summed = f"{plural(errors, 'error')}, {plural(warnings, 'warning')}"
    return Answer(outcome, [Lines(*lines, summed)], 1 if errors else 0)


def _findings(args: argparse.Namespace) -> Iterator[Finding]:
    now = time.time()
    yield from check_files()
    yield from guarded("counting", check_kernels)
    settings = argparse.Namespace(**{setting.key: None for setting in SERVE_SETTINGS}, config=args.config)
    settings.registry, settings.store = args.registry, args.store
    try:
        fill_in(settings, SERVE_SETTINGS, os.environ)
    except (OverstoryError, OSError) as error:
        yield Finding("settings", "error", str(error))
    file = args.config or os.environ.get(f"{PREFIX}CONFIG")
    if file:
        yield from check_private("settings", Path(file), "it may hold a password")
    registry = None
    if settings.registry:
        try:
            registry = load_registry(settings.registry)
        except (OverstoryError, OSError) as error:
            yield Finding("registry", "error", str(error), "overstory metrics lint FILE lists all errors")
        else:
            yield from check_registry(registry, now)
            yield from guarded("oblivious keys", partial(check_keys, registry, settings.oblivious_keys))
    if settings.store:
        yield from guarded("store", partial(check_store, settings.store, registry, now))
    if settings.tls_certificate:
        yield from guarded("certificate", partial(check_certificate, settings.tls_certificate, now))
    if args.url:
        yield from guarded("collector", partial(check_url, args.url, registry))
