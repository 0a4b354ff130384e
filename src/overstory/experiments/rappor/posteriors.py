"""Figure 8: exact probabilities of the true value, given the two bits of a string in one report."""

from overstory.experiments.rappor.false_discoveries import run_posteriors as run

__all__ = ["run"]
