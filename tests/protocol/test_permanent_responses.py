from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.client import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import as_googles_client
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import check_secret
from support.protocol_twins import cohort_of, google_key, google_permanent, google_positions, permanent_response

secrets = st.binary(min_size=16, max_size=64)
noise = st.one_of(st.sampled_from([0.25, 0.5, 0.75]), st.floats(0.01, 0.95))


@settings(max_examples=60)
@given(secrets, st.text(min_size=1, max_size=8), st.text(max_size=8), noise, st.sampled_from([9, 32, 128]))
def test_ours_equal_their_twin(secret, metric, value, f, bits):
    built = mechanism("rappor", num_bits=bits, num_hashes=2, num_cohorts=5, f=f)
    device = Randomizer(built, secret=secret, metric=metric)
    assert device.cohort == cohort_of(secret, metric, 5)
    true_bits, channel = built.encode(value, device.cohort), built.rounds.permanent.thresholds
    raw = value.encode("utf-8", "surrogatepass")
    expected = permanent_response(true_bits, bits, channel, secret, metric, built.digest, device.cohort, raw)
    assert device.permanent(value) == expected


@settings(max_examples=100)
@given(secrets, st.text(max_size=8), noise, st.integers(0, 63), st.sampled_from([8, 16, 32]))
def test_googles_equal_an_independent_client(secret, value, f, cohort, bits):
    built = mechanism("rappor", num_bits=bits, num_hashes=2, num_cohorts=64, f=f, hash_family="google-rappor-python")
    device = Randomizer(as_googles_client(built), secret=secret, metric="ignored", cohort=cohort)
    raw = value.encode("utf-8", "surrogatepass")
    bloom = 0
    for position in google_positions(raw, cohort, bits, 2):
        bloom |= 1 << position
    assert built.encode(value, cohort) == bloom
    assert device.permanent(value) == google_permanent(bloom, bits, f, secret)
    own = Randomizer(built, secret=secret, metric="m", cohort=cohort)
    assert own.permanent(value) == google_permanent(bloom, bits, f, google_key(secret, "m", built.digest, cohort))


@given(st.floats(0, 0.99))
def test_googles_channel_is_the_one_its_bytes_have(f):
    """Of the 128 equally likely upper halves of a byte, those below 128 f replace the bit: count them."""
    channel = mechanism("rappor", num_bits=16, f=f, hash_family="google-rappor-python").rounds.permanent
    replaced = sum(byte < f * 128 for byte in range(128))
    assert channel.raise_zero == Fraction(replaced, 256)
    assert channel.keep_one == 1 - Fraction(replaced, 256)


@given(secrets)
def test_a_secret_is_itself(secret):
    assert check_secret(secret) == secret


def test_a_long_secret_is_digested_not_cut():
    long = [bytes(64) + b"a", bytes(64) + b"b", bytes(64)]
    assert len({check_secret(secret) for secret in long}) == 3
    assert all(len(check_secret(secret)) <= 64 for secret in long)


@pytest.mark.parametrize("secret", [b"", bytes(15), "sixteen letters!", None, bytearray(32), 16])
def test_a_secret_that_is_none(secret):
    with pytest.raises(ParameterError, match=r"secret .* at least 16"):
        check_secret(secret)
