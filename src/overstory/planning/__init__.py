"""Needs <-> parameters: what a collection would learn and reveal, before anybody reports.

`plan_from_parameters` says what given parameters achieve; `plan_from_needs` finds the parameters.
`overstory.planning.kinds` plans for all other kinds of data.
"""

from overstory.planning.needs import plan_from_needs, plan_from_parameters
from overstory.planning.plan import Plan, RapporPlan

__all__ = ["Plan", "RapporPlan", "plan_from_needs", "plan_from_parameters"]
