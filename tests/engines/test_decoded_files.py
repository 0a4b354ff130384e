"""Files of reports of any oracle: what decode makes of them is what the oracle estimates from the same reports."""

import json

import numpy as np
import pytest
from test_driver import Unreliable

import overstory
from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.kinds.linked import pair_counts
from overstory.cli.main import main
from overstory.engines.driver import LocalEngine, count
from overstory.engines.places import find_places
from overstory.engines.units import Job, read_contents, units_of
from overstory.files.parquet import Label, write_blocks
from overstory.files.reports import write_packed
from overstory.protocol.kinds.joint import joint
from support.engine_files import EVERY_ORACLE, pieces

ONE = {"epsilon": 1.0}


def printed(capsys, *command, status=0):
    assert main([str(part) for part in command]) == status
    out = capsys.readouterr()
    return out.err if status else out.out


def names_file(made, folder):
    if made.asked is None:
        return []
    (folder / "names.txt").write_text("\n".join(made.asked))
    return ["--candidates", str(folder / "names.txt")]


@pytest.mark.parametrize(("name", "parameters"), EVERY_ORACLE, ids=str)
def test_decode_estimates_what_the_oracle_does(collection, tmp_path, capsys, name, parameters):
    made = collection(name, parameters, 300)
    expected = overstory.oracle(name, **parameters).estimate(made.counts, made.asked).rows()
    command = ["decode", made.folder, *names_file(made, tmp_path), "--json", "--quiet", "--all"]
    answer = json.loads(printed(capsys, *command))
    assert json.loads(json.dumps(expected)) == answer["estimates"]
    assert (answer["reports"], answer["digest"]) == (900, made.mechanism.digest.hex())
    assert answer["counting"]["engine"] == "local"


def test_options_that_do_not_go_with_the_oracle_are_refused(collection, tmp_path, capsys):
    made = collection("grr", ONE | {"domain_size": 9}, 300)
    (tmp_path / "names.txt").write_text("1\n2\n")
    for options, says in (
        (["--candidates", tmp_path / "names.txt"], "--candidates has no effect: grr was counted over its domain"),
        (["--complete"], "--method and --complete are for Bloom filters"),
    ):
        assert says in printed(capsys, "decode", made.folder, *options, status=2)


@pytest.mark.usefixtures("small_blocks")
def test_pairs_of_a_table_are_counted_alike(tmp_path):
    linked = joint(of=[{"oracle": "grr", "domain_size": 4} | ONE, {"oracle": "oue", "domain_size": 3} | ONE])
    batches = [
        SimulatedDevices.holding(linked, range(12), np.arange(300) % 12, np.random.default_rng(seed)).report()
        for seed in range(2)
    ]
    write_blocks(tmp_path / "a.parquet", pieces(batches[0], 100), Label.of(linked))
    write_packed(tmp_path / "b.ovsb", (piece.to_wire(linked.digest) for piece in pieces(batches[1], 100)))
    expected = count_reports(linked, batches[0]) + count_reports(linked, batches[1])
    for largest in (1, 1 << 30):
        units = units_of(read_contents(find_places([str(tmp_path)])), largest)
        for engine in (LocalEngine(2), Unreliable(1, lambda results: [*results, *results])):
            run = count(engine, Job.of(linked), units)
            assert run.counts == expected
            assert pair_counts(linked, run.counts).totals.sum() == 600
