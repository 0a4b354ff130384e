"""How well decoding works, over fifty collections of each workload: what the documentation claims must hold.

The seeds are fixed, so this is no statistical test but a record: a change that makes decoding worse shows here.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "decode_accuracy.py"

# workload: least mean true detections, largest mean false discovery rate, largest RMSE of reported counts
CLAIMS = {
    "section 5.2": (44.0, 0.05, 2150),
    "30 missing": (24.0, 0.06, 3000),
    "homepages, tail outside": (41.0, 0.05, 3200),
    "planned, k=128": (54.0, 0.05, 1500),
}


@pytest.mark.slow
@pytest.mark.parametrize("workload", CLAIMS)
def test_fifty_collections_are_decoded_as_well_as_claimed(workload):
    command = [sys.executable, str(BENCH), "--seeds", "50", "--json", "--only", workload]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
    default = json.loads(done.stdout)["workloads"][workload]["default"]
    true, false_rate, rmse = CLAIMS[workload]
    assert default["true"] >= true
    assert default["fdr"] <= false_rate
    assert default["rmse"] <= rmse
    assert all(0.935 <= covered <= 0.965 for covered in default["coverage"].values() if covered is not None)
