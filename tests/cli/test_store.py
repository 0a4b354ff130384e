"""The command `store`: every action as its operator runs it, on a file."""

import json
import random

import pytest

from overstory.collector.auth import sha256
from overstory.collector.store import open_store
from support.registry_texts import plain_registry
from support.running import within
from support.store_samples import received, registry, reports

REGISTRY = plain_registry("colour", domain='{kind = "categories", names = ["red", "green", "blue"]}')
DAY = 20_000


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    metric, rng = registry()["colour"], random.Random(1)
    done = within("store", "create", "reports.db", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "sqlite:///reports.db: created, schema 1\n")
    with open_store(str(tmp_path / "reports.db")) as store:
        store.remember(registry())
        store.add(
            [received(metric, DAY, reports(metric, 10, rng)), received(metric, DAY + 1, reports(metric, 20, rng))]
        )
    return tmp_path


def answer(folder, *arguments):
    done = within("store", *arguments, "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_a_store_is_made_once(folder):
    assert answer(folder, "create", "reports.db") == {"url": "sqlite:///reports.db", "schema": 1, "made": False}


def test_tokens_are_shown_once_listed_with_their_expiry_and_revoked(folder):
    adding = ("tokens", "reports.db", "--add", "write", "--application", "trees", "--expires", "2030-01-02")
    shown = answer(folder, *adding)
    plain = within("store", *adding, cwd=folder).stdout.strip()
    with open_store(str(folder / "reports.db")) as store:
        found = store.find_token(sha256(plain))
        assert (found.role, found.application, found.expires) == ("write", "trees", 1_893_542_400)
        old = store.find_token(sha256(store.add_token("write", "elms", expires=1_577_836_800)))
    listed = within("store", "tokens", "reports.db", cwd=folder).stdout
    assert not [token for token in (shown["token"], plain) if token in listed]
    assert f"{shown['id']}  write  trees        20" in listed
    (line,) = [line for line in listed.splitlines() if line.startswith(old.id)]
    assert line.endswith("expired 2020-01-01")
    assert answer(folder, "tokens", "reports.db", "--revoke", shown["id"]) == {"revoked": shown["id"]}
    states = {one["id"]: (one["state"], one["expires"]) for one in answer(folder, "tokens", "reports.db")["tokens"]}
    assert (states[shown["id"]], states[old.id]) == (("revoked", "2030-01-02"), ("expired", "2020-01-01"))
