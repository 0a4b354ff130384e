"""Reports of every family of oracles travel in Parquet: public seeds in 32 bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overstory
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.files.parquet import ROWS, Label, read_label, read_parquet, write_parquet
from overstory.protocol.errors import FormatError
from overstory.protocol.mechanisms.base import Mechanism

ONE, TWO = {"epsilon": 1.0}, {"epsilon_permanent": 2.0, "epsilon_report": 1.0}
SIZE = {"domain_size": 90}
SEEDED = [
    ("linear-hash", ONE | SIZE),
    ("linear-hash", ONE | {"domain_size": 70_000}),
    ("hadamard", ONE | {"domain_size": 100_000}),
]
BY_SEED = [
    ("blh", ONE | SIZE),
    ("olh", ONE | {"domain_size": 70_000}),
    ("random-matrix", ONE | SIZE),
    ("loloha", TWO | SIZE),
    ("loloha", TWO | SIZE | {"num_seeds": 100}),
]
COUNTED = [
    ("hadamard", ONE | SIZE),
    ("l-grr", TWO | SIZE),
    ("grr", ONE | SIZE),
    ("subset", ONE | SIZE),
    ("projective", ONE | SIZE),
    ("dbitflip", ONE | SIZE),
]


def label_of(mechanism: Mechanism) -> Label:
    return Label(mechanism.payload_bits, mechanism.num_cohorts, mechanism.canonical())


def simulated(oracle: FrequencyOracle, seed: int) -> ReportBatch:
    return oracle.simulate(np.arange(700) % 90, np.random.default_rng(seed))


@pytest.mark.parametrize(("name", "parameters"), SEEDED + COUNTED + BY_SEED, ids=str)
def test_reports_survive_and_count_alike(tmp_path: Path, name: str, parameters: dict[str, Any]) -> None:
    from pyarrow import parquet

    oracle, path = overstory.oracle(name, **parameters), tmp_path / "r.parquet"
    batches = [simulated(oracle, seed) for seed in range(3)]
    write_parquet(path, iter(batches), label_of(oracle.mechanism))
    assert read_label(path).digest == oracle.mechanism.digest
    assert parquet.ParquetFile(path).num_row_groups == len(batches)
    read = list(read_parquet(path))
    assert np.array_equal(np.concatenate([b.cohorts for b in read]), np.concatenate([b.cohorts for b in batches]))
    assert np.array_equal(np.concatenate([b.bits for b in read]), np.concatenate([b.bits for b in batches]))
    values = None if name == "dbitflip" or (name, parameters) in BY_SEED else range(90)
    counts = [oracle.accumulate(batch, values) for batch in (*batches, *read)]
    assert sum(counts[1:3], counts[0]) == sum(counts[4:], counts[3])


@pytest.mark.parametrize(("name", "parameters"), SEEDED, ids=str)
def test_seeds_are_wide_and_of_no_dictionary(tmp_path: Path, name: str, parameters: dict[str, Any]) -> None:
    from pyarrow import parquet

    oracle, path = overstory.oracle(name, **parameters), tmp_path / "r.parquet"
    write_parquet(path, [simulated(oracle, 1)], label_of(oracle.mechanism))
    with parquet.ParquetFile(path) as file:
        assert str(file.schema_arrow.field("cohort").type) == "uint32"
        assert not any("DICT" in encoding for encoding in file.metadata.row_group(0).column(0).encodings)


def test_a_file_of_many_rows_is_read_in_pieces(tmp_path: Path) -> None:
    oracle, path = overstory.oracle("olh", **ONE, **SIZE), tmp_path / "r.parquet"
    whole = oracle.simulate(np.arange(ROWS + 90_000) % 90, np.random.default_rng(1))
    write_parquet(path, [whole], label_of(oracle.mechanism))
    sizes = [len(batch) for batch in read_parquet(path)]
    assert sum(sizes) == len(whole)
    assert max(sizes) <= ROWS < len(whole)


@pytest.mark.parametrize(
    ("kind", "seed", "says"),
    [("uint16", 7, "expected one column cohort of type uint32"), ("uint32", 1 << 31, "expected 0 .. 2147483647")],
)
def test_a_seed_of_another_width_or_range_is_refused(tmp_path: Path, kind: str, seed: int, says: str) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    label, path = label_of(overstory.oracle("linear-hash", **ONE, **SIZE).mechanism), tmp_path / "r.parquet"
    columns = {"cohort": pa.array([seed], kind), "bits": pa.array([b"\1"], pa.binary(1))}
    parquet.write_table(pa.table(columns).replace_schema_metadata({b"overstory": label.to_json()}), path)
    with pytest.raises(FormatError, match=says):
        list(read_parquet(path))


def test_more_cohorts_than_a_wire_holds_are_refused(tmp_path: Path) -> None:
    label = Label(1, (1 << 31) + 1, {"name": "any"})
    with pytest.raises(FormatError, match="altered"):
        Label.from_json(label.to_json(), str(tmp_path))
