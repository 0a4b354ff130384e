"""Along a stream, by the machine's clock: what is over is reported, what is not over or not yet true is not."""

import sys
import threading
import time

import pytest

from overstory.gateway import gateway as module
from overstory.gateway.gateway import Gateway, Lines, Settings, follow
from overstory.gateway.readings import Reading
from overstory.supervision.clock import ClockWatch
from support.gateway_samples import HALF_HOUR, REGISTRY, collector_in, metric, uploads


def followed(folder, items, wait=0.0, **choices):
    lines = Lines("stream")
    choices = {"clock": "real", "spread": 0.0, "agree": "on"} | choices
    gateway = Gateway(REGISTRY, Settings("energy", folder / "state", **choices), collector_in(folder), environ={})
    try:
        follow(gateway, items, lines, wait=wait)
        return gateway.summary(), lines
    finally:
        gateway.close()


def test_what_is_over_is_reported(tmp_path):
    now = time.time()
    here = metric().period.number(now)
    if metric().period.number(now + 10) != here:  # pragma: no cover - ten seconds in half an hour
        pytest.skip("a period ends just now")
    back = [Reading(i, now - (3 - i) * HALF_HOUR, 0.5) for i in range(4)]
    future = Reading(9, now + 2 * HALF_HOUR, 0.5)
    summary, lines = followed(tmp_path, iter([*back[:2], future, *back[2:]]))
    assert [upload.period - here for upload in uploads(tmp_path)] == [-3, -2, -1]
    assert lines.bad == 1
    assert "in the future" in lines.shown[0].detail
    assert summary["readings"]["used"] == 4


def test_what_is_over_when_the_stream_ends_waits_no_longer(tmp_path):
    summary, _ = followed(tmp_path, iter([Reading(1, time.time() - HALF_HOUR, 0.5)]), wait=7 * 86_400.0)
    assert summary["reports"] == {"recorded": 1}


def test_a_restart_of_a_stream_goes_on(tmp_path):
    now = time.time()
    here = metric().period.number(now)
    followed(tmp_path, iter([Reading(1, now - 4 * HALF_HOUR, 0.5)]))
    summary, _ = followed(tmp_path, iter([Reading(1, now - 4 * HALF_HOUR, 0.5), Reading(2, now - HALF_HOUR, 0.5)]))
    assert summary["readings"]["already"] == 1
    assert summary["readings"]["missing"] >= 2
    assert [upload.period - here for upload in uploads(tmp_path)][:2] == [-4, -1]


def test_time_passes_while_no_reading_comes(tmp_path, monkeypatch):
    offset = [0.0]
    real = time.time
    monkeypatch.setattr(module, "ClockWatch", lambda: ClockWatch(lambda: real() + offset[0]))
    monkeypatch.setattr(module, "LONGEST_SLEEP", 0.02)
    silent = threading.Event()

    def stream():
        yield Reading(1, real(), 0.5)
        offset[0] = float(HALF_HOUR)
        silent.wait(20)

    def end():
        while not uploads(tmp_path):
            time.sleep(0.01)
        silent.set()

    watching = threading.Thread(target=end)
    watching.start()
    summary, _ = followed(tmp_path, stream())
    watching.join()
    assert summary["reports"] == {"recorded": 1}


@pytest.mark.parametrize("days", [40, -40])
def test_a_clock_that_jumps_ends_no_period_and_refuses_no_reading(tmp_path, monkeypatch, days):
    real, offset, before = time.time, [0.0], [0.0]
    watch = ClockWatch(lambda: real() + sum(offset + before), lambda: real() + before[0])
    monkeypatch.setattr(module, "ClockWatch", lambda: watch)
    monkeypatch.setattr(module, "LONGEST_SLEEP", 0.02)
    now = real()

    def stream():
        yield Reading(1, now - 3 * HALF_HOUR, 0.5)
        time.sleep(0.1)
        before[0] = 3601.0  # the clock has run evenly for an hour
        time.sleep(0.1)
        offset[0] = days * 86_400.0
        yield Reading(2, real() + before[0], 0.5)
        time.sleep(0.1)
        offset[0] = 0.0
        time.sleep(0.1)
        yield Reading(3, real() + before[0], 0.5)

    summary, lines = followed(tmp_path, stream())
    assert (lines.bad, summary["readings"]["late"], summary["readings"]["used"]) == (0, 0, 3)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_is_said_once_and_waited_for_and_no_reading_is_lost_or_doubled(tmp_path, monkeypatch, caplog):
    """The limit on the size of files stands in for the disk; the meter is held up while nothing can be written."""
    import resource

    monkeypatch.setattr(module, "PAUSE", 0.02)
    monkeypatch.setattr(module, "QUEUED", 3)
    here, limits, given, early = metric().period.number(time.time()), resource.getrlimit(resource.RLIMIT_FSIZE), [], []

    def stream():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
        threading.Timer(0.5, room).start()
        for period in range(here - 40, here):
            given.append(period)
            yield Reading(1, float(period * HALF_HOUR), 0.5)

    def room():
        early.append(len(given))
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    try:
        summary, _ = followed(tmp_path, stream())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert early[0] <= 3 + 4
    assert [upload.period for upload in uploads(tmp_path)] == given
    assert (summary["reports"], summary["waiting"]) == ({"recorded": 40}, 0)
    held, on = (record.getMessage() for record in caplog.records if record.name == "overstory.gateway")
    assert "there is no room left on the disk" in held
    assert held.endswith("; what was read is kept until it can be written")
    assert on == "the gateway goes on: everything is written"


def test_a_random_delay_is_waited_for(tmp_path):
    now = time.time()
    summary, _ = followed(tmp_path, iter([Reading(1, now - HALF_HOUR, 0.5)]), spread=86_400.0)
    assert summary["reports"] == {"recorded": 1}
    assert summary["waiting"] + summary["handed_over"] == 1


def test_a_broken_stream_stops_it(tmp_path):
    def broken():
        yield Reading(1, time.time() - HALF_HOUR, 0.5)
        raise OSError(5, "the cable is loose")

    with pytest.raises(OSError, match="cable"):
        followed(tmp_path, broken())
