"""The support of every value under projective geometry response: sums of a histogram over hyperplanes.

Let h(x) be the reports at point x of PG(t-1, q), and extend it to vectors: h(c x) = h(x) for c != 0, h(0) = 0.  A value
v = (0, ..., 0, 1, u), u having r digits, sees no more of x than its last r + 1 coordinates w = (w_0, w_1 .. w_r):

    (q - 1) support(v) = sum { M(w) : w_0 + <u, w_1 .. w_r> = 0 },    M(w) = sum of h(x) over all x that end in w.

The sum over one coordinate after the other, digits of u taking the places of coordinates of w, is the dynamic program

    B_0(z; y) = M(z, y),    B_i(u_1 .. u_i; z; y) = sum_a B_(i-1)(u_1 .. u_(i-1); z - u_i a; a, y),

and B_r(u; 0) is wanted.  (Feldman, Nelson, Nguyen and Talwar, "Private frequency estimation via projective geometry",
ICML 2022, give O(K q t) for K points.)  That bound needs the symmetry B(c z; c y) = B(z; y): of all multiples, only
that is kept whose *last* coordinate of y that is not 0 is 1.  All terms of the sum end in the y of its left side, so
none ever has to be scaled, unless y = 0; there, the terms with a != 0 are B(z / a - u_i; 1, 0), whose sum over a needs
no division either: for z = 0 all are B(-u_i; 1, 0), for z = 1 each residue but -u_i comes once.

A table is int64[q, P(m)] for y of m coordinates, P(m) = q P(m-1) + 1.  Column ``a P(m-1) + c`` is (a, the y of column
c), and the last column is (1, 0, ..., 0).  B(0; 0) and B(1; 0) are kept beside the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.projective_space import check_space, inverses, points_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def place_points(histogram: Any, size: Any, starts: Any, inverse: Any, table: Any) -> Any:
    """Fill the table of the whole space, first coordinate z; return B(1; 0), the reports at (1, 0, ..., 0)."""
    dimension = starts.size - 2
    digits = np.zeros(dimension, np.int64)
    point, alone = 0, np.int64(0)
    for tail in range(dimension):  # points (0, ..., 0, 1, tail digits), in order of their numbers
        digits[:] = 0
        digits[dimension - 1 - tail] = 1
        for _ in range(starts[tail + 1] - starts[tail]):
            last = dimension - 1
            while digits[last] == 0:
                last -= 1
            if last == 0:
                alone = histogram[point]
            else:
                scale, at = inverse[digits[last]], np.int64(0)
                for i in range(1, last):
                    at += digits[i] * scale % size * starts[dimension - 1 - i]
                at += size * starts[dimension - 1 - last]
                table[digits[0] * scale % size, at] = histogram[point]
            point += 1
            i = dimension - 1
            while i > dimension - 1 - tail and digits[i] == size - 1:
                digits[i] = 0
                i -= 1
            digits[i] += 1
    return alone


@kernel
def forget_first(table: Any, ends: Any, shorter: Any) -> None:
    """Sum over the first coordinate: of z, (a, y) remains (a, y), a taking z's place."""
    size, width = table.shape[0], shorter.shape[1]
    shorter[:, :] = 0
    alone = np.int64(0)
    for z in range(size):
        for a in range(size):
            target, source = shorter[a], table[z, a * width : (a + 1) * width]
            for c in range(width):
                target[c] += source[c]
        alone += table[z, size * width]
    ends[0], ends[1] = ends[0] + (size - 1) * ends[1], alone


@kernel
def take_digit_of_two(table: Any, minus: Any, shorter: Any) -> None:
    """`take_digit` for y of two coordinates, where there is no row to add: most steps are these."""
    size = table.shape[0]
    for z in range(size):
        total, at = np.int64(0), z
        for a in range(size):
            total += table[at, a]
            at += minus
            if at >= size:
                at -= size
        shorter[z, 0] = total


@kernel
def take_digit(table: Any, ends: Any, digit: Any, shorter: Any, fewer: Any) -> None:
    """One step of the dynamic program: the digit of u takes the place of y's first coordinate."""
    size, width = table.shape[0], shorter.shape[1]
    minus = (size - digit) % size
    if width == 1:
        take_digit_of_two(table, minus, shorter)
    for z in range(size if width > 1 else 0):
        target, at = shorter[z], z
        target[:] = 0
        for a in range(size):  # at = z - digit a
            source = table[at, a * width : (a + 1) * width]
            for c in range(width):
                target[c] += source[c]
            at += minus
            if at >= size:
                at -= size
    column, end = np.int64(0), size * width
    for z in range(size):
        column += table[z, end]
    fewer[0] = ends[0] + (size - 1) * table[minus, end]
    fewer[1] = ends[1] + column - table[minus, end]


