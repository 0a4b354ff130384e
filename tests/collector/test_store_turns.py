"""FairLock: one holder at a time, in the order of asking."""

import threading
import time

import pytest

from overstory.collector.store.databases.sqlite import FairLock


def waiting(lock: FairLock, number: int) -> None:
    """Wait until so many threads wait."""
    end = time.monotonic() + 10
    while len(lock._waiting) < number:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_first_come_first_served_also_by_who_comes_again() -> None:
    lock, served = FairLock(), []

    def take(name: int) -> None:
        with lock:
            served.append(name)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(5)]
    with lock:
        for number, thread in enumerate(threads, 1):
            thread.start()
            waiting(lock, number)
    with lock:  # who has just given it back is behind all of them
        served.append(5)
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2, 3, 4, 5]
    assert not lock.taken


def test_a_failure_gives_it_back() -> None:
    lock = FairLock()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock:
            _ = 1 / 0
        assert not lock.taken
