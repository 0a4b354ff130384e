"""What can befall a daemon for ten seconds, from outside: each is a block after which it is over.

A full and a read-only disk are file systems of their own, which root alone may mount. A clock that jumps and threads
that do not start are of a process that runs `unlucky_program.py`.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

SECONDS = 10.0
DAY = 86_400.0
UNLUCKY = Path(__file__).with_name("unlucky_program.py")


def may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def until(condition: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a disk of 24 MiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def disk_for(name: str, folder: Path) -> AbstractContextManager[None]:
    """Mount a disk for what befalls disks, where that is possible; else the folder is as it is."""
    return small_disk(folder) if "disk" in name and may_mount() else nullcontext()


@contextmanager
def _limited(pid: int, what: int, most: int) -> Iterator[None]:
    before = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (most, before[1]))
    yield
    resource.prlimit(pid, what, before)


def no_memory(pid: int, folder: Path) -> AbstractContextManager[None]:
    """No more address space than is taken."""
    taken = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
    return _limited(pid, resource.RLIMIT_AS, taken)


def no_descriptors(pid: int, folder: Path) -> AbstractContextManager[None]:
    """No more files and sockets than are open all the time: one that is just closed would be one to spare."""

    def open_after_a_moment() -> int:
        time.sleep(0.002)
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))

    return _limited(pid, resource.RLIMIT_NOFILE, min(open_after_a_moment() for _ in range(50)))


def failing_disk(pid: int, folder: Path) -> AbstractContextManager[None]:
    """Every write past the first kilobyte of a file fails."""
    return _limited(pid, resource.RLIMIT_FSIZE, 1024)


@contextmanager
def stopped(pid: int, folder: Path) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


@contextmanager
def full_disk(pid: int, folder: Path) -> Iterator[None]:
    with suppress(OSError), (folder / "filler").open("wb") as filler:
        while True:
            filler.write(bytes(1 << 16))
            filler.flush()
    yield
    (folder / "filler").unlink()


@contextmanager
def read_only_disk(pid: int, folder: Path) -> Iterator[None]:
    """The disk of the folder takes no new files: those that are open can be written where they are."""
    subprocess.run(["chattr", "-R", "+i", str(folder)], check=True, capture_output=True)
    yield
    subprocess.run(["chattr", "-R", "-i", str(folder)], check=True, capture_output=True)


@contextmanager
def _told(folder: Path, name: str, text: str) -> Iterator[None]:
    path = folder.with_name("luck") / name
    path.write_text(text)
    yield
    path.unlink()


def clock_ahead(pid: int, folder: Path) -> AbstractContextManager[None]:
    """The wall clock is 40 days ahead."""
    return _told(folder, "clock", f"{40 * DAY}")


def clock_behind(pid: int, folder: Path) -> AbstractContextManager[None]:
    """The wall clock is 40 days behind."""
    return _told(folder, "clock", f"{-40 * DAY}")


def older(folder: Path) -> AbstractContextManager[None]:
    """Both clocks have run for another hour: the process trusts the time that it has."""
    return _told(folder, "age", "3601")


def no_threads(pid: int, folder: Path) -> AbstractContextManager[None]:
    return _told(folder, "no-threads", "")


EVERYWHERE = {"no_memory": no_memory, "no_descriptors": no_descriptors, "no_threads": no_threads, "stopped": stopped}
EVERYWHERE |= {"failing_disk": failing_disk, "clock_ahead": clock_ahead, "clock_behind": clock_behind}
EVERYWHERE |= {"full_disk": full_disk, "read_only_disk": read_only_disk} if may_mount() else {}
"""What befalls every daemon: one row of the suite for each and each; every daemon has some of its own."""


def unlucky(folder: Path, *command: str) -> Sequence[str]:
    """Return a command of overstory that `clock_ahead`, `clock_behind` and `no_threads` befall."""
    luck = folder.with_name("luck")
    luck.mkdir(exist_ok=True)
    return sys.executable, str(UNLUCKY), str(luck), *command
