"""The protocols: how users, or the budget, are divided over the questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import Any, Final

from overstory.protocol.domains.codes import CodedDomain, CodedIntegers, tried_at
from overstory.protocol.encodings.base import check_count, check_epsilon
from overstory.protocol.errors import ParameterError
from overstory.protocol.search.plans import (
    DICTIONARY,
    Group,
    OracleChoice,
    Plan,
    Question,
    build,
    codes_of,
    symbols_for,
    thresholds,
)

BEAM: Final = 192
STEP: Final = 8
LONG_STEP: Final = 14
MAX_STEP: Final = 26
MOST_BEAM: Final = 1 << 20
MOST_TRIED: Final = 1 << 28  # by transforms
MOST_SCANNED: Final = 1 << 22  # one by one
DICTIONARY_SHARE: Final = 0.3


def prefix_extension(
    *,
    epsilon: float,
    domain: CodedDomain | None = None,
    step: int = STEP,
    beam: int = BEAM,
    levels: Sequence[int] | None = None,
    shares: Sequence[float] | None = None,
    oracle: OracleChoice = "linear-hash",
    key: str = "",
) -> Plan:
    """Prefix extension (PEM): each group of users reports a longer prefix; only likely ones are extended.

    A device answers one question once, so the whole epsilon goes into it.

    Parameters
    ----------
    epsilon
        What one device reveals in all.
    domain
        `CodedIntegers` of 64 bits unless given.
    step
        Bits by which each level is longer than the one before.
    beam
        Prefixes extended at each level; six times the values hoped for is a good choice.
    levels
        The prefix lengths themselves, in place of `step`; the last is the domain's width.
    shares
        Of the users, for each level; unless given, more where a value must stand out more (`level_weights`).
    oracle
        "linear-hash", "hadamard", any registered oracle whose reports speak of every value, or a function.
    key
        Public key of the hashes: the metric's id.

    Raises
    ------
    ParameterError
        When the levels do not lead through the domain, or too many prefixes would have to be counted.

    References
    ----------
    Wang, Li, Jha, "Locally differentially private heavy hitter identification", IEEE TDSC 2021 (PEM); Bassily, Nissim,
    Stemmer, Thakurta, "Practical locally private heavy hitters", NeurIPS 2017 (TreeHist: one bit a step).

    Examples
    --------
    >>> plan = prefix_extension(epsilon=4.0)
    >>> [level.num_bits for level in plan.levels], plan.epsilon <= 4.0
    ([8, 16, 24, 32, 40, 48, 56, 64], True)
    """
    domain = CodedIntegers() if domain is None else domain
    lengths = even_levels(domain.width, step, step) if levels is None else levels
    weights, questions = _search(domain, lengths, beam, shares, oracle, check_epsilon("epsilon", epsilon), key)
    groups = tuple(Group(t, (q,)) for t, q in zip(thresholds(weights), questions, strict=True))
    return Plan(domain=domain, groups=groups, beam=beam)


def discover(
    *,
    epsilon: float,
    domain: CodedDomain | None = None,
    known: Iterable[Any] = (),
    known_share: float = DICTIONARY_SHARE,
    step: int = LONG_STEP,
    beam: int = BEAM,
    oracle: OracleChoice = "linear-hash",
    key: str = "",
) -> Plan:
    """A dictionary of known values first, asked of a share of the users; the others search the remainder.

    A user of the search whose value is in the dictionary says "elsewhere" (a reserved value, through the same
    randomizer), so known values take no place in the beam; a user of the dictionary whose value is not in it says so
    too. The search is prefix extension with few, long steps, which the linear hash affords; its first level is longer,
    for there is but one prefix to extend.

    Parameters
    ----------
    epsilon, domain, beam, oracle, key
        As in `prefix_extension`, with other defaults.
    known
        Values that are expected; with none, all users search.
    known_share
        Share of the users who are asked about them.
    step
        The most bits of a level after the first.

    Raises
    ------
    ParameterError
        See `prefix_extension`; also when `known_share` is not between 0 and 1.

    Examples
    --------
    >>> plan = discover(epsilon=4.0, known=[80, 443])
    >>> [group.questions[0].name for group in plan.groups]
    ['dictionary', '22 bits', '36 bits', '50 bits', '64 bits']
    """
    domain = CodedIntegers() if domain is None else domain
    check_count("beam", beam, 1, MOST_BEAM)
    check_count("step", step, 1, MAX_STEP)
    lengths = even_levels(domain.width, min(step + (beam - 1).bit_length(), MAX_STEP), step)
    weights, questions = _search(domain, lengths, beam, None, oracle, check_epsilon("epsilon", epsilon), key)
    codes = codes_of(domain, known)
    if codes:
        if not 0 < known_share < 1:
            raise ParameterError(f"known_share = {known_share!r}: give a share between 0 and 1")
        own = f"{key}/known"
        mechanism = build("linear-hash", epsilon, 0, own)
        questions.insert(0, Question(DICTIONARY, domain.width, domain.width, 0, mechanism, own))
        weights.insert(0, sum(weights) * known_share / (1 - known_share))
    groups = tuple(Group(t, (q,)) for t, q in zip(thresholds(weights), questions, strict=True))
    return Plan(domain=domain, groups=groups, known=codes, beam=beam)


def level_weights(tried: Sequence[int], beam: int) -> tuple[float, ...]:
    """Return how many users each level needs, in proportion.

    A prefix stays when its estimate, of standard error s, is among the best `beam` of those tried: noise alone reaches
    ``z s`` there, z the normal quantile of 1 - beam / tried. To stay surely it needs a frequency of (z + 2) s or so; s
    falls with the root of the users. At the last level z is that of the selection rule, about .05 / tried.

    >>> [round(weight, 1) for weight in level_weights([256, 24576, 24576], 96)]
    [5.4, 21.7, 36.7]
    """
    normal = NormalDist()
    last = len(tried) - 1
    boundaries = [
        normal.inv_cdf(1 - min(0.05 * max(beam / 8, 1) / many if level == last else beam / many, 0.5))
        for level, many in enumerate(tried)
    ]
    return tuple((z + 2) ** 2 for z in boundaries)


def even_levels(width: int, first: int, step: int) -> list[int]:
    """Return prefix lengths from `first` to `width`, in equal steps (to a bit) of at most `step`.

    >>> even_levels(64, 22, 14), even_levels(20, 8, 8)
    ([22, 36, 50, 64], [8, 14, 20])
    """
    check_count("step", step, 1, MAX_STEP)
    if first >= width:
        return [width]
    more = -(-(width - first) // step)
    return [first + (width - first) * i // more for i in range(more + 1)]


def _search(
    domain: CodedDomain,
    lengths: Sequence[int],
    beam: int,
    shares: Sequence[float] | None,
    oracle: OracleChoice,
    epsilon: float,
    key: str,
) -> tuple[list[float], list[Question]]:
    """Return the levels' weights and questions."""
    check_count("beam", beam, 1, MOST_BEAM)
    width = domain.width
    steps = _steps(width, lengths)
    _check_tried(steps, beam, oracle)
    weights = list(level_weights(tried_at(domain, steps, beam), beam) if shares is None else shares)
    if len(weights) != len(steps):
        raise ParameterError(f"{len(weights)} shares for {len(steps)} levels: give one for each")
    questions = []
    for length, step in zip(lengths, steps, strict=True):
        own = f"{key}/{length}"
        mechanism = build(oracle, epsilon, symbols_for(length), own)
        questions.append(Question(f"{length} bits", width, length, step, mechanism, own))
    return weights, questions


def _steps(width: int, lengths: Sequence[int]) -> list[int]:
    """Return by how much each level is longer than the one before."""
    if not lengths or not all(isinstance(length, int) for length in lengths):
        raise ParameterError(f"levels = {lengths!r}: give prefix lengths, whole numbers")
    steps = [length - before for before, length in zip([0, *lengths], lengths, strict=False)]
    if min(steps) < 1 or lengths[-1] != width:
        raise ParameterError(f"levels = {list(lengths)}: give rising lengths that end with the domain's width, {width}")
    return steps


def _check_tried(steps: Sequence[int], beam: int, oracle: OracleChoice) -> None:
    """Refuse levels that count too many prefixes."""
    linear = oracle == "linear-hash"
    most, parents = MOST_TRIED if linear else MOST_SCANNED, 1
    for step in steps:
        if step > MAX_STEP or parents << step > most:
            raise ParameterError(
                f"{parents} prefixes extended by {step} bits are {parents << step:,} to count; at most {most:,} are, "
                f"in steps of at most {MAX_STEP} bits: give shorter steps or a smaller beam"
                + ("" if linear else ", or the oracle linear-hash")
            )
        parents = min(beam, parents << step)