@kernel
def last_digit(table: Any, ends: Any, out: Any) -> None:
    """The last step for all digits at once: only B(0; ) is wanted."""
    size = table.shape[0]
    for digit in range(out.size):
        out[digit] = (ends[0] + (size - 1) * table[(size - digit) % size, 0]) // (size - 1)


@kernel
def table_of(room: Any, size: Any, starts: Any, coordinates: Any) -> Any:
    """Return the part of ``room`` that is the table for y of some coordinates."""
    before = 0
    for m in range(coordinates):
        before += size * starts[m]
    return room[before : before + size * starts[coordinates]].reshape((size, starts[coordinates]))


@kernel
def plane_rows(room: Any, ends: Any, size: Any, starts: Any, tail: Any, out: Any) -> None:
    """Support of the values (0, ..., 0, 1, u), u of ``tail`` digits, in order of u.

    The table for ``tail`` coordinates and its row of ``ends`` are given; those below are room to work in.  One step of
    the program is made wherever a digit has changed.
    """
    digits = np.zeros(tail + 1, np.int64)
    done, changed = 0, tail
    while done < out.size:
        for m in range(changed, 1, -1):
            shorter = table_of(room, size, starts, m - 1)
            take_digit(table_of(room, size, starts, m), ends[m], digits[m], shorter, ends[m - 1])
        last_digit(table_of(room, size, starts, 1), ends[1], out[done : done + size])
        done += size
        changed = 2
        while changed <= tail and digits[changed] == size - 1:
            digits[changed] = 0
            changed += 1
        if changed <= tail:
            digits[changed] += 1


@kernel
def plane_support(histogram: Any, size: Any, starts: Any, inverse: Any, out: Any) -> None:
    """Support of the first values in order of their numbers."""
    dimension = starts.size - 2
    room, ends = np.zeros(size * starts[:dimension].sum(), np.int64), np.zeros((dimension, 2), np.int64)
    tail = dimension - 1
    ends[tail, 1] = place_points(histogram, size, starts, inverse, table_of(room, size, starts, tail))
    while tail > 0:
        if starts[tail] < out.size:
            plane_rows(room, ends, size, starts, tail, out[starts[tail] : starts[tail + 1]])
        shorter = table_of(room, size, starts, tail - 1)
        ends[tail - 1] = ends[tail]
        forget_first(table_of(room, size, starts, tail), ends[tail - 1], shorter)
        tail -= 1
    out[0] = ends[0, 0] // (size - 1)


def count_plane_support(
    histogram: NDArray[np.int64], field_size: int, dimension: int, domain_size: int
) -> NDArray[np.int64]:
    """How many reports lie on each value's hyperplane.

    Parameters
    ----------
    histogram : int64[K]
        How many reports are each point of the space.
    field_size, dimension : int
        q, a prime below 2 ** 15, and t, at least 2; K = (q^t - 1) / (q - 1).
    domain_size : int
        d, at most K.

    Returns
    -------
    int64[d]
        For value v, the sum of the histogram over the points orthogonal to point v.

    Raises
    ------
    ValueError
        When the histogram is not that of the space, or has not as many points as there are values.

    Examples
    --------
    >>> import numpy as np
    >>> count_plane_support(np.array([5, 0, 0, 2, 0, 0, 1]), 2, 3, 3)
    array([2, 7, 3])
    """
    check_space(field_size, dimension)
    starts = points_of(field_size, dimension)
    histogram, size = np.asarray(histogram), int(starts[dimension])
    if histogram.shape != (size,) or histogram.dtype.kind not in "iu":
        raise ValueError(f"histogram must be {size} integers, not {histogram.dtype} {histogram.shape}")
    if not 1 <= domain_size <= size:
        raise ValueError(f"domain_size must be in 1 .. {size}, the points of the space, not {domain_size}")
    out = np.empty(domain_size, np.int64)
    plane_support(np.ascontiguousarray(histogram, np.int64), field_size, starts, inverses(field_size), out)
    return out
