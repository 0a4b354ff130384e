"""params.csv: RAPPOR's six letters, header ``k,h,m,p,q,f`` and one row."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from overstory.files.csv import decimal, integer, read_table
from overstory.files.io import FilePath, writing_text
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from overstory.protocol.mechanisms.payloads import BitMechanism

LETTERS = ("k", "h", "m", "p", "q", "f")


@dataclass(frozen=True)
class RapporParameters:
    """RAPPOR's parameters under their own letters, in the order of params.csv.

    Parameters
    ----------
    f : float
        Share of the permanent bits that are noise.

    Examples
    --------
    >>> parameters = RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5)
    >>> round(parameters.mechanism().epsilon_report, 4)
    1.0743
    """

    k: int
    h: int
    m: int
    p: float
    q: float
    f: float

    def __post_init__(self) -> None:
        self.mechanism()

    def mechanism(self, hash_family: str = "overstory-v1", hash_key: str = "") -> BitMechanism:
        """Return the mechanism: the parameters with a hash family."""
        from overstory.protocol.mechanisms.rappor import rappor

        return rappor(
            num_bits=self.k,
            num_hashes=self.h,
            num_cohorts=self.m,
            f=self.f,
            p=self.p,
            q=self.q,
            hash_family=hash_family,
            hash_key=hash_key,
        )


def read_params(path: FilePath) -> RapporParameters:
    """Read params.csv."""
    parsers = dict.fromkeys("khm", partial(integer, low=1, high=1 << 16)) | dict.fromkeys("pqf", decimal)
    rows = list(read_table(path, parsers, _checked))
    if len(rows) != 1:
        raise FormatError(f"expected one row under the header, found {len(rows)}", source=os.fspath(path))
    return rows[0]


def _checked(letters: list[Any]) -> RapporParameters:
    try:
        return RapporParameters(*letters)
    except ParameterError as error:
        raise FormatError(str(error)) from error


def write_params(path: FilePath, parameters: RapporParameters) -> None:
    """Write params.csv."""
    with writing_text(path) as text:
        text.write(",".join(LETTERS) + "\n")
        text.write(",".join(map(repr, astuple(parameters))) + "\n")
