"""What the commands, the person's pages and the public page print, as lines of text, without a process of their own."""

import atexit
import re
import shutil
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from unittest import mock

from overstory.client.outcomes import StateError
from overstory.client.person.view import View, asked_of, build, first_screen, question, view_metrics
from overstory.client.state.state import State
from overstory.console.data import ConsoleData, Estimates
from overstory.console.screens.public import show_about
from overstory.console.view import Query
from overstory.presentation import render_text
from overstory.presentation.render_text import UNFOLDED, as_text
from referee.worlds import METRIC, registry_file
from support.running import within

WIDE = 1 << 20


def lines(text):
    """Return printed text as lines whose columns are parted by a bar."""
    plain = (line.replace("█", " ").strip() for line in text.splitlines())
    return [" | ".join(re.split(r"\s{2,}", line)) for line in plain if line.strip(" -=")]


@cache
def folder():
    made = Path(tempfile.mkdtemp(prefix="referee-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def command(*arguments):
    """Return what a command prints: a table's row and a sentence are a line each."""
    with mock.patch.object(render_text, "ELSEWHERE", WIDE):
        done = within(*arguments, cwd=folder())
    return lines(done.stdout + done.stderr)


def file(world, name):
    return registry_file(world, name, folder())


def show(world, name):
    return command("metrics", "show", file(world, name), METRIC)


def diff(world, earlier, new):
    return command("metrics", "diff", *(file(world, name) for name in earlier), file(world, new))


def privacy(world, name, *options):
    return command("privacy", METRIC, "--registry", file(world, name), *options)


# --- the person -------------------------------------------------------------------------------------------------------


def day(now):
    return datetime.fromtimestamp(now, UTC).date()


def asks(client, now):
    """Return what `on` shows before a person agrees."""
    asked = asked_of(client.paths, client.registry, None, day(now))
    return lines(as_text([*first_screen(asked, "--details"), *question(asked)], UNFOLDED))


def status(client):
    told = client.status()
    return lines("\n".join([*told.first_words(), *told.words(), *told.costs()]))


def view(client):
    try:
        with State(client.paths).snapshot() as rows:
            metrics = view_metrics(rows, client.registry)
    except StateError:
        metrics = view_metrics(None, client.registry)
    return lines(as_text(build(View("t", client.status(), metrics), reports=0), UNFOLDED))


# --- the public page --------------------------------------------------------------------------------------------------


class AtOnce:  # the process that decodes, in this one
    def estimate(self, task):
        return task.work()(), 1

    def close(self):
        pass

    stop = close


class Page:  # the public page of a collector, polled by somebody who does not log in
    def __init__(self, registry, store, clock):
        worker = AtOnce()
        self.data = ConsoleData(registry, store, clock, Estimates(patience=None, worker=worker))

    def poll(self):
        shown = show_about(self.data, Query(), metric=METRIC)
        rows = () if shown.table is None else tuple(shown.table.rows)
        figures = tuple((row.get("from"), row.get("value"), row.get("count")) for row in rows)
        return lines(as_text(shown.blocks, UNFOLDED)), figures
