"""`overstory compare` warns of oracles with which a few liars decide the result."""

from pathlib import Path

from support.running import within

WARNING = (
    "warning: with grr a crafted report counts for 59 honest ones: 1% liars raise any value's share by 59 percentage"
)


def compared(cwd: Path, domain: int, epsilon: float) -> str:
    options = ("--domain-size", str(domain), "--epsilon", str(epsilon), "--reports", "100000")
    return " ".join(within("compare", *options, cwd=cwd).stdout.split())


def test_compare_warns_where_a_liar_has_more_than_ten_votes(tmp_path: Path) -> None:
    warned = compared(tmp_path, 100, 1.0)
    assert WARNING in warned
    assert "warning: with oue" not in warned
    assert "warning: with grr" not in compared(tmp_path, 100, 4.0)
