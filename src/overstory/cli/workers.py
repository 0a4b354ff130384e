"""The cells of a sweep in several processes: each has randomness of its own, so the result does not depend on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from overstory.protocol.errors import OverstoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Cell = TypeVar("Cell")
Outcome = TypeVar("Outcome")


class LostWorkerError(OverstoryError, RuntimeError):
    """A process of a sweep ended before its cell was computed."""


def each_cell(
    compute: Callable[[Cell], Outcome], cells: Sequence[Cell], workers: int, done: Callable[[], object]
) -> list[Outcome]:
    """Return what `compute`, a function of a module, makes of each cell, in their order."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Spawned: a fork would copy the locks of threads that it does not have.
    with ProcessPoolExecutor(min(workers, len(cells)) or 1, get_context("spawn")) as pool:
        waiting = [pool.submit(_alone, compute, cell) for cell in cells]
        try:
            for ended in as_completed(waiting):
                ended.result()
                done()
            return [ended.result() for ended in waiting]
        except BrokenProcessPool as error:
            raise LostWorkerError(
                "a process ended before its part was computed: is there enough memory? try fewer --workers"
            ) from error
        finally:
            for one in waiting:
                one.cancel()


def _alone(compute: Callable[[Cell], Outcome], cell: Cell) -> Outcome:
    """Compute with one thread: the other cores have workers of their own."""
    from overstory.kernels.threads import at_most

    with at_most(1):
        return compute(cell)
