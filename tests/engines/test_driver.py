"""Whatever an engine does with its units, each is counted once, or there is an error."""

import importlib.util
import pickle
import random
import subprocess
import sys

import pytest

from overstory.engines.driver import COUNTS_HEADER, EngineError, LocalEngine, count, count_unit
from overstory.engines.units import Unit
from overstory.protocol.errors import FormatError
from support.engine_files import EVERY_ORACLE


class Unreliable:
    """Counts in this process, in a drawn order, and does to the results what `spoil` says."""

    def __init__(self, seed=0, spoil=lambda results: results):
        self.random, self.spoil = random.Random(seed), spoil
        self.given: list[int] = []

    def map(self, job, units):
        self.given = [unit.number for unit in units]
        results = [(unit.number, count_unit(job, unit)) for unit in units]
        self.random.shuffle(results)
        yield from self.spoil(results)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("largest", [1, 1000, 1 << 30])
@pytest.mark.parametrize(("name", "parameters"), EVERY_ORACLE, ids=str)
def test_every_oracle_counts_alike_in_any_partition_and_order(collection, name, parameters, largest):
    made = collection(name, parameters)
    units = made.units(largest)
    assert (len(units) == 3) == (largest == 1 << 30)
    done = []
    for engine in (LocalEngine(2), Unreliable(1), Unreliable(2, lambda results: [*results, *results[::2]])):
        run = count(engine, made.job(), units, advance=done.append)
        assert run.counts == made.counts
        assert run.num_reports == 2700
    assert run.repeats == -(-len(units) // 2)
    assert sum(done) == 3 * sum(unit.num_bytes for unit in units)


def damaged(raw):
    return raw[:-1] + bytes([raw[-1] ^ 1])


def of_fewer(raw):
    magic, cohorts, bits, reports, checksum = COUNTS_HEADER.unpack_from(raw)
    return COUNTS_HEADER.pack(magic, cohorts, bits, reports - 1, checksum) + raw[COUNTS_HEADER.size :]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda results: results[1:], "1 of .* units were not counted; the first is in"),
        (lambda _: [], "units were not counted"),
        (lambda results: [*results[1:], (results[0][0], damaged(results[0][1]))], "no counts, or were damaged"),
        (lambda results: [(number, raw[:9]) for number, raw in results], "counts have a header"),
        (lambda results: [(number, of_fewer(raw)) for number, raw in results], "and the file states"),
        (lambda results: [*results, (len(results), results[0][1])], "a unit that it was not given"),
    ],
)
def test_no_wrong_count_comes_of_an_engine_that_fails(collection, spoil, says):
    made = collection()
    with pytest.raises((EngineError, FormatError), match=says):
        count(Unreliable(3, spoil), made.job(), made.units())


def test_a_file_that_was_changed_after_it_was_listed_is_noticed(collection):
    made = collection()
    units = made.units()
    changed = units[-1]
    lying = [Unit(**vars(unit) | {"num_reports": 99}) if unit is changed else unit for unit in units]
    with pytest.raises(EngineError, match=r"reports were counted in .*, and the file states 99: it was changed"):
        count(LocalEngine(1), made.job(), lying)


def test_counting_imports_no_pandas(collection, tmp_path):
    """It would take longer than counting ten million reports, in every worker."""
    made = collection()
    (tmp_path / "work").write_bytes(pickle.dumps((made.job(), made.units(1 << 30))))
    program = """
import pickle, sys
from overstory.engines.driver import count_unit
job, units = pickle.load(open(sys.argv[1], "rb"))
assert all(count_unit(job, unit) for unit in units)
print("pandas" in sys.modules)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "work")], capture_output=True, text=True, check=True
    )
    assert importlib.util.find_spec("pandas") is not None
    assert ran.stdout == "False\n"
