"""The lecture's bounds and reduction: what the comparisons rest on."""

import dataclasses

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


def test_errors_are_rarely_beyond_the_bound_and_often_beyond_a_tenth_of_it(measured):
    assert measured.beyond(0.05) <= 0.2
    broken = dataclasses.replace(measured, errors=10 * measured.errors)
    assert broken.beyond(0.05) > 0.3  # the comparison can fail


def test_values_of_one_run_share_no_bucket():
    plan = reduction._plan(1.0, partitioned=False)
    values = reduction._apart(plan, np.random.default_rng(5))
    buckets = reduction.buckets_of(reduction.integer_rows(values, plan.width), plan.buckets)
    assert len(np.unique(buckets)) == reduction.PRESENT
