"""Kernels run on threads that stay: every part once and in order, also when called from many places at once."""

import itertools
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import overstory
from overstory.kernels import columns, popcount
from overstory.kernels.threads import at_most, cores, in_parts


def in_threads(threads, kernel, rows, smallest=1):
    with at_most(threads):
        return in_parts(kernel, rows, smallest=smallest)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 100, 1000])
def test_the_parts_are_the_rows_in_order(threads, rows):
    parts = in_threads(threads, lambda start, stop: (start, stop), rows, smallest=10)
    assert parts[0][0] == 0
    assert parts[-1][1] == rows
    assert all(left[1] == right[0] for left, right in itertools.pairwise(parts))
    assert len(parts) <= threads


def test_the_threads_of_one_call_serve_the_next():
    def names():
        return set(in_threads(2, lambda *_: threading.get_ident(), 100))

    assert threading.get_ident() in names()
    before = threading.active_count()
    for _ in range(50):
        names()
    assert threading.active_count() <= before + 2


def test_a_fault_in_any_part_is_raised_after_all_parts_have_ended():
    ended = []

    def part(start, stop):
        if start == wrong:
            raise ZeroDivisionError
        ended.append(start)

    for wrong in (0, 50):
        ended.clear()
        with pytest.raises(ZeroDivisionError):
            in_threads(2, part, 100)
        assert ended == [50 - wrong]


def test_calls_from_many_threads_and_from_parts_themselves_end():
    def inner(start, stop):
        return sum(in_threads(4, lambda a, b: sum(range(start + a, start + b)), stop - start))

    with ThreadPoolExecutor(8) as callers:
        sums = list(callers.map(lambda _: sum(in_threads(4, inner, 400)), range(64)))
    assert set(sums) == {sum(range(400))}


def test_a_limit_holds_inside_its_block_and_in_its_thread_alone():
    free = cores(None)
    with at_most(1):
        assert cores(None) == 1
        assert len(in_parts(lambda *_: 0, 100, smallest=1)) == 1
        assert cores(3) == 3
        with ThreadPoolExecutor(1) as other:
            assert other.submit(cores, None).result() == free
    with at_most(None):
        assert cores(None) == free
    with pytest.raises(ValueError, match="at least 1"), at_most(0):
        pass


def test_an_oracle_counts_with_the_threads_it_is_given(monkeypatch):
    oracle = overstory.oracle("rappor", num_bits=64, num_hashes=2, num_cohorts=4, f=0.5, p=0.25, q=0.75)
    reports = oracle.simulate(np.arange(70_000) % 7, 1, candidates=[str(i) for i in range(7)])
    begun = []
    monkeypatch.setattr(columns, "are_few", lambda *_, **__: False)  # compiled or not, as of a million reports
    monkeypatch.setattr(
        popcount, "in_parts", lambda *given, **more: begun.append(cores(None)) or in_parts(*given, **more)
    )
    counts = []
    for threads in (1, 2, 3):
        with at_most(threads):
            counts.append(oracle.accumulate(reports))
    assert begun == [1, 2, 3]
    assert counts[0] == counts[1] == counts[2] == oracle.accumulate(reports)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork itself, in a process with threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_starts_threads_of_its_own():
    in_threads(2, lambda *_: 0, 100)
    child = multiprocessing.get_context("fork").Process(target=in_parts_in_child)
    child.start()
    child.join(20)
    assert child.exitcode == 0


def in_parts_in_child():
    assert in_threads(2, lambda start, stop: stop - start, 100) == [50, 50]
