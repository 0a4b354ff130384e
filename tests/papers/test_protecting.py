"""ProTECting's experiments: where homes come from, what is measured, which strategies are compared."""

import tracemalloc

import numpy as np
import pytest

from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import FormatError
from papers.run import experiment
from papers.smart_homes import homes
from papers.study import Context

LCL = "LCLid,stdorToU,DateTime,KWH/hh (per half hour) \n"


def write_lcl(path, meters):
    lines = [LCL]
    for name, readings in meters.items():
        lines += [f"{name},Std,2012-10-12 00:{i:02}:00.0000000, {reading} \n" for i, reading in enumerate(readings)]
    path.write_text("".join(lines))
    return path


def windows_of(path):
    return homes.sampled_windows(path, np.random.default_rng(1))


def test_windows_of_the_london_layout_are_of_one_meter_each(tmp_path):
    path = write_lcl(tmp_path / "lcl.csv", {"MAC1": [0.1 * i for i in range(25)], "MAC2": [1.5] * 12})
    found = windows_of(path)
    assert found.shape == (3, homes.READINGS)
    np.testing.assert_allclose(found[0], np.arange(10) * 0.1, rtol=1e-6)
    np.testing.assert_allclose(found[2], 1.5)


def test_a_missing_reading_ends_no_file_but_its_window(tmp_path):
    path = write_lcl(tmp_path / "lcl.csv", {"MAC1": [0.1] * 5 + ["Null"] + [0.2] * 14})
    assert len(windows_of(path)) == 1


def test_plain_csv_of_one_meter(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("time,value\n" + "".join(f"{i},{i / 100}\n" for i in range(40)))
    assert windows_of(path).shape == (4, homes.READINGS)


def test_whole_numbers_at_first_do_not_forbid_fractions_and_names_later(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("meter,time,kwh\n" + "1,7,2\n" * 250_000 + "m2,later,0.5\n" * 10)
    assert path.stat().st_size > 1 << 20  # more than the block by which CSV's types are guessed
    assert len(list(homes._windows(path))) == 25_001


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,value\n1,ten\n", "does not hold numbers"),
        ("time,value\n1,2\n", "no meter has 10"),
        ("a,b\n1,2,\x01\n", r"not a CSV file of readings: .*1,2,\?$"),
    ],
)
def test_what_holds_no_readings_is_refused(tmp_path, text, said):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=said):
        windows_of(path)


def test_a_long_file_is_sampled_evenly_in_flat_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(homes, "POOL", 500)
    path = tmp_path / "long.csv"
    with path.open("w") as file:
        file.write("meter,kwh\n")
        for meter in range(20_000):
            file.write(f"m{meter},{meter % 100}\n" * homes.READINGS)
    short = tmp_path / "short.csv"
    short.write_text("meter,kwh\n" + "".join(f"m{meter},1\n" * homes.READINGS for meter in range(600)))
    windows_of(short)  # what is imported when it is needed is no memory of the file
    tracemalloc.start()
    found = windows_of(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.shape == (500, homes.READINGS)
    assert peak < 20 << 20
    # 500 draws of 100 values: the mean is 49.5, its standard error 1.3
    assert abs(found[:, 0].mean() - 49.5) < 7


def test_bins_are_those_of_the_shipped_domain():
    readings = np.array([0.0, 0.019, 0.02, 0.5, 1.99, 2.0, 7.5], np.float32)
    domain = Bins(0, homes.MOST_KWH, homes.BINS)
    assert homes.binned(readings, homes.BINS).tolist()[3:] == [domain.symbol(float(value)) for value in readings[3:]]


def test_readings_of_a_file_are_what_the_experiment_says_it_used(tmp_path):
    path = write_lcl(tmp_path / "lcl.csv", {"MAC1": [0.1] * 30})
    context = Context(experiment("protecting-window"), options={"readings": path})
    assert "lcl.csv" in homes.homes_of(context).description
