"""The command line: which command runs, and how what goes wrong is said. Nothing heavy is imported here."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from overstory.cli.parser import Parser
from overstory.client.output import PIPE_CLOSED, close_quietly, printable, write_anything

COMMANDS: Final = (
    "demo",
    "plan",
    "compare",
    "collect",
    "privacy",
    "metrics",
    "simulate",
    "gateway",
    "encode",
    "sum",
    "map",
    "decode",
    "discover",
    "reproduce",
    "serve",
    "store",
    "doctor",
    "on",
    "local",
    "off",
    "forget",
    "status",
    "view",
    "bench",
)
"""Each is a module beside this one, with `add_parser(subparsers)` and `run(args) -> int`; see `TOGETHER`."""

TOGETHER: Final = dict.fromkeys(("on", "local", "off", "forget", "status", "view"), "person")
"""Commands that share a module, whose `add_parser` adds them all."""

EXTRAS: Final = {
    **dict.fromkeys(("numpy", "scipy", "numba", "llvmlite", "pyarrow", "matplotlib", "jinja2", "rich"), "analysis"),
    **dict.fromkeys(("fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "prometheus_client"), "server"),
}
"""What installs a library that a command needs."""

BAD_INPUT: Final = 2
OUR_FAULT: Final = 70
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0, or 2 for bad input.

    Examples
    --------
    >>> main(["--version"])
    overstory 0.1.0
    0
    """
    write_anything()
    if argv is None:
        # The kernels have threads of their own; OpenBLAS's only spin beside them, and cost decoding half its time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("overstory: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        close_quietly()
        return PIPE_CLOSED
    except SystemExit as leaving:  # rich leaves with 1, and has sent the rest nowhere
        if isinstance(leaving.__context__, BrokenPipeError):
            return PIPE_CLOSED
        raise
    except Exception as error:  # noqa: BLE001 - a user sees one sentence, whatever happened
        status, message = explain(error)
        if message.startswith(("-: ", "-, line")):
            message = "standard input" + message[1:]
        lines = "\n".join(map(printable, message.split("\n")))  # a file's name may try to steer the terminal
        print(f"overstory: error: {lines}", file=sys.stderr)
    return status


def _run(argv: list[str]) -> int:
    # A command's name is enough to know which module to load; anything else needs them all, to list them.
    names = argv[:1] if argv[:1] and argv[0] in COMMANDS else COMMANDS
    modules = {name: module for name in names if (module := _command(name))}
    parser = _parser(modules)
    try:
        args = parser.parse_args(argv)
    except SystemExit as leaving:
        return int(leaving.code or 0)
    if args.command is None:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    status: int = modules[args.command].run(args)
    return status


def _command(name: str) -> ModuleType | None:
    module = f"overstory.cli.{TOGETHER.get(name, name)}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return None


def _parser(modules: dict[str, ModuleType]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="overstory",
        description="See the forest, never the trees: statistics under local differential privacy.",
        epilog="example:\n  overstory decode --params params.csv --counts counts.csv --map map.csv -o results\n\n"
        "`overstory COMMAND --help` has an example for each command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for module in dict.fromkeys(modules.values()):
        module.add_parser(commands)
    return parser


class _Version(argparse.Action):
    """Print the version, looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from overstory import __version__

        print(f"overstory {__version__}")
        parser.exit()


def explain(error: Exception) -> tuple[int, str]:
    """Return the exit status and the one sentence for an error.

    Examples
    --------
    >>> explain(FileNotFoundError(2, "No such file or directory", "counts.csv"))
    (2, 'counts.csv: no such file or directory')
    """
    from overstory.protocol.errors import OverstoryError

    if isinstance(error, OverstoryError):
        return BAD_INPUT, str(error)
    if isinstance(error, ImportError) and (needed := (error.name or "").partition(".")[0]) in EXTRAS:
        return BAD_INPUT, f'this command needs {error.name}: pip install "overstory[{EXTRAS[needed]}]"'
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        shown = reason[:1].lower() + reason[1:]
        return BAD_INPUT, f"{os.fsdecode(error.filename)}: {shown}" if error.filename else shown
    if isinstance(error, MemoryError):
        return OUR_FAULT, "not enough memory for this input"
    if os.environ.get("OVERSTORY_TRACEBACK"):
        raise error
    return OUR_FAULT, (
        f"this is a fault of ours, not of your input ({type(error).__name__}: {error}); please report it "
        "with what you see when OVERSTORY_TRACEBACK=1 is set"
    )
