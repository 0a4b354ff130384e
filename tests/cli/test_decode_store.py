"""decode of a store and of a collector: what is printed, what is written, and what is refused."""

import csv
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.http.pages import public_metric
from overstory.collector.store import Received, open_store
from overstory.protocol.metrics import load_registry
from overstory.queries import estimates
from overstory.queries.counts import read_store
from overstory.queries.facts import with_sums
from support.registry_texts import COLOURS, LISTED, registry_of
from support.running import within

DAYS = (20_700, 20_701, 20_703)


def registry(folder: Path, epsilon: float = 1.5) -> Path:
    """Write a registry of a memoized metric, one of strings, and their candidates."""
    (folder / "trees.txt").write_text("ash\nelm\noak\n")
    memoized = f"{{epsilon_permanent = 3.0, epsilon_report = {epsilon}}}"
    metrics = {
        "colour": {"oracle": '"l-osue"', "parameters": memoized, "domain": COLOURS},
        "tree": {"oracle": '"rappor"', "parameters": "{num_bits = 32, num_cohorts = 4}", "domain": LISTED},
    }
    path = folder / f"metrics-{epsilon}.toml"
    path.write_text(registry_of(metrics, expires="2040-01-01"))
    return path


def fill(store: Any, metric: Any, seed: int, devices: int = 3000) -> None:
    """Add a report of each of the same devices on each day."""
    candidates = metric.labels if metric.id == "tree" else None
    held = np.arange(devices) % 3 // 2
    fleet = FrequencyOracle(metric.mechanism).devices(held, np.random.default_rng(seed), candidates=candidates)
    batches = []
    for number, day in enumerate(DAYS):
        sent = fleet.report(number)
        about = metric.id, day, bytes([seed, number]) * 8, metric.mechanism.digest
        columns = sent.num_bits, sent.num_cohorts, len(sent), sent.cohorts.tobytes(), sent.octets().tobytes()
        batches.append(Received(*about, *columns, metric.accept_until(day), metric.period.start(day + 1)))
    store.add(batches)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """A store with two metrics, one of them under two sets of parameters."""
    path: Path = tmp_path_factory.mktemp("reading")
    new, old = load_registry(registry(path)), load_registry(registry(path, epsilon=1.0))
    with open_store(str(path / "reports.db"), new, create=True) as store:
        fill(store, new["colour"], seed=1)
        fill(store, new["tree"], seed=2)
    with open_store(str(path / "reports.db"), old) as store:
        fill(store, old["colour"], seed=3, devices=40)
    return path


def decode(folder: Path, *more: object, status: int = 0) -> Any:
    ran = within("decode", *more, cwd=folder)
    assert ran.returncode == status, ran.stderr
    assert status == 0 or (ran.stderr.startswith("overstory: error: ") and len(ran.stderr.splitlines()) == 1)
    return ran


KEPT = ("--store", "reports.db", "--registry", "metrics-1.5.toml")
COLOUR = (*KEPT, "--metric", "colour")


def test_a_range_is_estimated_and_what_is_supposed_is_said(folder: Path) -> None:
    out = decode(folder, *COLOUR).stdout
    assert "red" in out
    assert "blue" not in out
    assert "9,000 reports of colour in 3 periods between 2026-09-04 and 2026-09-07; estimated over all of them" in out
    assert "standard errors assume 3 reports per device, the worst case; use --reports-per-device" in out
    assert "intervals: of these reports" in out
    assert "120 reports from 2026-09-04 to 2026-09-07 were made with other parameters" in out
    everything = decode(folder, *COLOUR, "--all").stdout
    assert "blue" in everything
    assert "not detected" in everything
    assert "every value:" not in decode(folder, *COLOUR, "--quiet", "-o", "out").stdout
    assert "detected" in decode(folder, *COLOUR, "--quiet").stdout  # A18: nothing at all was printed


def test_the_older_parameters_are_read_by_their_own_registry(folder: Path) -> None:
    args = ("--store", "reports.db", "--registry", "metrics-1.0.toml", "--metric", "colour", "--json", "--all")
    parsed = json.loads(decode(folder, *args).stdout)
    assert parsed["reports"] == 120
    assert [other["reports"] for other in parsed["other_parameters"]] == [9000]


