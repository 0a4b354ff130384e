"""Two strings in linked RAPPOR reports, as a metric: Google's association case over HTTP, decoded from a store.

The population and the nine checks are those of `association_test.R`, test 6: the first variable is 1 + Poisson(1), the
second is the same or one more. Over 400 draws, all nine checks pass in 97.5%; the seed here is fixed.
"""

import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.client import Client, Outcome
from overstory.client.person.explanation import explain
from overstory.client.state.state import State
from overstory.collector.ingest.ingest import Ingest
from overstory.collector.ingest.validation import ReportFormat
from overstory.collector.store import open_store
from overstory.privacy.registry.page import metric_page
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from overstory.queries.counts import read_store
from overstory.queries.readings import read
from overstory.queries.sources.remote import read_remote
from papers.beyond.association import CHECKS, EMPTY, LOW, checks_passed
from support.collector_in_process import ABOUT, NOW, TODAY, batch_id
from support.collector_processes import CollectorProcess
from support.registry_texts import registry_of
from support.running import overstory

FILTER = ", ".join(f"{name} = {value}" for name, value in LOW.letters.items())
DOMAIN = (
    '{kind = "table", names = ["first", "second"], of = ['
    '{kind = "strings", candidates = "first.txt"}, {kind = "strings", candidates = "second.txt"}]}'
)
GOOGLES = '{oracle = "rappor", hash_family = "google-rappor-python", ' + FILTER + "}"
PARAMETERS = '{of = [{oracle = "rappor", ' + FILTER + "}, " + GOOGLES + "]}"


def registry_text() -> str:
    metric = {"domain": DOMAIN, "oracle": '"joint"', "parameters": PARAMETERS}
    return registry_of({"pairs": metric}, **{**ABOUT, "expires": "2099-01-01"})


