"""A state folder that somebody else made, or that is open to others, is refused: F9."""

import contextlib
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from overstory.client import Client, ConsentError, Outcome
from overstory.client.outcomes import Fault, StateError
from overstory.client.person.commands import main
from overstory.client.state.files import StatePaths
from overstory.client.state.state import State, erase
from overstory.protocol.metrics import parse_registry
from support.registry_texts import plain_registry

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="owners and modes of POSIX")

REGISTRY = parse_registry(plain_registry("m"))
NOBODY = 65534
administrator = pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() != 0, reason="giving a file away takes the administrator"
)


def client_on(folder):
    return Client("t", registry=REGISTRY, state=folder, environ={}, policy=folder.parent / "none")


@pytest.fixture
def begun(tmp_path):
    folder = tmp_path / "state"
    with client_on(folder) as client:
        client.consent("on")
        assert client.record("m", 1) is Outcome.RECORDED
    return folder


def planted(folder):
    folder.chmod(0o777)
    for path in folder.iterdir():
        path.chmod(0o666)


def owned_by(user, folder):
    for path in (folder, *folder.iterdir()):
        os.chown(path, user, -1)


def problem_of(folder):
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    state, problems = State(StatePaths(folder)), []
    for use in (state.begin, lambda: state.transaction().__enter__(), lambda: state.snapshot().__enter__()):
        with pytest.raises(StateError) as caught:
            use()
        assert caught.value.fault is Fault.FOREIGN
        problems.append(str(caught.value))
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert len(set(problems)) == 1
    return problems[0]


def test_a_planted_folder_is_not_used(begun):
    planted(begun)
    client = client_on(begun)
    assert client.record("m", 2) is Outcome.UNAVAILABLE
    assert f"{begun}: it can be changed by other users (mode 0777)" in str(client.status().problem)
    assert f"chmod 700 {begun}" in str(client.status().problem)
    with pytest.raises(StateError, match="chmod 700"):
        client.consent("on")
    assert client.consent("off").choice == "off"  # who says no is heard in any folder
    assert problem_of(begun).startswith(f"{begun}: it can be changed by other users")


CLOSED, PUBLIC = ("secret", "state.db"), ("consent.json", "application.json", "lock")


@pytest.mark.parametrize(
    ("name", "mode", "says"),
    [
        ("", 0o755, None),  # names and sizes are no secrets; the files are closed
        *(("", mode, f"mode {mode:04o}") for mode in (0o770, 0o702, 0o722)),
        *((name, mode, "chmod 600") for name in CLOSED for mode in (0o640, 0o604, 0o602, 0o620)),
        *((name, mode, says) for name in PUBLIC for mode, says in ((0o644, None), (0o646, "chmod 600"))),
    ],
)
def test_what_others_may_write_is_refused_and_a_secret_and_a_database_that_they_may_read(begun, name, mode, says):
    (begun / name).chmod(mode)
    if says is None:
        assert State(StatePaths(begun)).begin()
    else:
        assert says in problem_of(begun)


def test_a_folder_that_its_group_may_write_to_says_how_to_close_it(begun):
    """What `mkdir` makes where the mask is 002; the command that is named does it."""
    begun.chmod(0o775)
    words = problem_of(begun)
    assert f"chmod g-w {begun}" in words
    assert "keep the state on another one" in words  # where chmod changes nothing: FAT, a drive of Windows in Linux
    begun.chmod(begun.stat().st_mode & ~0o020)
    assert State(StatePaths(begun)).begin()


@administrator
def test_a_folder_of_the_administrators_is_used_and_a_file_of_theirs_is_not(begun, monkeypatch):
    """A mount point, which nobody but the administrator can write to."""
    owned_by(NOBODY, begun)
    os.chown(begun, 0, -1)
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert State(StatePaths(begun)).begin()
    begun.chmod(0o777)
    assert "mode 0777" in problem_of(begun)
    begun.chmod(0o755)
    os.chown(begun / "secret", 0, -1)
    assert f"{begun / 'secret'}: it belongs to user 0" in problem_of(begun)


@administrator
@pytest.mark.parametrize("what", ["the folder", "secret", "state.db", "consent.json", "application.json"])
def test_what_belongs_to_another_user_is_refused_to_the_administrator_too(begun, what):
    os.chown(begun if what == "the folder" else begun / what, NOBODY, -1)
    said = problem_of(begun)
    assert f"belongs to user {NOBODY}, and this program runs as user 0" in said


