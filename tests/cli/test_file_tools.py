"""encode, map, sum and decode as processes: the whole path, repeatable, and what bad input does."""

import csv
import gzip
import json
import subprocess
import sys

import pytest

from support.running import at_a_terminal, done, overstory, within

SHARES = {"oak": 0.5, "ash, white": 0.3, "elm": 0.15, "fir": 0.05}
DEVICES = 8_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("path")
    (path / "params.csv").write_text("k,h,m,p,q,f\n32,2,8,0.25,0.75,0.25\n")
    edges = [("oak", 10), ("ash, white", 16), ("elm", 19), ("fir", 20)]
    with (path / "values.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("client", "cohort", "value"))
        for i in range(DEVICES):
            rows.writerow((f"c{i}", i % 8, next(name for name, edge in edges if i // 8 % 20 < edge)))
    (path / "names.txt").write_text("".join(f"{name}\n" for name in [*SHARES, "yew", "larch"]))
    return path


def process(folder, *arguments, status=0):
    return checked(overstory(*arguments, cwd=folder), status)


def inside(folder, *arguments, status=0):
    return checked(within(*arguments, cwd=folder), status)


def checked(ran, status):
    assert ran.returncode == status, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran


COMBINATIONS = [("overstory-v1", kind) for kind in ("csv", "csv.gz", "parquet")]
COMBINATIONS += [("google-rappor-python", "csv")]


@pytest.mark.parametrize(("family", "kind"), COMBINATIONS)
def test_the_whole_path(folder, family, kind):
    """8,000 devices; every estimate within four standard errors, what was there detected, what was not, not.

    One form of reports goes through real processes for each command, the others through the same code in this one.
    """
    run = process if kind == "csv" else inside
    header, row = (folder / "params.csv").read_text().split()
    (folder / "family.csv").write_text(f"{header},hash_family\n{row},{family}\n")
    params, reports = ("--params", "family.csv"), f"reports-{family}.{kind}"
    named = ("--params", "params.csv", "--hash-family", family)  # says the same, of what makes reports and maps
    run(folder, "encode", *named, "--values", "values.csv", "--seed", 11, "-o", reports)
    run(folder, "map", *(named if kind == "csv" else params), "--candidates", "names.txt", "-o", "map.csv")
    summed = run(folder, "sum", *params, reports, "-o", "counts.csv", "--json")
    assert json.loads(summed.stdout)["reports"] == DEVICES
    files = ["--counts", "counts.csv", "--map", "map.csv", "-o", "out", "--all", "--json"]
    decoded = run(folder, "decode", *params, *files)
    found = {one["value"]: one for one in json.loads(decoded.stdout)["estimates"]}
    assert set(found) == {*SHARES, "yew", "larch"}
    for name, one in found.items():
        truth = SHARES.get(name, 0) * DEVICES
        assert abs(one["raw_count"] - truth) < 4 * one["standard_error"]
        assert one["standard_error"] < 250
        assert one["detected"] == (name in SHARES)


def prepare(folder):
    if not (folder / "ready.csv").exists():
        inside(folder, "encode", "--params", "params.csv", "--values", "values.csv", "--seed", 3, "-o", "ready.parquet")
        inside(folder, "sum", "--params", "params.csv", "ready.parquet", "-o", "ready.csv")
        inside(folder, "map", "--params", "params.csv", "--candidates", "names.txt", "-o", "ready-map.csv")


def decode(folder, *more, status=0):
    prepare(folder)
    files = ("--params", "params.csv", "--counts", "ready.csv", "--map", "ready-map.csv")
    return inside(folder, "decode", *files, "-o", "out", *more, status=status)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_a_seed_gives_the_same_file_twice_and_no_seed_never(folder, kind):
    (folder / "few.csv").write_text("client,cohort,value\n" + "ann,1,oak\nbob,2,elm\n" * 50)
    for name, seed in (("a", ("--seed", 5)), ("b", ("--seed", 5)), ("c", ("--seed", 6)), ("d", ()), ("e", ())):
        inside(folder, "encode", "--params", "params.csv", "--values", "few.csv", *seed, "-o", f"{name}.{kind}")
    contents = {name: (folder / f"{name}.{kind}").read_bytes() for name in "abcde"}
    assert contents["a"] == contents["b"]
    assert len(set(contents.values())) == 4


def test_a_client_keeps_its_permanent_response(folder):
    (folder / "again.csv").write_text("client,cohort,value\n" + "ann,1,oak\nann,1,elm\nbob,1,oak\n" * 6)
    inside(folder, "encode", "--params", "params.csv", "--values", "again.csv", "-o", "again-reports.csv")
    with (folder / "again-reports.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    by_client = [{row["prr"] for row in rows[i::3]} for i in range(3)]
    assert [len(one) for one in by_client] == [1, 1, 1]
    assert by_client[0] != by_client[2]  # two devices, one value
    assert len({row["irr"] for row in rows[0::3]}) > 1  # fresh in every report


def test_nothing_but_a_header_is_no_reports(folder):
    (folder / "nobody.csv").write_text("client,cohort,value\n")
    for kind in ("csv", "parquet"):
        inside(folder, "encode", "--params", "params.csv", "--values", "nobody.csv", "-o", f"none.{kind}")
        ran = inside(folder, "sum", "--params", "params.csv", f"none.{kind}", "-o", "none-counts.csv", "--json")
        assert json.loads(ran.stdout)["reports"] == 0
    prepare(folder)
    files = ("--params", "params.csv", "--counts", "none-counts.csv", "--map", "ready-map.csv")
    ran = inside(folder, "decode", *files, "-o", "none-out", "--json", "--all")
    assert not any(one["detected"] for one in json.loads(ran.stdout)["estimates"])


ALL = {
    "params": "params.csv", "values": "values.csv", "reports": "ready.parquet",
    "counts": "ready.csv", "map": "ready-map.csv", "candidates": "names.txt",
}  # fmt: skip
INPUTS = {
    "encode": ("params", "values"), "sum": ("params", "reports"),
    "map": ("params", "candidates"), "decode": ("params", "counts", "map"),
}  # fmt: skip


@pytest.mark.parametrize(("command", "which"), [(c, w) for c, inputs in INPUTS.items() for w in inputs])
def test_an_input_that_is_missing_a_folder_or_empty(folder, command, which):
    prepare(folder)
    (folder / "empty").touch()
    (folder / "inner").mkdir(exist_ok=True)
    for name, says in (("absent", "absent: no such file"), ("inner", "is a directory"), ("empty", "empty")):
        given = []
        for one in INPUTS[command]:
            option = () if (command, one) == ("sum", "reports") else (f"--{one}",)
            given += [*option, name if one == which else ALL[one]]
        ran = inside(folder, command, *given, "-o", f"never-{command}.csv", status=2)
        assert ran.stderr.startswith("overstory: error: ")
        assert says in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
        assert not (folder / f"never-{command}.csv").exists()


def test_a_pipe_is_read_once(folder):
    prepare(folder)
    inside(folder, "encode", "--params", "params.csv", "--values", "values.csv", "--seed", 3, "-o", "pipe.csv")
    (folder / "pipe.csv.gz").write_bytes(gzip.compress((folder / "pipe.csv").read_bytes()))
    for source in ("cat pipe.csv", "cat pipe.csv.gz"):
        line = f"{sys.executable} -m overstory sum --params params.csv <({source}) -o pipe-counts.csv"
        subprocess.run(["bash", "-c", line], cwd=folder, check=True, capture_output=True)
        assert (folder / "pipe-counts.csv").read_bytes() == (folder / "ready.csv").read_bytes()


def test_a_bar_is_shown_on_a_terminal_only(folder):
    prepare(folder)
    command = "sum --params params.csv ready.parquet -o bar"
    assert "summing" in at_a_terminal(command, folder, "stderr")
    assert at_a_terminal(f"{command} --quiet", folder, "stderr") == ""


def test_decode_reads_googles_files_and_says_what_it_did(tmp_path):
    (tmp_path / "params.csv").write_text('"k","h","m","p","q","f"\n12,2,3,0.25,0.75,0\n')
    (tmp_path / "map.csv").write_text('"V_1",1,5,13,24,26,36\n"V_2",12,14,20,30,31,\n"V_1",3,4,17,18,25,26\n')
    counts = [[1000, *([250] * 12)] for _ in range(6)]
    for row, positions in zip(counts, ((1, 5), (1, 12), (2, 12)) * 2, strict=True):
        for bit in positions:
            row[bit] = 750
    (tmp_path / "counts.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in counts))
    files = ("--params", "params.csv", "--counts", "counts.csv", "--map", "map.csv", "-o", "out")
    said = json.loads(done(tmp_path, "decode", *files, "--json").stdout)
    assert said["reports"] == 6000
    assert [row["value"] for row in said["estimates"] if row["detected"]] == ["V_1"]
    assert said["estimates"][0]["raw_count"] == pytest.approx(6000, rel=0.01)
    for words in ("6 rows are 2 for each of 3 cohorts", "1 row with an earlier row's candidate left out"):
        assert sum(words in note for note in said["notes"]) == 1
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["notes"] == said["notes"]
