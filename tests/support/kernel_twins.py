"""Slow, obvious twins of the kernels: pure Python integers, one device at a time, nothing shared with the kernels."""

import hashlib
import struct

LANES = 256
MASK = 0xFFFFFFFF


def chacha_block(key: bytes, words: tuple[int, int, int, int], rounds: int = 20) -> bytes:
    """RFC 8439, section 2.3, with the counter and the nonce given as four words."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key), *words]
    x = list(start)

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> (32 - by)) & MASK

    def quarter(a: int, b: int, c: int, d: int) -> None:
        x[a] = (x[a] + x[b]) & MASK
        x[d] = rotate(x[d] ^ x[a], 16)
        x[c] = (x[c] + x[d]) & MASK
        x[b] = rotate(x[b] ^ x[c], 12)
        x[a] = (x[a] + x[b]) & MASK
        x[d] = rotate(x[d] ^ x[a], 8)
        x[c] = (x[c] + x[d]) & MASK
        x[b] = rotate(x[b] ^ x[c], 7)

    for _ in range(rounds // 2):
        for i in range(4):
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):
            quarter(i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12)
    return struct.pack("<16I", *((a + b) & MASK for a, b in zip(x, start, strict=True)))


def digits_needed(channel: tuple[int, int]) -> int:
    """Up to the last 1 among both thresholds' 32 digits."""
    return max(len(f"{threshold % 2**32:032b}".rstrip("0")) for threshold in channel)


def bernoulli(words: list[int], threshold: int, size: int) -> int:
    """The one rule of docs/explanation/architecture.md, bit by bit: U's digits from the words, then U < threshold."""
    result = 0
    for place in range(size):
        uniform = sum(((word >> place) & 1) << (31 - j) for j, word in enumerate(words))
        result |= (uniform < threshold) << place
    return result


def group_sizes(words: int) -> list[int]:
    sizes = []
    while words:
        size = next(s for s in (8, 4, 2, 1) if s <= words)
        sizes.append(size)
        words -= size
    return sizes


def simulate_one(positions, symbol, cohort, permanent, instantaneous, key, *, num_bits, device, report_index) -> int:
    """One report as one big integer."""
    bits = 0
    for position in positions[cohort][symbol]:
        bits |= 1 << int(position)
    for channel, domain in ((permanent, b"perm-v1"), (instantaneous, b"inst-v1")):
        if channel is None:
            continue
        derived = hashlib.blake2s(key=key, person=domain).digest()
        out, at = 0, 0
        for group, size in enumerate(group_sizes(-(-num_bits // 64))):
            skip = 0
            if domain == b"perm-v1":
                names = (device % 2**32, (device >> 32) | cohort << 16, symbol)
            else:
                need = size
                while need < digits_needed(channel) * size:
                    need *= 2
                share = max(1, 8 // need)
                column = device // (LANES * share) * LANES + device % LANES
                skip = 8 // share * (device // LANES % share)
                names = (column % 2**32, column >> 32, report_index)
            stream = b"".join(chacha_block(derived, (32 * group + b, *names), rounds=12) for b in range(4 * size))
            numbers = list(struct.unpack(f"<{len(stream) // 8}Q", stream))[skip:]
            numbers += [0] * (32 * size - len(numbers))  # past the digits that matter
            for i in range(size):
                # Digits past the last that matters are never read; as zeros they change nothing.
                words = [numbers[j * size + i] if j < digits_needed(channel) else 0 for j in range(32)]
                one, zero = (bernoulli(words, threshold, 64) for threshold in channel)
                was = bits >> (64 * at) & (2**64 - 1)
                out |= (was & one | ~was & zero) << (64 * at)
                at += 1
        bits = out & (2**num_bits - 1)
    return bits
