"""The command line: find the command, run it, and report a fault in one sentence. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, Final, NoReturn

from overstory.client.person.command_line import SUMMARIES as OF_A_PERSON
from overstory.presentation.formats import PIPE_CLOSED, close_quietly, printable, write_anything
from overstory.protocol.errors import OverstoryError, ParameterError, install_hint, suggestion

SUMMARIES: Final = {
    "demo": "run a private collection of real figures, and show what is learned",
    "plan": "choose parameters for your needs, or state what parameters achieve",
    "compare": "rank oracles at equal privacy",
    "collect": "simulate a private collection on your own data",
    "privacy": "state what a metric or an oracle reveals, and why",
    "check-oracle": "hold oracles of your own file against the laws of every oracle",
    "audit": "test a client, in any language, against its declared parameters",
    "metrics": "write, check, show and compare the metric registry",
    "simulate": "let simulated devices report to a collector",
    "gateway": "report a meter's readings once per period",
    "encode": "randomize a file of true values into reports",
    "sum": "count reports",
    "map": "hash candidates into a candidate map",
    "decode": "estimate how often each candidate was reported",
    "discover": "find frequent values without a list of candidates",
    "reproduce": "recompute the papers' figures and tables, and compare them with the published ones",
    "serve": "collect reports over HTTP",
    "relay": "pass messages on to a collector without their senders' addresses",
    "keys": "make and show the keys of Oblivious HTTP",
    "console": "show a store in a browser",
    "store": "maintain the collector's database",
    "export": "write the reports of closed periods for engines to count",
    "doctor": "check a collector and its settings",
    **OF_A_PERSON,
}
"""Each command and what it does, so that listing them loads none.

Its module (`MODULES`) has it in a table `COMMANDS`, as data that names where it runs; a person's are the client's own.
"""

COMMANDS: Final = tuple(SUMMARIES)

OVERVIEW: Final = """\
usage: overstory [--version] COMMAND ...          (overstory COMMAND --help: all about one, with an example)

Try       demo               run a private collection of real figures, and show what is learned
          collect            simulate a private collection on your own data
          plan, compare      choose parameters for your needs; rank oracles at equal privacy
          simulate           let simulated devices report to a collector

Collect   metrics            write, check, show and compare the metric registry
          serve, gateway     collect reports over HTTP; report a meter's readings once per period
          relay              pass messages on to a collector without their senders' addresses
          store, export      maintain the collector's database; write its reports for engines to count
          keys, doctor       the keys of Oblivious HTTP; check a collector and its settings

Read      decode, console    estimate what was reported, in files or in a store; show a store in a browser
          discover           find frequent values without a list of candidates
          encode, map, sum   RAPPOR's files: randomize values, hash candidates, count reports

Check     privacy, audit     state what a metric or an oracle reveals; test a client against its parameters
          check-oracle       hold oracles of your own file against the laws of every oracle
          reproduce          recompute the papers' figures and tables

Person    status, view       what may be recorded and why; what was recorded, and what exactly is sent
          on, local          agree to report, or record on this machine only
          off, forget        record nothing; delete the secret and all that was recorded
"""
"""What `overstory --help` prints: every command, by who needs it, on one screen."""

ALIASES: Final = {("plan", "--epsilon-report"): "--epsilon", ("sum", "--reports"): ""}
"""Other names of options, by command. The INPUT of `sum` may be called --reports."""

MODULES: Final = {
    **dict.fromkeys(
        ("audit", "check-oracle", "collect", "compare", "decode", "demo", "discover", "encode", "map", "plan", "sum"),
        "analysis.commands",
    ),
    **dict.fromkeys(("metrics", "privacy"), "registry.commands"),
    **dict.fromkeys(
        ("console", "doctor", "export", "gateway", "keys", "relay", "serve", "simulate", "store"), "service.commands"
    ),
    "reproduce": "checkout",
}
"""The module of each command's options; several may share one."""

EXTRAS: Final = {
    **dict.fromkeys(("numpy", "scipy", "numba", "llvmlite", "pyarrow", "jinja2", "rich"), "analysis"),
    **dict.fromkeys(("starlette", "sqlalchemy", "prometheus_client", "cryptography"), "server"),
    **dict.fromkeys(("uvicorn", "httptools"), "relay"),
    "distributed": "dask",
    "pyspark": "spark",
}
"""The extra that installs a library."""

