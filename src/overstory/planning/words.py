"""A plan in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overstory.planning.plan import AtShare, Comparison, Plan


def sentences(plan: Plan) -> Iterator[str]:
    """Say what a plan reveals and learns, one sentence after the other."""
    yield plan.privacy.plain_words()
    yield (
        f"From {plan.num_reports:,} reports a string's count is known with a standard error of "
        f"{plan.standard_error:,.0f} ({plan.standard_error / plan.num_reports:.3%} of the reports)."
    )
    yield from _detection(plan)
    if plan.share:
        yield from _share(plan.share, plan)
    if plan.comparison:
        yield from _comparison(plan, plan.comparison)
    yield from _spare(plan)


def _detection(plan: Plan) -> Iterator[str]:
    if plan.detectable_frequency > 1:
        yield "That is too uncertain to detect anything: collect more reports, or allow a larger epsilon."
        return
    yield (
        f"With {plan.num_candidates:,} candidates (Bonferroni at {plan.alpha:g}) a string held by "
        f"{plan.detectable_frequency:.3%} is detected half the time, one held by {plan.reliable_frequency:.3%} nine "
        f"times in ten; controlling the false discovery rate instead, about {plan.detectable_frequency_fdr:.3%}."
    )
    yield (
        f"At most {plan.learnable_strings:,} strings can be learned, and only if they are equally frequent "
        f"(rule of thumb: {plan.rule_of_thumb:,.0f})."
    )
    if plan.num_fitted < plan.num_candidates:
        yield (
            f"There are too many candidates to estimate all at once: this supposes a decoder that first screens them "
            f"and then fits about {plan.num_fitted:,}."
        )


def _share(at: AtShare, plan: Plan) -> Iterator[str]:
    yield (
        f"A string held by {at.frequency:.3%} ({at.count:,.0f} reports, standard error {at.standard_error:,.0f}) needs "
        f"{at.reports_needed:,} reports to be detected: {plan.num_reports:,} are "
        f"{'enough' if at.detectable else 'too few'}."
    )


def _comparison(plan: Plan, paper: Comparison) -> Iterator[str]:
    yield (
        f"The paper's p = 0.5, q = 0.75, h = 2 with f = {paper.parameters['f']:.4g}, within the same two epsilons, "
        f"would have a standard error of {paper.standard_error:,.0f}: {paper.standard_error_ratio:.2f} times as large; "
        f"{paper.reports_ratio:.2f} times as many reports would make up for it."
    )
    if paper.higher_epsilon_n:
        n = max(paper.higher_epsilon_n, key=lambda n: plan.epsilon_n[n] - paper.epsilon_n[n])
        yield (
            f"In between this plan reveals a little more: {n} reports of one value have epsilon "
            f"{plan.epsilon_n[n]:.3f}, the paper's {paper.epsilon_n[n]:.3f}."
        )
    for n, leak in plan.change_leak.items():
        if leak > paper.change_leak[n]:
            yield (
                f"And a change of value is easier to see: epsilon {leak:.2f} within {n} reports, the paper's "
                f"{paper.change_leak[n]:.2f}."
            )


def _spare(plan: Plan) -> Iterator[str]:
    enough = plan.sufficient_epsilon_permanent
    if enough is not None and enough < plan.epsilon_permanent - 1e-3:
        yield (
            f"A permanent epsilon of {enough:.4f} would give one report a device the same standard error (plan "
            "thriftily); more of it pays where reports of one device are averaged, and hides changes of value better."
        )
    if plan.basic_standard_error is not None and 2 <= plan.num_candidates <= plan.parameters["k"]:
        yield (
            f"If the {plan.num_candidates} candidates are all there is, Basic RAPPOR (a bit for each) with these f, p "
            f"and q has a standard error of {plan.basic_standard_error:,.0f}."
        )
