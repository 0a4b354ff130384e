"""A fixed candidate map: the front of worst pairs against all pairs."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.privacy import map_differences, statement
from overstory.protocol.kinds.rappor import Bloom
from overstory.protocol.kinds.registry import mechanism

NUM_BITS = 6
FILTERS = st.lists(st.lists(st.integers(0, NUM_BITS - 1), min_size=1, max_size=4), min_size=2, max_size=12)


def all_pairs(cohorts):
    """Every (ones lowered, zeros raised) between two candidates of one cohort."""
    sets = [[set(candidate) for candidate in cohort] for cohort in cohorts]
    return {(len(a - b), len(b - a)) for cohort in sets for a in cohort for b in cohort}


@given(st.lists(FILTERS, min_size=1, max_size=3))
def test_the_front_of_all_pairs(cohorts):
    found = map_differences(cohorts, Bloom(NUM_BITS, 4, len(cohorts), "google-rappor-python"))
    every = all_pairs(cohorts)
    assert set(found) <= every
    assert all(any(a <= x and b <= y for x, y in found) for a, b in every)


@settings(deadline=None)  # two cores may be busy
@given(FILTERS)
def test_the_epsilons_are_the_maximum_over_pairs_and_never_above_the_formula(cohort):
    built = mechanism(
        "rappor", num_bits=NUM_BITS, num_hashes=4, num_cohorts=1, hash_family="google-rappor-python", f=0.5
    )
    said = statement(built, positions=[cohort])
    worst = max(built.rounds.epsilon([pair]) for pair in all_pairs([cohort]))
    assert said.map_epsilon_report == worst <= built.epsilon_report
    assert said.map_epsilon_permanent <= built.epsilon_permanent


def test_a_real_map_of_thousands_is_quick():
    encoding = Bloom(128, 2, 32)
    positions = [[encoding.positions(f"v{i}", cohort) for i in range(2000)] for cohort in range(32)]
    started = time.perf_counter()
    assert map_differences(positions, encoding) == ((2, 2),)
    assert time.perf_counter() - started < 5


def test_candidates_that_all_share_a_bit():
    star = [[[0, i] for i in range(1, 100)]]
    assert map_differences(star, Bloom(128, 2, 1)) == ((1, 1),)
    assert map_differences([[[3, 4], [4, 3]]], Bloom(128, 2, 1)) == ((0, 0),)