@pytest.fixture(scope="module")
def served(tmp_path_factory: Any) -> Any:
    """Reports of 1,000 devices and of one more client, sent over HTTP; the folder, the truth, the client, the table."""
    folder: Path = tmp_path_factory.mktemp("strings")
    rng = np.random.default_rng(20261123)
    first = 1 + rng.poisson(1.0, LOW.reports)
    held = np.stack([first, first + rng.integers(0, 2, LOW.reports)])
    labels = [[str(value) for value in range(1, int(each.max()) + 1)] for each in held]
    for name, texts in zip(("first", "second"), labels, strict=True):
        folder.joinpath(f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
    file = folder / "metrics.toml"
    file.write_text(registry_text())
    registry = load_registry(file)
    store = str(folder / "store.db")
    with open_store(store, registry, create=True) as made:
        token = made.add_token("admin", "test")
    with CollectorProcess(file, store) as process:
        url = process.url
        post(registry["pairs"], held, labels, rng, url)
        paths = record(folder / "device", file, url)
        counted = read_remote(url, token, registry["pairs"])
        where = "--store", url, "--registry", str(file)
        options = ("--metric", "pairs", "--json", "--complete")
        ran = overstory("decode", *where, *options, cwd=folder, OVERSTORY_ADMIN_TOKEN=token)
        assert ran.returncode == 0, ran.stderr
    truth = np.zeros(tuple(map(len, labels)))
    np.add.at(truth, (held[0] - 1, held[1] - 1), 1 / LOW.reports)
    return folder, truth, counted, paths, json.loads(ran.stdout)


def post(metric: Any, held: Any, labels: Any, rng: Any, url: str) -> None:
    """Send the reports of devices that hold these pairs, in ten uploads."""
    cells = (held[0] - 1) * len(labels[1]) + held[1] - 1
    devices = SimulatedDevices.holding(metric.mechanism, list(product(*labels)), cells, rng)
    period = metric.period.number(time.time())
    for start in range(0, LOW.reports, LOW.reports // 10):
        sent = devices.report(start=start, stop=start + LOW.reports // 10)
        body = encode_upload(Upload(batch_id(), metric.id, period, sent.to_wire(metric.mechanism.digest)))
        answer = httpx.post(f"{url}/v1/reports", content=body, headers={"Content-Type": MEDIA_TYPE}, trust_env=False)
        assert answer.status_code == 200, answer.text


def record(state: Path, registry: Path, url: str) -> Any:
    """Record a pair of strings that no list has."""
    settings: Any = {"state": state, "server": url, "spread": 0.0, "environ": {}}
    with Client("strings", registry=registry, policy=state / "none.json", **settings) as client:
        client.consent("on")
        assert client.record("pairs", {"second": "99", "first": "elsewhere, or not"}) is Outcome.RECORDED
        client.flush(10)
        return client.paths


def cells_of(reading: Any, shape: tuple[int, int], column: str) -> Any:
    (part,) = reading["readings"]
    return np.array([cell[column] for cell in part["tables"][0]["cells"]]).reshape(shape)


def test_googles_nine_checks_pass_and_the_shares_are_near(served: Any) -> None:
    """A table that knows nothing passes three of the nine, so they can fail; total variation is .08 on average."""
    _, truth, counted, _, printed = served
    assert counted.num_reports == LOW.reports + 1
    shown = cells_of(printed, truth.shape, "reported")
    assert checks_passed(shown) == len(CHECKS) + len(EMPTY)
    assert np.abs(shown - truth).sum() / 2 < 0.15
    assert checks_passed(np.full(truth.shape, 1 / truth.size)) == 3


def test_strings_outside_a_list_are_another_row(served: Any) -> None:
    """Shorter lists, chosen after the reports came: what they leave out is "not listed"; a second list finds it."""
    folder, truth, counted, _, _ = served
    folder.joinpath("few.txt").write_text("1\n2\nnot listed\n")
    text = registry_text().replace("first.txt", "few.txt")
    folder.joinpath("few.toml").write_text(text)
    few = load_registry(folder / "few.toml")["pairs"]
    assert few.digest == counted.metric.digest
    with open_store(str(folder / "store.db")) as store:
        (part,) = read(read_store(store, few)).to_json()["readings"]
    marginals = {row["value"]: row for row in part["tables"][0]["marginals"]["first"]}
    assert list(marginals) == ["1", "2", "not listed", "(not listed)"]
    left = marginals["(not listed)"]
    assert abs(left["share"] - truth[2:].sum()) < 4 * left["standard_error"]


def test_lists_that_are_missing_or_too_long_are_named(served: Any) -> None:
    folder, _, counted, _, _ = served
    files = "--store", str(folder / "store.db"), "--registry", "metrics.toml", "--metric", "pairs"
    ran = overstory("decode", *files, "--candidates", "first.txt", cwd=folder)
    assert ran.returncode == 2
    assert "first and second each take strings: name a file for each in the registry" in ran.stderr
    unread = load_registry(folder / "metrics.toml", read_candidates=False)["pairs"]
    with pytest.raises(ParameterError, match="first has no candidates: name a file in the registry"):
        read(type(counted)(unread, counted.first, counted.last, counted.counts))
    folder.joinpath("first.txt").rename(folder / "short.txt")
    folder.joinpath("first.txt").write_text("".join(f"{number}\n" for number in range(12_000)))
    long = load_registry(folder / "metrics.toml")["pairs"]
    folder.joinpath("short.txt").replace(folder / "first.txt")
    with pytest.raises(ParameterError, match="cells are too many, at most 4,096"):
        read(type(counted)(long, counted.first, counted.last, counted.counts))


def test_the_person_sees_both_strings(served: Any) -> None:
    folder, _, _, paths, _ = served
    metric = load_registry(folder / "metrics.toml", read_candidates=False)["pairs"]
    explained = explain(State(paths), metric, ("elsewhere, or not", "99"))
    assert explained.known == 1
    assert explained.encoded == "first: the string 'elsewhere, or not' and second: the string '99'"
    assert "first part: " in explained.report_words


# A metric of linked reports: the registry's text, the public page, and what is refused


CRASHES = (
    '{kind = "table", names = ["version", "crash"], of = ['
    '{kind = "categories", names = ["1.0", "2.0", "3.0"]}, {kind = "categories", names = ["no", "yes"]}]}'
)
USUAL = '{of = [{oracle = "grr", epsilon = 2.0}, {oracle = "basic-rappor", f = 0.25, p = 0.25, q = 0.75}]}'


def crashes_text(parameters: str = USUAL, **keys: str) -> str:
    metric = {"domain": CRASHES, "oracle": '"joint"', "parameters": parameters, **keys}
    return registry_of({"crashes": metric}, **{**ABOUT, "expires": "2099-01-01"})


def test_the_page_says_what_each_part_costs_and_a_wrong_registry_is_refused() -> None:
    page = metric_page(parse_registry(crashes_text())["crashes"])
    assert "grr: domain_size = 3, epsilon = 2.0; basic-rappor" in dict(page.facts)["How"]
    text = json.dumps(page.to_json())
    assert "alone they cost 2 (grr) and 1.58 (basic-rappor)" in text
    for wrong, problem in (
        ('{of = [{oracle = "grr", epsilon = 2.0}]}', "2 variables"),
        ('{of = [{oracle = "grr", epsilon = [1.0]}, {oracle = "oue", epsilon = 1.0}]}', "give a finite number"),
        ('{of = [{oracle = "olh", epsilon = 2.0}, {oracle = "oue", epsilon = 1.0}]}', "cannot link olh"),
        ('{of = [{oracle = "grr", epsilon = 2.0, domain_size = 4}, {oracle = "oue", epsilon = 1.0}]}', "there are 3"),
    ):
        with pytest.raises(Exception, match=problem):
            parse_registry(crashes_text(wrong))


def test_a_collector_refuses_what_no_device_sends() -> None:
    """Every payload in turn: those below the limit are taken, the others are refused with a reason."""
    registry = parse_registry(crashes_text())
    metric = registry["crashes"]
    form = ReportFormat.of(metric.mechanism)
    taken = [form.refuse(b"\0\0", bytes([payload])) is None for payload in range(1 << metric.mechanism.payload_bits)]
    assert taken == [metric.mechanism.valid(payload) for payload in range(len(taken))]
    assert False in taken
    sent = SimulatedDevices.holding(metric.mechanism, range(6), np.arange(6), np.random.default_rng(1)).report()
    body = encode_upload(Upload(batch_id(), "crashes", TODAY, sent.to_wire(metric.mechanism.digest)))
    (result,) = Ingest(registry).decide(body, MEDIA_TYPE, NOW).results
    assert result.accepted == 6
