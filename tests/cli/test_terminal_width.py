"""At a terminal no sentence is broken within a word, and none is wider than the terminal."""

import pytest

from support.running import at_a_terminal, within

WIDTH = 60
COMMANDS = {
    "collect": "collect trees.csv --column tree --epsilon 2",
    "demo": "demo --reports 2000 --states 4",
    "discover": "discover trees.csv --column tree --epsilon 4 --bytes 3 --seed 1",
}


@pytest.mark.parametrize(
    "name", ["collect", *(pytest.param(name, marks=pytest.mark.slow) for name in ("demo", "discover"))]
)
def test_long_sentences_are_wrapped(tmp_path, name):
    (tmp_path / "trees.csv").write_text("tree\n" + "oak\nash\noak\nelm\n" * 300)
    lines = at_a_terminal(COMMANDS[name], tmp_path, "stdout", COLUMNS=str(WIDTH)).splitlines()
    assert sum(len(line.rstrip()) > WIDTH - 15 for line in lines) > 3  # there are sentences to wrap
    assert [line for line in lines if len(line.rstrip()) > WIDTH and " " in line.strip()] == []
    assert any("Page:" in line or "privacy:" in line or "page:" in line for line in lines)


def test_elsewhere_a_sentence_is_one_line(tmp_path):
    (tmp_path / "trees.csv").write_text("tree\n" + "oak\nash\n" * 300)
    assert max(map(len, within(*COMMANDS["collect"].split(), cwd=tmp_path).stdout.splitlines())) > 120
