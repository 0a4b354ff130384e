"""Every registry that we show keeps a year within epsilon 8, whatever a person holds, or says in itself why not."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from overstory.files.rappor import RapporParameters
from overstory.planning.registry import plan_registry
from overstory.privacy.registry.yearly import HIGH, yearly
from overstory.protocol.metrics import parse_registry
from overstory.trial.service import write_registry
from support.console_blocks import shown_commands
from support.registry_texts import KEYS_HEX

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITES = ("cat > metrics.toml <<", "(cat <<", "printf 'registry = ")
"""How a page's command begins that writes a registry."""


def shown_registries() -> Iterator[tuple[Path, str]]:
    """Yield every command of a page that writes a registry."""
    for page in PAGES:
        for shown in shown_commands(page):
            if shown.command.startswith(WRITES) and "[metrics." in shown.command:
                yield page, shown.command


SHOWN = list(shown_registries())


def unreasoned(text: str) -> float:
    """Return the epsilon of a year of all metrics that state no reason for theirs."""
    registry = parse_registry(plan_registry(text, None)[0])
    return yearly([metric for metric in registry.values() if metric.yearly_reason is None], registry.budget).epsilon


@pytest.mark.parametrize(("page", "command"), SHOWN, ids=[page.stem for page, _ in SHOWN])
def test_the_registries_of_the_pages(page: Path, command: str, tmp_path: Path) -> None:
    (tmp_path / "public-keys").write_text(f'keys = "{KEYS_HEX}"\n')
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, timeout=60)
    assert unreasoned((tmp_path / "metrics.toml").read_text()) <= HIGH


def test_no_page_is_left_out() -> None:
    texts = {page: page.read_text("utf-8") for page in PAGES}
    written = {page for page, text in texts.items() if 'registry = "' in text and "\n> [metrics." in text}
    assert len(written) >= 12
    assert written <= {page for page, _ in SHOWN}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda path: path.name)
def test_the_registries_of_the_examples(path: Path) -> None:
    text = path.read_text("utf-8")
    if "[metrics." in text:
        assert unreasoned(text) <= HIGH
    else:
        assert path.parent.name == "deploy", "settings of a server, which name a registry"


def test_the_registry_of_the_demonstration(tmp_path: Path) -> None:
    parameters = RapporParameters(128, 2, 16, 0.5, 0.75, 0.5)
    path = tmp_path / "metrics.toml"
    (tmp_path / "candidates.txt").write_text("Ohio\nUtah\n")
    write_registry(path, tmp_path / "candidates.txt", parameters, dt.date(2026, 11, 21))
    assert unreasoned(path.read_text()) < 1.08


def test_a_registry_that_reveals_much_is_noticed() -> None:
    text = (ROOT / "examples" / "notes.toml").read_text("utf-8")
    often = "\n".join(line for line in text.splitlines() if not line.startswith(("panel", "budget")))
    assert unreasoned(often) > HIGH
    assert unreasoned(f'{often}\nyearly_reason = "None, but one is stated."\n') == 0
