"""The group of a device: in the upload alone, in clear, and only where the metric has groups."""

import json
import logging

import pytest

from overstory.client import Client, Outcome
from overstory.client.person.view import annotate
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import decode_uploads
from support.devices import device, rows_of
from support.registry_texts import COLOURS, registry_of

GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
LISTED = {"grouped": {"domain": COLOURS, "groups": GROUPS}, "plain": {"domain": COLOURS}}
REGISTRY = parse_registry(registry_of(LISTED, expires="2040-01-01"))


def uploads_of(client):
    return [decode_uploads(row.body, 1)[0] for row in rows_of(client)]


def recorded(folder, clock, groups, metric="grouped"):
    client = device(folder, registry=REGISTRY, clock=clock, groups=groups)
    assert client.record(metric, "red") is Outcome.RECORDED
    client.flush()
    return client


@pytest.mark.parametrize(
    ("groups", "group"),
    [
        ({"release": "1.1"}, "1.1"),
        ({"release": "1.1", "country": "DE"}, "1.1"),
        ({"release": "1.2-beta"}, "other"),
        ({"release": "1.1\n"}, "other"),
        ({"release": "a person's name"}, "other"),
        ({"country": "DE"}, "other"),
        (None, "other"),
    ],
)
def test_the_upload_names_the_listed_group_and_nothing_else(tmp_path, clock, groups, group):
    (upload,) = uploads_of(recorded(tmp_path, clock, groups))
    assert (upload.metric, upload.group) == ("grouped", group)


def test_a_forgotten_group_is_said_once(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        Client("themes", registry=REGISTRY, state=tmp_path, environ={})
        Client("themes", registry=REGISTRY, state=tmp_path, environ={}, groups={"release": "9"})
    assert [r.getMessage() for r in caplog.records] == ["no group by release is given: reports name the group other"]


@pytest.mark.parametrize("groups", ["1.1", {"release": 1.1}, {1: "a"}, ["release"]])
def test_groups_that_are_no_texts_are_refused_at_once(tmp_path, groups):
    with pytest.raises(ParameterError, match="give texts by name, such as"):
        Client("themes", registry=REGISTRY, state=tmp_path, environ={}, groups=groups)


def test_the_person_sees_the_group_among_the_bytes(tmp_path, clock):
    (row,) = rows_of(recorded(tmp_path, clock, {"release": "1.1"}))
    parts = annotate(row.body, REGISTRY["grouped"])
    assert b"".join(part.raw for part in parts) == row.body
    (group,) = (part for part in parts if part.name == "group")
    assert (group.raw, group.meaning) == (b"1.1", "1.1, in clear: the group that this device is in")
    assert next(part.meaning for part in parts if part.name == "format").endswith("the lengths of two names")
    assert json.dumps([part.meaning for part in parts])
