"""How many frequent strings a search finds, by their code: `bench/unknown_strings.py LIST... [--quick] [--json]`.

A LIST has a string a line (up to a tab), at least 60,000 of 3 to 32 characters: /usr/share/dict/american-english and
/usr/share/dict/ngerman, from Debian's packages wamerican and wngerman, are two. 20,000 strings are held by n devices
with Zipf 1.1 frequencies, in another order for each seed; the alphabet is that of 60,000. Recall is the share of the
32 most frequent strings that are detected, at 5% false discoveries over everything tried.

Simulated are the counts, not the reports: at each level of the shipped plan, how many devices hold each prefix, how
many reports support it, and the largest supports of all prefixes that nobody holds. Strings nobody holds that end early
are left out. So ten million devices take a second; `tests/discovery/test_unknown_strings.py` compares it with reports.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from overstory.discovery import AlphabetStrings, CodedStrings, NoCodeError, discover
from overstory.protocol.domains.codes import CodedDomain
from overstory.protocol.kinds.registry import mechanism

HELD, LISTED, TOP, KEEP, ALPHA = 20_000, 60_000, 32, 1024, 0.05
WEIGHTS = np.arange(1, HELD + 1) ** -1.1 / np.sum(np.arange(1, HELD + 1) ** -1.1)
EPSILONS = (1.0, 2.0, 3.0, 4.39)
BEAM = 192
DEVICES = (10**5, 10**6, 10**7)
CHAINS = 64


def read(path: str) -> tuple[list[str], str]:
    """Return the strings that devices hold, and the alphabet of the list."""
    lines = Path(path).read_text("utf-8").splitlines()
    words = sorted({word for line in lines if 3 <= len(word := line.split("\t")[0].lower()) <= 32})
    if len(words) < LISTED:
        raise SystemExit(f"{path}: {len(words):,} strings of 3 to 32 characters: give a list of {LISTED:,} or more")
    order = np.random.default_rng(13).permutation(len(words))
    alphabet = "".join(sorted(set("".join(words[i] for i in order[:LISTED]))))
    return [words[i] for i in order[:HELD]], alphabet


def codes(alphabet: str) -> dict[str, CodedDomain]:
    """Return the codes that are compared."""
    return {
        "bytes, at most 32": CodedStrings(32, is_text=True),
        f"alphabet of {len(alphabet)}, at most 32": AlphabetStrings(32, alphabet),
        f"alphabet of {len(alphabet)}, at most 20": AlphabetStrings(20, alphabet),
    }


@dataclass(frozen=True, eq=False)
class Level:
    """What a level asks about the strings that are held."""

    prefixes: NDArray[np.int64]  # which prefix each string has; -1 without a code
    ended: NDArray[np.bool_]  # which prefixes belong to one string
    valid: float  # share of extensions that some code begins with
    tried: int
    share: float  # of the devices


def levels_of(domain: CodedDomain, held: Sequence[str]) -> list[Level]:
    """Return the levels of the shipped plan."""
    plan = discover(epsilon=1.0, domain=domain)
    coded = [_code(domain, text) for text in held]
    valid = _valid_shares(domain, [level.num_bits for level in plan.levels])
    levels = []
    for question, devices, tried, share in zip(plan.levels, plan.shares, plan.tried, valid, strict=True):
        places: dict[int, int] = {}
        left = domain.width - question.num_bits
        prefixes = [-1 if code is None else places.setdefault(code >> left, len(places)) for code in coded]
        ended = [left > 0 and domain.only(bits, question.num_bits) is not None for bits in places]
        levels.append(Level(np.array(prefixes), np.array(ended), 1.0 if left == 0 else share, tried, devices))
    return levels


def _code(domain: CodedDomain, text: str) -> int | None:
    try:
        return domain.code(text)
    except NoCodeError:
        return None


def _valid_shares(domain: CodedDomain, lengths: Sequence[int]) -> list[float]:
    """Return how many extensions of a random prefix some code begins with: noise competes with as many."""
    rng = np.random.default_rng(7)
    chains, before, shares = [0] * CHAINS, 0, []
    for length in lengths[:-1]:
        tries, longer = 0, []
        for chain in chains:
            for _ in range(200):
                tries += 1
                bits = chain << (length - before) | int(rng.integers(1 << (length - before)))
                if domain.holds(bits, length) and domain.only(bits, length) is None:
                    longer.append(bits)
                    break
        shares.append(len(longer) / tries)
        chains, before = longer or [0], length
    return [*shares, 1.0]


def recall(
    levels: Sequence[Level], epsilon: float, num_devices: int, rng: Any, *, ranked: bool = False
) -> tuple[float, int]:
    """Return the share of the most frequent strings that one search detects, and how many nobody holds.

    With `ranked`, the strings are held in their order, the first most often; otherwise in another order each time.
    """
    asked = mechanism("linear-hash", domain_size=2**64, epsilon=epsilon)
    p, q = float(asked.p_star), float(asked.q_star)
    sizes = [round(num_devices * level.share) for level in levels]
    order = np.arange(HELD) if ranked else rng.permutation(HELD)
    holders = [rng.multinomial(size, WEIGHTS)[order] for size in sizes]
    alive, tests, tried = np.ones(HELD, np.bool_), [], 0
    for at, (level, size) in enumerate(zip(levels, sizes, strict=True)):
        is_last = at == len(levels) - 1
        alive &= level.prefixes >= 0
        present = np.unique(level.prefixes[alive])
        many = np.bincount(level.prefixes[alive], holders[at][alive], level.ended.size).astype(int)[present]
        supports = rng.binomial(many, p) + rng.binomial(size - many, q)
        num_noise, keep = max(round(level.tried * level.valid) - present.size, 1), KEEP if is_last else BEAM
        noise_p = np.cumsum(rng.exponential(size=min(keep, num_noise))) / num_noise
        noise = binom.isf(np.minimum(noise_p, 1.0), size, q)
        if is_last:
            of_string = binom.sf(supports - 1, size, q)
            place = np.full(level.ended.size, -1)
            place[present] = np.arange(present.size)
            strings = np.flatnonzero(alive)
            tests += list(zip(of_string[place[level.prefixes[strings]]].tolist(), strings.tolist(), strict=True))
            tests += [(float(value), -1) for value in noise_p]
            tried += level.tried
            break
        cut = np.sort(np.concatenate((supports, noise)))[-keep:].min()
        kept = np.zeros(level.ended.size, np.bool_)
        kept[present[supports >= cut]] = True
        alive &= kept[level.prefixes]
        tried += keep
        for string in np.flatnonzero(alive & level.ended[level.prefixes]).tolist():
            later = sum(counts[string] for counts in holders[at + 1 :])
            total = sum(sizes[at + 1 :])
            support = rng.binomial(later, p) + rng.binomial(total - later, q)
            tests.append((float(binom.sf(support - 1, total, q)), string))
            alive[string] = False
    return _detected(tests, tried, order)


def _detected(tests: list[tuple[float, int]], tried: int, order: NDArray[np.int64]) -> tuple[float, int]:
    """Apply Benjamini and Hochberg's rule."""
    tests = sorted(tests)
    passed = [rank for rank, (value, _) in enumerate(tests, 1) if value <= ALPHA * rank / tried]
    detected = [string for _, string in tests[: max(passed, default=0)]]
    return sum(string >= 0 and order[string] < TOP for string in detected) / TOP, detected.count(-1)


