"""The lock between processes and threads, and files written whole or not at all."""

import os
import time

import pytest

from overstory.client.outcomes import Fault, StateError
from overstory.client.state.files import create, locked, write_atomically
from overstory.client.state.secret_file import read_secret
from support.processes import in_threads, output_of, start

HOLDS = """
import sys, pathlib
from overstory.client.state.files import locked
with locked(pathlib.Path(sys.argv[1]), 5):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_process_keeps_others_out_until_it_lets_go(tmp_path):
    path = tmp_path / "lock"
    holder = start(HOLDS, path)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StateError, match="held this lock") as caught, locked(path, 0.05):
        pass
    assert caught.value.fault is Fault.BUSY
    holder.stdin.write("\n")
    holder.stdin.flush()
    with locked(path, 30):
        pass
    output_of(holder)


def test_a_process_that_dies_lets_go(tmp_path):
    path = tmp_path / "lock"
    holder = start(HOLDS, path)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    with locked(path, 30):
        holder.communicate()


def test_threads_of_one_process_exclude_each_other(tmp_path):
    path, inside, most = tmp_path / "lock", [], []

    def work():
        for _ in range(20):
            with locked(path, 60):
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.pop()

    in_threads(4, work)
    assert len(most) == 80
    assert max(most) == 1


def test_a_lock_is_let_go_when_the_block_raises(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), locked(tmp_path / "lock", 0):
            raise KeyError


def test_the_content_of_the_lock_file_stays(tmp_path):
    with locked(tmp_path / "lock", 0) as handle:
        os.write(handle, b"kept")
    with locked(tmp_path / "lock", 0) as handle:
        assert os.read(handle, 10) == b"kept"


def test_a_new_file_is_never_half_there(tmp_path, monkeypatch):
    def cut(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", cut)
        for write in (create, write_atomically):
            with pytest.raises(OSError, match="No space"):
                write(tmp_path / "file", b"content")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", cut)
        with pytest.raises(OSError, match="No space"):
            write_atomically(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []
    create(tmp_path / "file", b"content")
    with pytest.raises(FileExistsError):
        create(tmp_path / "file", b"other")
    write_atomically(tmp_path / "file", b"other")
    assert (tmp_path / "file").read_bytes() == b"other"


def test_a_secret_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "secret").mkdir()
    with pytest.raises(StateError) as caught:
        read_secret(tmp_path / "secret")
    assert caught.value.fault is Fault.UNREADABLE
