"""Few devices are drawn by NumPy, many by compiled kernels: the same reports, bit for bit."""

import subprocess
import sys

import numpy as np
import pytest

from overstory.analysis.support import sets
from overstory.kernels import columns, devices
from overstory.kernels.sets.simulation import count_plane_support, simulate_points
from overstory.protocol.encodings.sets import Projective

KEY = bytes(range(32))
ONE = 2**32
PLACES = [(0, 0), (1, 5), (700, 100), (300, ONE - 200), (80, 2**40)]


@pytest.fixture(autouse=True)
def by_numpy(monkeypatch):
    monkeypatch.setattr(columns, "COMPILER", "no such module")


def same(got, expected):
    assert got.dtype == expected.dtype
    assert np.array_equal(got, expected)


@pytest.mark.parametrize(("n", "first"), PLACES)
def test_cohorts(n, first):
    for num_cohorts in (1, 2, 16, 65_536):
        same(
            devices.assign_cohorts(KEY, num_cohorts, n, first_device=first),
            devices.assign_cohorts(KEY, num_cohorts, n, first_device=first, threads=1),
        )
    same(devices.assign_seeds(KEY, 2**31, n, first), devices.assign_seeds(KEY, 2**31, n, first, threads=1))


@pytest.mark.parametrize(("n", "first"), PLACES)
@pytest.mark.parametrize("channels", [(None, None), (0, None), (ONE, 0), (1 << 30, 0xDEADBEEF), (None, 5)])
def test_symbols(n, first, channels):
    rng = np.random.default_rng(n)
    for size in (2, 100, 2**31):
        held, cohorts = rng.integers(0, size, n).astype(np.int32), rng.integers(0, ONE, n).astype(np.uint32)
        given = held, cohorts, size, *channels, KEY
        same(
            devices.simulate_symbols(*given, first_device=first, report_index=7),
            devices.simulate_symbols(*given, first_device=first, report_index=7, threads=1),
        )


@pytest.mark.parametrize(("n", "first"), PLACES)
@pytest.mark.parametrize(("domain_size", "subset_size"), [(2, 1), (16, 3), (64, 63), (130, 17)])
def test_subsets(n, first, domain_size, subset_size):
    held = np.random.default_rng(n).integers(0, domain_size, n).astype(np.int32)
    for inside in (0, 1 << 31, ONE):
        given = held, domain_size, subset_size, inside, KEY
        same(
            devices.simulate_subsets(*given, first_device=first),
            devices.simulate_subsets(*given, first_device=first, threads=1),
        )


@pytest.mark.parametrize(("n", "first"), PLACES)
@pytest.mark.parametrize("num_bits", [1, 64, 65, 200, 1_100])
def test_bits(n, first, num_bits):
    rng = np.random.default_rng(n)
    positions = rng.integers(0, num_bits, (3, 5, 2)).astype(np.uint16)
    held, cohorts = rng.integers(0, 5, n).astype(np.int32), rng.integers(0, 3, n).astype(np.uint16)
    quarter, odd = ((3 << 30, 1 << 30), (3 << 30, 1 << 31)), ((0xDEADBEEF, 0x23456789), (0x8BADF00D, 0x13456789))
    for channels in ((None, None), quarter, odd, ((ONE, 0), (0, ONE)), (None, (1, ONE - 1))):
        given = positions, held, cohorts, *channels, KEY
        numbers = {"num_bits": num_bits, "first_device": first, "report_index": 3}
        same(devices.simulate_bits(*given, **numbers), devices.simulate_bits(*given, **numbers, threads=1))


@pytest.mark.parametrize(
    "shape", [(2, 2), (2, 7), (3, 5), (59, 3), (101, 2), (1009, 2), (4, 2), (4, 6), (8, 3), (9, 4), (32, 3)]
)
def test_points_and_their_hyperplanes(shape):
    field_size, dimension = shape
    points = (field_size**dimension - 1) // (field_size - 1)
    for domain_size in (points, max(points - 1, 2)):
        space = Projective(domain_size, field_size)
        if space.dimension != dimension:
            continue
        held = np.random.default_rng(points).integers(0, domain_size, 300)
        for inside, first in ((0, 0), (1 << 31, ONE - 50), (ONE, 2**40)):
            got = sets.simulate_points(held, space, inside, KEY, first_device=first)
            same(got, simulate_points(held, *shape, inside, KEY, first_device=first))
            histogram = np.bincount(got, minlength=points)
            expected = count_plane_support(histogram, *shape, domain_size)
            same(sets.count_plane_support(histogram, space), expected)


def test_what_is_outside_is_refused_as_by_the_kernels():
    none = np.zeros(1, np.uint32)
    for held in (np.array([3]), np.array([-1]), np.array([0.5])):
        with pytest.raises(ValueError, match="symbols must be"):
            devices.simulate_symbols(held, none, 3, 5, None, KEY)
    with pytest.raises(ValueError, match="permanent must be"):
        devices.simulate_symbols(none, none, 3, ONE + 1, None, KEY)
    with pytest.raises(ValueError, match="subset_size must be"):
        devices.simulate_subsets(none, 3, 3, 0, KEY)
    with pytest.raises(ValueError, match="key must be 32 bytes"):
        devices.simulate_bits(np.zeros((1, 1, 1), np.uint16), none, none, (1, 0), None, b"short", num_bits=1)
    with pytest.raises(ValueError, match="num_cohorts must be"):
        devices.assign_cohorts(KEY, 0, 1)


def test_many_devices_load_the_kernels_and_few_do_not():
    """Cold start: three devices cost as much as the compiler's start; patience is counted over a process."""
    code = (
        "import sys, numpy as np\n"
        "from overstory.kernels import columns, devices as few\n"
        "def draw(n): few.simulate_symbols(np.zeros(n, int), np.zeros(n, int), 3, 1 << 30, None, bytes(32))\n"
        "draw(columns.PATIENCE - 10); print('numba' in sys.modules); draw(11); print('numba' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["False", "True"], ran.stderr
