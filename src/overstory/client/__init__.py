"""The device's side: the standard library alone, so that any program can embed it."""

from overstory.client.randomizer import Randomizer, new_secret

__all__ = ["Randomizer", "new_secret"]
