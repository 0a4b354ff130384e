"""The file of private keys, and `overstory keys`."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from overstory.cli.main import main
from overstory.collector.oblivious.keys import add_key, public_line, read_private_keys, remove_key
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.oblivious.messages import read_keys

GOOD = '[[keys]]\nid = 1\ncreated = 2026-11-23\nprivate = "{}"\n'.format("ab" * 32)


def test_a_new_file_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "oblivious.keys"
    (key,) = add_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (key.key_id, key.created) == (1, dt.datetime.now(dt.UTC).date())
    assert read_private_keys(path) == (key,)
    assert [one.name for one in tmp_path.iterdir()] == ["oblivious.keys"]


def test_keys_are_added_and_removed_and_the_newest_comes_first_in_the_registry(tmp_path):
    path = tmp_path / "oblivious.keys"
    add_key(path, 7)
    add_key(path)
    keys = add_key(path)
    assert [key.key_id for key in keys] == [7, 1, 2]
    assert len({key.private for key in keys}) == 3
    assert [key.key_id for key in read_keys(bytes.fromhex(public_line(keys)))] == [2, 1, 7]
    assert [key.key_id for key in remove_key(path, 1)] == [7, 2]
    assert read_private_keys(path) == (keys[0], keys[2])
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("number", [7, 256, -1])
def test_an_id_that_is_taken_or_none_is_refused_and_the_file_stays(tmp_path, number):
    path = tmp_path / "oblivious.keys"
    add_key(path, 7)
    before = path.read_bytes()
    with pytest.raises(ParameterError):
        add_key(path, number)
    assert path.read_bytes() == before


def test_the_newest_key_and_a_missing_one_cannot_be_removed(tmp_path):
    path = tmp_path / "oblivious.keys"
    add_key(path)
    add_key(path)
    with pytest.raises(ParameterError, match="key 2 is the newest"):
        remove_key(path, 2)
    with pytest.raises(ParameterError, match="it has no key 9; it has 1, 2"):
        remove_key(path, 9)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660])
def test_a_file_that_others_may_use_is_refused(tmp_path, mode):
    path = tmp_path / "oblivious.keys"
    add_key(path)
    path.chmod(mode)
    with pytest.raises(ParameterError, match=r"chmod 600"):
        read_private_keys(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "keys = 3\n",
        "[[keys\n",
        "\xff",
        GOOD + GOOD,
        GOOD + "other = 1\n",
        "other = 1\n" + GOOD,
        GOOD.replace("id = 1", "id = 256"),
        GOOD.replace("id = 1", "id = true"),
        GOOD.replace("2026-11-23", "2026-11-23T00:00:00"),
        GOOD.replace("2026-11-23", "20"),
        GOOD.replace("abab", "ab", 1),
        GOOD.replace("abab", "xyxy", 1),
    ],
)
def test_a_file_that_is_no_file_of_keys_is_refused_without_its_secret(tmp_path, text):
    path = tmp_path / "oblivious.keys"
    path.write_text(text, "latin-1")
    path.chmod(0o600)
    with pytest.raises(OverstoryError) as caught:
        read_private_keys(path)
    assert str(path) in str(caught.value)
    assert "abab" not in str(caught.value)
    path.write_text(GOOD)
    assert len(read_private_keys(path)) == 1  # the same file without the fault


def test_the_command_prints_the_registrys_line(tmp_path, capsys):
    path = str(tmp_path / "oblivious.keys")
    assert main(["keys", "new", path, "--id", "3"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert main(["keys", "show", path, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert line == f'keys = "{shown["keys"]}"'
    assert [(key["id"], key["current"]) for key in shown["listed"]] == [(3, True)]
    assert main(["keys", "new", path]) == 0
    assert main(["keys", "remove", path, "--id", "3"]) == 0
    (left,) = read_keys(bytes.fromhex(capsys.readouterr().out.splitlines()[-1].split('"')[1]))
    assert left.key_id == 1
    private = read_private_keys(tmp_path / "oblivious.keys")[0].private
    assert main(["keys", "show", path]) == 0
    assert private.hex() not in capsys.readouterr().out


def test_a_missing_file_is_one_line(tmp_path, capsys):
    assert main(["keys", "show", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
