"""Spark's own programs on loopback: a master with two workers, or a server of Spark Connect; none outlives its test."""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from support.nginx import free_port

DEPLOY = "org.apache.spark.deploy"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
PATIENCE = 300  # seconds for daemons to start or to end on a slow machine


def home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


class Daemons:  # programs in sessions of their own, which end with all that they started
    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "daemons.log"
        self._running: list[tuple[list[str], subprocess.Popen[bytes]]] = []
        self._sessions: list[int] = []
        self._environment = os.environ | {
            "SPARK_HOME": str(home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self, *command: str) -> None:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment, cwd=self.folder, start_new_session=True
            )
        self._running.append((list(command), process))
        self._sessions.append(process.pid)

    def revive(self) -> None:
        for command, process in list(self._running):
            if process.poll() is not None:
                self._running.remove((command, process))
                self.start(*command)

    def wait_until(self, ready: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready(self.log.read_text(errors="replace") if self.log.exists() else ""):
            ended = [command for command, process in self._running if process.poll() is not None]
            assert not ended, f"{ended} ended: {self.log.read_text(errors='replace')}"
            assert time.monotonic() < deadline, self.log.read_text(errors="replace")
            time.sleep(0.2)

    def end(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while left := [process for process in psutil.process_iter() if _session(process.pid) in self._sessions]:
            assert time.monotonic() < deadline, left
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.05)
        for _, process in self._running:
            process.wait(PATIENCE)


def _session(pid: int) -> int:
    """Return the session of a process, which it keeps when its parent ends; 0 of one that has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            return os.getsid(pid)
    return 0


class Cluster:  # a standalone master and two workers of one core each
    def __init__(self, daemons: Daemons) -> None:
        port = free_port()
        self.address, self._daemons = f"spark://127.0.0.1:{port}", daemons
        run, ports = str(home() / "bin" / "spark-class"), ["--host", "127.0.0.1", "--webui-port", "0"]
        daemons.start(run, f"{DEPLOY}.master.Master", *ports, "--port", str(port))
        for _ in range(2):
            daemons.start(run, f"{DEPLOY}.worker.Worker", *ports, "-c", "1", "-m", "1g", self.address)
        daemons.wait_until(lambda log: log.count("Registering worker") == 2)

    def victim(self, counting: int, drawn: random.Random) -> int | None:
        """Draw what to kill: the Python process that counts a unit, its executor, or the worker of both.

        A worker that was killed before is started again first.
        """
        self._daemons.revive()
        kinds = {"org.apache.spark.executor.CoarseGrainedExecutorBackend": 0, f"{DEPLOY}.worker.Worker": 0}
        for parent in psutil.Process(counting).parents():
            for kind in kinds.keys() & set(parent.cmdline()):
                kinds[kind] = parent.pid
        executor, worker = kinds.values()
        kind = drawn.choices(("python", "executor", "worker"), (2, 2, 1))[0]
        return {"python": counting, "executor": executor, "worker": worker}[kind] or None


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Daemons]:
    daemons = Daemons(folder)
    try:
        yield daemons
    finally:
        daemons.end()


def start_connect(daemons: Daemons) -> str:
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    daemons.start(str(home() / "bin" / "spark-submit"), "--master", "local[2,4]", "--class", CONNECT, *options)
    daemons.wait_until(lambda log: "Spark Connect server started" in log)
    return f"sc://127.0.0.1:{port}"
