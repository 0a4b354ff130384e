"""Law 7 for every format: any altered, cut or stretched file is a valid one or one declared error, never another."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory.files import rappor
from overstory.files import reports as reports_module
from overstory.files.parquet import Label, read_parquet, write_blocks
from overstory.files.reports import read_reports, read_reports_csv
from overstory.protocol.errors import OverstoryError
from support.samples import CANDIDATES, COUNTS, MECHANISM, PARAMETERS, batch, reports_csv, rows_of, values_csv

LABEL = Label(12, 3, MECHANISM.canonical())
SHAPE = {"num_bits": 12, "num_hashes": 2, "num_cohorts": 3}
RAW = batch().to_wire(MECHANISM.digest)

# Name: (how a sound file is written, how it is read).
FORMATS = {
    "params": (lambda path: rappor.write_params(path, PARAMETERS), rappor.read_params),
    "values": (
        lambda path: path.write_text(values_csv([rappor.Holding("ann", 1, 'a, "b"\n'), rappor.Holding("é", 0, "x")])),
        lambda path: list(rappor.read_values(path, 3)),
    ),
    "reports": (lambda path: path.write_text(reports_csv()), lambda path: list(read_reports_csv(path, 12, 3))),
    "counts": (lambda path: rappor.write_counts(path, COUNTS), lambda path: rappor.read_counts(path, 3, 12)),
    "map": (lambda path: rappor.write_map(path, CANDIDATES), lambda path: rappor.read_map(path, **SHAPE)),
    "candidates": (lambda path: path.write_text("ash\nelm, é\n"), rappor.read_candidates),
    "parquet": (lambda path: write_blocks(path, [batch()], LABEL), lambda path: list(read_parquet(path))),
    "any reports": (
        lambda path: write_blocks(path, [batch()], LABEL),
        lambda path: list(read_reports(path, PARAMETERS)),
    ),
    "gz": (
        lambda path: path.write_bytes(gzip.compress(reports_csv().encode())),
        lambda path: list(read_reports(path, PARAMETERS)),
    ),
}

BYTE = st.one_of(st.sampled_from(list(b'",\r\n01x -\x00\xff')), st.integers(0, 255))
CHANGES = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete", "cut", "repeat"]), st.floats(0, 1, exclude_max=True), BYTE),
    min_size=1,
    max_size=4,
)


def altered(raw, changes):
    for kind, where, byte in changes:
        at = int(where * len(raw))
        if kind == "set":
            raw = raw[:at] + bytes([byte]) + raw[at + 1 :]
        elif kind == "insert":
            raw = raw[:at] + bytes([byte]) + raw[at:]
        elif kind == "delete":
            raw = raw[:at] + raw[at + 1 :]
        elif kind == "cut":
            raw = raw[:at]
        else:
            raw = raw[:at] + raw[at // 2 :]
    return raw


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Return the bytes of one sound file per format."""
    folder = tmp_path_factory.mktemp("sound")
    files = {}
    for name, (write, read) in FORMATS.items():
        path = folder / name
        write(path)
        read(path)  # sound indeed
        files[name] = path.read_bytes()
    return files


@pytest.mark.parametrize("name", FORMATS)
@given(changes=CHANGES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_altered_file_is_valid_or_one_declared_error(name, changes, sound, tmp_path):
    path = tmp_path / "altered"
    path.write_bytes(altered(sound[name], changes))
    try:
        FORMATS[name][1](path)
    except OverstoryError as error:
        assert str(error).startswith(str(path))  # noqa: PT017 - that there is an error is not asked


@pytest.mark.parametrize("name", ["reports", "map"])
@given(changes=CHANGES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_fast_reader_agrees_about_altered_files(name, changes, sound, tmp_path, monkeypatch):
    path = tmp_path / "altered"
    path.write_bytes(altered(sound[name], changes))
    outcomes = []
    for smallest in (1 << 40, 1):
        monkeypatch.setattr(reports_module, "SMALLEST", smallest)
        monkeypatch.setattr(rappor, "SMALLEST", smallest)
        outcomes.append(outcome(name, path))
    monkeypatch.undo()
    assert outcomes[0] == outcomes[1]


def outcome(name, path):
    try:
        found = FORMATS[name][1](path)
    except OverstoryError as error:
        return str(error)
    if name == "map":
        return list(found.candidates), found.positions.tolist()
    return rows_of(found)
