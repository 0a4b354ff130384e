"""What a mechanism reveals, exactly: one report, n reports, many values, a change. The standard library alone.

`statement` gathers it all for one mechanism; `epsilon_between` compares any two histories of values.
"""

from overstory.privacy.changes import change_leak
from overstory.privacy.histories import epsilon_between
from overstory.privacy.maps import map_differences
from overstory.privacy.statement import Claim, PrivacyStatement, statement

__all__ = ["Claim", "PrivacyStatement", "change_leak", "epsilon_between", "map_differences", "statement"]
