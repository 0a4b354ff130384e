"""`overstory audit`: what is declared, in which form; text and JSON; exit status."""

import json
import sys
from pathlib import Path

import pytest

from overstory.audit.answers import declare
from overstory.cli.main import main
from overstory.protocol.metrics import parse_registry
from support.running import within

ENCODE = [sys.executable, "-m", "overstory", "encode", "--params", "params.csv", "--values", "-", "-o", "-"]
REGISTRY = """
registry = "2026-11-21"
[metrics.colour]
title = "Colour"
description = "Which colour is in use."
owner = "Design"
purpose = "https://example.org/issues/1"
domain = {kind = "categories", names = ["red", "green", "blue, light"]}
oracle = "grr"
parameters = {epsilon = 1.0}
period = "week"
retention_days = 90
expires = 2099-01-01
"""
BINS = '{kind = "bins", min = 0.0, max = 2.0, count = 4}'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n16,2,4,0.5,0.75,0.5\n")
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome(capsys, *words):
    status = main(["audit", "--alpha", "1e-9", "--reports", "1000", "--json", *words])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else err


def test_a_command_after_two_dashes(capsys):
    status, printed = outcome(capsys, "--params", "params.csv", "--", *ENCODE)
    assert (status, printed["verdict"]) == (0, "no fault found")
    assert (printed["mechanism"], printed["reports"]) == ("rappor", 1000)
    assert printed["lines"] == 1000 + 3 * 100 + 2 * 100 * 16
    said = {"declared", "lower", "confidence", "game", "guesses", "correct", "detectable_excess"}
    assert {*printed["epsilon"]} == said
    assert all(
        {*test} == {"name", "expected", "observed", "statistic", "interval", "p_value", "adjusted", "verdict"}
        for test in printed["tests"]
    )
    metrics, memory = printed["notes"]
    assert memory == "memory over a restart was not tested: give --restart if the command remembers its clients"
    assert "{metric}" in metrics


def test_our_own_client_by_oracle_and_by_metric(capsys):
    status, printed = outcome(capsys, "--oracle", "oue", "--param", "domain_size=5", "--param", "epsilon=1")
    assert (status, printed["own_client"], printed["mechanism"]) == (0, True, "oue")
    status, printed = outcome(capsys, "--registry", "metrics.toml", "--metric", "colour", "--restart")
    assert (status, printed["mechanism"], printed["pair"], printed["notes"]) == (0, "grr", ["red", "green"], [])
    assert "memory of the symbol after a restart" in [test["name"] for test in printed["tests"]]


def test_a_client_of_a_metric_reads_labels(capsys):
    script = (
        "import csv, sys\n"
        "labels = {row['value'] for row in csv.DictReader(sys.stdin)}\n"
        "sys.exit(' '.join(sorted(labels)))"
    )
    status, printed = outcome(
        capsys, "--registry", "metrics.toml", "--metric", "colour", "--", sys.executable, "-c", script
    )
    assert status == 2
    assert printed.endswith("standard error: blue, light green red\n")


def test_a_client_of_numbers_reads_numbers(tmp_path):
    registry = REGISTRY.replace('{kind = "categories", names = ["red", "green", "blue, light"]}', BINS)
    metric = parse_registry(registry)["colour"]
    declared = declare(metric.mechanism, metric=metric)
    assert {metric.encode(float(text)) for text in declared.texts} == set(range(4))
    assert [metric.encode(float(text)) for text in declared.texts] == list(declared.values)


def test_a_client_that_hashes_with_another_key_deviates(capsys):
    header, row = Path("params.csv").read_text().split()
    Path("keyed.csv").write_text(f"{header},hash_key\n{row},another\n")
    keyed = [word.replace("params.csv", "keyed.csv") for word in ENCODE]
    status, printed = outcome(capsys, "--params", "params.csv", "--", *keyed)
    assert (status, printed["verdict"]) == (1, "deviates")


def test_options_of_the_audited_command_are_its_own(folder):
    ran = within("audit", "--params", "params.csv", "--reports", "200", "--", "echo", "--json", "-o", cwd=folder)
    assert ran.returncode == 2
    assert "not found in '--json -o'" in ran.stderr
