"""Thirty sentences that newcomers stumbled over (section D of their findings) are in no text that is printed."""

import ast
import re
from pathlib import Path

import pytest

import overstory

SOURCE = Path(overstory.__file__).parent
PRINTED = [
    path
    for folder in ("analysis", "cli", "client", "collecting", "collector", "demo", "discovery", "planning", "privacy")
    for path in sorted((SOURCE / folder).rglob("*.py"))
]
SENTENCES = [
    r"what would have been learned\?\.",
    r"\bin nats\b",
    r"one report is better for",
    r"learn from counts how many reports hold each candidate",
    r"of them falsely, on average",
    r"of one string each: some carry",
    r"residual dispersion",
    r"\(1 is noise alone\)",
    r"are in strings outside the list",
    r"read over all of them",
    r"is supposed to have reported",
    r"[\d}]-fold\b",
    r"costs that again",
    r"the odds of having changed",
    r"a million-fold",
    r"Who answers for it",
    r"\bUntil when\b",
    r"How long it is kept",
    r"further ones are reported as the first one was",
    r"noisy response for ever",
    r"Which value a response is of",
    r"^symbol \{",
    r"kept here alone",
    r"what is effective now",
    r"the very bytes",
    r"also not later",
    r"whose state\?",
    r"is not made any weaker",
    r"the store took nothing",
    r"over states that have cases",
]
FEW_LEFT = {r"^symbol \{": {"analysis/support/positions.py", "privacy/payloads/symbols.py"}}
"""A symbol that stands for no value, such as a hash's, has nothing but its number; nor has one that is refused."""


@pytest.fixture(scope="module")
def texts() -> list[tuple[str, str]]:
    """Every string of the source that is no docstring, with its file; {} where a value comes in."""
    return [(str(path.relative_to(SOURCE)), text) for path in PRINTED for text in _texts(ast.parse(path.read_text()))]


def _texts(tree: ast.AST) -> list[str]:
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare | inner:
            texts.append(node.value)
    return texts


@pytest.mark.parametrize("sentence", SENTENCES)
def test_no_such_sentence_is_printed(texts: list[tuple[str, str]], sentence: str) -> None:
    assert {name for name, text in texts if re.search(sentence, text)} == FEW_LEFT.get(sentence, set())
