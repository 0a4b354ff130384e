"""All screens of the console: a screen is added by one class and one line."""

from __future__ import annotations

from typing import Final

from overstory.console.screens.comparison import ComparisonScreen
from overstory.console.screens.health import HealthScreen
from overstory.console.screens.overview import OverviewScreen
from overstory.console.screens.period import PeriodScreen
from overstory.console.screens.planner import PlannerScreen
from overstory.console.screens.privacy import PrivacyScreen
from overstory.console.screens.public import AboutScreen, PublicScreen, RegistryScreen
from overstory.console.screens.series import SeriesScreen
from overstory.console.view import Screen

SCREENS: Final[tuple[Screen, ...]] = (
    PublicScreen(),
    AboutScreen(),
    RegistryScreen(),
    OverviewScreen(),
    SeriesScreen(),
    ComparisonScreen(),
    PeriodScreen(),
    HealthScreen(),
    PrivacyScreen(),
    PlannerScreen(),
)
