"""What the end of a run states, in words: rates, repeated units, spilled bytes."""

import pytest

from overstory.cli.rappor.engine_runs import run_sentences
from overstory.engines.driver import Run


@pytest.mark.parametrize(
    ("spilled", "says"), [(0, "0 B spilled to disk"), (2_500_000, "2.5 MB spilled to disk"), (None, "spills not known")]
)
def test_a_run_states_its_rates_and_spills_and_what_was_repeated(spilled: int | None, says: str) -> None:
    run = Run({}, num_reports=1000, num_bytes=16_000, num_units=4, seconds=2.0, spilled=spilled)
    rates = f"4 units in 2.0 s by dask: 500 reports and 8 kB a second; {says}"
    assert run_sentences("dask", run) == [rates]
    run.retries, run.repeats = 1, 2
    assert run_sentences("dask", run) == [rates, "3 units were counted again, because a worker was lost"]