def known_recall(epsilon: float, num_devices: int, rng: Any) -> tuple[float, int]:
    """Return the same where all strings are known and every device is asked about them: the bound."""
    asked = mechanism("olh", epsilon=epsilon)
    p, q = float(asked.p_star), float(asked.q_star)
    many = rng.multinomial(num_devices, WEIGHTS)
    supports = rng.binomial(many, p) + rng.binomial(num_devices - many, q)
    values = binom.sf(supports - 1, num_devices, q)
    return _detected(list(zip(values.tolist(), range(HELD), strict=True)), HELD, np.arange(HELD))


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="+", metavar="LIST")
    parser.add_argument("--quick", action="store_true", help="a million devices, two epsilons, three seeds")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--epsilon", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--devices", type=int, nargs="*", default=DEVICES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seeds = options.seeds or (3 if options.quick else 20)
    epsilons, devices = ((2.0, 4.39), DEVICES[1:2]) if options.quick else (options.epsilon, options.devices)
    results = []
    for path in options.lists:
        held, alphabet = read(path)
        rows: dict[str, list[Level] | None] = {n: levels_of(d, held) for n, d in codes(alphabet).items()}
        for name, levels in (rows | {"all strings known (bound)": None}).items():
            for n in devices:
                runs = {
                    epsilon: [
                        known_recall(epsilon, n, rng) if levels is None else recall(levels, epsilon, n, rng)
                        for rng in (np.random.default_rng([seed, n]) for seed in range(seeds))
                    ]
                    for epsilon in epsilons
                }
                results.append(_summary(path, name, n, levels, runs))
                if not options.json:
                    _print(results[-1], first=len(results) == 1)
    if options.json:
        print(json.dumps({"seeds": seeds, "top": TOP, "results": results}, indent=1))


def _summary(path: str, name: str, n: int, levels: list[Level] | None, runs: Any) -> dict[str, Any]:
    means = {epsilon: float(np.mean([run[0] for run in each])) for epsilon, each in runs.items()}
    false = {epsilon: float(np.mean([run[1] for run in each])) for epsilon, each in runs.items()}
    coded = 1.0 if levels is None else float(np.mean(levels[0].prefixes >= 0))
    return {"list": Path(path).name, "code": name, "levels": levels and len(levels), "coded": coded, "devices": n,
            "recall": means, "false": false}  # fmt: skip


def _print(result: dict[str, Any], *, first: bool) -> None:
    if first:
        heads = "".join(f"{f'eps {epsilon:g}':>9}" for epsilon in result["recall"])
        print(f"{'list':18}{'code':32}{'levels':>7}{'coded':>7}{'devices':>12}{heads}")
    values = "".join(f"{value:9.3f}" for value in result["recall"].values())
    head = f"{result['list'][:17]:18}{result['code']:32}{result['levels'] or '':>7}"
    print(f"{head}{result['coded']:7.3f}{result['devices']:12,}{values}", flush=True)


if __name__ == "__main__":
    main()
