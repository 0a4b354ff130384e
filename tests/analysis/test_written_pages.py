"""Pages are what the program says: docs/reference/oracles.md, and a workload of docs/explanation/decoding.md."""

import importlib.util
import runpy
from pathlib import Path

import pytest

from overstory.protocol.kinds.registry import REGISTRY

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("oracle_page", ROOT / "bench" / "oracle_page.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)


def test_the_page_is_fresh():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text, "run `python bench/oracle_page.py --write`"


@pytest.mark.parametrize("name", REGISTRY)
def test_every_oracle_says_what_it_is_and_where_it_comes_from(name):
    what, paper = page.described(REGISTRY[name])
    assert len(what) > 20
    assert any(str(year) in paper for year in range(2014, 2026)), paper
    assert f"`{name}`" in page.PAGE.read_text(encoding="utf-8").split(page.STOP)[1], "its proof"


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
    shown = " | ".join(f"{cover[k]:.1%}" for k in ("frequent", "rare", "absent"))
    assert f"| {workload.name} | {shown} |" in page
