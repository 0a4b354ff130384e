"""The support of every value under projective geometry response, and the arithmetic of the finite fields under it.

A prime's field is calculated with by remainders, another by tables. A kernel takes one of q elements as one array of
int64 (of several, or of a tuple, every access would be counted), which `overstory.analysis.kinds.symbols` makes:

    q | whether tables follow | 1 / a (of 0, 0) | -a | x^i, i = 0 .. 2 q - 3 | the i < q - 1 with x^i = a | a + b

Support: sums of a histogram over hyperplanes.

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

Table m, for y of m coordinates, has a row of P(m) = q P(m-1) + 1 numbers for each z.  Number ``a P(m-1) + c`` is
(a, the y of number c), and the last is (1, 0, ..., 0).  B(0; 0) and B(1; 0) are kept beside it: ``ends[2 m]`` and
``ends[2 m + 1]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray


@kernel
def inverse(a: Any, field: Any) -> Any:
    """Return 1 / a."""
    return field[2 + a]


@kernel
def opposite(a: Any, field: Any) -> Any:
    """Return -a."""
    return field[2 + field[0] + a]


@kernel
def times(a: Any, b: Any, field: Any) -> Any:
    """Return a b."""
    size = field[0]
    if field[1] == 0:
        return np.int64(np.uint64(a * b) % np.uint64(size))
    if a == 0 or b == 0:
        return np.int64(0)
    # a b = x^(log a + log b): the table of powers is written twice, so the sum needs no remainder.
    return field[2 + 2 * size + field[4 * size + a] + field[4 * size + b]]


@kernel
def plus(a: Any, b: Any, field: Any) -> Any:
    """Return a + b."""
    size = field[0]
    if field[1] == 0:
        return a + b - (size if a + b >= size else 0)
    return field[(5 + a) * size + b]


MAX_DIMENSION = 32


@kernel
def place_points(histogram: Any, field: Any, starts: Any, table: Any) -> Any:
    """Fill the table of the whole space, first coordinate z; return B(1; 0), the reports at (1, 0, ..., 0)."""
    dimension, size = starts.size - 2, field[0]
    digits, width = np.zeros(dimension, np.int64), starts[dimension - 1]
    point, alone = 0, np.int64(0)
    for tail in range(dimension):  # points (0, ..., 0, 1, tail digits), in order of their numbers
        for i in range(dimension):
            digits[i] = i == dimension - 1 - tail
        for _ in range(starts[tail + 1] - starts[tail]):
            # Of all multiples the table holds the one whose last coordinate that is not 0 is 1.
            last = dimension - 1
            while digits[last] == 0:
                last -= 1
            if last == 0:
                alone = histogram[point]
            else:
                # Scaled so that this coordinate is 1, its number is the sum of a P(m - 1) over those before it.
                scale, at = inverse(digits[last], field), size * starts[dimension - 1 - last]
                for i in range(1, last):
                    at += times(digits[i], scale, field) * starts[dimension - 1 - i]
                table[times(digits[0], scale, field) * width + at] = histogram[point]
            # The next tail, counted up in base q.
            point += 1
            i = dimension - 1
            while i > dimension - 1 - tail and digits[i] == size - 1:
                digits[i] = 0
                i -= 1
            digits[i] += 1
    return alone


@kernel
def table_of(room: Any, size: Any, starts: Any, m: Any) -> Any:
    """Return table m, one row after the other."""
    before = 0
    for j in range(m):
        before += size * starts[j]
    return room[before : before + size * starts[m]]


@kernel
def add_row(source: Any, target: Any) -> None:
    """Add a row to another: a loop over an array's own indices from 0 is one that LLVM vectorizes."""
    for c in range(target.size):
        target[c] += source[c]


@kernel
def forget_first(room: Any, ends: Any, size: Any, starts: Any, m: Any) -> None:
    """Make table m - 1 of table m by summing over z: of (z; a, y) remains (a; y)."""
    table, shorter, width = table_of(room, size, starts, m), table_of(room, size, starts, m - 1), starts[m - 1]
    shorter[:] = 0
    alone = np.int64(0)
    for z in range(size):
        row = table[z * starts[m] : (z + 1) * starts[m]]
        add_row(row, shorter)  # table m - 1 lies as the first q P(m-1) numbers of a row do
        alone += row[size * width]
    # Sum over z of B(z; 0): B(0; 0) once and B(1; 0) for each of the q - 1 multiples.
    ends[2 * m - 2], ends[2 * m - 1] = ends[2 * m] + (size - 1) * ends[2 * m + 1], alone


