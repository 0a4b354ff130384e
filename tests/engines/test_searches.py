"""A search over files finds what it finds in the same answers in memory, by any engine and in any partition."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_driver import Unreliable

from overstory.analysis.kinds.split import sorted_answers
from overstory.cli.main import main
from overstory.discovery import find
from overstory.discovery.result import Discovered
from overstory.engines.driver import EngineError, LocalEngine, count
from overstory.engines.places import find_places
from overstory.engines.searches import search_answers
from overstory.engines.units import Job, Unit, read_contents, units_of
from overstory.files.rappor import read_candidates
from overstory.protocol.search import prefix_search
from support.searched_files import in_files, searched_files


def answers_in_files(engine: Any, job: Job, units: Sequence[Unit]) -> Any:
    return search_answers(lambda asked: count(engine, asked, units).counts, job)


PLANS: dict[str, dict[str, Any]] = {
    "integers": {"values": {"domain": "integers", "bits": 10}, "epsilon": 4.0, "step": 4, "beam": 6},
    "with known": {"values": {"domain": "integers", "bits": 10}, "epsilon": 4.0, "step": 5, "beam": 6, "known": ["7"]},
    "strings": {"values": {"domain": "strings", "max_bytes": 2}, "epsilon": 5.0, "step": 8, "beam": 6},
}


def test_the_command_searches_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, search, batches = searched_files(tmp_path)
    with sorted_answers(search, batches, 4500) as answers:
        expected = find(search.plan, answers).to_json(everything=True)
    assert main([*command, "--engine", "local", "--json", "--all", "--quiet"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["value"] for row in shown["estimates"]] == [row["value"] for row in expected["estimates"]]
    assert shown["levels"] == expected["levels"]
    assert main([*command, "--engine", "local"]) == 0
    assert re.search(
        r"overstory: \d+ units in [\d.]+ s by local: [\d,]+ reports and .* a second\n",
        (capsys.readouterr().err),
    )
    assert main([*command, "--store", "x.db"]) == 2
    assert "--store has no effect on files of reports" in capsys.readouterr().err
    offered = tmp_path / "found.txt"
    offered.write_text("80\n300\n")
    assert main([*command, "--candidates-out", str(offered)]) == 0
    detected = [row["value"] for row in expected["estimates"] if row["detected"]]
    assert offered.read_text().split() == list(dict.fromkeys(map(str, [80, 300, *detected])))
    assert "candidates in" in capsys.readouterr().out
    quoted = tmp_path / "found.csv"
    quoted.write_text('"a,b"\n" ""c"""\n80\n')
    for _ in range(2):
        assert main([*command, "--candidates-out", str(quoted)]) == 0
        assert read_candidates(quoted) == list(dict.fromkeys(["a,b", ' "c"', "80", *map(str, detected)]))


def facts(found: Discovered) -> str:
    return json.dumps(found.to_json(everything=True), sort_keys=True, default=str)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "parameters",
    [pytest.param(PLANS[name], id=name, marks=[] if name == "integers" else pytest.mark.slow) for name in PLANS],
)
def test_a_search_over_files_finds_the_same(tmp_path: Path, parameters: dict[str, Any]) -> None:
    search = prefix_search(**parameters)
    batches = in_files(tmp_path, search)
    with sorted_answers(search, batches, 4500) as answers:
        expected = find(search.plan, answers)
    contents = read_contents(find_places([str(tmp_path)]))
    for largest, engine in (
        (1 << 30, LocalEngine(2)),
        (20_000, Unreliable(1, lambda results: [*results, *results[:1]])),
    ):
        found = find(search.plan, answers_in_files(engine, Job.of(search), units_of(contents, largest)))
        assert facts(found) == facts(expected)
    # Broken on purpose: an engine that loses a unit finds nothing, rather than something else.
    with pytest.raises(EngineError, match="were not counted"):
        find(search.plan, answers_in_files(Unreliable(2, lambda r: r[1:]), Job.of(search), units_of(contents, 1 << 30)))
