"""A registry spoiled at random is a registry, or one declared error whose faults all have lines of the text."""

import random
from pathlib import Path

import pytest

from overstory.protocol.kinds.registry import REGISTRY
from overstory.protocol.metrics import RegistryError, parse_registry

TEXT = (Path(__file__).parents[3] / "examples" / "metrics.toml").read_text()
ODD = ["0", "-1", "1e400", "nan", "true", '""', '"x"', "[]", "[[1], {a = 2}]", "{}", "{kind = 'bins'}", "2027-11-21"]
ODD += ["9" * 20]
ODD += [f'"{name}"' for name in REGISTRY]


def with_odd_values(rng: random.Random) -> str:
    lines = TEXT.splitlines()
    for _ in range(rng.randint(1, 3)):
        at = rng.choice([i for i, line in enumerate(lines) if " = " in line])
        key, _, value = lines[at].partition(" = ")
        if "{" in value and rng.random() < 0.7:  # inside of a table
            pairs = value[value.index("{") + 1 : value.rindex("}")].split(", ")
            inner = rng.randrange(len(pairs))
            pairs[inner] = f"{pairs[inner].partition(' = ')[0]} = {rng.choice(ODD)}"
            lines[at] = f"{key} = {{{', '.join(pairs)}}}"
        else:
            lines[at] = f"{key} = {rng.choice(ODD)}"
    return "\n".join(lines)


def with_odd_characters(rng: random.Random) -> str:
    text = TEXT
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        kind = rng.randrange(3)
        if kind == 0:
            text = text[:at] + rng.choice("\"'{}[]=,#\\\n.é0a\x00") + text[at + 1 :]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 60) :]
        else:
            text = text[:at] + text[at : at + rng.randint(1, 60)] + text[at:]
    return text


@pytest.mark.parametrize(("spoil", "cases"), [(with_odd_values, 120), (with_odd_characters, 150)])
def test_nothing_but_a_registry_or_the_declared_error(spoil, cases):
    rng = random.Random(20261121)
    messages = set()
    for _ in range(cases):
        text = spoil(rng)
        try:
            parse_registry(text)
        except RegistryError as error:
            messages |= {fault.message[:12] for fault in error.faults}
            lines = {fault.line for fault in error.faults}
        else:
            messages.add("none")
            lines = {1}
        assert lines
        assert min(lines) >= 1
        assert max(lines) <= text.count("\n") + 1
    assert "none" in messages
    assert len(messages) > 8
