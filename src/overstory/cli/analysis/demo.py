"""``overstory demo``: a trial of real data over HTTP, with `overstory serve` in a process of its own."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from http import HTTPStatus
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.cli.command import Answer, command_of, progress
from overstory.client.upload.http import Request, endpoint, http_transport, parse_object
from overstory.collector.store import open_store
from overstory.files.io import writing_text
from overstory.files.labels import Label
from overstory.files.parquet import write_blocks
from overstory.files.rappor import (
    RapporParameters,
    hash_candidates,
    read_params,
    write_map,
    write_params,
)
from overstory.planning import plan_from_parameters
from overstory.presentation.document import Paragraph
from overstory.privacy.registry.page import metric_page
from overstory.protocol.errors import OverstoryError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.metrics import Metric, MetricRegistry, load_registry
from overstory.protocol.wire.upload import ID_BYTES, MEDIA_TYPE, Upload, encode_upload
from overstory.trial.population import Population, draw_population
from overstory.trial.run import Advance
from overstory.trial.values import Subject, ValueTrial, collect_by

READY: Final = "listening on http://"
PATIENCE: Final = 60.0


class ServiceError(OverstoryError):
    """The collector did not start, or refused what it was sent."""


class CollectorService:
    """A collector on a store, from entering to leaving the block; it starts while the caller goes on."""

    def __init__(self, registry: Path, store: Path | str, log: Path) -> None:
        self._command = [sys.executable, "-m", "overstory", "serve", "--registry", str(registry), "--store", str(store)]
        self._log = log

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            command = [*self._command, "--port", "0", "--open-writes"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603
        return self

    def post(self, metric: str, period: int, reports: bytes) -> int:
        body = encode_upload(Upload(secrets.token_bytes(ID_BYTES), metric, period, reports))
        answer = http_transport({})(Request(self._endpoint, body, MEDIA_TYPE, timeout=PATIENCE))
        if answer.status is None:
            raise ServiceError(f"the collector does not answer ({answer.error}); see {self._log}")
        results = parse_object(answer)
        if answer.status != HTTPStatus.OK or results is None or results["results"][0]["rejected"]:
            raise ServiceError(f"the collector refused reports: {results}")
        return int(results["results"][0]["accepted"])

    @cached_property
    def _endpoint(self) -> str:
        return endpoint(self.url())

    def url(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if READY in line:
                return "http://" + line.split(READY)[1].split()[0].rstrip("/")
        raise ServiceError(f"the collector did not start; see {self._log}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()  # it commits what it was sent, and goes
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        if error is None and self._process.returncode:
            raise ServiceError(f"the collector ended with status {self._process.returncode}; see {self._log}")


METRIC: Final = "home-state"
FILE: Final = """\
# What the demonstration collects. `overstory metrics show` says it in plain words.
registry = "{today}"

# Once a year a device answers, on a day of its own. The respondents of the demonstration are the devices of one day.
panel = {{cycle = "year", answers = 1}}

