"""A choice that finds no room: `off` holds on a full disk, in every process, and nothing before it comes back."""

import contextlib
import errno
import json
import os
import sys
from datetime import date
from pathlib import Path

import pytest

from overstory.client import Choice, ConsentError, Outcome
from overstory.client.consent import UNASKED, choose, effective, read_consent
from overstory.client.person.commands import main
from overstory.client.state.files import StatePaths, introduce
from support.devices import BINS, DEFAULT, REGISTRY, device, queue_report, registry
from support.processes import in_child

TODAY = date(2026, 11, 21)
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")


@contextlib.contextmanager
def full_disk(monkeypatch):
    """There is no room for a new file; what is there can be written over, and deleted."""
    real = os.open

    def full(path, flags, *mode, **more):
        if flags & os.O_CREAT and not Path(path).exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return real(path, flags, *mode, **more)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", full)
        yield


def test_off_holds_on_a_full_disk_in_every_process(tmp_path, monkeypatch):
    asked = []
    sends = {"server": "https://c.example", "transport": asked.append}
    client, another = device(tmp_path, spread=3600, **sends), device(tmp_path, choice=None, **sends)
    queue_report(client)
    assert another.effective.choice is Choice.ON
    with full_disk(monkeypatch):
        assert client.consent("off") == read_consent(client.paths)
        for one in (client, another, device(tmp_path, choice=None)):
            assert one.record("engine", "x") is Outcome.OFF
            assert one.effective.cause == "the person's choice of 2026-11-21"
        assert another.flush().sent is None
    client.consent("on")
    another.flush()
    assert not asked


def test_off_holds_where_it_has_no_room_over_the_choice_before(paths, policy, monkeypatch):
    choose(paths, registry(colour=DEFAULT["colour"]), "on", TODAY)
    with full_disk(monkeypatch):
        choose(paths, REGISTRY, "off", TODAY)
        found = effective(paths, {}, policy)
        assert (found.choice, found.cause) == (Choice.OFF, UNASKED)
        choose(paths, REGISTRY, "off", TODAY)  # there is nothing to delete
        assert not effective(paths, {}, policy).asked


def test_on_a_full_disk_local_is_written_over_the_choice_before_or_refused(paths, policy, monkeypatch):
    choose(paths, REGISTRY, "on", TODAY)
    with full_disk(monkeypatch):
        choose(paths, REGISTRY, "local", TODAY)
        assert effective(paths, {}, policy).choice is Choice.LOCAL
        before = paths.consent.read_bytes()
        for choice, about in (("on", REGISTRY), ("local", registry(**DEFAULT, extra=BINS))):
            with pytest.raises(ConsentError, match="No space left"):
                choose(paths, about, choice, TODAY)
            assert paths.consent.read_bytes() == before


@posix
@pytest.mark.parametrize("room", [1.0, 0.1])
def test_off_holds_where_the_system_refuses_longer_files(paths, policy, room):
    """The limit on the size of files stands in for the disk: it is the system that refuses."""

    def limited():
        import resource

        choose(paths, REGISTRY, "on", TODAY)
        size = int(room * paths.consent.stat().st_size)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        choose(paths, REGISTRY, "off", TODAY)
        found = effective(paths, {}, policy)
        assert (found.choice, found.asked) == (Choice.OFF, room == 1.0)
        assert [path.name for path in paths.folder.iterdir()] == ["consent.json"] * found.asked

    in_child(limited)


def test_half_an_off_over_the_choice_before_is_off(paths, policy):
    choose(paths, REGISTRY, "on", TODAY)
    on = paths.consent.read_bytes()
    choose(paths, REGISTRY, "off", TODAY)
    off = json.dumps(json.loads(paths.consent.read_bytes()), separators=(",", ":")).encode()
    for cut in range(2, len(off) + 1):
        paths.consent.write_bytes(off[:cut] + on[cut:])
        assert effective(paths, {}, policy).choice is Choice.OFF, cut


def test_the_command_says_what_stands(tmp_path, monkeypatch, capsys):
    state = ["--app", str(tmp_path / "state")]
    introduce(StatePaths(tmp_path / "state"), "t", REGISTRY, None)
    with full_disk(monkeypatch):
        assert main(["off", *state], environ={}) == 0
        assert "as if nobody had been asked" in capsys.readouterr().out
    choose(StatePaths(tmp_path / "state"), REGISTRY, "on", TODAY)
    with full_disk(monkeypatch):
        assert main(["off", *state], environ={}) == 0
        assert "asked" not in capsys.readouterr().out
        assert main(["status", *state], environ={}) == 0
    assert capsys.readouterr().out.startswith("off: the person's choice of ")


def test_the_command_says_that_the_earlier_choice_stands(tmp_path, monkeypatch, capsys):
    """Where nothing can be written over or taken away either, it says so and fails."""
    state = ["--app", str(tmp_path / "state")]
    paths = StatePaths(tmp_path / "state")
    choose(paths, REGISTRY, "on", TODAY)

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        for call in ("write_atomically", "overwrite"):
            patched.setattr(f"overstory.client.consent.{call}", refuse)
        patched.setattr(Path, "unlink", refuse)
        assert main(["off", *state], environ={}) == 2
    assert "the choice cannot be written: Read-only file system" in capsys.readouterr().err
    assert read_consent(paths).choice == "on"
