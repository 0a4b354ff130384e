"""Estimates for the consoles of the tests, from one process that decodes for all of them."""

import threading
from functools import cache

from overstory.console.data import PATIENCE, Estimates, Worker


class SharedWorker(Worker):
    """A process that several consoles use in turn, and that ends with the tests: it loads its libraries once."""

    def __init__(self):
        super().__init__()
        self._turn = threading.Lock()

    def estimate(self, task):
        with self._turn:
            return super().estimate(task)

    def close(self):
        """Leave the process to the other consoles."""


shared_worker = cache(SharedWorker)


def shared_estimates(patience: float | None = PATIENCE) -> Estimates:
    """Return estimates with a cache of their own, decoded by the process that all tests share."""
    return Estimates(patience=patience, worker=shared_worker())