@kernel
def take_digit(room: Any, ends: Any, field: Any, starts: Any, m: Any, digit: Any) -> None:
    """Make table m - 1 of table m by one step: the digit of u takes the place of y's first coordinate."""
    size, width, whole = field[0], starts[m - 1], starts[m]
    table, shorter = table_of(room, size, starts, m), table_of(room, size, starts, m - 1)
    # B_i(u; z; y) = sum over a of B_(i-1)(z - u_i a; a, y): the rows to add, by a.
    minus, steps = opposite(digit, field), np.empty(size, np.int64)
    for a in range(size):
        steps[a] = times(minus, np.int64(a), field)
    for z in range(size):
        if width == 1:  # there is no row to add, and most steps are these
            total = np.int64(0)
            for a in range(size):
                total += table[plus(z, steps[a], field) * whole + a]
            shorter[z] = total
        else:
            target = shorter[z * width : (z + 1) * width]
            target[:] = 0
            for a in range(size):
                at = plus(z, steps[a], field) * whole
                add_row(table[at + a * width : at + (a + 1) * width], target)
    # y = 0, a != 0: B(z / a - u_i; 1, 0). For z = 0 all are B(-u_i; 1, 0); for z = 1 each residue but -u_i.
    column = np.int64(0)
    for z in range(size):
        column += table[(z + 1) * whole - 1]
    same = table[(minus + 1) * whole - 1]
    ends[2 * m - 2], ends[2 * m - 1] = ends[2 * m] + (size - 1) * same, ends[2 * m + 1] + column - same


@kernel
def plane_rows(room: Any, ends: Any, field: Any, starts: Any, tail: Any, out: Any) -> None:
    """Support of the values (0, ..., 0, 1, u), u of ``tail`` digits, in order of u; table ``tail`` is given."""
    digits, size = np.zeros(tail + 1, np.int64), field[0]
    done, changed, last = 0, tail, table_of(room, size, starts, 1)
    while done < out.size:
        # Redo only the steps whose digits have changed, from the highest down.
        for m in range(changed, 1, -1):
            take_digit(room, ends, field, starts, m, digits[m])
        # The last step for all q digits at once: (q - 1) support = B(0; 0) + (q - 1) B(-u; 1).
        for digit in range(min(size, out.size - done)):
            out[done + digit] = ends[2] // (size - 1) + last[opposite(digit, field)]
        done += size
        changed = 2
        while changed <= tail and digits[changed] == size - 1:
            digits[changed] = 0
            changed += 1
        if changed <= tail:
            digits[changed] += 1


@kernel
def plane_support(histogram: Any, field: Any, starts: Any, out: Any) -> None:
    """Support of the first values in order of their numbers."""
    top, size = starts.size - 3, field[0]
    room, ends = np.zeros(size * starts[: top + 1].sum(), np.int64), np.zeros(2 * top + 2, np.int64)
    ends[2 * top + 1] = place_points(histogram, field, starts, table_of(room, size, starts, top))
    for tail in range(top, 0, -1):
        if starts[tail] < out.size:
            plane_rows(room, ends, field, starts, tail, out[starts[tail] : starts[tail + 1]])
        forget_first(room, ends, size, starts, tail)
    out[0] = ends[0] // (size - 1)


def count_plane_support(
    histogram: NDArray[np.int64], field: NDArray[np.int64], dimension: int, domain_size: int
) -> NDArray[np.int64]:
    """How many reports lie on each value's hyperplane: the histogram's sum over the points orthogonal to point v."""
    field_size = int(field[0])
    if not 2 <= dimension <= MAX_DIMENSION or field_size ** (dimension + 1) >= 1 << 62:
        raise ValueError(f"dimension must be in 2 .. 32, and the space smaller than 2 ** 45, not {dimension}")
    # P(0) .. P(t + 1): how many points the spaces of 0 .. t + 1 coordinates have.
    starts = np.array([(field_size**s - 1) // (field_size - 1) for s in range(dimension + 2)], np.int64)
    histogram, size = np.asarray(histogram), int(starts[dimension])
    if histogram.shape != (size,) or histogram.dtype.kind not in "iu":
        raise ValueError(f"histogram must be {size} integers, not {histogram.dtype} {histogram.shape}")
    if not 1 <= domain_size <= size:
        raise ValueError(f"domain_size must be in 1 .. {size}, the points of the space, not {domain_size}")
    out = np.empty(domain_size, np.int64)
    plane_support(np.ascontiguousarray(histogram, np.int64), field, starts, out)
    return out
