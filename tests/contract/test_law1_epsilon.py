"""Law 1: declared epsilon >= the exact worst-case log ratio over all outputs, of nothing to report also, and tight.

Of every oracle, in small cases: `tests/privacy/test_referee.py`; of every other kind: `test_kind_laws`.
"""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.protocol.channels import BinaryChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from support.referee_cases import truth_of
from support.referee_device import NOTHING, BitDevice, device

TIGHT = 1e-9


def declared(built, reports):
    return built.epsilon_n(reports) if reports else built.epsilon_permanent


def exact_epsilon(built, reports, make=device):
    """Of so many reports of one value, or of none; 0: of the permanent response. By the laws of the samplers alone."""
    truth = truth_of(built, most=32, extra=(NOTHING,), make=make)
    return truth.constant(reports) if reports else truth.permanent()


def assert_covers(built, reports):
    """Never below; and tight: one-hot always, a Bloom filter where its worst pair of filters is reached, as here."""
    stated, exact = declared(built, reports), exact_epsilon(built, reports)
    if not exact.is_finite():
        assert stated == math.inf
        return
    assert Decimal(stated) >= exact, f"{reports} reports: declared {stated}, exact {exact}: understated"
    assert Decimal(stated) - exact <= Decimal(TIGHT), f"{reports} reports: declared {stated}, exact {exact}: not tight"


shares = st.one_of(st.floats(0.001, 0.999), st.fractions(Fraction(1, 1000), Fraction(999, 1000)))


@settings(max_examples=60)
@given(shares, shares, shares, st.integers(1, 3))
def test_any_noise(f, p, q, reports):
    try:
        built = mechanism("basic-rappor", domain_size=3, f=f, p=p, q=q)
    except ParameterError:
        assert abs(q - p) < 2**-31
        return
    assert_covers(built, reports)


def test_many_reports_approach_the_permanent_response():
    built = mechanism("rappor")
    assert built.epsilon_n(10_000) == pytest.approx(built.epsilon_permanent, abs=1e-12)


def test_the_papers_figures():
    """RAPPOR, section 3, with the paper's parameters; with h forgotten (pure-LDP) they would be half as large."""
    built = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    assert built.epsilon_permanent == pytest.approx(4 * math.log(3), abs=1e-9)
    assert [round(built.epsilon_n(n), 3) for n in (1, 2, 3, 5, 10)] == [1.074, 2.017, 2.756, 3.656, 4.299]


def test_an_understated_epsilon_would_be_seen(monkeypatch):
    """The enumeration against a channel that claims half: what pure-LDP's `convert_eps_to_f` did with two hashes."""
    built = mechanism("rappor", num_bits=5, num_hashes=2, num_cohorts=1)
    halved = built.rounds.epsilon([(1, 1)])
    assert Decimal(halved) < exact_epsilon(built, 1)
    assert BinaryChannel.of(0.75, 0.5).epsilon < declared(built, 0)


class Silent(BitDevice):
    """Broken: what cannot be reported sets no bit at all."""

    def word(self, value):
        return 0 if value == NOTHING else super().word(value)


def test_no_bits_at_all_are_caught_where_filters_are_crowded():
    """h = 3 of k = 4 bits: two filters differ in one bit each way, and an empty one in three from any."""
    built = mechanism("rappor", num_bits=4, num_hashes=3, num_cohorts=2, f=0.5, p=0.5, q=0.75)
    assert exact_epsilon(built, 1) <= Decimal(built.epsilon_report) < exact_epsilon(built, 1, Silent)
