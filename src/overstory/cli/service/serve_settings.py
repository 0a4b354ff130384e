"""The settings of a service: from the command line, else the environment, else a file, else the defaults.

``overstory serve`` and ``overstory console`` share the registry and the store; what else both have, such as a port, has
a variable of its own for each.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from overstory.protocol.errors import FormatError, ParameterError

PREFIX: Final = "OVERSTORY_"

CONSOLE: Final = "CONSOLE_"
"""What the console's own variables have after the prefix."""

OTHERS: Final = {"STATE", "TOKEN", "WRITE_TOKEN", "ADMIN_TOKEN", "TRACEBACK", "SERVICE_HOST", "SERVICE_PORT"}
"""Variables of other commands, and of Kubernetes for a service called overstory."""

SEPARATOR: Final = ";"
"""What is between the texts of a variable that holds several: no URL of a store has it."""

YES_NO: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


class Setting(NamedTuple):
    """One setting; help, placeholder and choices are those of the command line."""

    name: str  # as on the command line, without the leading dashes; in a file, `_` may replace `-`
    kind: Any  # str, int, float, bool or Path
    default: Any  # None: no default
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    scope: str = ""  # what its variable has after the prefix: "" or `CONSOLE`
    # Whether it is a list of texts: several options, a list or one text in a file, `;` between those of a variable.
    repeatable: bool = False

    @property
    def key(self) -> str:
        """The name of the parsed argument."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.scope + self.key.upper()

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the option; its value is None when it is not given."""
        option: dict[str, Any] = {"help": self.help, "default": None}
        if self.kind is bool:
            option["action"] = argparse.BooleanOptionalAction
        elif self.choices:
            option["choices"] = self.choices
        elif self.repeatable:
            option |= {"metavar": self.metavar, "action": "append"}
        else:
            option |= {"metavar": self.metavar, "type": self.kind}
        parser.add_argument(f"--{self.name}", **option)

    def from_text(self, text: str) -> Any:
        """Read the value of an environment variable."""
        if self.kind is bool:
            if text.lower() not in YES_NO:
                raise ParameterError(f"{self.variable}={text}: give 1 or 0")
            return YES_NO[text.lower()]
        if self.repeatable:
            return [part.strip() for part in text.split(SEPARATOR) if part.strip()]
        try:
            return self._chosen(self.kind(text), f"{self.variable}={text}")
        except ValueError as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(f"{self.variable}={text}: give {_wanted(self.kind)}") from None

    def from_toml(self, value: Any, source: str) -> Any:
        """Read the value of a file."""
        if self.repeatable:
            listed = value if isinstance(value, list) else [value]
            if not listed or not all(isinstance(part, str) for part in listed):
                raise FormatError(f"give text, or a list of texts, not {value!r:.60}", source=source, field=self.key)
            return listed
        plain = {Path: str}.get(self.kind, self.kind)
        fits = isinstance(value, (int, float) if plain is float else plain)
        if not fits or (isinstance(value, bool) and plain is not bool):
            raise FormatError(f"give {_wanted(self.kind)}, not {value!r:.60}", source=source, field=self.key)
        return self._chosen(self.kind(value), f"{source}: {self.key}")

    def _chosen(self, value: Any, where: str) -> Any:
        if self.choices and value not in self.choices:
            raise ParameterError(f"{where}: give {' or '.join(self.choices)}")
        return value


def _wanted(kind: type) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(kind, "text")


def fill_in(
    args: argparse.Namespace, settings: tuple[Setting, ...], environ: Mapping[str, str], scope: str = ""
) -> None:
    """Give every setting that the command line left out the value of the environment, the file, or its default."""
    path = args.config if args.config is not None else environ.get(f"{PREFIX}{scope}CONFIG")
    table = {} if not path else _read(path, settings)
    _check_variables(settings, environ, scope)
    for setting in settings:
        if getattr(args, setting.key) is not None:
            continue
        text = environ.get(setting.variable)
        if text and not text.startswith(
            "tcp://"
        ):  # OVERSTORY_PORT as Kubernetes sets it for a service called overstory
            value = setting.from_text(text)
        else:
            value = table.get(setting.key, setting.default)
        setattr(args, setting.key, value)


def check_common(args: argparse.Namespace, *ports: str) -> None:
    """Refuse a service without registry or store, half of a certificate, and what is no port."""
    for name in ("registry", "store"):
        if not getattr(args, name):
            raise ParameterError(f"--{name} must be given, or {PREFIX}{name.upper()}, or {name} in the --config file")
    check_listening(args, *ports)


def check_listening(args: argparse.Namespace, *ports: str) -> None:
    """Refuse half of a certificate, and what is no port."""
    if (args.tls_certificate is None) != (args.tls_key is None):
        raise ParameterError("--tls-certificate and --tls-key belong together: give both or neither")
    for name in ports:
        port = getattr(args, name.replace("-", "_"))
        if port is not None and not 0 <= port < 1 << 16:
            raise ParameterError(f"--{name} {port}: ports are 0 .. 65535")


def _read(path: str, settings: tuple[Setting, ...]) -> dict[str, Any]:
    import tomllib

    try:
        parsed = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"this is not TOML: {error}", source=path) from None
    by_key = {setting.key: setting for setting in settings}
    table: dict[str, Any] = {}
    for name, value in parsed.items():
        key = name.replace("-", "_")
        if key not in by_key:
            raise FormatError(f"there is no such setting; {_suggest(key, by_key)}", source=path, field=name)
        if key in table:
            raise FormatError("it is given twice, with - and with _", source=path, field=name)
        table[key] = by_key[key].from_toml(value, path)
    return table


def _suggest(key: str, settings: Mapping[str, Setting]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, settings, n=1)
    return f"did you mean {near[0]}?" if near else f"the settings are {', '.join(settings)}"


def _check_variables(settings: tuple[Setting, ...], environ: Mapping[str, str], scope: str) -> None:
    """Refuse a variable that looks like a misspelled setting; variables of other programs are ignored."""
    names = {setting.variable.removeprefix(PREFIX) for setting in settings} | {f"{scope}CONFIG"}
    for variable in environ:
        name = variable.removeprefix(PREFIX)
        if variable == name or name in names | OTHERS or name.startswith(CONSOLE) != scope.startswith(CONSOLE):
            continue
        from difflib import get_close_matches

        near = get_close_matches(name, names, n=1, cutoff=0.75)
        if near:
            raise ParameterError(f"{variable}: there is no such setting; did you mean {PREFIX}{near[0]}?")
