"""Many devices' reports at once: positions of a symbol, permanent channel, instantaneous channel.

**Which random word is which** (the tests hold a plain twin).  The words of a report are split into groups of 8, 4, 2
or 1, largest first; group ``g`` has ``w`` words.  A stream of ChaCha blocks is read as little-endian 64-bit words:
digit ``j`` of word ``i`` of the group is the stream's word number ``j w + i``.  Block ``b`` of a group is ChaCha
under the four words

    permanent       32 g + b | device mod 2^32 | device >> 32, + 2^16 cohort | symbol
    instantaneous   32 g + b | column mod 2^32 | column >> 32                | report index

of 12 rounds, with a key for each of the two, so the permanent words depend on (key, device, symbol, cohort) alone.
``column`` is the device, unless the words that the instantaneous thresholds need (digits rounded up to a power of two,
times w) are fewer than a block's eight: then a block serves ``share`` = 8, 4 or 2 devices that lie `LANES` apart:

    column = (device // (LANES share)) LANES + device mod LANES,    first word = 8 / share * (device // LANES mod share)

These streams are for experiments and load: a real device takes its randomness from the operating system, and derives
its permanent responses by BLAKE2b. Twelve rounds are enough for that (the best attack known reaches seven).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.bits.tiles import name_instantaneous, simulate_rows
from overstory.kernels.columns import MOST_DEVICES
from overstory.kernels.compiled import in_parts, kernel
from overstory.kernels.random.bernoulli import ALL, GROUP, ONE, digits_needed
from overstory.kernels.random.streams import LANES, fill_blocks, key_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Channel = tuple[int, int]


def _digit_table(channel: Channel) -> NDArray[np.uint32]:
    """Each digit of ``raise_zero``, and where ``keep_one`` has another, in every place of a word."""
    keep_one, raise_zero = (threshold % ONE for threshold in channel)
    table = np.zeros(2 * (32 + GROUP), dtype=np.uint32)
    # Digit j from the most significant: the digit for a 0, and the exclusive or that makes it the digit for a 1.
    for j in range(32):
        zero, one = (raise_zero >> (31 - j)) & 1, (keep_one >> (31 - j)) & 1
        table[2 * j], table[2 * j + 1] = ALL * zero, ALL * (zero ^ one)
    return table


def _checked(positions: NDArray[Any], symbols: NDArray[Any], cohorts: NDArray[Any], num_bits: int) -> None:
    """Refuse what would read or write outside an array."""
    if positions.ndim != 3 or positions.dtype.kind not in "iu":
        raise ValueError(
            f"positions must be integers of shape (cohorts, symbols, hashes), not {positions.dtype} {positions.shape}"
        )
    if symbols.ndim != 1 or symbols.shape != cohorts.shape:
        raise ValueError(f"symbols {symbols.shape} and cohorts {cohorts.shape} must be columns of one length")
    for name, values, limit in (
        ("positions", positions, num_bits),
        ("symbols", symbols, positions.shape[1]),
        ("cohorts", cohorts, positions.shape[0]),
    ):
        unsigned = values.view(
            f"u{values.dtype.itemsize}"
        )  # a negative number is a very large one: one pass tests both ends
        if values.size and int(unsigned.max()) >= limit:
            raise ValueError(f"{name} must be in 0 .. {limit - 1}, not {int(values.min())} .. {int(values.max())}")


def _for_kernel(channel: Channel | None, key: bytes, domain: bytes, rounds: int) -> tuple[Any, ...]:
    """What the kernels need: is there a channel, key, rounds, thresholds, digits, how many of them matter."""
    thresholds = channel or (ONE, 0)
    if not all(0 <= threshold <= ONE for threshold in thresholds):
        raise ValueError(f"thresholds must be in 0 .. 2 ** 32, not {thresholds}")
    columns = np.array(thresholds, dtype=np.int64)
    return (
        channel is not None,
        key_words(key, domain),
        rounds,
        columns,
        _digit_table(thresholds),
        digits_needed(*thresholds),
    )


def simulate_bits(
    positions: NDArray[Any],
    symbols: NDArray[np.int32],
    cohorts: NDArray[np.uint16],
    permanent: Channel | None,
    instantaneous: Channel | None,
    key: bytes,
    *,
    num_bits: int,
    first_device: int = 0,
    report_index: int = 0,
    threads: int | None = None,
    out: NDArray[np.uint64] | None = None,
) -> NDArray[np.uint64]:
    """One report from each of many devices.

    Parameters
    ----------
    positions : integer array of shape (num_cohorts, num_symbols, num_hashes)
        The bits that a symbol sets in a cohort; one-hot is one cohort and one hash.
    symbols : int32[n]
        Each device's symbol.
    cohorts : uint16[n]
        Each device's cohort.
    permanent, instantaneous : (keep_one, raise_zero) or None
        Thresholds of the two channels, 0 to 2 ** 32 for probabilities 0 to 1; None changes nothing.
    key : bytes
        32 bytes; the same key gives the same reports.
    first_device : int
        Number of the first row's device.  Each device's randomness is its own: a device gets the same report in
        whatever rows it is computed with.
    report_index : int
        Which of the devices' reports.  The permanent response does not depend on it.
    out : uint64[n, words], optional
        Where to write; made unless given.

    Returns
    -------
    uint64[n, words]
        Packed reports (see docs/explanation/architecture.md).

    Examples
    --------
    >>> import numpy as np
    >>> one_hot = np.arange(3, dtype=np.uint16).reshape(1, 3, 1)
    >>> symbols, cohorts = np.array([2, 0], dtype=np.int32), np.zeros(2, dtype=np.uint16)
    >>> simulate_bits(one_hot, symbols, cohorts, None, None, bytes(32), num_bits=3)
    array([[4],
           [1]], dtype=uint64)
    """
    symbols, cohorts = np.ascontiguousarray(symbols, np.int32), np.ascontiguousarray(cohorts, np.uint16)
    _checked(positions, symbols, cohorts, num_bits)
    if not (first_device >= 0 and first_device + symbols.size <= MOST_DEVICES and 0 <= report_index < ONE):
        raise ValueError(
            f"device numbers must be below 2 ** 48 and report_index below 2 ** 32, not {first_device}, {report_index}"
        )
    # ceil(num_bits / 64) words; `valid` masks the places past num_bits, one 32-bit half at a time.
    words = -(-num_bits // 64)
    if out is None:
        out = np.empty((symbols.size, words), dtype=np.uint64)
    elif out.shape != (symbols.size, words) or out.dtype != np.uint64 or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be a C-contiguous uint64 array of shape {(symbols.size, words)}, not {out.dtype} {out.shape}"
        )
    first, second = _for_kernel(permanent, key, b"perm-v1", 12), _for_kernel(instantaneous, key, b"inst-v1", 12)
    valid = np.array([(1 << max(0, min(32, num_bits - 32 * row))) - 1 for row in range(2 * words)], dtype=np.uint32)
    table = np.ascontiguousarray(positions)

    def part(start: int, stop: int) -> None:
        rows = slice(start, stop)
        device = first_device + start
        simulate_rows(table, symbols[rows], cohorts[rows], first, second, valid, device, report_index, out[rows])

    in_parts(part, symbols.size, threads, smallest=16 * LANES, align=8 * LANES)
    return out


@kernel
def cohort_rows(key: Any, num_cohorts: Any, device: Any, out: Any) -> None:
    """``cohort = (U num_cohorts) >> 64`` for 64 random bits U: word ``device mod 8`` of block ``device // 8``."""
    names, words = np.zeros(3 * LANES, np.uint32), np.empty(16 * LANES, np.uint32)
    # A ChaCha20 block serves eight devices, so LANES blocks serve 8 LANES consecutive ones.
    span = 8 * LANES
    for number in range(device // span, (device + out.size - 1) // span + 1):
        name_instantaneous(names, number * LANES, 0)
        fill_blocks(key, 0, names, words, LANES, 20)
        for row in range(max(number * span, device), min(number * span + span, device + out.size)):
            # Device `row` reads pair row mod 8 of block row // 8, low half first.
            at = (row & 7) * 2 * LANES + ((row >> 3) & (LANES - 1))
            low, high = np.uint64(words[at]), np.uint64(words[at + LANES])
            many = np.uint64(num_cohorts)
            # (U num_cohorts) >> 64 from halves: num_cohorts is below 2^32, so no product overflows.
            out[row - device] = (high * many + ((low * many) >> np.uint64(32))) >> np.uint64(32)


def assign_cohorts(key: bytes, num_cohorts: int, n: int, first_device: int = 0) -> NDArray[np.uint16]:
    """Cohort of each of ``n`` devices, a function of (key, device); each cohort's probability is exact to 2 ** -64.

    Parameters
    ----------
    key : bytes
        32 bytes.

    Returns
    -------
    uint16[n]
    """
    if not 1 <= num_cohorts <= 1 << 16:
        raise ValueError(f"num_cohorts must be in 1 .. 65536, not {num_cohorts}")
    if not (first_device >= 0 and n >= 0 and first_device + n <= MOST_DEVICES):
        raise ValueError(f"device numbers must be below 2 ** 48, not {first_device} .. {first_device + n}")
    out = np.empty(n, dtype=np.uint16)
    words = key_words(key, b"cohort-1")
    in_parts(
        lambda start, stop: cohort_rows(words, num_cohorts, first_device + start, out[start:stop]),
        n,
        None,
        smallest=64 * LANES,
    )
    return out