def test_per_period_and_cumulative(folder: Path) -> None:
    alone = json.loads(decode(folder, *COLOUR, "--per-period", "--json", "--all").stdout)
    so_far = json.loads(decode(folder, *COLOUR, "--cumulative", "--json", "--all").stdout)
    assert [r["reports"] for r in alone["readings"]] == [3000, 3000, 3000]
    assert [r["reports"] for r in so_far["readings"]] == [3000, 6000, 9000]
    assert [r["reports_per_device"] for r in so_far["readings"]] == [1, 2, 3]
    assert alone["readings"][0]["estimates"] == so_far["readings"][0]["estimates"]
    row = so_far["readings"][-1]["estimates"][0]
    assert {"value", "count", "standard_error", "frequency", "low", "high", "p_value", "q_value", "detected"} <= set(
        row
    )
    shown = decode(folder, *COLOUR, "--cumulative").stdout
    assert all(day in shown for day in ("2026-09-04", "2026-09-05", "2026-09-07"))


def test_a_range_and_the_number_of_reports_are_obeyed(folder: Path) -> None:
    first = json.loads(decode(folder, *COLOUR, "--to", "2026-09-05", "--json", "--all").stdout)
    assert (first["from"], first["to"], first["reports"]) == ("2026-09-04", "2026-09-05", 6000)
    errors = [
        json.loads(decode(folder, *COLOUR, *more, "--json", "--all").stdout)["readings"][0]["estimates"][0][
            "standard_error"
        ]
        for more in (("--reports-per-device", "1"), ("--reports-per-device", "2"), ())
    ]
    assert errors == sorted(errors)
    assert errors[0] < errors[1] < errors[2]
    nothing = decode(folder, *COLOUR, "--from", "2026-10-01").stdout
    assert nothing == "no reports of colour between 2026-10-01 and 2026-10-01\n"


def test_strings_and_steps(folder: Path) -> None:
    tree = (*KEPT, "--metric", "tree", "--json", "--all")
    known = json.loads(decode(folder, *tree).stdout)["readings"][0]
    assert [row["value"] for row in known["estimates"] if row["detected"]] == ["ash", "elm"]
    (folder / "few.txt").write_text("elm\nyew\n")
    few = json.loads(decode(folder, *tree, "--candidates", "few.txt").stdout)["readings"][0]
    assert {row["value"] for row in few["estimates"]} == {"elm", "yew"}
    lasso = json.loads(decode(folder, *tree, "--method", "lasso").stdout)["readings"][0]
    assert lasso["method"] == "lasso"
    stepped = json.loads(decode(folder, *COLOUR, "--steps", "base-cut, norm-sub", "--json", "--all").stdout)
    assert stepped["readings"][0]["steps"] == ["base-cut", "norm-sub"]
    assert sum(row["count"] for row in stepped["readings"][0]["estimates"]) == pytest.approx(9000)


def test_files_are_written(folder: Path) -> None:
    assert "every value: out/estimates.csv" in decode(folder, *COLOUR, "--per-period", "-o", "out").stdout
    lines = list(csv.DictReader((folder / "out" / "estimates.csv").read_text().splitlines()))
    assert len(lines) == 9
    parsed = json.loads((folder / "out" / "estimates.json").read_text())
    assert [len(reading["estimates"]) for reading in parsed["readings"]] == [2, 2, 2], "what was detected"
    decode(folder, *COLOUR, "--per-period", "-o", "out", "--all")
    parsed = json.loads((folder / "out" / "estimates.json").read_text())
    assert [len(reading["estimates"]) for reading in parsed["readings"]] == [3, 3, 3]


def texts(picture: Path) -> str:
    """Everything that is written in an SVG: matplotlib leaves each text in a comment."""
    return " ".join(re.findall(r"<!-- (.*?) -->", picture.read_text()))


def test_a_reading_is_drawn_as_every_estimate_is(folder: Path) -> None:
    """A13: `--plot` was refused with `--store` and `--url`."""
    decode(folder, *COLOUR, "--plot", "total.svg")
    shown = texts(folder / "total.svg")
    assert "2026-09-04 to 2026-09-07: 2 of 3 values detected" in shown
    assert "95% interval of these reports" in shown
    decode(folder, *COLOUR, "--per-period", "--plot", "days.svg", "--quiet")
    shown = texts(folder / "days.svg")
    assert all(f"{day}: 2 of 3 values detected" in shown for day in ("2026-09-04", "2026-09-05", "2026-09-07"))
    assert "95% interval of all devices like these" in shown
    decode(folder, *COLOUR, "--plot", "total.pdf", "--json")
    assert (folder / "total.pdf").read_bytes().startswith(b"%PDF")


