"""The compact design matrix against the one written out."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.analysis.decoding import candidates as design
from overstory.analysis.decoding.candidates import CandidateMap, colliding
from overstory.protocol.errors import ParameterError
from support.random_collections import random_map

SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 12), st.integers(1, 9), st.integers(1, 4))


@st.composite
def maps(draw):
    cohorts, candidates, bits, hashes = draw(SHAPES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return random_map(rng, candidates, cohorts=cohorts, bits=bits, hashes=hashes, distinct=False)


def by_hand(shelf):
    matrix = np.zeros((shelf.num_rows, shelf.num_candidates))
    for j in range(shelf.num_cohorts):
        for s in range(shelf.num_candidates):
            for bit in shelf.positions[j, s]:
                matrix[j * shelf.num_bits + bit, s] = 1.0
    return matrix


@given(maps(), st.booleans())
def test_products_agree_with_the_dense_matrix(shelf, compiled):
    matrix = by_hand(shelf)
    rng = np.random.default_rng(1)
    rows, basis, coefficients = (
        rng.normal(size=n) for n in (shelf.num_rows, (shelf.num_rows, 3), shelf.num_candidates)
    )
    centre = rng.normal(size=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "DENSE_CELLS", 0 if compiled else 1 << 20)
        patch.setattr(design, "are_few", lambda count, kernels: False)
        np.testing.assert_allclose(shelf.dense(), matrix)
        np.testing.assert_allclose(design.correlate(shelf, rows), rows @ matrix, atol=1e-12)
        np.testing.assert_allclose(design.gram(shelf, rows), matrix.T @ np.diag(rows) @ matrix, atol=1e-12)
        lengths = ((basis.T @ matrix - centre[:, None]) ** 2).sum(axis=0)
        np.testing.assert_allclose(design.squared_lengths(shelf, basis, centre), lengths, atol=1e-12)
        np.testing.assert_allclose(design.predict(shelf, coefficients), matrix @ coefficients, atol=1e-12)
        assert shelf.fill == pytest.approx(matrix.mean())


@given(maps(), st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_few_products_are_the_kernels_bit_for_bit(shelf, distinct, kind):
    """What a decoding says depends on no compiled code: that of 10^4 candidates compiled for eight seconds."""
    if distinct:
        shelf = random_map(np.random.default_rng(shelf.num_candidates), 9, bits=7, hashes=shelf.num_hashes)
    rng = np.random.default_rng(2)
    rows, basis, centre = (rng.normal(size=n).astype(kind) for n in (shelf.num_rows, (shelf.num_rows, 5), 5))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "DENSE_CELLS", 0)
        for few in (True, False):
            patch.setattr(design, "are_few", lambda count, kernels, few=few: few)
            lengths = design.squared_lengths(shelf, basis, centre)
            found.append((design.correlate(shelf, rows), lengths))
    for slow, kernels in zip(*found, strict=True):
        assert slow.dtype == kernels.dtype
        assert np.array_equal(slow, kernels)


@given(maps(), st.sampled_from([3, 1 << 14]))
def test_colliding_groups_are_the_equal_columns(shelf, block):
    columns = {}
    for index, column in enumerate(by_hand(shelf).T):
        columns.setdefault(column.tobytes(), []).append(index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "BLOCK", block)
        assert sorted(colliding(shelf)) == sorted(group for group in columns.values() if len(group) > 1)


def test_taking_some_candidates():
    shelf = random_map(np.random.default_rng(2), 6)
    some = shelf.take(np.array([4, 1]))
    assert some.candidates == ["v4", "v1"]
    np.testing.assert_array_equal(some.dense(), shelf.dense()[:, [4, 1]])


def test_positions_are_bytes_when_they_fit():
    assert random_map(np.random.default_rng(3), 4, bits=256).positions.dtype == np.uint8
    assert random_map(np.random.default_rng(3), 4, bits=257).positions.dtype == np.uint16


def test_an_arrow_list_is_kept_as_given():
    names = pa.array(["ash", "elm"])
    shelf = CandidateMap(names, np.zeros((1, 2, 1), int), 8)
    assert shelf.candidates is names
    assert colliding(shelf) == [[0, 1]]


@pytest.mark.parametrize(
    ("names", "positions", "bits", "says"),
    [
        (["a"], np.zeros((1, 1), int), 8, "shape"),
        (["a"], np.zeros((0, 1, 1), int), 8, "shape"),
        (["a"], np.zeros((1, 1, 0), int), 8, "shape"),
        ([], np.zeros((1, 0, 1), int), 8, "empty"),
        (["a", "b"], np.zeros((1, 1, 1), int), 8, "2 candidates, but positions of 1"),
        (["a"], np.full((1, 1, 1), 8), 8, r"found 8 \(cohort 0, candidate 0, hash 0\)"),
        (["a"], np.full((1, 1, 1), -1), 8, "found -1"),
        (["a"], np.zeros((1, 1, 1)), 8, "whole numbers"),
        (["a"], np.zeros((1, 1, 1), int), 0, "num_bits"),
    ],
)
def test_impossible_maps_are_refused(names, positions, bits, says):
    with pytest.raises(ParameterError, match=says):
        CandidateMap(names, positions, bits)
