"""How often a slow test kills or damages: enough by default, and as often as a variable says on a quiet night."""

import os


def rounds(usual: int, variable: str = "OVERSTORY_KILLS") -> int:
    return int(os.environ.get(variable, str(usual)))
