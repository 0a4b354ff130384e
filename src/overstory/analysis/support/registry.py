"""Which encoding is read by which support: the one place where the server's half tells oracles apart."""

from __future__ import annotations

from typing import Any, Final

from overstory.analysis.support.base import Support
from overstory.analysis.support.bits import BloomSupport, OneHotSupport, SampledSupport
from overstory.analysis.support.seeds import BalancedSupport, SeededSupport
from overstory.analysis.support.sets import PointSupport, SubsetSupport
from overstory.analysis.support.symbols import DirectSupport, HadamardSupport, HashSupport, LinearSupport, SignSupport
from overstory.protocol.encodings.bits import Bloom, OneHot, SampledBits
from overstory.protocol.encodings.seeds import BalancedHash, SeededHash
from overstory.protocol.encodings.sets import Projective, Subsets
from overstory.protocol.encodings.symbols import Direct, HadamardRow, LinearHash, LocalHash, SignMatrix
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism

FAMILIES: Final[dict[type, type[Support[Any]]]] = {
    OneHot: OneHotSupport,
    Bloom: BloomSupport,
    SampledBits: SampledSupport,
    Direct: DirectSupport,
    LocalHash: HashSupport,
    SignMatrix: SignSupport,
    LinearHash: LinearSupport,
    HadamardRow: HadamardSupport,
    BalancedHash: BalancedSupport,
    SeededHash: SeededSupport,
    Subsets: SubsetSupport,
    Projective: PointSupport,
}


def support_of(mechanism: Mechanism) -> Support[Any]:
    """Return the server's half of a mechanism.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> type(support_of(mechanism("olh", epsilon=1.0))).__name__
    'SeededSupport'
    """
    family = FAMILIES.get(type(mechanism.encoding))
    if family is None:
        raise ParameterError(f"there is no server's half for the encoding {type(mechanism.encoding).__name__}")
    return family(mechanism)
