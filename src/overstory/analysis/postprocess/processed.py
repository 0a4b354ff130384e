"""Post-processing as named steps: what is done to the unbiased counts after they are estimated.

    postprocess(estimate, "base-cut", "norm-sub")

The unbiased counts, their standard errors and what is detected stay as they were (`raw_counts`); only the counts to
report change, and the result lists the steps. Post-processing reads no report, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.estimate import Estimate
from overstory.analysis.postprocess.steps import BaseCut, Clip, EstFreq, Norm, NormSub, Smooth, Step
from overstory.analysis.selection import bounded_interval
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.selection import IntervalKind

STEPS: Final[Mapping[str, Callable[[], Step]]] = MappingProxyType(
    {
        "clip": Clip,
        "est-freq": EstFreq,
        "est-freq-clipped": lambda: EstFreq(clipped=True),
        "norm": Norm,
        "norm-sub": NormSub,
        "base-cut": BaseCut,
        "smooth": Smooth,
    }
)
"""The steps that need no further numbers, by name. `postprocess_likelihood.MaximumLikelihood` needs the channel."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Processed(Estimate):
    """An estimate whose `counts` went through `steps`, in that order, from the `counts` of the estimate before.

    Attributes
    ----------
    steps : tuple of str
        What was done.
    """

    steps: tuple[str, ...] = ()

    def interval(
        self, level: float = 0.95, kind: IntervalKind | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the interval to show with `counts`, in reports: `selection.bounded_interval`."""
        return bounded_interval(self.counts, self.raw_counts, self.errors(kind), self.num_reports, level)

    def summary(self) -> dict[str, Any]:
        """Return the facts about the estimate, ready for JSON."""
        return {**super().summary(), "steps": list(self.steps)}


def postprocess(estimate: Estimate, *steps: str | Step) -> Processed:
    """Return `estimate` with the steps applied to its counts, one after the other.

    Parameters
    ----------
    estimate
        The estimate to start from; it is not changed.
    *steps
        Names of `STEPS`, or steps with parameters of their own (``BaseCut(alpha=0.01)``).

    Raises
    ------
    ParameterError
        When a step is unknown, or cannot be applied to these counts.

    Examples
    --------
    >>> raw = Estimate(values=["a", "b", "c"], counts=[70, 50, -20], raw_counts=[70, 50, -20],
    ...                standard_errors=[9, 9, 9], num_reports=100)
    >>> done = postprocess(raw, "norm-sub")
    >>> done.counts.tolist(), done.raw_counts.tolist(), done.steps
    ([60.0, 40.0, 0.0], [70.0, 50.0, -20.0], ('norm-sub',))
    """
    done = _as_processed(estimate)
    for step in steps:
        chosen = _step(step) if isinstance(step, str) else step
        done = _with_counts(done, chosen(done), chosen.name)
    return done


def _step(name: str) -> Step:
    if name not in STEPS:
        raise ParameterError(f"there is no post-processing step {name!r}: choose one of {', '.join(STEPS)}")
    return STEPS[name]()


def _as_processed(estimate: Estimate) -> Processed:
    if isinstance(estimate, Processed):
        return estimate
    return _with_counts(estimate, estimate.counts)


def _with_counts(estimate: Estimate, counts: NDArray[np.float64], *names: str) -> Processed:
    before = estimate.steps if isinstance(estimate, Processed) else ()
    return Processed(
        values=estimate.values,
        counts=counts,
        raw_counts=estimate.raw_counts,
        standard_errors=estimate.standard_errors,
        num_reports=estimate.num_reports,
        interval_kind=estimate.interval_kind,
        reports_per_device=estimate.reports_per_device,
        null_share=estimate.null_share,
        alpha=estimate.alpha,
        correction=estimate.correction,
        notes=estimate.notes,
        steps=(*before, *names),
    )
