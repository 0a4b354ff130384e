"""Whether a collector can open what devices seal: its private keys compared with those that the registry lists."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from overstory.collector.checkup.checks import Finding, Findings
from overstory.collector.oblivious.keys import PrivateKey, read_private_keys
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.oblivious.hpke import fingerprint
from overstory.protocol.oblivious.messages import KeyConfiguration, read_keys

CHECK: Final = "oblivious keys"


def check_keys(registry: MetricRegistry, path: Path | None) -> Findings:
    """Check the keys of a registry against a file of private ones; without a file, whether one is needed."""
    through_relay = [metric.id for metric in registry.values() if metric.is_oblivious]
    if path is None:
        if through_relay:
            waiting = f"reports of {', '.join(through_relay)} come sealed, and there are no private keys to open them"
            yield Finding(CHECK, "warning", waiting, "give --oblivious-keys FILE, a file of `overstory keys`")
        return
    keys = read_private_keys(path)
    if registry.oblivious is None:
        unused = f"{path}: the registry has no table [oblivious]: no device seals reports for these keys"
        yield Finding(CHECK, "warning", unused, "put the line that `overstory keys show` prints into it")
        return
    listed = read_keys(registry.oblivious.keys)
    missing = list(_missing(path, keys, listed))
    yield from missing
    yield from _changing(path, keys, listed)
    if not missing:
        yield Finding(CHECK, "ok", f"{path} opens what is sealed for the registry's keys: {_ids(listed)}")


def _missing(path: Path, keys: Sequence[PrivateKey], listed: Sequence[KeyConfiguration]) -> Findings:
    own = {key.key_id: key.public.public for key in keys}
    for key in listed:
        if own.get(key.key_id) != key.public:
            which = "another key of this id" if key.key_id in own else "no key of this id"
            sealed = f"the registry lists key {key.key_id} ({fingerprint(key.public)}), and {path} has {which}"
            yield Finding(CHECK, "error", sealed, "restore the key, or list those that `overstory keys show` prints")


def _changing(path: Path, keys: Sequence[PrivateKey], listed: Sequence[KeyConfiguration]) -> Findings:
    """Yield what a rotation has still to do."""
    newest, ids = keys[-1].key_id, [key.key_id for key in listed]
    if newest not in ids:
        unlisted = f"key {newest}, the newest of {path}, is not in the registry: no device uses it"
        yield Finding(CHECK, "warning", unlisted, "put the line that `overstory keys show` prints into the registry")
    elif ids[0] != newest:
        yield Finding(
            CHECK, "warning", f"the registry lists key {ids[0]} first: devices use it", f"list key {newest} first"
        )
    for key in keys[:-1]:
        if key.key_id not in ids:
            leaving = f"key {key.key_id} of {path} is no longer in the registry"
            advice = "remove it when no message comes for it any more (overstory_oblivious_opened_total)"
            yield Finding(CHECK, "warning", leaving, advice)


def _ids(listed: Sequence[KeyConfiguration]) -> str:
    return ", ".join(str(key.key_id) for key in listed)
