"""The tables of docs/reference/oracles.md, from the registry.

`python bench/oracle_page.py --write` puts them into the page.

Figures are for 100 values at epsilon 1, or (2, 1) where a permanent response is kept; RAPPOR has its paper's
parameters.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import overstory
from overstory.analysis.comparison import report_bits
from overstory.analysis.oracle import FrequencyOracle
from overstory.privacy.attacks import linkability
from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import REGISTRY
from overstory.protocol.kinds.sets import SetMechanism
from overstory.protocol.kinds.symbols import SymbolMechanism

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "oracles.md"
START, STOP = "<!-- written by bench/oracle_page.py from here -->\n", "<!-- to here -->\n"
NEEDS = {"domain_size": 100, "epsilon": 1.0, "epsilon_permanent": 2.0, "epsilon_report": 1.0, "window": 10}
OWN = {
    "rappor-one-time": {"f": 0.5},
    "basic-rappor-one-time": {"f": 0.5},
}


def example(name: str) -> FrequencyOracle:
    """Return the oracle that the tables show."""
    accepted = inspect.signature(REGISTRY[name]).parameters
    return overstory.oracle(
        name, **{key: value for key, value in NEEDS.items() if key in accepted}, **OWN.get(name, {})
    )


def described(build: Callable[..., Mechanism]) -> tuple[str, str]:
    """Return what a mechanism is, and its paper, from its docstring (the paper may stand in its module's)."""
    text = inspect.getdoc(build) or ""
    return text.partition("\n")[0].rstrip("."), _paper(text) or _paper(inspect.getdoc(inspect.getmodule(build)) or "")


def _paper(text: str) -> str:
    """Return the last paragraph where it has a title in quotes."""
    last = " ".join(text.rsplit("\n\n", maxsplit=1)[-1].split()).rstrip(".")
    return last if '", ' in last else ""


def channel(built: Mechanism) -> str:
    """Return the rounds in numbers."""
    if isinstance(built, BitMechanism):
        rounds = (built.rounds.permanent, built.rounds.instantaneous)
        return " then ".join(shown for one in rounds if (shown := bit_round(one)))
    if isinstance(built, SymbolMechanism):
        both = (built.rounds.permanent, built.rounds.instantaneous)
        return " then ".join(f"keep {float(one.keep):.4f}" for one in both if one.alpha < 1) + _size(both[0])
    assert isinstance(built, SetMechanism)
    total, own, shared = built.encoding.sizes
    sets = f"K = {total}, {own}, {shared}" if total < 10**6 else f"K = {float(total):.3g}"
    return f"own set {float(built.inside):.4f} ({sets})"


def bit_round(one: BinaryChannel) -> str:
    """Return a round's two probabilities; nothing where it changes nothing."""
    return "" if one.is_identity else f"{float(one.keep_one):.4f} / {float(one.raise_zero):.4f}"


def _size(one: SymbolChannel) -> str:
    return f" of {one.domain_size}"


def epsilon(value: float) -> str:
    """Return an epsilon as shown."""
    return f"{value:.3f}" if math.isfinite(value) else "no bound"


def same(built: Mechanism) -> str:
    """Return the bits that are the same in every report: whatever the value, and while it does not change."""
    linkable = linkability(built)
    return f"{linkable.always.bits:.3g}, {linkable.bits:.3g}"


def rows() -> Iterator[str]:
    """Yield the table of figures."""
    yield "| name | P(1 if 1) / P(1 if 0), or P(kept) | epsilon, one report | ever | n Var "
    yield "| bits | same | alike | decoding |\n"
    yield "|---|---|---|---|---|---|---|---|---|\n"
    for name in REGISTRY:
        oracle = example(name)
        built, variance = oracle.mechanism, f"{oracle.variance(1):.4g}"
        epsilons = (epsilon(built.epsilon_report), epsilon(built.epsilon_permanent))
        cells: tuple[Any, ...] = (
            f"`{name}`",
            channel(built),
            *epsilons,
            variance,
            report_bits(built),
            same(built),
            f"{linkability(built).shared(1):.3g}",
            oracle.support.work.words,
        )
        yield f"| {' | '.join(map(str, cells))} |\n"


def papers() -> Iterator[str]:
    """Yield the table of sources."""
    yield "| name | what it is | paper |\n|---|---|---|\n"
    first: dict[str, str] = {}
    for name, build in REGISTRY.items():
        what, paper = described(build)
        cited = escaped(paper) if first.setdefault(paper, name) == name else f"that of `{first[paper]}`"
        yield f"| `{name}` | {escaped(what)} | {cited} |\n"


def escaped(text: str) -> str:
    """Return a table's cell."""
    return text.replace("|", r"\|")


def written(page: str) -> str:
    """Return the page with its tables as the registry has them now."""
    before, rest = page.split(START)
    return before + START + "".join(("\n", *rows(), "\n", *papers(), "\n")) + STOP + rest.split(STOP)[1]


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print("".join(rows()), "".join(papers()), sep="\n")
