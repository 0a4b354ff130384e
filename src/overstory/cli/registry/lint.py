"""``overstory metrics lint``: the faults, warnings and notes of a registry file."""

from __future__ import annotations

import argparse
import datetime as dt
import json
from typing import Final

from overstory.presentation.document import Lines
from overstory.presentation.formats import plural
from overstory.presentation.render_text import print_document
from overstory.privacy.registry.warnings import registry_notes, registry_warnings
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.metrics.registry import registry_folder, registry_text

BAD_INPUT: Final = 2
WARNED: Final = 1


def run(args: argparse.Namespace) -> int:
    return lint(args.file, strict=args.strict, as_json=args.json, server=args.server)


def lint(file: str, *, strict: bool = False, as_json: bool = False, server: str | None = None) -> int:
    """Print the faults, warnings and notes of a registry file; return the exit status."""
    text = registry_text(file)
    try:
        registry = parse_registry(text, registry_folder(file), source=file)
    except RegistryError as error:
        faults, warnings, notes, count = error.faults, [], [], 0
    else:
        faults, count = (), len(registry)
        warnings = registry_warnings(registry, text, dt.datetime.now(dt.UTC).date(), server=server)
        notes = list(registry_notes(registry))
    if as_json:
        listed = {"faults": [vars(fault) for fault in faults], "warnings": [vars(fault) for fault in warnings]}
        print(json.dumps({"file": file, "metrics": count} | listed | {"notes": notes}, indent=2))
    else:
        lines = [
            f"{file}:{fault.line}: {kind}{fault.field}{': ' if fault.field else ''}{fault.message}"
            for kind, listed_faults in (("", faults), ("warning: ", warnings))
            for fault in listed_faults
        ]
        lines += [f"{file}: note: {note}" for note in notes]
        fine = f"{file}: {plural(count, 'metric')}, no fault"
        fine += f", {plural(len(warnings), 'warning')}" if warnings else ""
        lines.append(f"{file}: {plural(len(faults), 'fault')}" if faults else fine)
        print_document([Lines(*lines)])
    return BAD_INPUT if faults else WARNED if warnings and strict else 0
