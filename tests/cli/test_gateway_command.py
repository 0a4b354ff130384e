"""gateway as a command: what it prints, where reports go, and what is refused."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from overstory.protocol.wire.upload import decode_uploads
from support.gateway_samples import registry_text
from support.running import done, overstory

ROWS = "".join(f"2026-10-2{d}T{h:02}:00,0.{h:02}\n" for d in (4, 5) for h in range(24))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "metrics.toml").write_text(registry_text())
    (tmp_path / "readings.csv").write_text(f"time,value\n{ROWS}")
    return tmp_path


@pytest.fixture(autouse=True)
def quiet(monkeypatch: Any) -> None:
    for name in ("DO_NOT_TRACK", "OVERSTORY", "OVERSTORY_WRITE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


GATEWAY = ("gateway", "--metric", "energy", "--registry", "metrics.toml", "--state", "meter")
FILE = (*GATEWAY, "--readings", "readings.csv", "--output", "out.ovsu")


def test_a_period_that_was_reported_as_nothing_is_reported(folder: Path) -> None:
    lines = (folder / "readings.csv").read_text().splitlines()
    lines[-1] = lines[-1].partition(",")[0] + ",Null"
    (folder / "readings.csv").write_text("\n".join(lines))
    assert "48 periods reported (1 unfit), 47 missing" in done(folder, *FILE, "--agree", "on").stdout


def test_local_times_and_clocks_that_are_set_back(folder: Path) -> None:
    """Berlin, 25 October 2026: the file's 24 local hours from 00:00 are 24 of the day's 25."""
    ran = json.loads(done(folder, *FILE, "--agree", "on", "--timezone", "Europe/Berlin", "--json").stdout)
    assert ran["reports"] == {"recorded": 48}
    periods = sorted(u.period for u in decode_uploads((folder / "out.ovsu").read_bytes(), 99))
    steps = [later - earlier for earlier, later in pairwise(periods)]
    assert sorted(steps) == [2] * 46 + [4]


def test_bad_lines_are_told_with_their_numbers(folder: Path) -> None:
    (folder / "readings.csv").write_text(f"time,value\nnever,1\n{ROWS}2026-10-26T00:00,much\n")
    ran = done(folder, *FILE, "--agree", "on")
    assert "readings.csv, line 2, field time: 'never' is no time" in ran.stderr
    assert "readings.csv, line 51, field value: 'much' is no finite number" in ran.stderr
    assert "50 lines, 2 bad" in ran.stdout
    strict = done(folder, *FILE, "--strict", status=2)
    assert strict.stderr.startswith("overstory: error: readings.csv, line 2, field time")


def test_json_lines_by_name(folder: Path) -> None:
    (folder / "readings.jsonl").write_text('{"t": 1792800000, "kwh": 0.5}\n{"t": 1792801800, "kwh": 0.7}\n')
    args = (*GATEWAY, "--readings", "readings.jsonl", "--time-column", "t", "--value-column", "kwh", "--agree", "local")
    ran = json.loads(done(folder, *args, "--pick", "mean", "--missing", "zero", "--json").stdout)
    assert ran["reports"] == {"recorded": 2}
    assert (ran["handed_over"], ran["privacy"]["reports"]) == (0, 0)


def test_a_collector_that_is_not_there(folder: Path) -> None:
    args = (*GATEWAY, "--readings", "readings.csv", "--server", "http://127.0.0.1:9", "--agree", "on")
    out = done(folder, *args).stdout
    assert "0 handed over, 0 refused, 48 waiting (no connection" in out


def test_do_not_track_is_honoured_and_named(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    assert "DO_NOT_TRACK is set" in done(folder, *FILE, "--agree", "on", status=2).stderr


def test_a_stream_as_a_process(folder: Path) -> None:
    args = (*GATEWAY, "--readings", "-", "--clock", "readings", "--output", "out.ovsu", "--agree", "on", "--json")
    ran = overstory(*args, cwd=folder, CI="true")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["lines"]["read"] == 0


def test_a_gateway_names_its_group_and_goes_on_with_its_file(folder: Path) -> None:
    groups = 'groups = {by = "grid", shares = {"north-1" = 0.5, "south" = 0.4}, devices = 90000}'
    (folder / "metrics.toml").write_text(registry_text().replace("[metrics.fixed]", f"{groups}\n[metrics.fixed]"))
    done(folder, *FILE, "--agree", "on", "--group", "north-1")
    (folder / "readings.csv").write_text(f"time,value\n{ROWS}2026-10-26T00:00,0.5\n2026-10-26T01:00,0.5\n")
    done(folder, *FILE)
    uploads = decode_uploads((folder / "out.ovsu").read_bytes(), 99)
    assert [upload.group for upload in uploads].count("north-1") == 48
    assert {upload.group for upload in uploads[48:]} == {"other"}
    assert len(uploads) > 48, "the file with groups was read to its end"
    error = done(folder, *FILE, "--group", "east", status=2).stderr
    assert "there is no group 'east': the groups are north-1, south, other" in error
