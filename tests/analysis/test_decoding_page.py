"""The accuracy in docs/explanation/decoding.md is the program's own: its first workload is measured again."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_pages_figures_are_what_the_decoder_does_today():
    """The tables had been measured before the code's last changes: a standard error and two coverages had moved."""
    bench = runpy.run_path(str(ROOT / "bench" / "decode_accuracy.py"))
    workload = bench["workloads"]()[0]
    found = bench["judge"](workload, bench["DECODERS"]["default"], 50)
    error, cover = f"{found['fdr']:.3f} ± {found['fdr_standard_error']:.3f}", found["coverage"]
    page = (ROOT / "docs" / "explanation" / "decoding.md").read_text(encoding="utf-8").splitlines()
    assert (
        f"| {workload.name} | default | {found['true']:.2f} | {found['false']:.2f} | {error} | {found['rmse']:.0f} "
        f"| {found['standard_error']:.0f} |"
    ) in page
    assert (
        f"| {workload.name} | " + " | ".join(f"{cover[k]:.1%}" for k in ("frequent", "rare", "absent")) + " |" in page
    )