def test_a_picture_of_many_periods_says_how_many_it_leaves_out(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(estimates, "MOST_PANELS", 2)
    decode(folder, *COLOUR, "--cumulative", "--plot", "two.svg")
    shown = texts(folder / "two.svg")
    assert "2 of 3 ranges shown, the last" in shown
    assert "2026-09-04: " not in shown


@pytest.fixture
def collector(folder: Path) -> Any:
    """Counts over HTTP, as a collector answers."""
    metric = load_registry(folder / "metrics-1.5.toml")["colour"]
    with open_store(str(folder / "reports.db")) as store:
        body = json.dumps(with_sums(store, read_store(store, metric)).to_json()).encode()
    public = json.dumps(public_metric(metric)).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.path == "/v1/metrics/colour" or self.headers["Authorization"] == "Bearer the-token"
            self.send_response(200 if allowed else 401)
            self.end_headers()
            answer = public if self.path == "/v1/metrics/colour" else body
            self.wfile.write(answer if allowed else b'{"reason": "unknown-token", "detail": "who is this?"}')

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_over_http_the_same(folder: Path, collector: str, monkeypatch: Any) -> None:
    far = ("--url", collector, *COLOUR[2:], "--cumulative", "--json", "--all")
    near = decode(folder, *COLOUR, "--cumulative", "--json", "--all").stdout
    assert decode(folder, *far, "--token", "the-token").stdout == near
    monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", "the-token")
    monkeypatch.setenv("OVERSTORY_WRITE_TOKEN", "a write token, in one environment with the other")
    decode(folder, "--url", collector, *COLOUR[2:], "--plot", "far.svg")
    assert (folder / "far.svg").read_text().startswith("<?xml")
    assert decode(folder, *far).stdout == near
    monkeypatch.delenv("OVERSTORY_ADMIN_TOKEN")
    monkeypatch.setenv("OVERSTORY_WRITE_TOKEN", "the-token")
    assert "who is this?" in decode(folder, *far, status=2).stderr
    assert "who is this?" in decode(folder, *far, "--token", "wrong", status=2).stderr


def test_a_collector_says_itself_what_a_metric_is_and_a_token_is_asked_for_by_its_option(
    folder: Path, collector: str
) -> None:
    """FINDINGS A16: `--url` needed `--registry`; a 401 did not name `--token`."""
    near = decode(folder, *COLOUR, "--json", "--all").stdout
    far = ("--url", collector, "--metric", "colour", "--json", "--all")
    assert decode(folder, *far, "--token", "the-token").stdout == near
    said = decode(folder, *far, "--token", "wrong", status=2).stderr
    assert "does not take this token: give one with --token or OVERSTORY_ADMIN_TOKEN (who is this?)" in said
    assert "wants an admin token: give one with --token" in decode(folder, *far, status=2).stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "--params, --counts, --map, --output must be given, or --url with --metric, or --store"),
        (("--params", "p.csv", "--metric", "colour"), "--metric has no effect without --store or --url"),
        (("--params", "p.csv", "--from", "x"), "--from has no effect without"),
        ((*COLOUR, "--counts", "c.csv"), "--counts has no effect with --store"),
        ((*COLOUR, "--plot", "c.gif"), "--plot c.gif: end the name in .svg, .pdf or .png"),
        ((*COLOUR, "--from", "2026-10-01", "--plot", "c.svg"), "--plot c.svg: there are no reports to draw"),
        ((*COLOUR, "--token", "the-token"), "--token has no effect with --store"),
        ((*COLOUR, "--url", "http://x"), "--store and --url are two sources"),
        (("--store", "reports.db"), "--store needs --metric, --registry"),
        (("--url", "http://x", "--registry", "metrics.toml"), "--url needs --metric"),
        (("--store", "reports.db", "--metric", "colour"), "--store needs --registry"),
        ((*KEPT, "--metric", "shape"), "there is no metric 'shape'"),
        ((*COLOUR, "--from", "yesterday"), "'yesterday' is no day"),
        ((*COLOUR, "--from", "2026-09-05", "--to", "2026-09-04"), "ends before it begins"),
        ((*COLOUR, "--reports-per-device", "0"), "at least 1"),
        ((*COLOUR, "--per-period", "--reports-per-device", "3"), "a device reports once"),
        ((*COLOUR, "--steps", "polish"), "no post-processing step 'polish'"),
        ((*COLOUR, "--method", "lasso"), "for Bloom"),
        (("--store", "absent.db", *COLOUR[2:]), "absent.db"),
        ((*COLOUR[:2], "--registry", "absent.toml", *COLOUR[4:]), "absent.toml"),
        (("--url", "collector", *COLOUR[2:]), "no collector's address"),
    ],
)
def test_mixed_or_faulty_use_is_one_clear_error(folder: Path, arguments: Any, says: str) -> None:
    assert says in decode(folder, *arguments, status=2).stderr


def test_the_two_readings_exclude_each_other(folder: Path) -> None:
    ran = within("decode", *COLOUR, "--per-period", "--cumulative", cwd=folder)
    assert ran.returncode == 2
    assert "not allowed with" in ran.stderr


def test_as_a_process(folder: Path) -> None:
    ran = within("decode", *COLOUR, "--json", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["reports"] == 9000