BAD_INPUT: Final = 2
OUR_FAULT: Final = 70
INTERRUPTED: Final = 130
TERMINATED: Final = 143

LEAVE_FILES: Final = frozenset({"store", "export"})
"""Commands that would leave partial copies of reports if SIGTERM ended them at once."""


def main(argv: Sequence[str] | None = None) -> int:
    write_anything()
    if argv is None:
        # The kernels have threads of their own; OpenBLAS's only spin beside them, and cost decoding half its time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if {"serve", *LEAVE_FILES}.intersection(sys.argv[1:2]):
            _set_signals(sys.argv[1])
    try:
        status = _run(_as_options(list(sys.argv[1:] if argv is None else argv)))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("overstory: interrupted", file=sys.stderr)
        return TERMINATED if _terminated else INTERRUPTED
    except BrokenPipeError:
        close_quietly()
        return PIPE_CLOSED
    except SystemExit as leaving:  # rich leaves with 1, and has sent the rest nowhere
        if isinstance(leaving.__context__, BrokenPipeError):
            return PIPE_CLOSED
        raise
    except Exception as error:  # noqa: BLE001 - a user sees one sentence, whatever happened
        status, message = explain(error)
        message = _without_secrets(message, sys.argv[1:] if argv is None else argv)
        if message.startswith(("-: ", "-, line")):
            message = "standard input" + message[1:]
        lines = "\n".join(map(printable, message.split("\n")))  # a file's name may try to steer the terminal
        print(f"overstory: error: {lines}", file=sys.stderr)
    return status


_terminated: Final[list[int]] = []


def _set_signals(command: str) -> None:
    """Let SIGTERM end some commands as Control-C does, which cleans up; keep a collector that is reloaded early."""
    import signal

    if command == "serve" and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be handled: the files are read now anyway
    if command not in LEAVE_FILES:
        return

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # cleaning up is not interrupted
        _terminated.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


def _without_secrets(message: str, argv: Sequence[str]) -> str:
    """Return a message without the credentials of addresses that the command names."""
    if addresses := [word for word in argv if "://" in word and "@" in word]:
        from overstory.engines.folders import is_address, without_secrets

        for address in filter(is_address, addresses):
            message = without_secrets(message, address)
    return message


def _as_options(argv: list[str]) -> list[str]:
    if argv[:1] == ["help"]:
        return [*argv[1:], "--help"]
    if argv[:1] == ["version"]:
        return ["--version", *argv[1:]]
    named = (_by_its_name(argv[0], word) for word in argv[1:])
    return [*argv[:1], *(word for word in named if word is not None)]


def _by_its_name(command: str, word: str) -> str | None:
    """Return a word with the option's own name, where it is another name of one; None where that has none."""
    option, equals, value = word.partition("=")
    own = ALIASES.get((command, option))
    return word if own is None else f"{own}={value}" if own and equals else own or value or None


def _run(argv: list[str]) -> int:
    # The first word that is no option names the command: its module alone is loaded, the others are only listed.
    if argv[-1:] == ["--"]:  # as of a shell's variable that is not set: nothing else is to be run in its place
        raise ParameterError("nothing comes after --: give what belongs there, or leave out the --")
    named = next((word for word in argv if not word.startswith("-")), "")
    module = _command(named) if named in COMMANDS else None
    parser = _parser(named, module, listed=(named,) if module is not None and argv[0] == named else COMMANDS)
    try:
        args = parser.parse_args(argv)
        args.line = [parser.prog, *argv]  # a page that a command writes says how to make it again
    except SystemExit as leaving:
        return int(leaving.code or 0)
    if module is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    if named in OF_A_PERSON:
        module, function = importlib.import_module("overstory.client.person.commands"), ""
    else:
        runner, _, function = args.runs.partition(":")
        args.check_options(args)
        module = importlib.import_module(f"overstory.cli.{runner}")
    found: Any = getattr(module, function or "run")(args)
    return found if isinstance(found, int) else int(found.give(args))


def _command(name: str) -> ModuleType:
    where = "client.person.command_line" if name in OF_A_PERSON else f"cli.{MODULES[name]}"
    return importlib.import_module(f"overstory.{where}")


