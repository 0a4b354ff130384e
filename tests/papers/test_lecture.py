"""The lecture's bounds and reduction: what the comparisons rest on."""

import dataclasses
import math

import numpy as np
import pytest

from papers.lecture import bounds, reduction
from papers.run import experiment
from papers.study import Context


@pytest.fixture(scope="module")
def measured():
    context = Context(experiment("lecture-bounds"))
    return bounds._measure(context, 0, 60, bounds.MATRIX, 0.1, 2_000)


def test_the_matrix_bound_is_hoeffdings_of_the_shipped_oracle(measured):
    ours = measured.num_reports * bounds._oracle(bounds.MATRIX, 0.1).error_bound(measured.num_reports, 0.05)
    assert measured.bound(0.05) == pytest.approx(ours, rel=1e-6)


def test_the_binary_bound_is_half_of_it():
    binary = bounds.Errors(bounds.BINARY, 0.1, 2_000, np.zeros((1, 1)))
    matrix = bounds.Errors(bounds.MATRIX, 0.1, 2_000, np.zeros((1, 1)))
    assert 2 * binary.bound(0.3) == pytest.approx(matrix.bound(0.3))


def test_errors_are_rarely_beyond_the_bound_and_often_beyond_a_tenth_of_it(measured):
    assert measured.beyond(0.05) <= 0.2
    broken = dataclasses.replace(measured, errors=10 * measured.errors)
    assert broken.beyond(0.05) > 0.3  # the comparison can fail


def test_every_watched_value_has_a_column(measured):
    assert measured.errors.shape == (60, len(bounds.WATCHED))
    theory = 2_000 * math.sqrt(bounds._oracle(bounds.MATRIX, 0.1).variance(2_000, 0.0))
    assert measured.errors.std() == pytest.approx(theory, rel=0.3)


def test_values_of_one_run_share_no_bucket():
    plan = reduction._plan(1.0, partitioned=False)
    values = reduction._apart(plan, np.random.default_rng(5))
    buckets = reduction.buckets_of(reduction.rows_of(plan.domain, values), plan.buckets)
    assert len(np.unique(buckets)) == reduction.PRESENT


def test_the_literal_form_lists_the_heavy_values_within_twice_tau():
    context = Context(experiment("lecture-heavy-hitters"))
    outcome = reduction._once(context, 50_000, 2.0, 0, partitioned=False)
    assert outcome.worst < 2 * reduction._tau(2.0, 50_000)
    assert outcome.recall > 0.5
