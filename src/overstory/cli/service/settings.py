"""The settings of a service: from the command line, else the environment, else a file, else the defaults."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from overstory.cli.command import PREFIX, Option
from overstory.cli.service.commands import CONSOLE, RELAY_
from overstory.protocol.errors import FormatError, ParameterError

OTHERS: Final = {"STATE", "TOKEN", "WRITE_TOKEN", "ADMIN_TOKEN", "TRACEBACK", "SERVICE_HOST", "SERVICE_PORT"}
"""Variables of other commands, and of Kubernetes for a service called overstory."""


YES_NO: Final = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)


def from_text(setting: Option, text: str) -> Any:
    given = f"{setting.variable}={text}"
    if setting.kind is bool:
        if text.lower() not in YES_NO:
            raise ParameterError(f"{given}: give 1 or 0")
        return YES_NO[text.lower()]
    try:
        value = setting.kind(text)
    except ValueError:
        raise ParameterError(f"{given}: give {_wanted(setting.kind)}") from None
    setting.check_value(value, given)
    return value


def from_toml(setting: Option, value: Any, source: str) -> Any:
    plain = {Path: str}.get(setting.kind, setting.kind)
    fits = isinstance(value, (int, float) if plain is float else plain)
    if not fits or (isinstance(value, bool) and plain is not bool):
        raise FormatError(f"give {_wanted(setting.kind)}, not {value!r:.60}", source=source, field=setting.key)
    value = setting.kind(value)
    setting.check_value(value, f"{source}: {setting.key}")
    return value


def _wanted(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "text")


def fill_in(
    args: argparse.Namespace,
    settings: tuple[Option, ...],
    environ: Mapping[str, str],
    scope: str = "",
    *,
    needed: int | None = None,
) -> None:
    """Give settings that the command line left out the value of the environment, the file, or their default.

    With `needed`, so many of the first must have one then, and half of a certificate is refused.
    """
    path = args.config if args.config is not None else environ.get(f"{PREFIX}{scope}CONFIG")
    table = {} if not path else _read(path, settings)
    _check_variables(settings, environ, scope)
    for setting in settings:
        if getattr(args, setting.key, None) is not None:
            continue
        text = environ.get(setting.variable)
        if text and not text.startswith("tcp://"):  # as Kubernetes sets OVERSTORY_PORT
            value = from_text(setting, text)
        else:
            value = table.get(setting.key, setting.default)
        setattr(args, setting.key, value)
    if needed is None:
        return
    for setting in settings[:needed]:
        if not getattr(args, setting.key):
            name = f"--{setting.key} must be given, or {setting.variable}, or {setting.key}"
            raise ParameterError(f"{name} in the --config file")
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise ParameterError("tls_certificate and tls_key belong together: give both or neither")


def _read(path: str, settings: tuple[Option, ...]) -> dict[str, Any]:
    try:
        parsed = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not TOML: {error}", source=path) from None
    by_key = {setting.key: setting for setting in settings}
    table: dict[str, Any] = {}
    for name, value in parsed.items():
        key = name.replace("-", "_")
        if key not in by_key:
            near = get_close_matches(key, by_key, n=1)
            cure = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(by_key)}"
            raise FormatError(f"there is no such setting; {cure}", source=path, field=name)
        if key in table:
            raise FormatError("it is given twice, with - and with _", source=path, field=name)
        table[key] = from_toml(by_key[key], value, path)
    return table


def _check_variables(settings: tuple[Option, ...], environ: Mapping[str, str], scope: str) -> None:
    """Refuse a variable that looks like a misspelled setting; variables of other programs are ignored."""
    names = {setting.variable.removeprefix(PREFIX) for setting in settings} | {f"{scope}CONFIG"}
    for variable in environ:
        name = variable.removeprefix(PREFIX)
        own = next((each for each in (CONSOLE, RELAY_) if name.startswith(each)), "")
        if variable == name or name in names or name.removeprefix(own) in OTHERS or own != scope:
            continue
        near = get_close_matches(name, names, n=1, cutoff=0.75)
        if near:
            raise ParameterError(f"{variable}: there is no such setting; did you mean {PREFIX}{near[0]}?")
