"""decode --compare: two ranges of a store or of a collector, what changed, and what cannot be compared."""

import json

import pytest

from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.compared_store import MONDAY, SAME, fill, make, write_registry
from support.running import done

STORED = ("--store", "reports-2-1.db", "--registry", "metrics-2.toml", "--metric", "theme")
LATER, EARLIER = "2026-11-19..2026-11-21", "2026-11-16..2026-11-18"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("compared")
    make(path)
    return path


def compare(folder, *more, ranges=(LATER, EARLIER), status=0):
    return done(folder, "decode", *STORED, "--compare", *ranges, *more, status=status)


def test_a_kind_and_an_alpha_are_obeyed(folder):
    usual, reports = (
        json.loads(compare(folder, "--json", *more).stdout)
        for more in ((), ("--interval", "reports", "--alpha", ".01"))
    )
    assert (usual["interval"], reports["interval"]) == ("population", "reports")
    assert (usual["alpha"], reports["alpha"]) == (0.05, 0.01)
    error = {
        name: row["standard_error"]
        for name, row in (("usual", usual["differences"][0]), ("reports", reports["differences"][0]))
    }
    assert error["reports"] < error["usual"]


@pytest.mark.parametrize(
    ("ranges", "more", "message"),
    [
        (("2026-11-16..2026-11-18", "2026-11-18..2026-11-20"), (), "both ranges hold 2026-11-18"),
        (("2026-12-01", "2026-11-20"), (), "2026-12-01 has no reports of theme"),
        ((LATER, EARLIER), ("--reports-per-device", "9"), "9 reports per device"),
    ],
)
def test_what_cannot_be_compared_is_refused(folder, ranges, more, message):
    assert message in compare(folder, *more, ranges=ranges, status=2).stderr


def test_other_parameters_in_a_range_are_refused_with_both_digests(tmp_path):
    path = make(tmp_path)
    old, new = write_registry(tmp_path, 1.0), load_registry(tmp_path / "metrics-2.toml")
    with open_store(str(path), old) as store:
        fill(store, old["theme"], {MONDAY + 1: SAME}, 50, seed=9)
    refused = compare(tmp_path, status=2).stderr
    assert "50 reports from 2026-11-17 to 2026-11-17 that were made with the parameters" in refused
    assert all(registry["theme"].mechanism.digest.hex() in refused for registry in (old, new))
    compare(tmp_path, ranges=(LATER, "2026-11-18"))