@administrator
def test_a_folder_that_another_user_began_is_not_used_by_that_users_victim(begun):
    """Seen from the other side: a process of user 65534 meets a folder of the administrator's."""
    for parent in (begun, *begun.parents):
        if parent.stat().st_uid == 0 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    pid = os.fork()
    if not pid:
        os.setuid(NOBODY)
        try:
            State(StatePaths(begun)).begin()
        except StateError as error:
            os._exit(0 if error.fault is Fault.FOREIGN and "as user 65534" in str(error) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_folder_given_as_a_link_is_refused(begun):
    """Who may change the link, or what it leads through, changes which secret is used."""
    link = begun.parent / "link"
    link.symlink_to(begun)
    assert "it is a link" in problem_of(link)
    assert State(StatePaths(begun)).begin()


def not_mine(folder):
    owned_by(NOBODY, folder)


def open_to_all(folder):
    folder.chmod(0o1777)  # as /tmp is


def behind_a_link(folder):
    real = folder.with_name("real")
    folder.rename(real)
    folder.symlink_to(real)


def with_a_planted_secret(folder):
    os.chown(folder / "secret", NOBODY, -1)


def with_a_link_to_a_secret(folder):
    theirs = folder.with_name("theirs")
    (folder / "secret").rename(theirs)
    os.chown(theirs, NOBODY, -1)
    (folder / "secret").symlink_to(theirs)


@administrator
@pytest.mark.parametrize("case", [not_mine, open_to_all, behind_a_link, with_a_planted_secret, with_a_link_to_a_secret])
def test_the_folder_that_the_environment_names_is_refused_in_each_of_five_cases(begun, case, capsys):
    case(begun)
    before = {path: path.read_bytes() for path in begun.iterdir()}
    environ = {"OVERSTORY_STATE": str(begun)}
    client = Client("t", registry=REGISTRY, environ=environ, policy=begun.parent / "none")
    assert client.record("m", 2) is Outcome.UNAVAILABLE
    assert client.flush().problem
    assert "user" in str(client.status().problem) or "it is a link" in str(client.status().problem)
    for command, status in (("status", 0), ("view", 0), ("on", 2), ("local", 2)):
        assert main([command, *(["--yes"] if command == "on" else [])], environ=environ) == status
        told = " ".join("".join(capsys.readouterr()).split())
        assert "belongs to user" in told or "by other users" in told or "it is a link" in told
        assert told.count("keep the state on another one") <= 1
    assert {path: path.read_bytes() for path in begun.iterdir()} == before
    assert main(["off"], environ=environ) == 0, "who says no is heard in any folder"


# --- what is planted in it: links to the user's other files
NAMES = ["secret", "secret.new", "secret.next", "secret.old", "lock", "consent.json", "state.db", "state.db-journal"]
SOFT, HARD = os.symlink, os.link


def treasure_of(tmp_path):
    treasure = tmp_path / "precious"
    with closing(sqlite3.connect(treasure)) as mine, mine:
        mine.execute("CREATE TABLE letters (text)")
        mine.execute("INSERT INTO letters VALUES ('dear all')")
    return treasure, treasure.read_bytes()


@pytest.mark.parametrize("mode", [0o777, 0o700])
@pytest.mark.parametrize("link", [SOFT, HARD], ids=["soft", "hard"])
@pytest.mark.parametrize("name", NAMES)
def test_forgetting_destroys_nothing_that_a_planted_link_leads_to(tmp_path, name, link, mode):
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    treasure, before = treasure_of(tmp_path)
    link(treasure, folder / name)
    erase(StatePaths(folder))
    assert treasure.read_bytes() == before
    assert not any((folder / other).exists() for other in NAMES if other != "lock")
    assert not (folder / "lock").is_symlink()
    folder.chmod(0o700)
    assert State(StatePaths(folder)).begin()  # and another device begins here
    assert treasure.read_bytes() == before


def test_forgetting_overwrites_the_secret_itself_also_where_its_replacement_was_cut_off(begun):
    os.link(begun / "secret", begun / "secret.old")
    with (begun / "secret").open("rb", buffering=0) as kept:
        assert any(kept.read())
        erase(StatePaths(begun))
        kept.seek(0)
        assert not any(kept.read())
    assert sorted(path.name for path in begun.iterdir()) == ["application.json", "lock"]


def test_a_lock_that_is_a_link_is_not_followed(begun, tmp_path):
    treasure, before = treasure_of(tmp_path)
    (begun / "lock").unlink()
    (begun / "lock").symlink_to(treasure)
    with pytest.raises(StateError) as caught:
        State(StatePaths(begun)).begin()
    assert caught.value.fault is Fault.FOREIGN
    assert f"{begun / 'lock'}: it is a link" in str(caught.value)
    assert treasure.read_bytes() == before


@pytest.mark.parametrize("link", [SOFT, HARD], ids=["soft", "hard"])
def test_no_choice_is_written_over_what_a_planted_link_leads_to(begun, tmp_path, monkeypatch, link):
    """Where there is no room for a new file, a choice is written over the one before, and over nothing else."""
    treasure, before = treasure_of(tmp_path)
    (begun / "consent.json").unlink()
    link(treasure, begun / "consent.json")
    monkeypatch.setattr("overstory.client.consent.write_atomically", Mock(side_effect=OSError(28, "No space left")))
    client = client_on(begun)
    with contextlib.suppress(ConsentError):
        client.consent("local")
    assert treasure.read_bytes() == before
    client.consent("off")
    assert treasure.read_bytes() == before
    assert not client.effective.asked
