"""The protocol written a second time, from the words that describe it, sharing no code with it."""

import hashlib
import hmac
import struct


def tagged(*parts):
    """A context: each part preceded by its kind and its length in eight little-endian bytes."""
    out = b""
    for part in parts:
        kind = {str: b"s", int: b"i", bytes: b"b"}[type(part)]
        raw = part if isinstance(part, bytes) else str(part).encode()
        out += kind + struct.pack("<Q", len(raw)) + raw
    return out


def stream(key, context, purpose, count, topic=None):
    """The first `count` bits of a keyed BLAKE2b in counter mode, first bit first."""
    if topic is not None:
        context += len(topic).to_bytes(9, "little") + topic
    raw = b"".join(
        hashlib.blake2b(context + struct.pack("<Q", block), key=key, person=purpose).digest()
        for block in range(count // 512 + 1)
    )
    return [raw[i // 8] >> (i % 8) & 1 for i in range(count)]


def permanent_response(bits, size, thresholds, secret, metric, digest, cohort, value):
    """Each bit's U, digit by digit: the last digit that matters comes first in the stream."""
    needed = max(len(f"{t % 2**32:032b}".rstrip("0")) for t in thresholds)
    drawn = stream(secret, tagged(metric, digest, cohort), b"permanent", needed * size, value)
    result = 0
    for i in range(size):
        digits = "".join(str(drawn[word * size + i]) for word in reversed(range(needed)))
        uniform = int(digits.ljust(32, "0"), 2)
        result |= (uniform < thresholds[0 if bits >> i & 1 else 1]) << i
    return result


def cohort_of(secret, metric, num_cohorts):
    """Numbers of as many bits as num_cohorts - 1 has, from the device's stream, until one is a cohort."""
    width = len(f"{num_cohorts - 1:b}") if num_cohorts > 1 else 0
    drawn = stream(secret, tagged(metric), b"cohort", 512)
    for at in range(0, 512 - width, max(width, 1)):
        number = sum(bit << i for i, bit in enumerate(drawn[at : at + width]))
        if number < num_cohorts:
            return number
    raise AssertionError("not in 512 bits")


def google_permanent(bloom, num_bits, f, secret):
    """HMAC-SHA256 of the big-endian 32-bit filter, a byte a bit: its lowest bit is `uniform`, the rest says `noise`."""
    mac = hmac.new(secret, struct.pack(">L", bloom), hashlib.sha256).digest()
    prr = 0
    for i in range(num_bits):
        uniform, noise = mac[i] & 1, (mac[i] >> 1) < f * 128
        true = bloom >> i & 1
        prr |= int((true and not noise) or (uniform and noise)) << i
    return prr


def google_key(secret, metric, digest, cohort):
    """The key of a device's metric in Google's family: keyed BLAKE2b of what the responses are of."""
    about = tagged(metric, digest, cohort)
    return hashlib.blake2b(about, key=secret, digest_size=32, person=b"google response").digest()


def google_positions(value, cohort, num_bits, num_hashes):
    digest = hashlib.md5(struct.pack(">L", cohort) + value).digest()
    return tuple(digest[i] % num_bits for i in range(num_hashes))
