"""Counts with a label, of any oracle: what decode makes of them is what the oracle estimates from the same reports."""

import json

import pytest

import overstory
from overstory.cli.main import main
from overstory.files.labels import read_labelled
from support.engine_files import EVERY_ORACLE

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
    candidates, out = names_file(made, tmp_path), tmp_path / "counts.json"
    given = candidates if made.job().asked is not None else []
    printed(capsys, "sum", made.folder, *given, "-o", out, "--quiet")
    assert read_labelled(out).counts == made.counts
    oracle = overstory.oracle(name, **parameters)
    expected = oracle.estimate(made.counts, made.asked).rows()
    counted = json.loads(printed(capsys, "decode", "--counts", out, *([] if given else candidates), "--json", "--all"))
    at_once = json.loads(printed(capsys, "decode", made.folder, *candidates, "--json", "--quiet", "--all"))
    for answer in (counted, at_once):
        assert json.loads(json.dumps(expected)) == answer["estimates"]
        assert (answer["reports"], answer["digest"]) == (900, made.mechanism.digest.hex())
    assert at_once["counting"]["engine"] == "local"


def test_some_values_of_a_domain_are_counted_by_their_numbers(collection, tmp_path, capsys):
    made, out = collection("grr", ONE | {"domain_size": 9}, 300), tmp_path / "counts.json"
    (tmp_path / "some.txt").write_text("4\n2\n")
    printed(capsys, "sum", made.folder, "--candidates", tmp_path / "some.txt", "-o", out)
    labelled = read_labelled(out)
    assert labelled.values == (4, 2)
    assert labelled.counts.ones.tolist() == made.counts.ones[:, [4, 2]].tolist()
    shown = json.loads(printed(capsys, "decode", "--counts", out, "--json", "--all"))
    assert {row["value"] for row in shown["estimates"]} == {"4", "2"}
    (tmp_path / "some.txt").write_text("4\n9\n")
    assert "'9' is no value of the domain 0 .. 8" in printed(
        capsys, "sum", made.folder, "--candidates", tmp_path / "some.txt", "-o", out, status=2
    )


def test_options_that_do_not_go_with_counts_are_refused(collection, tmp_path, capsys):
    made, out = collection("grr", ONE | {"domain_size": 9}, 300), tmp_path / "counts.json"
    (tmp_path / "names.json").write_text("1\n2\n")
    printed(capsys, "sum", made.folder, "-o", out)
    for options, says in (
        ([out, "--candidates", tmp_path / "names.json"], "--candidates has no effect: grr was counted over its"),
        ([out, "--complete"], "--method and --complete are for Bloom filters"),
        ([tmp_path / "names.json"], "expected counts in JSON, from `overstory sum -o NAME.json`"),
    ):
        assert says in printed(capsys, "decode", "--counts", *options, status=2)


def test_counts_that_were_altered_are_refused(collection, tmp_path, capsys):
    made, out = collection("grr", ONE | {"domain_size": 9}, 300), tmp_path / "counts.json"
    printed(capsys, "sum", made.folder, "-o", out)
    fields = json.loads(out.read_text())
    for name, value, says in (
        ("ones", [fields["ones"][0][:-1]], "8 counts, but grr has 9"),
        ("ones", [[901] * 9], "these are no counts: cohort 0, bit 0: 901 ones in 900 reports"),
        ("values", [1, "2"], "neither texts nor symbols"),
        ("values", [1, 2], "2 values, but 9 counts"),
        ("label", {}, "the metadata key overstory holds no label of ours"),
        ("format", "overstory counts 9", "expected the format 'overstory counts 1'"),
    ):
        out.write_text(json.dumps(fields | {name: value}))
        assert says in printed(capsys, "decode", "--counts", out, status=2)
