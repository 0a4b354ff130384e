"""Compare oracles on one population at equal privacy: the error that theory predicts, and the error of a trial.

Run `python examples/compare.py`. Every oracle gets the same simulated people and the same epsilon for one report; the
error is the root mean square over the values, as a share of the people.
"""

from __future__ import annotations

import argparse

import numpy as np

import overstory

ORACLES = ("grr", "sue", "oue", "blh", "olh", "hadamard", "subset", "projective")


def main() -> None:
    """Print a line for each oracle."""
    args = arguments()
    rng = np.random.default_rng(args.seed)
    shares = 1 / np.arange(1, args.values + 1)  # Zipf's law: the second value is half as frequent as the first
    shares /= shares.sum()
    held = rng.choice(args.values, size=args.people, p=shares)
    truth = np.bincount(held, minlength=args.values) / args.people
    print(f"{args.people:,} people, {args.values} values, epsilon {args.epsilon:g}")
    print(f"{'oracle':<12}{'predicted':>10}{'trial':>10}{'bits':>8}")
    for name in args.oracles:
        oracle = overstory.oracle(name, domain_size=args.values, epsilon=args.epsilon)
        reports = oracle.simulate(held, rng)
        estimate = oracle.estimate(oracle.accumulate(reports))
        # The average variance over all values is the variance of a value with the share 1/d, for every population.
        predicted = float(np.sqrt(oracle.variance(args.people, 1 / args.values)))
        trial = float(np.sqrt(np.mean((estimate.frequencies - truth) ** 2)))
        print(f"{name:<12}{predicted:>10.3%}{trial:>10.3%}{oracle.mechanism.payload_bits:>8}")


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--values", type=int, default=64)
    parser.add_argument("--oracles", nargs="+", default=ORACLES, metavar="NAME", help="default: those of one round")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same numbers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