[metrics.{metric}]
title = "State of confirmed cases"
description = "The state in which a simulated respondent's case was confirmed."
owner = "the demonstration"
purpose = "https://github.com/CSSEGISandData/COVID-19"
oracle = "rappor"
parameters = {{num_bits = {k}, num_hashes = {h}, num_cohorts = {m}, f = {f}, p = {p}, q = {q}, hash_key = ""}}
domain = {{kind = "strings", candidates = {candidates}}}
period = "day"
retention_days = 30
expires = {expires}
"""


def write_registry(path: Path, candidates: Path, parameters: RapporParameters, today: dt.date) -> MetricRegistry:
    """Write the registry, and read it back as any program would."""
    numbers = {letter: getattr(parameters, letter) for letter in "khmfpq"}
    named = json.dumps(candidates.name)  # a TOML basic string is written like JSON's
    text = FILE.format(today=today, metric=METRIC, candidates=named, expires=today + dt.timedelta(days=365), **numbers)
    with writing_text(path) as file:
        file.write(text)
    return load_registry(path)


REGISTRY_FILE: Final = "metrics.toml"  # what is collected, why and how: shared by devices and collector
CANDIDATES_FILE: Final = "candidates.txt"  # the strings to look for, one a line
STORE_FILE: Final = "store.db"  # the collector's database
AT_ONCE: Final = 10_000  # reports of one upload


def carry_over_http(
    parameters: RapporParameters, folder: Path, mechanism: Kind, batches: Iterable[ReportBatch]
) -> SupportCounts:
    """Post every batch to a collector in a process of its own, as a relay of many devices would; every file stays."""
    path, store_path = folder / REGISTRY_FILE, folder / STORE_FILE
    registry = write_registry(path, folder / CANDIDATES_FILE, parameters, dt.datetime.now(dt.UTC).date())
    metric = registry[METRIC]
    assert metric.mechanism.digest == mechanism.digest
    for end in ("", "-wal", "-shm"):  # reports of an earlier demonstration would be counted, too
        store_path.with_name(store_path.name + end).unlink(missing_ok=True)
    with CollectorService(path, store_path, folder / "collector.log") as service:
        write_blocks(folder / "reports.parquet", _posted(batches, metric, service), Label.of(mechanism))
    with open_store(str(store_path), registry) as store:
        periods = store.periods(METRIC)
        by_period = store.counts(metric, periods[0], periods[-1])
    return sum(by_period.values(), SupportCounts.empty(parameters.m, parameters.k))


def _posted(batches: Iterable[ReportBatch], metric: Metric, service: CollectorService) -> Iterator[ReportBatch]:
    """Post each batch, and give it once it was acknowledged."""
    period = metric.period.number(time.time())
    for batch in batches:
        service.post(metric.id, period, batch.to_wire(metric.mechanism.digest))
        yield batch


FOREST: Final = (
    "See the forest, never the trees: every answer was randomized on its own device; nobody, the collector included, "
    "saw a true one."
)
SENT: Final = "over HTTP to a collector on SQLite, each batch committed before it was acknowledged"


def demonstrate(
    population: Population, parameters: RapporParameters, seed: int, folder: Path, advance: Advance
) -> ValueTrial:
    """Randomize every respondent's state, send it to a collector, count and decode; leave every file in `folder`."""
    mechanism = parameters.mechanism()
    folder.mkdir(parents=True, exist_ok=True)
    write_params(folder / "params.csv", parameters)
    with writing_text(folder / CANDIDATES_FILE) as text:
        text.writelines(f"{state}\n" for state in population.labels)
    write_map(folder / "map.csv", hash_candidates(population.labels, mechanism.encoding))
    carry = partial(carry_over_http, parameters, folder)
    result = collect_by(mechanism, population, seed, advance, carry, AT_ONCE)
    who = f"{len(population):,} simulated respondents"
    plan = plan_from_parameters(mechanism, len(population), len(population.labels))
    known = {name: getattr(plan, name) for name in ("standard_error", "detectable_frequency")}
    facts = {"population": population.notes[0], **known, "folder": str(folder)}
    privacy = metric_page(load_registry(folder / REGISTRY_FILE)[METRIC]).plain_words()
    return replace(result, subject=Subject("Confirmed cases by state", "state", who, FOREST, SENT, facts, privacy))


def run(args: argparse.Namespace) -> Answer:
    """Do the main job on bundled real data, from devices to a page."""
    usual = RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5)
    parameters = read_params(args.params) if args.params else usual
    population = draw_population(args.states, args.reports, np.random.default_rng([args.seed, 0]))
    with progress("devices report", len(population), quiet=args.quiet) as bar:
        summary = demonstrate(population, parameters, args.seed, Path(args.output), bar.advance)
    page = summary.write_page(Path(args.output, "demo.html"), command_of(args))
    files = Paragraph(f"Files: {args.output}; page: {page.resolve()}")
    return Answer(summary.to_json() | {"page": str(page)}, chain(summary.blocks(), [files]))
