"""Needs <-> parameters: what a collection would learn and reveal, before anybody reports.

`plan_from_parameters` says what given parameters achieve; `plan_from_needs` finds the parameters. Where needs are
impossible, `Nearest` has those that are possible. `overstory.planning.kinds` plans for all other kinds of data.
"""

from overstory.planning.detection import critical_value, learning_limit
from overstory.planning.nearest import Nearest
from overstory.planning.needs import plan_from_needs, plan_from_parameters
from overstory.planning.plan import Plan, RapporPlan

__all__ = [
    "Nearest",
    "Plan",
    "RapporPlan",
    "critical_value",
    "learning_limit",
    "plan_from_needs",
    "plan_from_parameters",
]