def _parser(named: str, module: ModuleType | None, listed: Iterable[str]) -> argparse.ArgumentParser:
    parser = Overview(prog="overstory")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", prog=parser.prog, parser_class=Parser)
    for name in listed:
        if module is None or MODULES.get(name) != MODULES.get(named):
            commands.add_parser(name, help=SUMMARIES[name], add_help=False)
        elif name not in OF_A_PERSON:
            module.COMMANDS[name].add_to(commands, SUMMARIES[name])
        elif name not in commands.choices:
            module.add_commands(commands)
    return parser


class _Version(argparse.Action):
    """Print the version, which is looked up only now."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from overstory import __version__

        print(f"overstory {__version__}")
        parser.exit()


def explain(error: Exception) -> tuple[int, str]:
    if isinstance(error, OverstoryError):
        return BAD_INPUT, str(error)
    if isinstance(error, ImportError) and (needed := (error.name or "").partition(".")[0]) in EXTRAS:
        return BAD_INPUT, f"this command needs {error.name}: {install_hint(EXTRAS[needed])}"
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        shown = reason[:1].lower() + reason[1:]
        return BAD_INPUT, f"{os.fsdecode(error.filename)}: {shown}" if error.filename else shown
    if isinstance(error, MemoryError):
        return OUR_FAULT, "not enough memory for this input"
    if os.environ.get("OVERSTORY_TRACEBACK"):
        raise error
    return OUR_FAULT, (
        f"this is a bug in overstory, not in your input ({type(error).__name__}: {error}); please report it "
        "with the output of the same command under OVERSTORY_TRACEBACK=1"
    )


_WHOLE: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|[\d_]+)")
_POWER: Final = re.compile(r"([+-]?\d+(?:\.\d+)?)[eE]\+?(\d{1,2})")


class Parser(argparse.ArgumentParser):
    """An argument parser whose subcommands report their own errors; numbers may be written 1,000,000 or 1e6."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": Formatter, **kwargs})
        self.register("type", int, whole_number)
        self.register("type", float, number)

    def error(self, message: str) -> NoReturn:
        if "://" in message and "@" in message:
            from overstory.engines.folders import shown_address

            for word in {word.strip("'\",()") for word in message.split()}:
                message = message.replace(word, shown_address(word)) if "://" in word else message
        self.exit(2, f"{self.prog}: error: {printable(message)} (see {self.prog} --help)\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse; the subcommand itself, and not its parent, reports an unknown argument."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            shown = (option for option in self._actions if option.help != argparse.SUPPRESS)
            self.error(_unknown(unknown, [name for option in shown for name in option.option_strings]))
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = action.choices
        if choices is None or value in choices:
            return
        names = [str(choice) for choice in choices]
        near = suggestion(str(value), names) or f"; choose one of {', '.join(names)}"
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no public name for it
            raise argparse.ArgumentError(None, f"there is no command {value!r}{near}")
        raise argparse.ArgumentError(action, f"there is no choice {value!r}{near}")


class Overview(Parser):
    """The parser of all commands, whose help is written by hand."""

    def format_help(self) -> str:
        return OVERVIEW


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Writes help as wide as the terminal, without argparse's `shutil`, which loads every kind of compression."""

    def __init__(self, prog: str, **kwargs: Any) -> None:
        super().__init__(prog, **{"width": terminal_width() - 2, **kwargs})


def terminal_width() -> int:
    """Return the width of a line: from ``COLUMNS``, from the terminal, or 80."""
    try:
        width = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        width = 0
    if width > 0:
        return width
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def _unknown(arguments: Sequence[str], options: Iterable[str]) -> str:
    flags = [argument for argument in arguments if argument.startswith("-")]
    if not flags:
        return f"unexpected argument: {' '.join(arguments)}"
    option = flags[0].partition("=")[0]
    return f"there is no option {option}{suggestion(option, options)}"


def whole_number(text: str) -> int:
    power = _POWER.fullmatch(text)
    if power is not None:
        digits, _, decimals = power[1].partition(".")
        zeros = int(power[2]) - len(decimals)
        if zeros >= 0:
            return int(digits + decimals) * int(10**zeros)
    if _WHOLE.fullmatch(text) is not None:
        try:
            return int(text.replace(",", ""))
        except ValueError:
            pass
    raise argparse.ArgumentTypeError(f"{text!r:.40} is not a whole number: give one such as 1000000, 1,000,000 or 1e6")


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number: give one such as 0.5") from None
