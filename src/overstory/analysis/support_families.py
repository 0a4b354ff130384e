"""Which encoding is read by which support: the one place where the server's half tells oracles apart."""

from __future__ import annotations

from typing import Any, Final

from overstory.analysis.support import Support
from overstory.analysis.support_bits import BloomSupport, OneHotSupport, SampledSupport
from overstory.analysis.support_seeds import BalancedSupport, SeededSupport
from overstory.analysis.support_sets import PointSupport, SubsetSupport
from overstory.analysis.support_symbols import DirectSupport, HadamardSupport, HashSupport, SignSupport
from overstory.protocol.encodings import Bloom, OneHot
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Mechanism
from overstory.protocol.mechanisms.sampled import SampledBits
from overstory.protocol.public_seeds import BalancedHash, SeededHash
from overstory.protocol.set_systems import Projective, Subsets
from overstory.protocol.symbol_encodings import Direct, HadamardRow, LocalHash, SignMatrix

FAMILIES: Final[dict[type, type[Support[Any]]]] = {
    OneHot: OneHotSupport,
    Bloom: BloomSupport,
    SampledBits: SampledSupport,
    Direct: DirectSupport,
    LocalHash: HashSupport,
    SignMatrix: SignSupport,
    HadamardRow: HadamardSupport,
    BalancedHash: BalancedSupport,
    SeededHash: SeededSupport,
    Subsets: SubsetSupport,
    Projective: PointSupport,
}


def support_of(mechanism: Mechanism) -> Support[Any]:
    """Return the server's half of a mechanism.

    Raises
    ------
    ParameterError
        When its encoding is of no known kind.

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
