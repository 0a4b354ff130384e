"""metrics init with groups: options alone, which nobody is asked about, and what is wrong with them."""

from pathlib import Path
from typing import Any

import pytest

from overstory.protocol.metrics import load_registry
from support.running import within

ASKED = ["--id", "crash", "--kind", "yes-no", "--description", "Whether it crashed.", "--owner", "Quality team"]
GIVEN = ["metrics", "init", *ASKED, "--purpose", "https://example.org/issues/9", "--yes"]
GROUPS = ["--group-by", "release", "--groups", "1.0=0.6, 1.1=0.3", "--devices", "500000"]


def test_options_write_groups_with_a_comment(tmp_path: Path) -> None:
    ran = within(*GIVEN, *GROUPS, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    text = (tmp_path / "metrics.toml").read_text()
    assert "which each report names in clear: no epsilon protects it" in text
    groups: Any = load_registry(tmp_path / "metrics.toml")["crash"].groups
    assert (groups.by, dict(groups.shares), groups.devices) == ("release", {"1.0": 0.6, "1.1": 0.3}, 500_000)


def test_without_them_there_are_no_groups(tmp_path: Path) -> None:
    assert within(*GIVEN, cwd=tmp_path).returncode == 0
    assert "groups" not in (tmp_path / "metrics.toml").read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (GROUPS[:2], "--groups, --devices: missing; --group-by, --groups, --devices go together"),
        ([*GROUPS[:3], "1.0", *GROUPS[4:]], "--groups: '1.0': give each group once, with its share, such as 1.0=0.6"),
        ([*GROUPS[:3], "a=.1,a=.2", *GROUPS[4:]], "--groups: 'a=.2': give each group once"),
        ([*GROUPS[:3], "a=most", *GROUPS[4:]], "--groups: 'most' is not a number"),
        ([*GROUPS[:5], "many"], "--devices: 'many': give a whole number"),
        ([*GROUPS[:5], "9000"], "'other' has 900 of 9,000 devices, fewer than the floor of 1,000"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_writes_nothing(tmp_path: Path, options: list[str], says: str) -> None:
    ran = within(*GIVEN, *options, cwd=tmp_path)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert list(tmp_path.iterdir()) == []
