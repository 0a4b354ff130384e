"""Ten seconds of each misfortune to a gateway that follows a meter; then every period has its report, and only one."""

import os
import subprocess
import threading
import time

import pytest

from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from support.gateway_samples import BINS, served, uploads
from support.misfortunes import EVERYWHERE, SECONDS, disk_for, older, unlucky, until
from support.registry_texts import registry_of

pytestmark = pytest.mark.slow

MINUTE, WEEK = 60, 7 * 86_400
FAST = {"oracle": '"opt-wb"', "parameters": "{epsilon = 1.0, window = 10}", "period": '"minute"', "window": "10"}
REGISTRY = registry_of({"fast": FAST}, domain=BINS, retention_days="365", expires="2999-01-01")


class Meter:
    """Writes a reading of the next minute, of the week before, again and again, for as long as somebody reads."""

    def __init__(self, stream):
        self.first, self.written = int(time.time()) // MINUTE - 9000, 0
        self._stream, self._over = stream, threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self):
        while not self._over.wait(0.05):
            self._stream.write(f"{(self.first + self.written) * MINUTE},0.5\n".encode())
            self._stream.flush()
            self.written += 1

    def __enter__(self):
        self._stream.write(b"time,value\n")
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60)
        self._stream.close()


@pytest.mark.parametrize("name", EVERYWHERE)
def test_after_ten_seconds_of_it_every_period_has_one_report(name, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir(mode=0o700)
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    command = unlucky(folder, "gateway", "--metric", "fast", "--registry", "metrics.toml", "--readings", "-")
    command += ("--state", "disk/state", "--agree", "on", "--wait", str(WEEK), "--spread", "0")
    clean = {key: value for key, value in os.environ.items() if key not in {"DO_NOT_TRACK", "OVERSTORY"}}
    with served(folder) as url, disk_for(name, folder), (tmp_path / "log").open("wb") as log:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": log}
        process = subprocess.Popen((*command, "--server", url), cwd=tmp_path, env=clean, **streams)
        try:
            with Meter(process.stdin) as meter:
                until(lambda: len(uploads(folder)) > 10)
                with older(folder):  # its clock has been even for an hour
                    time.sleep(0.5)
                    with EVERYWHERE[name](process.pid, folder):
                        time.sleep(SECONDS)
                    before = meter.written
                    until(lambda: meter.written > before + 50)
            assert process.wait(120) == 0, (tmp_path / "log").read_text()
            written = list(range(meter.first, meter.first + meter.written))
            # A collector that could not be reached is asked again later: its reports wait in the state.
            with State(StatePaths(folder / "state")).snapshot() as rows:
                waiting = {row.batch: row.period for row in rows.outbox.rows(state=RowState.WAITING)}
            arrived = {upload.batch: upload.period for upload in uploads(folder)}
            assert sorted((arrived | waiting).values()) == written
        finally:
            process.kill()
            process.wait()
    said = (tmp_path / "log").read_text()
    assert "Traceback" not in said
    if name != "no_memory":  # whether a write fails without memory is chance
        assert said.count("what was read is kept") == ("disk" in name or name == "no_descriptors")
